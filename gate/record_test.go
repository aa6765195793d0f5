package gate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/steady"
	"github.com/powerbox-project/powerbox/token"
)

// Every attempt names origin, target, required, allowed and missing.
func TestGATE10_RecordMembers(t *testing.T) {
	w := newTown(t)
	call := w.present(w.call(Require, try(t, "read"), try(t, "a2a.message")), w.minted(clauses(t, "read", "a2a.message", "search")))
	call.Task, call.Record.Intent.Purpose, call.Record.Details.TraceID, call.Record.Details.Arguments = "task-1", "a purpose", "trace-1", []byte(`{"handle":"string"}`)
	call.Scope = func(string) powerbox.Authority { return authority(t, "read", "a2a.message") }
	got := w.check(call).Record
	want := evidence.Record{
		ID: got.ID, AgentID: "documents", TaskID: "task-1", ActionType: "a2a.SendMessage", Intent: evidence.Intent{Operation: "read", Purpose: "a purpose"},
		Decision: evidence.Allow, OutcomeStatus: evidence.Pending, Time: at,
		Details: evidence.Details{
			Recorder: "serve", Requester: "orchestrator", Principal: "pw_alice", TraceID: "trace-1", Attempt: "invocation", Capability: "cap_2",
			Granted: []string{"a2a.message", "read", "search"}, Exercised: []string{"read", "a2a.message"}, Mode: "require/capability", PolicyDigest: "policy-1",
			Gate:      &evidence.Gate{Origin: "orchestrator", Target: "documents", Required: []string{"read", "a2a.message"}, Allowed: []string{"a2a.message", "read"}},
			Arguments: []byte(`{"handle":"string"}`),
			ChainID:   got.Details.ChainID, SigningKeyID: got.Details.SigningKeyID,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("GATE-10 allowed (-want +got):\n%s", diff)
	}
	denied := w.call(Require, try(t, "delete"))
	denied.Origin = func(string) string { return "" }
	denied.Caller = Caller{}
	got = w.check(denied).Record
	gate := &evidence.Gate{Origin: "unknown", Target: "documents", Required: []string{"delete"}, Allowed: []string{}, Missing: []string{"delete"}}
	if diff := cmp.Diff(gate, got.Details.Gate); diff != "" || got.Decision != evidence.Deny || got.OutcomeStatus != "" {
		t.Errorf("GATE-10 denied (-want +got):\n%s", diff)
	}
	call = w.call(Require)
	if got = w.check(call).Record; got.Intent.Operation != "unknown" || got.Details.Requester != call.Caller.Holder || got.Details.Principal != "pw_alice" {
		t.Errorf("GATE-10 nothing is known: %+v", got)
	}
	call.Caller.Name = "mailer"
	if got = w.check(call).Record; got.Details.Requester != "mailer" {
		t.Errorf("GATE-10 the caller is %q", got.Details.Requester)
	}
}

func TestSEP3_LegacyUseIsMarked(t *testing.T) {
	w := newTown(t)
	me := "key:" + w.holder.Public().Thumbprint()
	w.records["cap_9"] = Held{Capability: "cap_9", Holder: me, Authority: authority(t, "read"), Legacy: true}
	call := w.call(Require, try(t, "read"))
	call.Presented = []Presented{{Reference: "cap_9"}}
	call.Origin = func(string) string { return "" }
	got := w.check(call).Record
	if len(got.Details.Reasons) != 1 || got.Details.Reasons[0].Code != "legacy_grant" || got.Details.Requester != me {
		t.Errorf("SEP-3 %+v", got.Details)
	}
}

// TestATK73_MemoryOfProofs: a proof that was used stays so when the clock jumps ahead and
// comes back.
func TestATK73_MemoryOfProofs(t *testing.T) {
	m := NewMemory(10)
	for _, c := range []struct {
		id    string
		after time.Duration
		want  bool
	}{{"a", 0, true}, {"b", time.Hour, true}, {"a", time.Second, false}, {"b", time.Second, false}, {"c", 2 * time.Second, true}} {
		if got := m.Use(c.id, at.Add(c.after+time.Minute), at.Add(c.after)); got != c.want {
			t.Errorf("ATK-73 %s after %s: %t", c.id, c.after, got)
		}
	}
}

func TestATK9_Memory(t *testing.T) {
	defer steady.Believe()()
	m := NewMemory(2)
	use := func(id string, after time.Duration) bool { return m.Use(id, at.Add(after+time.Minute), at.Add(after)) }
	for _, c := range []struct {
		id    string
		after time.Duration
		want  bool
	}{
		{"a", 0, true},
		{"a", 0, false},
		{"a", 59 * time.Second, false},
		{"b", 59 * time.Second, true},
		{"c", 60 * time.Second, false}, // full: forgetting one would let it be used again
		{"c", 75 * time.Second, true},
		{"b", 75 * time.Second, false}, // a's time is over
		{"a", 5 * time.Minute, true},
	} {
		if got := use(c.id, c.after); got != c.want {
			t.Errorf("ATK-9 %s after %s: %t", c.id, c.after, got)
		}
	}
}

// A holder whose capability was revoked is named where its proof of this very call holds, and
// is unverified otherwise.
func TestGATE10_ARevokedCapabilityNamesAProvenHolder(t *testing.T) {
	w := newTown(t)
	chain := w.minted(clauses(t, "read"))
	w.revoked["cap_2"] = true
	unverified := "unverified:key:" + w.holder.Public().Thumbprint()
	for name, c := range map[string]struct {
		change func(*Presented)
		prove  func(*token.Proof)
		want   string
	}{
		"its proof":               {want: "orchestrator"},
		"no proof":                {change: func(p *Presented) { p.Proof = "" }, want: unverified},
		"a proof of another call": {prove: func(p *token.Proof) { p.Audience = "https://gate.example/agents/mail" }, want: unverified},
		"an old proof":            {prove: func(p *token.Proof) { p.IssuedAt = at.Add(-time.Hour) }, want: unverified},
		"another key": {change: func(p *Presented) {
			own := w.holder
			w.holder = key(t, "thief")
			p.Proof = w.present(w.call(Require, try(t, "read")), chain).Presented[0].Proof
			w.holder = own
		}, want: unverified},
	} {
		var changes []func(*token.Proof)
		if c.prove != nil {
			changes = append(changes, c.prove)
		}
		call := w.present(w.call(Require, try(t, "read")), chain, changes...)
		call.Caller = Caller{}
		if c.change != nil {
			c.change(&call.Presented[0])
		}
		v := w.check(call)
		if v.Allowed || !cmp.Equal(codes(v), []string{CodeRevoked}) || v.Record.Details.Requester != c.want || v.Held.Holder != "" {
			t.Errorf("%s: %v, requested by %q, want %q", name, codes(v), v.Record.Details.Requester, c.want)
		}
	}
	holder := w.present(w.call(Require, try(t, "read")), chain)
	holder.Caller, holder.Origin = Caller{}, func(string) string { return "" }
	if got, want := w.check(holder).Record.Details.Requester, "key:"+w.holder.Public().Thumbprint(); got != want {
		t.Errorf("without a configured name: %q, want %q", got, want)
	}
}
