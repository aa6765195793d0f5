package operations

import (
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/audit"
)

// exported bounds the records of one export.
const exported = 10_000

// csvColumns are the columns of the CSV. Words of agents, as a purpose, are not in it.
var csvColumns = []string{"time", "record_id", "agent", "caller", "principal", "operation", "action", "decision", "reasons", "outcome", "outcome_of", "task", "trace", "capability"}

// What begins a formula in a spreadsheet, also in wide letters, and what can end a cell before it.
// In many languages spreadsheets separate the cells of a CSV by semicolons.
const (
	beginsFormula = "=+-@\uff1d\uff0b\uff0d\uff20"
	separates     = ";,|\t\r\n"
)

// csvCell is a text that no spreadsheet takes for a formula, nor a part of it behind a separator.
func csvCell(text string) string {
	var out strings.Builder
	begins := true // a cell, to some reader
	for _, r := range text {
		if begins && (strings.ContainsRune(beginsFormula, r) || out.Len() == 0 && strings.ContainsRune(separates, r)) {
			out.WriteByte('\'')
		}
		out.WriteRune(r)
		begins = strings.ContainsRune(separates, r) || begins && strings.ContainsRune(` "`, r)
	}
	return out.String()
}

// csvRow is a record as a line of the CSV.
func csvRow(r evidence.Record) []string {
	d := r.Details
	var codes []string
	for _, reason := range d.Reasons {
		codes = append(codes, reason.Code)
	}
	out := []string{
		r.Time.UTC().Format(time.RFC3339Nano), r.ID, r.AgentID, d.Requester, d.Principal, audit.SubjectOf(r), r.ActionType, string(r.Decision),
		strings.Join(codes, " "), string(r.OutcomeStatus), d.OutcomeOf, r.TaskID, d.TraceID, d.Capability,
	}
	for i := range out {
		out[i] = csvCell(out[i])
	}
	return out
}

// cutText is the last line of an export that lacks records.
func cutText(n int, why string) string {
	return "cut: this file has " + number(n) + " records, and there are more. " + why
}

const (
	cutFull   = "Narrow the search, or export the bundle"
	cutFailed = "The server could not read them; see its log, and export again"
)

func (p *Pages) exportCSV(v *Visit) (Answer, error) {
	return exportAs(v, "text/csv; charset=utf-8", "powerbox-records.csv", func(w io.Writer) sink {
		out := csv.NewWriter(w)
		_ = out.Write(csvColumns) // the first error is that of Flush
		return sink{
			record: func(s evidence.Sealed) error {
				if err := out.Write(csvRow(s.Record())); err != nil {
					return fmt.Errorf("operations: %w", err)
				}
				return nil
			},
			cut: func(says string) { _ = out.Write([]string{says}) }, // as above
			flush: func() error {
				out.Flush()
				return out.Error()
			},
		}
	})
}

func (p *Pages) exportOCSF(v *Visit) (Answer, error) {
	return exportAs(v, "application/jsonl", "powerbox-records.ocsf.jsonl", func(w io.Writer) sink {
		line := func(value any) error {
			data, err := audit.MarshalLine(value)
			if err == nil {
				_, err = w.Write(append(data, '\n'))
			}
			if err != nil {
				return fmt.Errorf("operations: %w", err)
			}
			return nil
		}
		return sink{
			record: func(s evidence.Sealed) error { return line(audit.OCSFEvent(s)) },
			cut:    func(says string) { _ = line(map[string]string{"powerbox_export": says}) }, // the client may have gone
			flush:  func() error { return nil },
		}
	})
}

// sink writes an export.
type sink struct {
	record func(evidence.Sealed) error
	cut    func(says string)
	flush  func() error
}

// exportAs answers with the records of the search, as a file. An export that lacks records
// says so in its last line: the status has been sent by then.
func exportAs(v *Visit, kind, name string, open func(io.Writer) sink) (Answer, error) {
	q, err := searchOf(v.URL.Query()).query()
	if err != nil {
		return Answer{}, &Refused{http.StatusBadRequest, err.Error()}
	}
	q.Set("limit", strconv.Itoa(audit.RecordPage))
	page, next, err := v.API.Records(v.Context(), q) // the status tells of a wrong search
	if err != nil {
		return Answer{}, err
	}
	return Answer{Write: func(w http.ResponseWriter) error {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
		to, n := open(w), 0
		for {
			for _, s := range page {
				if n == exported {
					to.cut(cutText(n, cutFull))
					return to.flush()
				}
				if err := to.record(s); err != nil {
					return err
				}
				n++
			}
			if err := to.flush(); err != nil || next == "" {
				return err
			}
			q.Set("before", next)
			if page, next, err = v.API.Records(v.Context(), q); err != nil {
				to.cut(cutText(n, cutFailed))
				_ = to.flush() // the error before it is the one to tell
				return err
			}
		}
	}}, nil
}

// bundle passes the bundle of all evidence on.
func (p *Pages) bundle(v *Visit) (Answer, error) {
	return v.file("/v1/evidence/bundle", "powerbox-evidence.jsonl"), nil
}

// trust passes the keys that a verifier pins on.
func (p *Pages) trust(v *Visit) (Answer, error) {
	return v.file("/v1/evidence/trust", "powerbox-trust.json"), nil
}

// verifier serves the verifier in JavaScript, which the pages use.
func (p *Pages) verifier(*Visit) (Answer, error) {
	return Answer{Write: func(w http.ResponseWriter) error {
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		_, err := io.WriteString(w, evidence.JavaScript())
		return err
	}}, nil
}

// file answers with a resource of the operators' interface, as a file.
func (v *Visit) file(path, name string) Answer {
	return Answer{Write: func(w http.ResponseWriter) error {
		w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
		return v.API.Pass(w, v.Request, path)
	}}
}
