package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/web/api"
)

// recordQuery selects records; empty members select everything.
type recordQuery struct {
	agent, requester, principal, task, trace, operation, capability, decision, outcomeOf string

	since, until time.Time
	before       string // id of a record: those that the log has before it
	id           string // of the one record that is wanted, in a bundle
	limit        int    // 0 for all
	anyOrder     bool   // whether the order does not matter, so that nothing need be kept
}

// recordSource has records: the log of a server, or a bundle.
type recordSource interface {
	// each yields the records that match, the last of the log first.
	each(ctx context.Context, q recordQuery) iter.Seq2[evidence.Record, error]
	// record looks one record up. The error is errNotThere where there is none.
	record(ctx context.Context, id string) (evidence.Record, error)
}

// collect returns what a query selects.
func collect(ctx context.Context, from recordSource, q recordQuery) ([]evidence.Record, error) {
	var out []evidence.Record
	for r, err := range from.each(ctx, q) {
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// record looks one record up.
func (o *operator) record(ctx context.Context, id string) (evidence.Record, error) {
	var raw json.RawMessage
	if err := o.get(ctx, "/v1/records/"+url.PathEscape(id), &raw); err != nil {
		return evidence.Record{}, err
	}
	s, err := evidence.ParseSealed(raw)
	if err != nil {
		return evidence.Record{}, invalid(err)
	}
	return s.Record(), nil
}

// records returns what the server has, newest first.
func (o *operator) records(ctx context.Context, q recordQuery) ([]evidence.Record, error) {
	return collect(ctx, o, q)
}

// recordMember is what one flag and one member of a record have in common.
type recordMember struct{ name, wanted, has string }

func (q recordQuery) members(r evidence.Record) []recordMember {
	return []recordMember{
		{"id", q.id, r.ID},
		{"agent", q.agent, r.AgentID},
		{"requester", q.requester, r.Details.Requester},
		{"principal", q.principal, r.Details.Principal},
		{"task", q.task, r.TaskID},
		{"trace", q.trace, r.Details.TraceID},
		{"operation", q.operation, r.Intent.Operation},
		{"capability", q.capability, r.Details.Capability},
		{"decision", q.decision, string(r.Decision)},
		{"outcome_of", q.outcomeOf, r.Details.OutcomeOf},
	}
}

func (q recordQuery) selects(r evidence.Record) bool {
	if !q.since.IsZero() && r.Time.Before(q.since) || !q.until.IsZero() && r.Time.After(q.until) {
		return false
	}
	return !slices.ContainsFunc(q.members(r), func(m recordMember) bool { return m.wanted != "" && m.wanted != m.has })
}

// values is the query as the server takes it, but for the page.
func (q recordQuery) values() url.Values {
	v := url.Values{}
	for _, m := range q.members(evidence.Record{}) {
		if m.wanted != "" {
			v.Set(m.name, m.wanted)
		}
	}
	for name, at := range map[string]time.Time{"since": q.since, "until": q.until} {
		if !at.IsZero() {
			v.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return v
}

// recordPage is how many records are asked for at a time, and so how many are in
// memory.
const recordPage = 500

// each asks for one page after the other, as they are wanted.
func (o *operator) each(ctx context.Context, q recordQuery) iter.Seq2[evidence.Record, error] {
	return func(yield func(evidence.Record, error) bool) {
		v, left := q.values(), q.limit
		for next := q.before; ; {
			want := recordPage
			if q.limit > 0 {
				want = min(want, left)
			}
			v.Set("limit", strconv.Itoa(want))
			if next != "" {
				v.Set("before", next)
			}
			raw, more, err := o.page(ctx, v)
			if err != nil {
				yield(evidence.Record{}, err)
				return
			}
			for _, data := range raw {
				s, err := evidence.ParseSealed(data)
				if err != nil {
					yield(evidence.Record{}, fmt.Errorf("a record of the server: %w", err))
					return
				}
				if !yield(s.Record(), nil) {
					return
				}
			}
			if left -= len(raw); more == "" || q.limit > 0 && left <= 0 {
				return
			}
			next = more
		}
	}
}

// page asks for one page, and returns where the next one begins.
func (o *operator) page(ctx context.Context, v url.Values) (raw []json.RawMessage, next string, err error) {
	response, err := o.open(ctx, http.MethodGet, "/v1/records?"+v.Encode(), nil)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = response.Body.Close() }() // it was read; nothing is lost
	if err := json.NewDecoder(response.Body).Decode(&raw); err != nil {
		return nil, "", fmt.Errorf("the answer of %s/v1/records is not understood: %w", o.base, err)
	}
	return raw, response.Header.Get(api.NextHeader), nil
}

// bundleFile is a bundle in a file. It is read as it is and not verified.
type bundleFile struct{ name string }

// each reads the file from its beginning, while the last of the log is at its end:
// what it yields is kept until then, but for a query in any order.
func (b bundleFile) each(_ context.Context, q recordQuery) iter.Seq2[evidence.Record, error] {
	return func(yield func(evidence.Record, error) bool) {
		var kept []evidence.Record
		for r, err := range b.read(q) {
			if err != nil {
				yield(evidence.Record{}, fmt.Errorf("%s: %w", b.name, err))
				return
			}
			if q.anyOrder {
				if !yield(r, nil) {
					return
				}
				continue
			}
			if kept = append(kept, r); q.limit > 0 && len(kept) >= 2*q.limit {
				kept = append(kept[:0], kept[len(kept)-q.limit:]...)
			}
		}
		for n, r := range slices.Backward(kept) {
			if q.limit > 0 && n < len(kept)-q.limit || !yield(r, nil) {
				return
			}
		}
	}
}

// record reads the file until it has the record.
func (b bundleFile) record(ctx context.Context, id string) (evidence.Record, error) {
	for r, err := range b.each(ctx, recordQuery{id: id}) {
		return r, err
	}
	return evidence.Record{}, errNotThere
}

// read yields the records of the file that match, as the log has them.
func (b bundleFile) read(q recordQuery) iter.Seq2[evidence.Record, error] {
	return func(yield func(evidence.Record, error) bool) {
		f, err := os.Open(b.name)
		if err != nil {
			yield(evidence.Record{}, err)
			return
		}
		defer func() { _ = f.Close() }() // it was only read
		for line, err := range bundleLines(f) {
			var s evidence.Sealed
			if err == nil {
				if s, err = evidence.ParseSealed(line.text); err != nil {
					err = invalid(line.wrong(err))
				}
			}
			if err != nil {
				yield(evidence.Record{}, err)
				return
			}
			r := s.Record()
			if q.before != "" && r.ID == q.before {
				return
			}
			if q.selects(r) && !yield(r, nil) {
				return
			}
		}
		if q.before != "" {
			yield(evidence.Record{}, usage(fmt.Errorf("there is no record %s", q.before)))
		}
	}
}

// bundleLine is a line of a bundle with a record. Its text holds until the next
// one.
type bundleLine struct {
	text   []byte
	number int
}

func (l bundleLine) wrong(err error) error {
	return fmt.Errorf("line %d of the bundle: %w", l.number, err)
}

// maxExportLine is the longest line of a bundle, in bytes.
const maxExportLine = 1 << 20

// bundleLines yields the lines of a bundle with records. The bundle ends with its
// checkpoint, or it was cut off on its way.
func bundleLines(in io.Reader) iter.Seq2[bundleLine, error] {
	return func(yield func(bundleLine, error) bool) {
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, maxExportLine)
		number, whole := 0, false
		for lines.Scan() {
			line := lines.Bytes()
			number++
			whole = bytes.HasPrefix(line, []byte(`{"checkpoint":`))
			if number == 1 || whole || bytes.HasPrefix(line, []byte(`{"leaves":`)) || bytes.HasPrefix(line, []byte(`{"body":`)) {
				continue
			}
			if !yield(bundleLine{line, number}, nil) {
				return
			}
		}
		err := lines.Err()
		if err == nil && !whole {
			err = invalid(fmt.Errorf("the bundle ends on line %d without its checkpoint: it was cut off", number))
		}
		if err != nil {
			yield(bundleLine{}, err)
		}
	}
}

// sourceFlags say where records are read.
type sourceFlags struct {
	*operatorFlags

	from string
}

func addSourceFlags(cmd *cobra.Command) *sourceFlags {
	s := sourceFlags{operatorFlags: addOperatorFlags(cmd)}
	cmd.Flags().StringVar(&s.from, "from", "", "a bundle in a `file` (powerbox evidence export) instead of the server; it is not verified")
	return &s
}

// source is the server, or a bundle without any server.
func (p *program) source(s *sourceFlags) (recordSource, error) {
	if s.from != "" {
		return bundleFile{s.from}, nil
	}
	return p.operator(s.operatorFlags)
}

// moment reads a time: how long ago, or the time itself. Empty is the zero time.
func (p *program) moment(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return p.now().Add(-ago).UTC(), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, usage(fmt.Errorf("--%s is %q; want how long ago, such as 24h, or a time such as 2026-01-02T15:04:05Z", flag, text))
	}
	return at.UTC(), nil
}
