package e2e

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
)

// killed kills the server, waits until it is gone, and starts it.
func (w *town) killed() {
	w.t.Helper()
	killed(w.t, w.process)
	w.boot()
}

// verified is the report on the evidence, which must have every decision that was answered.
func (w *town) verified(answered []string) evidence.Report {
	w.t.Helper()
	data, trust := w.bundle()
	report, err := evidence.Verify(bytes.NewReader(data), trust)
	if err != nil || report.Verdict() != evidence.OK {
		w.t.Fatalf("the evidence does not verify: %v %v", err, report.Problems)
	}
	for _, id := range answered {
		if !bytes.Contains(data, []byte(`"`+id+`"`)) {
			w.t.Errorf("record %s was acknowledged and is lost", id)
		}
	}
	return report
}

// With evidence.outcome: behind, a server that is killed behind an answer has the decision on
// record, and its outcome is unknown. One that is stopped has both.
func TestATK75_AnOutcomeBehindItsAnswerIsUnknownAfterAKill(t *testing.T) {
	w := start(t, options{extra: "evidence: {outcome: behind}\n"})
	alice := w.caller(aliceToken)
	held := alice.request("documents", map[string]any{
		"grants": []string{"documents:read"}, "purpose": "p", "resourceQuery": map[string]any{"collection": "reports"},
	})[0]
	call := func() string {
		t.Helper()
		answer := alice.call("documents", "a2a/skill/invoke", map[string]any{"skill": "search_documents", "arguments": map[string]any{"query": "x"}, "capabilityId": held.ID})
		allowed(t, answer)
		return answer.Header.Get("Powerbox-Decision")
	}
	var answered []string
	unknown := false
	// Seldom the outcome is on the disk before the signal arrives.
	for n := 0; n < 20 && !unknown; n++ {
		id := call()
		answered = append(answered, id)
		w.killed()
		if unknown = slices.Contains(w.verified(answered).Pending, id); unknown {
			if told := w.run("trace", id); !strings.Contains(told, "unknown") {
				t.Errorf("trace does not say that the outcome is unknown:\n%s", told)
			}
		}
	}
	if !unknown {
		t.Errorf("%d calls, and each outcome was on record after the kill", len(answered))
	}
	for range 3 {
		answered = append(answered, call())
	}
	w.again(func() {})
	if pending := w.verified(answered).Pending; slices.ContainsFunc(answered[len(answered)-3:], func(id string) bool { return slices.Contains(pending, id) }) {
		t.Errorf("a server that was stopped lost outcomes: %v", pending)
	}
}
