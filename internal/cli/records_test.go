package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/audit"
)

// bundled writes records as a bundle has them, as far as listing reads it.
func bundled(t *testing.T, n int, end string) bundleFile {
	t.Helper()
	lines := []string{`{"format":"powerbox-evidence-bundle/v1"}`}
	head := evidence.Genesis(evidence.ChainID{})
	for i := range n {
		r := evidence.Record{
			ID: fmt.Sprint("rec_", i), AgentID: "b", ActionType: "a2a.SendMessage", Decision: evidence.Allow, OutcomeStatus: evidence.Pending,
			Time: time.Date(2027, 1, 15, 12, 0, i, 0, time.UTC), Intent: evidence.Intent{Operation: "b/g/op"}, Details: evidence.Details{Requester: "a", Recorder: "r"},
		}
		s, err := evidence.SealUnsafeUnsigned(head, r)
		if err != nil {
			t.Fatal(err)
		}
		head, lines = s.Head(), append(lines, string(s.Bytes()))
	}
	name := filepath.Join(t.TempDir(), "bundle.jsonl")
	if err := os.WriteFile(name, []byte(strings.Join(append(lines, end), "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return bundleFile{name}
}

// TestRecordsOfABundle: the last of the log comes first, in pages of the requested
// length. A line that is cut off, or is no record, is an error and no shorter list.
func TestRecordsOfABundle(t *testing.T) {
	whole := bundled(t, 5, `{"checkpoint":"c"}`)
	for name, c := range map[string]struct {
		query audit.Query
		want  string
	}{
		"all":                 {audit.Query{}, "[rec_4 rec_3 rec_2 rec_1 rec_0]"},
		"two":                 {audit.Query{Limit: 2}, "[rec_4 rec_3]"},
		"three":               {audit.Query{Limit: 3}, "[rec_4 rec_3 rec_2]"},
		"two before":          {audit.Query{Limit: 2, Before: "rec_3"}, "[rec_2 rec_1]"},
		"more than there are": {audit.Query{Limit: 9, Before: "rec_1"}, "[rec_0]"},
		"none":                {audit.Query{Agent: "nobody"}, "[]"},
		"in any order":        {audit.Query{AnyOrder: true}, "[rec_0 rec_1 rec_2 rec_3 rec_4]"},
	} {
		var ids []string
		records, err := audit.Collect(t.Context(), whole, c.query)
		for _, r := range records {
			ids = append(ids, r.ID)
		}
		if diff := cmp.Diff(c.want, fmt.Sprint(ids)); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
	for name, b := range map[string]bundleFile{
		"cut off": bundled(t, 2, `{"leaves":""}`), "spoilt": bundled(t, 2, "{}\n"+`{"checkpoint":"c"}`), "not there": {filepath.Join(t.TempDir(), "none")},
	} {
		for _, order := range []bool{true, false} {
			if records, err := audit.Collect(t.Context(), b, audit.Query{AnyOrder: order}); err == nil {
				t.Errorf("%s: %d records and no error", name, len(records))
			}
		}
	}
	if _, err := audit.Collect(t.Context(), whole, audit.Query{Before: "rec_9"}); err == nil {
		t.Error("a page before a record that is not there")
	}
}
