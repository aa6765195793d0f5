package reliability

import (
	"bytes"
	"crypto/ed25519"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
)

// chained seals records of one chain, a line each.
func chained(t *testing.T, records ...evidence.Record) []byte {
	t.Helper()
	signer, err := evidence.NewEd25519Signer(ed25519.NewKeyFromSeed(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	head, out := evidence.Genesis(evidence.ChainID{1}), bytes.Buffer{}
	for _, r := range records {
		r.AgentID, r.ActionType, r.Intent = "documents", "a2a.SendMessage", evidence.Intent{Operation: "read"}
		r.Time, r.Details.Recorder = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), "powerbox"
		sealed, err := evidence.Seal(head, r, signer)
		if err != nil {
			t.Fatal(err)
		}
		head = sealed.Head()
		out.Write(append(sealed.Bytes(), '\n'))
	}
	return out.Bytes()
}

// TestTheOracleFindsWhatIsMissing (ATK-88) tells the oracle of answers and executions, of
// which each wrong one must be found.
func TestTheOracleFindsWhatIsMissing(t *testing.T) {
	allowed := evidence.Record{ID: "rec_1", Decision: evidence.Allow}
	outcome := evidence.Record{ID: "rec_2", Decision: evidence.Abstain, OutcomeStatus: evidence.Achieved, Details: evidence.Details{OutcomeOf: "rec_1"}}
	denied := evidence.Record{ID: "rec_3", Decision: evidence.Deny, Details: evidence.Details{Reasons: []evidence.Reason{{Code: "revoked"}}}}
	corrected := evidence.Record{ID: "rec_4", Decision: evidence.Abstain, OutcomeStatus: evidence.Failed, Outcome: []byte(`{"told":"evidence_unavailable"}`), Details: evidence.Details{OutcomeOf: "rec_1"}}
	answer := func(id, outcome, reason string) http.Header {
		h := http.Header{}
		h.Set("Powerbox-Decision", id)
		h.Set("Powerbox-Outcome", outcome)
		h.Set("Powerbox-Reason", reason)
		return h
	}
	for name, c := range map[string]struct {
		bundle   []byte
		answer   http.Header
		executed string
		want     string // part of the finding; "" for none
	}{
		"an answer with its outcome":         {chained(t, allowed, outcome), answer("rec_1", "forwarded", ""), "rec_1", ""},
		"an answer without its outcome":      {chained(t, allowed), answer("rec_1", "forwarded", ""), "rec_1", "its outcome is not on record"},
		"an answer without a decision":       {chained(t, outcome), answer("rec_1", "forwarded", ""), "", "the decision on record is"},
		"an answer of nothing":               {chained(t, denied), answer("rec_1", "forwarded", ""), "", "the decision is not on record"},
		"a refusal":                          {chained(t, denied), answer("rec_3", "denied", "revoked"), "", ""},
		"a refusal with another code":        {chained(t, denied), answer("rec_3", "denied", "expired"), "", "on record are [revoked]"},
		"a refusal that may be recorded":     {chained(t, denied), answer("rec_1", "denied", mayFollow), "", ""},
		"a late record that allows":          {chained(t, allowed), answer("rec_1", "denied", mayFollow), "", "allows it without a correction"},
		"a late record that is corrected":    {chained(t, allowed, corrected), answer("rec_1", "denied", mayFollow), "", ""},
		"an execution without a decision":    {chained(t, allowed, outcome), nil, "rec_9", "no decision on record allows it"},
		"an execution of what was denied":    {chained(t, denied), nil, "rec_3", "no decision on record allows it"},
		"an answer that says it is not sure": {chained(t, allowed), answer("rec_1", "unknown", "outcome_unrecorded"), "rec_1", ""},
	} {
		l := newLedger()
		l.answered(c.answer)
		if c.executed != "" {
			l.executed = append(l.executed, c.executed)
		}
		compared, wrong := l.compare(c.bundle)
		if c.want == "" && len(wrong) > 0 || c.want != "" && (len(wrong) == 0 || !strings.Contains(strings.Join(wrong, "; "), c.want)) || compared.Wrong != len(wrong) {
			t.Errorf("%s: %+v %v; want %q", name, compared, wrong, c.want)
		}
	}
}
