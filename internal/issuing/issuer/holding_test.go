package issuer_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// Anything that is not on record, what another holds and ids that no holder can have get the
// same answer, and it is on record who asked.
func TestSEP5_AnIDTellsNothing(t *testing.T) {
	w := newTown(t)
	alice, eve := caller(t, "user:alice"), caller(t, "user:alice")
	c := w.read(alice)
	w.now = c.Expires.Add(time.Minute) // and so nothing of it is told either
	message := ""
	for _, q := range []struct {
		name, id string
		caller   identity.Caller
		chain    string // in which the refusal is recorded, "" for none
	}{
		{"unknown", "cap_0", eve, "powerbox"},
		{"empty", "", eve, "powerbox"},
		{"another's", c.ID, eve, "documents"},
		{"no holder", c.ID, identity.Caller{Principal: "user:alice", Agent: "orchestrator"}, "documents"},
		{"no holder, unknown", "cap_0", identity.Caller{Principal: "user:alice", Agent: "orchestrator"}, "powerbox"},
		{"nobody", "cap_0", identity.Caller{}, ""},
	} {
		before := w.last().ID
		_, err := w.issuer.Held(t.Context(), q.caller, q.id)
		var r *issuer.Refusal
		if !errors.As(err, &r) || r.Code != issuer.CodeCapabilityUnknown || message != "" && r.Error() != message {
			t.Fatalf("SEP-5 %s: %v; want %q", q.name, err, message)
		}
		message = r.Error()
		last := w.last()
		if q.chain == "" {
			if last.ID != before || r.Record != "" {
				t.Errorf("%s: recorded as %+v", q.name, last)
			}
			continue
		}
		if last.ID != r.Record || last.AgentID != q.chain || last.ActionType != "capability.use" || last.Decision != evidence.Deny ||
			!strings.Contains(string(last.Intent.Details), `"`+q.id+`"`) {
			t.Errorf("%s: refused as %q, recorded as %+v", q.name, r.Record, last)
		}
	}
	// At narrowing too, where a zero capability meets a caller without holder.
	_, err := w.issuer.Narrow(t.Context(), "", identity.Caller{Principal: "user:alice"}, "cap_0", issuer.Narrowing{})
	if refusal(t, err) != issuer.CodeCapabilityUnknown {
		t.Errorf("SEP-12 %v", err)
	}
}
