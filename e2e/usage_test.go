package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/token"
)

// usages are the rows of powerbox usage, in a few words.
func usages(t *testing.T, text string) (rows []string) {
	t.Helper()
	var u struct {
		Uses []struct {
			Holder    string `json:"holder"`
			Agent     string `json:"agent"`
			Operation string `json:"operation"`
			Granted   bool   `json:"granted"`
			Exercised int    `json:"exercised"`
			Unused    bool   `json:"unused"`
		} `json:"uses"`
	}
	if err := json.Unmarshal([]byte(text), &u); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, r := range u.Uses {
		rows = append(rows, fmt.Sprintf("%s %s %s granted=%t exercised=%d unused=%t", r.Holder, r.Agent, r.Operation, r.Granted, r.Exercised, r.Unused))
	}
	return rows
}

// attempt is what a record says was tried, which is replayed.
type attempted struct {
	Requester, Agent, Operation string
	Arguments                   json.RawMessage
}

// attempts are the invocations of a bundle that were let through, with their
// arguments.
func attempts(t *testing.T, bundle string) (out []attempted) {
	t.Helper()
	data, err := os.ReadFile(bundle)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		s, err := evidence.ParseSealed([]byte(strings.TrimSpace(line)))
		if err != nil {
			continue // no record
		}
		if r := s.Record(); r.Decision == evidence.Allow && len(r.Details.Exercised) > 0 && r.Details.OutcomeOf == "" {
			for _, op := range r.Details.Exercised {
				if local, ok := strings.CutPrefix(op, r.AgentID+"/"); ok {
					out = append(out, attempted{r.Details.Requester, r.AgentID, local, r.Details.Arguments})
				}
			}
		}
	}
	return out
}

// TestEXT32_PossessionAndUse tells granted rights from exercised ones: in each
// record, and per holder and operation over a period. The test applies the output of
// --narrow. Used rights continue under it, and rights that were granted and not used
// end.
func TestEXT32_PossessionAndUse(t *testing.T) {
	key := newKey(t)
	w := start(t, options{extra: named(t, map[string]*token.PrivateKey{"planner": key})})
	planner := &caller{w, key, aliceToken}
	held := planner.reports()
	handle := held.ResourceHandles[0].Handle
	for range 2 {
		allowed(t, planner.under([]string{held.Token}, handle))
	}
	used := w.decided(planner.under([]string{held.Token}, handle))
	t.Run("EXT-32 in a record", func(t *testing.T) {
		if !slices.Contains(used.Powerbox.Granted, opSearch) || !cmp.Equal(used.Powerbox.Exercised, []string{opRetrieve, opMessage}) {
			t.Errorf("granted %v, exercised %v", used.Powerbox.Granted, used.Powerbox.Exercised)
		}
	})
	if a := planner.present("documents", invoke("delete_document", nil, ""), proven{chain: []string{held.Token}, operation: opDelete}); a.reason() != "operation_not_granted" {
		t.Errorf("a refusal, which is no use: %s", a.Raw)
	}
	bundle := filepath.Join(t.TempDir(), "bundle.jsonl")
	w.run("evidence", "export", "--out", bundle)
	t.Run("EXT-32 per holder and operation", func(t *testing.T) {
		want := []string{
			"planner documents documents:read/retrieve granted=true exercised=3 unused=false",
			"planner documents documents:read/search granted=true exercised=0 unused=true",
		}
		for name, text := range map[string]string{
			"as the holder":   w.run("usage", "planner", "--output", "json"),
			"as the agent":    w.run("usage", "documents", "--output", "json"),
			"from the bundle": offline(t, "usage", "planner", "--from", bundle, "--output", "json"),
		} {
			if diff := cmp.Diff(want, usages(t, text)); diff != "" {
				t.Errorf("EXT-32 %s:\n%s", name, diff)
			}
		}
		if rows := usages(t, w.run("usage", "planner", "--until", "1h", "--output", "json")); rows != nil {
			t.Errorf("EXT-32 before anything was done: %v", rows)
		}
		if text := w.run("usage", "planner"); !strings.Contains(text, "unused") || !strings.Contains(text, "1 granted and not used") {
			t.Errorf("%s", text)
		}
	})
	narrow := w.run("usage", "planner", "--narrow")
	if got := offline(t, "usage", "planner", "--narrow", "--from", bundle, "--output", "json"); !strings.Contains(got, `"scopes":{"planner":{"documents":["documents:read/retrieve"]}}`) {
		t.Errorf("EXT-32 not the smallest: %s", got)
	}
	tried := attempts(t, bundle)
	if len(tried) != 3 {
		t.Fatalf("%d attempts are on record: %+v", len(tried), tried)
	}
	w.again(func() {
		w.write("narrow.yaml", narrow)
		w.rewrite("powerbox.yaml", "include: [", "include: [narrow.yaml, ")
		w.rewrite("powerbox.yaml", "mode: require", "mode: scoped")
	})
	w.settle(planner)
	t.Run("EXT-32 what was used goes on under the narrow grant", func(t *testing.T) {
		for _, a := range tried {
			if out := w.run("can", a.Requester, a.Operation, "on", a.Agent, "--arguments", string(a.Arguments)); out != "yes\n" {
				t.Errorf("EXT-32 %+v: %s", a, out)
			}
		}
		allowed(t, planner.under([]string{held.Token}, handle))
	})
	t.Run("EXT-32 what was not used does not", func(t *testing.T) {
		if a := planner.send("documents", invoke("search_documents", nil, "")); a.reason() != "outside_caller_scope" {
			t.Errorf("EXT-32 %s", a.Raw)
		}
	})
}
