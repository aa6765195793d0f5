package gate

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/token"
)

// Every mode, with every credential, against every attempt.
func TestSEP18_ModesAndWhatIsPresented(t *testing.T) {
	const none, good, bad = "none", "good", "bad"
	for _, c := range []struct {
		mode      Mode
		presented string
		ambient   bool
		operation string
		allowed   bool
		basis     Basis
		decision  evidence.Decision
		codes     []string
	}{
		{Require, none, false, "read", false, OnNothing, evidence.Deny, []string{CodeCapabilityRequired}},
		{Require, none, true, "read", false, OnNothing, evidence.Deny, []string{CodeCapabilityRequired}},
		{Require, good, false, "read", true, OnCapability, evidence.Allow, nil},
		{Require, bad, false, "read", false, OnNothing, evidence.Deny, []string{"operation_not_granted"}},
		{Prefer, none, false, "read", true, OnAmbient, evidence.Allow, []string{CodeUndeclaredAmbient}},
		{Prefer, none, true, "read", true, OnAmbient, evidence.Allow, nil},
		{Prefer, good, false, "read", true, OnCapability, evidence.Allow, nil},
		{Prefer, bad, false, "read", false, OnNothing, evidence.Deny, []string{"operation_not_granted"}},
		{Scoped, none, false, "search", true, OnStanding, evidence.Allow, nil},
		{Scoped, none, false, "delete", false, OnNothing, evidence.Deny, []string{CodeScope, CodeCaps}},
		{Scoped, bad, false, "read", false, OnNothing, evidence.Deny, []string{"operation_not_granted"}},
		{Observe, none, false, "search", true, OnAmbient, evidence.Abstain, []string{CodeCapabilityRequired, CodeUndeclaredAmbient}},
		{Observe, none, true, "delete", true, OnAmbient, evidence.Abstain, []string{CodeScope, CodeCaps, CodeCapabilityRequired}},
		{Observe, good, false, "read", true, OnCapability, evidence.Allow, nil},
		{Observe, bad, false, "read", true, OnAmbient, evidence.Abstain, []string{"operation_not_granted"}},
	} {
		w := newTown(t)
		call := w.call(c.mode, try(t, c.operation))
		call.Ambient, call.Caller.Name = c.ambient, "orchestrator"
		call.Scope = func(string) powerbox.Authority { return authority(t, "read", "search", "a2a.message") }
		switch c.presented {
		case good:
			w.present(call, w.minted(clauses(t, "read")))
		case bad:
			w.present(call, w.minted(clauses(t, "search")))
		}
		v := w.check(call)
		name := strings.Join([]string{string(c.mode), c.presented, c.operation}, " ")
		if v.Allowed != c.allowed || v.Basis != c.basis || v.Record.Decision != c.decision {
			t.Errorf("SEP-18 %s: allowed %t on %q, recorded %s", name, v.Allowed, v.Basis, v.Record.Decision)
		}
		if diff := cmp.Diff(c.codes, codes(v)); diff != "" {
			t.Errorf("SEP-18 %s (-want +got):\n%s", name, diff)
		}
	}
}

func TestSEP18_UndeclaredIsRefusedWhereTheOperatorSaysSo(t *testing.T) {
	w := newTown(t)
	w.target.RefuseAmbient = true
	call := w.call(Prefer, try(t, "read"))
	if v := w.check(call); v.Allowed || !cmp.Equal(codes(v), []string{CodeUndeclaredAmbient}) {
		t.Errorf("undeclared: %+v", v)
	}
	call.Ambient = true
	if v := w.check(call); !v.Allowed {
		t.Errorf("declared: %+v", v.Reasons)
	}
}

// Anything that is presented is verified before it is believed.
func TestSEP11_Resolving(t *testing.T) {
	w := newTown(t)
	root := func(change func(*token.Root)) func(*Call) *Call {
		return func(c *Call) *Call { return w.present(c, w.minted(clauses(t, "read"), change)) }
	}
	proof := func(change func(*token.Proof)) func(*Call) *Call {
		return func(c *Call) *Call { return w.present(c, w.minted(clauses(t, "read")), change) }
	}
	by := func(change func(*Call)) func(*Call) *Call {
		return func(c *Call) *Call { w.present(c, w.minted(clauses(t, "read"))); change(c); return c }
	}
	w.records["cap_9"] = Held{Capability: "cap_9", OnRecord: "cap_9", Root: "cap_9", Holder: "dev:bob", Authority: authority(t, "read"), Links: []string{"cap_9"}}
	reference := func(id string) func(*Call) *Call {
		return func(c *Call) *Call { c.Presented = []Presented{{Reference: id}}; return c }
	}
	for name, c := range map[string]struct {
		make func(*Call) *Call
		want []string
	}{
		"another issuer's name": {root(func(r *token.Root) { r.Issuer = "https://gate.example/agents/mail" }), []string{"issuer_mismatch"}},
		"no capability named":   {root(func(r *token.Root) { r.Private = nil }), []string{"missing_claim"}},
		"expired":               {root(func(r *token.Root) { r.Expires = at.Add(-time.Second) }), []string{"expired"}},
		"another holder":        {root(func(r *token.Root) { r.Holder = key(t, "other").Public() }), []string{"proof_signature"}},
		"another audience":      {proof(func(p *token.Proof) { p.Audience = "https://gate.example/agents/mail" }), []string{"proof_audience"}},
		"another body":          {proof(func(p *token.Proof) { r := *p.Request; r.Digest = token.DigestOf([]byte("[]")); p.Request = &r }), []string{"proof_request"}},
		"another operation":     {proof(func(p *token.Proof) { p.Operation = "search" }), []string{"proof_operation"}},
		"before this gate": {func(c *Call) *Call {
			w.gate.Chains = Chains{Memo: token.NewMemo(1 << 20), Revocations: w.revoked, Started: at.Add(time.Second)}
			return w.present(c, w.minted(clauses(t, "read")))
		}, []string{CodeProofBefore}},
		"another principal":       {by(func(c *Call) { c.Caller.Principal = "pw_bob" }), []string{CodePrincipal}},
		"an ancestor revoked":     {by(func(*Call) { w.revoked["cap_1"] = true }), []string{CodeRevoked}},
		"a reference of another":  {reference("cap_9"), []string{CodeNotHolder}},
		"an unknown reference":    {reference("cap_0"), []string{CodeCapabilityUnknown}},
		"a store that is gone":    {reference("cap_unreachable"), []string{CodeUnavailable}},
		"a handle of another one": {func(c *Call) *Call { return w.present(c, w.minted(clauses(t, "read=h1"))) }, []string{CodeHandle}},
		"policy says no":          {by(func(*Call) { w.gate.Policy = veto("not today") }), []string{CodeVeto}},
		"a task of another":       {by(func(c *Call) { c.Ask.Owns = func(Held) bool { return false } }), []string{CodeForeignTask}},
		"the decoder's reasons":   {by(func(c *Call) { c.Refused = []evidence.Reason{{Code: "skill_unmapped"}} }), []string{"skill_unmapped"}},
	} {
		w.gate.Policy = veto("")
		clear(w.revoked)
		w.gate.Chains = Chains{Memo: token.NewMemo(1 << 20), Revocations: w.revoked, Started: at.Add(-time.Minute)}
		v := w.check(c.make(w.call(Require, try(t, "read", handle("h2")))))
		if diff := cmp.Diff(c.want, codes(v)); diff != "" || v.Allowed {
			t.Errorf("SEP-11 %s (-want +got):\n%s", name, diff)
		}
	}
}

// A capability on record that was revoked after it was resolved, and the same
// for a stream that is under way.
func TestSEP11_RevokedAndRechecked(t *testing.T) {
	w := newTown(t)
	me := "key:" + w.holder.Public().Thumbprint()
	w.records["cap_9"] = Held{Capability: "cap_9", OnRecord: "cap_9", Holder: me, Authority: authority(t, "read"), Links: []string{"cap_8", "cap_9"}}
	call := w.call(Require, try(t, "read"))
	call.Presented = []Presented{{Reference: "cap_9"}}
	v := w.check(call)
	if _, good := w.gate.Recheck(v); !v.Allowed || !good {
		t.Fatalf("%+v", v.Reasons)
	}
	w.now = at.Add(time.Hour)
	if r, good := w.gate.Recheck(v); good || r.Code != "expired" {
		t.Errorf("after its end: %+v", r)
	}
	w.now = at
	w.revoked["cap_8"] = true
	if r, good := w.gate.Recheck(v); good || r.Code != CodeRevoked {
		t.Errorf("revoked under way: %+v", r)
	}
	if v := w.check(call); !cmp.Equal(codes(v), []string{CodeRevoked}) || *v.Reasons[0].Link != 0 {
		t.Errorf("revoked: %+v", v.Reasons)
	}
	if _, good := w.gate.Recheck(Verdict{Basis: OnAmbient}); !good {
		t.Error("what needed no capability is cut")
	}
}

// A proof counts once, and a call that is refused anyway does not use it up.
func TestATK9_ProofIsUsedOnce(t *testing.T) {
	w := newTown(t)
	call := w.present(w.call(Require, try(t, "read")), w.minted(clauses(t, "read")))
	w.gate.Policy = veto("not now")
	w.check(call)
	w.gate.Policy = veto("")
	if v := w.check(call); !v.Allowed {
		t.Fatalf("a refused call used the proof up: %+v", v.Reasons)
	}
	if v := w.check(call); !cmp.Equal(codes(v), []string{CodeReplay}) {
		t.Errorf("the second time: %+v", v.Reasons)
	}
}

// shared is a replay that does not know, unless a call only reads.
type shared struct{ Memory }

func (*shared) UseFor(call ProofUse, _ string, _, _ time.Time) (bool, error) {
	if call.Reads {
		return true, nil
	}
	return true, errors.New("nobody answers")
}

// A proof whose use cannot be looked up does not count as a used one.
func TestATK20_WhetherAProofWasUsedIsNotKnown(t *testing.T) {
	w := newTown(t)
	w.gate.Replay = &shared{}
	call := w.present(w.call(Require, try(t, "read")), w.minted(clauses(t, "read")))
	if v := w.check(call); v.Allowed || !cmp.Equal(codes(v), []string{CodeUnavailable}) {
		t.Errorf("a call that changes something: %t %+v", v.Allowed, v.Reasons)
	}
	call = w.present(w.call(Require, try(t, "read")), w.minted(clauses(t, "read")))
	call.Reads = true
	if v := w.check(call); !v.Allowed {
		t.Errorf("one that reads: %+v", v.Reasons)
	}
}

// A caller's proof that another gateway used allows nothing here, whatever the call
// rests on; callers without a session, on whom nothing rests, use no memory up.
func TestATK20_ProofsOfCallers(t *testing.T) {
	for _, c := range []struct {
		name      string
		mode      Mode
		principal string
		present   bool
		asked     bool
	}{
		{"by reference", Require, "", true, true},
		{"on a standing scope", Scoped, "", false, true},
		{"a session on ambient authority", Prefer, "pw_alice", false, true},
		{"ambient authority alone", Prefer, "", false, false},
	} {
		w := newTown(t)
		w.gate.Sessions = NewMemory(8)
		w.records["cap_1"] = Held{Capability: "cap_1", Root: "cap_1", Principal: c.principal, Holder: "key:x", Authority: authority(t, "search", "a2a.message")}
		call := w.call(c.mode, try(t, "search"))
		call.Ambient = true
		call.Scope = func(string) powerbox.Authority { return authority(t, "search", "a2a.message") }
		call.Caller = Caller{Name: "orchestrator", Principal: c.principal, Holder: "key:x", ProofID: "1", ProofUntil: w.now.Add(time.Minute)}
		if c.present {
			call.Presented = []Presented{{Reference: "cap_1"}}
		}
		if v := w.check(call); !v.Allowed {
			t.Fatalf("ATK-20 %s: %+v", c.name, v.Reasons)
		}
		if v := w.check(call); v.Allowed == c.asked || c.asked && !cmp.Equal(codes(v), []string{CodeReplay}) {
			t.Errorf("ATK-20 %s, again: %t %+v", c.name, v.Allowed, v.Reasons)
		}
		call.Caller.ProofID = "2"
		if v := w.check(call); !v.Allowed {
			t.Errorf("ATK-20 %s, another one: %+v", c.name, v.Reasons)
		}
		// If the freeze cannot be looked up, reads continue, and nothing else does.
		w.gate.Sessions = &shared{}
		if v := w.check(call); v.Allowed == c.asked {
			t.Errorf("ATK-20 %s, not known: %t %+v", c.name, v.Allowed, v.Reasons)
		}
		call.Reads = true
		if v := w.check(call); !v.Allowed {
			t.Errorf("ATK-20 %s, not known, reads: %+v", c.name, v.Reasons)
		}
	}
}

// TestATK128_AProofOfARequestThatIsNoCall uses up the proof of a caller that requests
// capabilities in the memory that calls use.
func TestATK128_AProofOfARequestThatIsNoCall(t *testing.T) {
	w := newTown(t)
	caller := func(id string) Caller {
		return Caller{Principal: "pw_alice", Holder: "key:x", ProofID: id, ProofUntil: w.now.Add(time.Minute)}
	}
	said := func(id string) string {
		why := w.gate.UseCaller("documents", caller(id))
		if len(why) == 0 {
			return ""
		}
		return why[0].Code
	}
	if got := said("1") + said("1"); got != "" {
		t.Errorf("ATK-128 without other gateways: %s", got)
	}
	w.gate.Sessions = NewMemory(8)
	if got := said("") + said("") + said("1") + said("2"); got != "" {
		t.Errorf("ATK-128 the first time: %s", got)
	}
	call := w.call(Scoped, try(t, "search"))
	call.Ambient, call.Caller = true, caller("2")
	call.Scope = func(string) powerbox.Authority { return authority(t, "search", "a2a.message") }
	if v := w.check(call); v.Allowed || !cmp.Equal(codes(v), []string{CodeReplay}) {
		t.Errorf("ATK-128 a call with the same proof: %+v", v)
	}
	if got := said("1"); got != CodeReplay {
		t.Errorf("ATK-128 the second time: %q", got)
	}
	w.gate.Sessions = &shared{}
	if got := said("3"); got != CodeUnavailable {
		t.Errorf("ATK-128 if it cannot be told: %q", got)
	}
}

// slow is a replay that answers when the lease of the revocations is over.
type slow struct {
	Memory
	revoked revoked
}

func (s *slow) UseFor(ProofUse, string, time.Time, time.Time) (bool, error) {
	s.revoked["stale"] = true
	return true, nil
}

// A lease that ends while it is asked whether the proof was used has ended.
func TestATK25_TheLeaseEndsMeanwhile(t *testing.T) {
	w := newTown(t)
	w.gate.Replay = &slow{revoked: w.revoked}
	call := w.present(w.call(Require, try(t, "read")), w.minted(clauses(t, "read")))
	if v := w.check(call); v.Allowed || !cmp.Equal(codes(v), []string{CodeStale}) {
		t.Errorf("allowed %t, %+v", v.Allowed, v.Reasons)
	}
}

// Effective is Caps(B) meet Scope(A) meet the capability.
func TestGATE1_Layers(t *testing.T) {
	for _, c := range []struct {
		capability, scope, caps string
		want                    []string
	}{
		{"read", "read", "read", nil},
		{"search", "read", "read", []string{"operation_not_granted"}},
		{"read", "search", "read", []string{CodeScope}},
		{"read", "read", "search", []string{CodeCaps}},
		{"search", "search", "search", []string{"operation_not_granted", CodeCaps, CodeScope}},
		{"read", "", "read", []string{CodeScope}},
	} {
		w := newTown(t)
		w.target.Caps = authority(t, c.caps)
		call := w.present(w.call(Require, try(t, "read")), w.minted(clauses(t, c.capability)))
		asked := ""
		call.Scope = func(origin string) powerbox.Authority {
			asked = origin
			if c.scope == "" {
				return powerbox.Authority{}
			}
			return authority(t, c.scope)
		}
		v := w.check(call)
		if diff := cmp.Diff(c.want, codes(v)); diff != "" {
			t.Errorf("GATE-1 %+v (-want +got):\n%s", c, diff)
		}
		if asked != "orchestrator" {
			t.Errorf("GATE-4 the scope is that of %q", asked)
		}
		if v.Allowed && !cmp.Equal(v.Under.Names(), []string{"read"}) {
			t.Errorf("GATE-1 goes on under %v", v.Under.Names())
		}
		if !v.Allowed && !cmp.Equal(v.Missing, []string{"read"}) {
			t.Errorf("GATE-3 missing %v", v.Missing)
		}
	}
}

// Several capabilities are never joined: each is decided alone.
// TestATK17_LastIsAskedLast: what costs something, or tells someone, is asked
// of those alone whom nothing else keeps out.
func TestATK17_LastIsAskedLast(t *testing.T) {
	for presents, want := range map[bool]int{false: 0, true: 1} {
		w := newTown(t)
		call, asked := w.call(Require, try(t, "read")), 0
		call.Ask.Last = func() *evidence.Reason { asked++; return nil }
		if presents {
			w.present(call, w.minted(clauses(t, "read")))
		}
		if v := w.check(call); v.Allowed != presents || asked != want {
			t.Errorf("ATK-17 presents %t: allowed %t, asked %d times; want %d", presents, v.Allowed, asked, want)
		}
	}
}

func TestGATE2_CapabilitiesAreNotJoined(t *testing.T) {
	w := newTown(t)
	call := w.call(Require, try(t, "read"), try(t, "search"))
	w.present(call, w.minted(clauses(t, "read")))
	w.present(call, w.minted(clauses(t, "search")))
	if v := w.check(call); v.Allowed || !cmp.Equal(v.Missing, []string{"read", "search"}) {
		t.Errorf("two halves make a whole: %+v", v)
	}
	w.present(call, w.minted(clauses(t, "read", "search")))
	if v := w.check(call); !v.Allowed || v.Record.Details.Capability != "cap_2" {
		t.Errorf("one allow suffices: %+v", v.Reasons)
	}
}

func TestGATE5_AdmissionOfFreeText(t *testing.T) {
	for _, c := range []struct {
		name     string
		required []string
		tools    []string
		change   func(*Target)
		want     []string
	}{
		{"held", []string{"read"}, []string{"read", "a2a.message"}, func(*Target) {}, nil},
		{"not held", []string{"read"}, []string{"search", "a2a.message"}, func(*Target) {}, []string{"operation_not_granted"}},
		{"none configured", nil, []string{"read", "a2a.message"}, func(*Target) {}, []string{"requirement_unknown", CodeCaps}},
		{"constrained", []string{"read"}, []string{"read=h1", "a2a.message"}, func(*Target) {}, []string{CodeMessageNotBound}},
		{"constrained, enforced behind", []string{"read"}, []string{"read=h1", "a2a.message"}, func(t *Target) { t.EnforcesContext = true }, nil},
		{"constrained, unsafe", []string{"read"}, []string{"read=h1", "a2a.message"}, func(t *Target) { t.AdmitFreeText = true }, nil},
	} {
		w := newTown(t)
		c.change(&w.target)
		call := w.call(Require, powerbox.Admission(operations(t, c.required...)...), try(t, "a2a.message"))
		call.Free.Any = true
		v := w.check(w.present(call, w.minted(clauses(t, c.tools...))))
		if diff := cmp.Diff(c.want, codes(v)); diff != "" {
			t.Errorf("GATE-5 %s (-want +got):\n%s", c.name, diff)
		}
		if v.Record.Details.Attempt != "admission" {
			t.Errorf("GATE-5 %s: recorded as %q", c.name, v.Record.Details.Attempt)
		}
		unsafe := false
		for _, r := range v.Record.Details.Reasons {
			unsafe = unsafe || r.Code == "free_text_unsafe"
		}
		if unsafe != w.target.AdmitFreeText {
			t.Errorf("GATE-5 %s: the record says unsafe: %t", c.name, unsafe)
		}
	}
}

// Free text under a constrained scope is no better than under a constrained
// capability.
func TestGATE5_FreeTextInScoped(t *testing.T) {
	w := newTown(t)
	call := w.call(Scoped, powerbox.Admission(operations(t, "read")...), try(t, "a2a.message"))
	call.Free.Any = true
	call.Scope = func(string) powerbox.Authority { return authority(t, "read=h1", "a2a.message") }
	if v := w.check(call); !cmp.Equal(codes(v), []string{CodeMessageNotBound}) {
		t.Errorf("%v", codes(v))
	}
	call.Scope = nil
	if v := w.check(call); v.Allowed {
		t.Error("a caller without a scope may do something")
	}
	call = w.call(Prefer, try(t, "read"))
	call.Ask.Owns = func(Held) bool { return false }
	if v := w.check(call); !cmp.Equal(codes(v), []string{CodeForeignTask}) {
		t.Errorf("a foreign task on ambient authority: %v", codes(v))
	}
}

func TestSEP22_TaskOfTheCapability(t *testing.T) {
	w := newTown(t)
	me := "key:" + w.holder.Public().Thumbprint()
	w.records["cap_9"] = Held{Capability: "cap_9", OnRecord: "cap_9", Holder: me, Authority: authority(t, "read"), Task: "task-1"}
	for _, c := range []struct {
		task, context string
		free, allowed bool
	}{
		{"task-1", "", true, true},
		{"", "task-1", true, true},
		{"", "", false, true},
		{"", "", true, false},
		{"task-2", "", false, false},
		{"", "context-2", true, false},
	} {
		call := w.call(Require, try(t, "read"))
		call.Presented, call.Task, call.Context, call.Free.Any = []Presented{{Reference: "cap_9"}}, c.task, c.context, c.free
		if v := w.check(call); v.Allowed != c.allowed || !c.allowed && !cmp.Equal(codes(v), []string{codeOtherTask}) {
			t.Errorf("SEP-22 %+v: %v", c, codes(v))
		}
	}
}

// Same call, same declarations, same answer: on every gate, every time.
func TestGATE11_SameAnswer(t *testing.T) {
	answer := func() string {
		w := newTown(t)
		call := w.call(Scoped, try(t, "read"), try(t, "delete"), try(t, "a2a.message"))
		call.Scope = func(string) powerbox.Authority { return authority(t, "read") }
		v := w.check(call)
		return strings.Join(append(codes(v), v.Missing...), " ")
	}
	want := answer()
	for range 20 {
		if got := answer(); got != want {
			t.Errorf("GATE-11 %s, then %s", want, got)
		}
	}
	// Nor does it matter in which order the capabilities come.
	w := newTown(t)
	missing := func(first, second string) []string {
		call := w.call(Require, try(t, "read"), try(t, "search"))
		w.present(call, w.minted(clauses(t, first)))
		w.present(call, w.minted(clauses(t, second)))
		return w.check(call).Missing
	}
	if diff := cmp.Diff(missing("read", "search"), missing("search", "read")); diff != "" {
		t.Errorf("GATE-11 the order decides:\n%s", diff)
	}
}

// Nothing is allowed unless its record is durable, but where the operator
// chose to look on.
func TestEXT27_NoRecordNoVerdict(t *testing.T) {
	w := newTown(t)
	w.ledger.broken = errors.New("disk full")
	call := w.present(w.call(Require, try(t, "read")), w.minted(clauses(t, "read")))
	if v, err := w.gate.Check(t.Context(), call); !errors.Is(err, evidence.ErrNotWritten) || v.Allowed {
		t.Errorf("require: %+v, %v", v, err)
	}
	if v := w.check(w.call(Observe, try(t, "read"))); !v.Allowed || !strings.Contains(w.log.String(), "disk full") {
		t.Errorf("observe: %+v\n%s", v, w.log)
	}
	w.gate.NewID = func() (string, error) { return "", errors.New("no randomness") }
	if v, err := w.gate.Check(t.Context(), call); err == nil || v.Allowed {
		t.Errorf("without an id: %+v", v)
	}
	if err := w.gate.Outcome(t.Context(), Verdict{Record: evidence.Record{OutcomeStatus: evidence.Pending}}, evidence.Achieved, nil); err == nil {
		t.Error("an outcome without an id")
	}
}

func TestEXT25_Outcome(t *testing.T) {
	w := newTown(t)
	v := w.check(w.present(w.call(Require, try(t, "read")), w.minted(clauses(t, "read"))))
	if err := w.gate.Outcome(t.Context(), v, evidence.Achieved, nil); err != nil {
		t.Fatal(err)
	}
	if got := w.ledger.sealed[1].Record(); got.OutcomeStatus != evidence.Achieved || got.Details.OutcomeOf != v.Record.ID {
		t.Errorf("the outcome is %+v", got)
	}
	denied := w.check(w.call(Require, try(t, "read")))
	if err := w.gate.Outcome(t.Context(), denied, evidence.Achieved, nil); err != nil || len(w.ledger.sealed) != 3 {
		t.Errorf("a denial has an outcome: %v", err)
	}
	if err := w.gate.Outcome(t.Context(), v, "NONSENSE", nil); err == nil {
		t.Error("an outcome that does not exist is recorded")
	}
}

func TestParseMode(t *testing.T) {
	for _, m := range []Mode{Observe, Scoped, Prefer, Require} {
		if got, err := ParseMode(string(m)); err != nil || got != m {
			t.Errorf("%s: %s, %v", m, got, err)
		}
	}
	for _, s := range []string{"", "Require", "off"} {
		if _, err := ParseMode(s); err == nil {
			t.Errorf("%q is a mode", s)
		}
	}
}

func TestPresentedIsZero(t *testing.T) {
	if !(Presented{}).IsZero() || (Presented{Proof: "p"}).IsZero() || (Presented{Reference: "r"}).IsZero() || (Presented{Chain: []string{"c"}}).IsZero() {
		t.Error("what presents something is zero, or the other way round")
	}
	r := &Refusal{[]evidence.Reason{{Message: "one"}, {Message: "two"}}}
	if !errors.Is(r, powerbox.ErrDenied) || r.Error() != "one; two" {
		t.Errorf("a refusal is %v", r)
	}
}
