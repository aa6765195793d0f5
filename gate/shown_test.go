package gate

import (
	"errors"
	"testing"

	"github.com/powerbox-project/powerbox/token"
)

// EXT-1: a capability shown without a proof resolves under the agent's own keys and name.
func TestEXT1_ShownByAnotherIssuer(t *testing.T) {
	w := newTown(t)
	s := Shown{Memo: token.NewMemo(1 << 20), Revocations: w.revoked}
	call := &Call{Target: &w.target, Origin: func(string) string { return "" }}
	show := func(with func(*token.Root)) (Held, error) {
		return s.Resolve(t.Context(), call, Presented{Chain: []string{w.minted(clauses(t, "read"), with)}}, at)
	}
	held, err := show(func(*token.Root) {})
	if err != nil || !w.gate.Stands(&w.target, call.Origin, held) {
		t.Fatalf("EXT-1 the agent's own: %v", err)
	}
	var refused *Refusal
	if _, err := show(func(r *token.Root) { r.Issuer = "https://gate.example/agents/mail" }); !errors.As(err, &refused) || refused.Reasons[0].Code != string(token.CodeIssuer) {
		t.Errorf("EXT-1 under the same key in another agent's name: %v", err)
	}
	w.revoked["stale"] = true
	if w.gate.Stands(&w.target, call.Origin, held) {
		t.Error("EXT-1 where revocations are not known, a capability stands")
	}
}
