package cli

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
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/wire/operators"
)

// Bodies is a number of bodies in words.
func Bodies(n int) string {
	if n == 1 {
		return "1 body"
	}
	return fmt.Sprintf("%d bodies", n)
}

// Record looks one record up.
func (o *Operator) Record(ctx context.Context, id string) (evidence.Record, error) {
	var raw json.RawMessage
	if err := o.Get(ctx, "/v1/records/"+url.PathEscape(id), &raw); err != nil {
		return evidence.Record{}, err
	}
	s, err := evidence.ParseSealed(raw)
	if err != nil {
		return evidence.Record{}, Invalid(err)
	}
	return s.Record(), nil
}

// Records returns what the server has, newest first.
func (o *Operator) Records(ctx context.Context, q audit.Query) ([]evidence.Record, error) {
	return audit.Collect(ctx, o, q)
}

// Each implements [audit.Source].
func (o *Operator) Each(ctx context.Context, q audit.Query) iter.Seq2[evidence.Record, error] {
	return audit.EachOf(ctx, o, q)
}

// Page implements [audit.Pages].
func (o *Operator) Page(ctx context.Context, v url.Values) (records []evidence.Record, next string, err error) {
	response, err := o.Open(ctx, http.MethodGet, "/v1/records?"+v.Encode(), nil)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = response.Body.Close() }() // it was read; nothing is lost
	var raw []json.RawMessage
	if err := json.NewDecoder(response.Body).Decode(&raw); err != nil {
		return nil, "", fmt.Errorf("the answer of %s/v1/records is not understood: %w", o.Base, err)
	}
	for _, data := range raw {
		s, err := evidence.ParseSealed(data)
		if err != nil {
			return records, "", fmt.Errorf("a record of the server: %w", err)
		}
		records = append(records, s.Record())
	}
	return records, response.Header.Get(operators.NextHeader), nil
}

// bundleFile is a bundle in a file. It is read as it is and not verified.
type bundleFile struct{ name string }

// Each reads the file from its beginning, while the last of the log is at its end:
// what it yields is kept until then, except for a query in any order.
func (b bundleFile) Each(_ context.Context, q audit.Query) iter.Seq2[evidence.Record, error] {
	return func(yield func(evidence.Record, error) bool) {
		var kept []evidence.Record
		for r, err := range b.read(q) {
			if err != nil {
				yield(evidence.Record{}, fmt.Errorf("%s: %w", b.name, err))
				return
			}
			if q.AnyOrder {
				if !yield(r, nil) {
					return
				}
				continue
			}
			if kept = append(kept, r); q.Limit > 0 && len(kept) >= 2*q.Limit {
				kept = append(kept[:0], kept[len(kept)-q.Limit:]...)
			}
		}
		for n, r := range slices.Backward(kept) {
			if q.Limit > 0 && n < len(kept)-q.Limit || !yield(r, nil) {
				return
			}
		}
	}
}

// Record reads the file until it has the record.
func (b bundleFile) Record(ctx context.Context, id string) (evidence.Record, error) {
	for r, err := range b.Each(ctx, audit.Query{ID: id}) {
		return r, err
	}
	return evidence.Record{}, audit.ErrNotThere
}

// read yields the records of the file that match, as the log has them.
func (b bundleFile) read(q audit.Query) iter.Seq2[evidence.Record, error] {
	return func(yield func(evidence.Record, error) bool) {
		f, err := os.Open(b.name)
		if err != nil {
			yield(evidence.Record{}, err)
			return
		}
		defer func() { _ = f.Close() }() // it was only read
		for line, err := range BundleLines(f) {
			var s evidence.Sealed
			if err == nil {
				if s, err = evidence.ParseSealed(line.Text); err != nil {
					err = Invalid(line.Wrong(err))
				}
			}
			if err != nil {
				yield(evidence.Record{}, err)
				return
			}
			r := s.Record()
			if q.Before != "" && r.ID == q.Before {
				return
			}
			if q.Selects(r) && !yield(r, nil) {
				return
			}
		}
		if q.Before != "" {
			yield(evidence.Record{}, Usage(fmt.Errorf("there is no record %s", q.Before)))
		}
	}
}

// bundleLine is a line of a bundle with a record. Its text holds until the next
// one.
type bundleLine struct {
	Text   []byte
	number int
}

func (l bundleLine) Wrong(err error) error {
	return fmt.Errorf("line %d of the bundle: %w", l.number, err)
}

// maxExportLine is the longest line of a bundle, in bytes.
const maxExportLine = 1 << 20

// BundleLines yields the lines of a bundle with records. The bundle ends with its
// checkpoint, or it was cut off on its way.
func BundleLines(in io.Reader) iter.Seq2[bundleLine, error] {
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
			err = Invalid(fmt.Errorf("the bundle ends on line %d without its checkpoint: it was cut off", number))
		}
		if err != nil {
			yield(bundleLine{}, err)
		}
	}
}

// SourceFlags say where records are read.
type SourceFlags struct {
	*OperatorFlags

	From string
}

// AddSourceFlags adds the flags for the place of records to a command.
func AddSourceFlags(cmd *cobra.Command) *SourceFlags {
	s := SourceFlags{OperatorFlags: AddOperatorFlags(cmd)}
	cmd.Flags().StringVar(&s.From, "from", "", "a bundle in a `file` (powerbox evidence export) instead of the server; it is not verified")
	return &s
}

// Source is the server, or a bundle without any server.
func (p *Program) Source(s *SourceFlags) (audit.Source, error) {
	if s.From != "" {
		return bundleFile{s.From}, nil
	}
	return p.Operator(s.OperatorFlags)
}

// Moment reads a time: how long ago, or the time itself. Empty is the zero time.
func (p *Program) Moment(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if days, err := strconv.ParseUint(strings.TrimSuffix(text, "d"), 10, 16); err == nil && strings.HasSuffix(text, "d") {
		return p.Now().UTC().AddDate(0, 0, -int(days)), nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return p.Now().Add(-ago).UTC(), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, Usage(fmt.Errorf("--%s is %q; want how long ago, such as 24h or 7d, or a time such as 2026-01-02T15:04:05Z", flag, text))
	}
	return at.UTC(), nil
}
