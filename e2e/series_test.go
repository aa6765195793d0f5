package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
)

// twoPeriods has a town whose agent has a chain in the first of two closed periods
// alone, the chain's id, and an auditor with both bundles and a list of recorders.
func twoPeriods(t *testing.T) (a *auditor, chain string) {
	t.Helper()
	w := start(t, options{})
	w.caller(aliceToken).saying("one")
	a = w.handed()
	w.period(a, "1")
	w.period(a, "2") // has the record that closes the first
	text, list := w.recorders("documents")
	n := slices.IndexFunc(list.Chains, func(c evidence.ListedChain) bool { return c.AgentID == "documents" })
	if n < 0 {
		t.Fatalf("%s", text)
	}
	chain = list.Chains[n].Chain.String()
	a.has("recorders.json", text)
	other := strings.Repeat("7", len(chain))
	a.has("longer.json", bytes.Replace(text, []byte(chain), []byte(other), 1))
	return a, chain
}

// TestEXT33_AChainIsLookedForInEveryPeriod by both verifiers: one that ended is not
// left out of what came later.
func TestEXT33_AChainIsLookedForInEveryPeriod(t *testing.T) {
	a, chain := twoPeriods(t)
	both := []string{"period-1", "period-2"}
	for _, c := range []struct {
		series []string
		args   []string
		want   []string
	}{
		{both, []string{"--recorders", "recorders.json"}, []string{"ok"}},
		{both, []string{"--recorders", "longer.json"}, []string{"tampered", "missing_chain"}},
		{both[1:], []string{"--recorders", "recorders.json", "--seen", "end-1"}, []string{"ok"}},
		{both[1:], []string{"--recorders", "recorders.json"}, []string{"tampered", "missing_head"}},
	} {
		if got := a.series(c.series, c.args...).caught(); !slices.Equal(got, c.want) {
			t.Errorf("%v %v: %v, want %v", c.series, c.args, got, c.want)
		}
	}
	args := []string{"period-2", "--trust", "trust.json", "--seen", "end-1", "--recorders", "recorders.json"}
	ours, _ := a.runs(filepath.Join(a.dir, "powerbox"), append([]string{"evidence", "verify"}, args...)...)
	js, _ := a.runs(node(t), append([]string{"verify.mjs"}, args...)...)
	for _, out := range []string{ours, js} {
		if want := "chain " + chain + " is not here, and may have ended before"; !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// TestEXT26_ASeriesIsVerifiedLikeABundle: with any number of workers, resumed where
// an earlier run ended, and telling how far it is.
func TestEXT26_ASeriesIsVerifiedLikeABundle(t *testing.T) {
	a, _ := twoPeriods(t)
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(a.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	first := read("period-1")
	a.has("spoilt", bytes.Replace(first, []byte("ALLOW"), []byte("DENY"), 1))
	verify := func(args ...string) (string, int) {
		return a.runs(filepath.Join(a.dir, "powerbox"), append([]string{"evidence", "verify", "--trust", "trust.json"}, args...)...)
	}
	for _, bundle := range []string{"period-1", "spoilt"} {
		want, code := verify(bundle, "period-2", "--output", "json", "--workers", "1")
		if code != map[string]int{"period-1": 0, "spoilt": 4}[bundle] {
			t.Fatalf("exit %d\n%s", code, want)
		}
		for _, n := range []string{"2", "16"} {
			if got, again := verify(bundle, "period-2", "--output", "json", "--workers", n); got != want || again != code {
				t.Errorf("exit %d and %d\n%s\n%s", code, again, want, got)
			}
		}
	}
	records := 0
	for _, names := range [][]string{{"period-1"}, {"period-1", "period-2"}} {
		out, code := verify(append(names, "--resume", "held", "--progress")...)
		records += bytes.Count(read(names[len(names)-1]), []byte(`{"action_type"`))
		if held := len(read("held")); code != 0 || held != 64+32*records || !strings.Contains(out, "left\n") {
			t.Errorf("EXT-26 %v: exit %d, %d bytes are held for %d records\n%s", names, code, held, records, out)
		}
	}
	if out, code := verify("period-1", "nowhere"); code != 1 || !strings.Contains(out, "nowhere") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if out, code := a.runs(node(t), "verify.mjs", "period-1", "nowhere", "--trust", "trust.json"); code != 1 || !strings.Contains(out, "nowhere") || strings.Contains(out, "    at ") {
		t.Errorf("verify.mjs: exit %d\n%s", code, out)
	}
}
