package issuer_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/token"
)

func TestSEP7_RequestIsTheMeet(t *testing.T) {
	w := newTown(t)
	alice := caller(t, "user:alice")
	c := w.read(alice)
	if !cmp.Equal(c.Operations(), []string{"retrieve", "search"}) || len(c.Handles) != 2 || c.Holder != alice.Holder.ID || c.Root != c.ID || c.Token == "" {
		t.Errorf("got %+v", c)
	}
	if r := w.last(); r.Decision != evidence.Allow || r.Intent.Purpose != "p" || r.Details.Capability != c.ID || r.Details.Principal != w.issuer.Pseudonym("documents", "user:alice") {
		t.Errorf("recorded as %+v", r)
	}
	narrow := w.request(alice, issuer.Request{Grants: []string{"read"}, Purpose: "p", Query: query(t, powerbox.Member{Name: "quarter", Value: powerbox.String("Q1")}), Operations: []string{"retrieve"}, Push: true})[0]
	if !cmp.Equal(narrow.Operations(), []string{"retrieve"}) || len(narrow.Handles) != 1 || !slices.Contains(narrow.Authority.Names(), issuer.OperationPush) {
		t.Errorf("narrower: %+v %v", narrow, narrow.Authority.Names())
	}
}

func TestSEP4_Refusals(t *testing.T) {
	w := newTown(t)
	alice := caller(t, "user:alice")
	ok := issuer.Request{Grants: []string{"read"}, Purpose: "p", Query: query(t)}
	none := alice
	none.Holder = identity.Holder{}
	for name, c := range map[string]struct {
		agent  string
		caller identity.Caller
		change func(*issuer.Request)
		want   issuer.Code
	}{
		"agent":                   {"mail", alice, func(*issuer.Request) {}, issuer.CodeAgentUnknown},
		"session":                 {"documents", identity.Caller{Holder: alice.Holder}, func(*issuer.Request) {}, issuer.CodeUnauthenticated},
		"holder":                  {"documents", none, func(*issuer.Request) {}, issuer.CodeHolderUnknown},
		"SEP-9":                   {"documents", alice, func(r *issuer.Request) { r.Purpose = " " }, issuer.CodePurposeMissing},
		"no grant":                {"documents", alice, func(r *issuer.Request) { r.Grants = nil }, issuer.CodeGrantUnknown},
		"grant":                   {"documents", alice, func(r *issuer.Request) { r.Grants = []string{"own"} }, issuer.CodeGrantUnknown},
		"SEP-3":                   {"documents", alice, func(r *issuer.Request) { r.Grants = []string{"broken"} }, issuer.CodeLegacyNotAllowed},
		"SEP-8":                   {"documents", alice, func(r *issuer.Request) { r.Expires = noon }, issuer.CodeExpiryInvalid},
		"SEP-8 within the second": {"documents", alice, func(r *issuer.Request) { r.Expires = noon.Add(900 * time.Millisecond) }, issuer.CodeExpiryInvalid},
		"SEP-21": {"documents", alice, func(r *issuer.Request) {
			r.Query = query(t, powerbox.Member{Name: "year", Value: powerbox.String("1")})
		}, issuer.CodeQueryInvalid},
		"SEP-2":      {"documents", caller(t, "user:alice"), func(r *issuer.Request) { r.Grants = []string{"write"} }, issuer.CodeRequiresMissing},
		"nothing":    {"documents", alice, func(r *issuer.Request) { r.Query, r.Operations = nil, []string{"retrieve"} }, issuer.CodeNothingGranted},
		"no match":   {"documents", alice, func(r *issuer.Request) { r.Operations = []string{"delete"} }, issuer.CodeNothingGranted},
		"policy":     {"documents", caller(t, "user:carol"), func(r *issuer.Request) { r.Query = nil }, issuer.CodeNothingGranted},
		"SEP-22":     {"documents", alice, func(r *issuer.Request) { r.Task = "task-1" }, issuer.CodeTaskUnknown},
		"everything": {"documents", alice, func(*issuer.Request) {}, ""},
	} {
		req := ok
		c.change(&req)
		_, err := w.issuer.Request(t.Context(), c.agent, c.caller, req)
		if got := refusal(t, err); got != c.want {
			t.Errorf("%s: %q (%v); want %q", name, got, err, c.want)
		}
		if r := w.last(); c.want != "" && (r.Decision != evidence.Deny || r.Details.Reasons[0].Code != string(c.want)) {
			t.Errorf("%s: recorded as %+v", name, r)
		}
	}
}

func TestSEP2_RequiresInTheSameRequestOrHeld(t *testing.T) {
	w := newTown(t)
	alice := caller(t, "user:alice")
	write := issuer.Request{Grants: []string{"write"}, Purpose: "p", Query: query(t)}
	both := write
	both.Grants = []string{"write", "read"}
	w.request(caller(t, "user:alice"), both)
	held := w.read(alice)
	w.request(alice, write)
	w.now = held.Expires
	_, err := w.issuer.Request(t.Context(), "documents", alice, write)
	if refusal(t, err) != issuer.CodeRequiresMissing {
		t.Errorf("an expired one counts: %v", err)
	}
}

func TestSEP8_EarliestEnd(t *testing.T) {
	for name, c := range map[string]struct {
		grant  string
		change func(*town, *identity.Caller, *issuer.Request)
		want   time.Duration
	}{
		"issuer":    {"read", func(*town, *identity.Caller, *issuer.Request) {}, time.Hour},
		"grant":     {"write", func(*town, *identity.Caller, *issuer.Request) {}, 10 * time.Minute},
		"session":   {"read", func(_ *town, c *identity.Caller, _ *issuer.Request) { c.SessionExpires = noon.Add(time.Minute) }, time.Minute},
		"requested": {"read", func(_ *town, _ *identity.Caller, r *issuer.Request) { r.Expires = noon.Add(2 * time.Minute) }, 2 * time.Minute},
		"too much":  {"read", func(_ *town, _ *identity.Caller, r *issuer.Request) { r.Expires = noon.Add(48 * time.Hour) }, time.Hour},
		"policy": {"read", func(w *town, _ *identity.Caller, _ *issuer.Request) {
			p := w.rules("short")
			p.allow["user:alice search q2"] = issuer.Ruling{Allow: true, MaximumLifetime: 3 * time.Minute}
			w.config.Policy = p
			w.restart()
		}, 3 * time.Minute},
	} {
		w := newTown(t)
		alice := caller(t, "user:alice")
		req := issuer.Request{Grants: []string{c.grant}, Purpose: "p", Query: query(t)}
		if c.grant == "write" {
			req.Grants = append(req.Grants, "read")
		}
		c.change(w, &alice, &req)
		if got := w.request(alice, req)[0]; !got.Expires.Equal(noon.Add(c.want)) {
			t.Errorf("SEP-8 %s: until %s; want %s", name, got.Expires, noon.Add(c.want))
		}
	}
}

func TestSEP3_LegacyAndFixedGrants(t *testing.T) {
	w := newTown(t)
	alice := caller(t, "user:alice")
	c := w.request(alice, issuer.Request{Grants: []string{"admin"}, Purpose: "p"})[0]
	if c.Token != "" || !c.Legacy || !cmp.Equal(c.Operations(), []string{"archive"}) {
		t.Errorf(`SEP-3, SEP-25: by reference, "*" is what skills map to: %+v`, c)
	}
	if r := w.last(); len(r.Details.Reasons) != 1 || r.Details.Reasons[0].Code != "legacy_grant" {
		t.Errorf("SEP-3 the record says %+v", r.Details.Reasons)
	}
	for _, grant := range []string{"admin", "fixed"} {
		c := w.request(alice, issuer.Request{Grants: []string{grant}, Purpose: "p"})[0]
		_, err := w.issuer.Narrow(t.Context(), "documents", alice, c.ID, issuer.Narrowing{Operations: c.Operations()})
		if refusal(t, err) != issuer.CodeNotAttenuable || c.Authority.Depth() != 0 {
			t.Errorf("SEP-12 %s: %v, depth %d", grant, err, c.Authority.Depth())
		}
	}
	// A holder without a key has it by reference.
	alice.Holder = identity.Holder{ID: "client:web"}
	if c := w.read(alice); c.Token != "" {
		t.Error("SEP-17 a token for a holder without a key")
	}
}

func TestSEP27_ApprovalIsRequired(t *testing.T) {
	w := newTown(t)
	p := w.rules("asking")
	p.allow["user:alice retrieve q1"] = issuer.Ruling{Allow: true, Approval: "human"}
	w.config.Policy = p
	w.restart()
	alice := caller(t, "user:alice")
	_, err := w.issuer.Request(t.Context(), "documents", alice, issuer.Request{Grants: []string{"read"}, Purpose: "p", Query: query(t)})
	if refusal(t, err) != issuer.CodeApprovalRequired {
		t.Errorf("%v", err)
	}
	// Anything that was not selected needs no approval.
	w.request(alice, issuer.Request{Grants: []string{"read"}, Purpose: "p", Query: query(t, powerbox.Member{Name: "quarter", Value: powerbox.String("Q2")})})
}

func TestSEP25_TokenOfTheCapability(t *testing.T) {
	w := newTown(t)
	c := w.read(caller(t, "user:alice"))
	v, err := token.NewMemo(1<<20).Verify(c.Token, token.NewKeySet(w.agent.Signer().Public()), token.Options{Now: noon, Revoked: token.UnsafeNothingRevoked})
	if err != nil {
		t.Fatal(err)
	}
	private, _ := v.Private()
	if private.Grant != "read" || !cmp.Equal(issuer.ParseLineage(private.Capability), []string{c.ID}) || strings.Contains(private.Principal, "alice") || v.ID() != c.ID {
		t.Errorf("the private claim is %+v", private)
	}
	if !cmp.Equal(v.Authority().Names(), []string{"a2a.message", "a2a.task.cancel", "a2a.task.read", "documents/read/retrieve", "documents/read/search"}) {
		t.Errorf("the operations are %v", v.Authority().Names())
	}
	if w.issuer.Pseudonym("documents", "") != "" || w.issuer.Pseudonym("documents", "user:alice") == w.issuer.Pseudonym("mail", "user:alice") {
		t.Error("pseudonyms are linkable")
	}
}

func TestGATE4_CapsAreWhatSkillsMapTo(t *testing.T) {
	w := newTown(t)
	caps, err := w.agent.Caps(noon)
	want := []string{
		"a2a.capability", "a2a.card", "a2a.message", "a2a.push", "a2a.task.cancel", "a2a.task.read",
		"documents/admin/archive", "documents/read/retrieve", "documents/read/search", "documents/write/delete",
	}
	if diff := cmp.Diff(want, caps.Names()); diff != "" || err != nil {
		t.Errorf("GATE-4 %v (-want +got):\n%s", err, diff)
	}
	w.agent.Skills = append(w.agent.Skills, issuer.Skill{Skill: "bad", Grant: "read", Operation: strings.Repeat("x", 300)})
	if _, err := w.agent.Caps(noon); err == nil {
		t.Error("an operation without a name is offered")
	}
}

// What a caller may not see changes neither the answer nor the work for it: as
// often as for what does not exist is policy asked.
func TestSEP5_HiddenIsAsMuchWorkAsAbsent(t *testing.T) {
	w := newTown(t)
	bob := caller(t, "user:bob")
	ask := func(quarter string) (string, int) {
		w.asked = nil
		_, err := w.issuer.Request(t.Context(), "documents", bob, issuer.Request{
			Grants: []string{"read"}, Purpose: "p", Query: query(t, powerbox.Member{Name: "quarter", Value: powerbox.String(quarter)}),
		})
		return string(refusal(t, err)) + err.Error(), len(w.asked)
	}
	hidden, work := ask("Q1")
	absent, other := ask("Q9")
	if hidden != absent || work != other || work == 0 {
		t.Errorf("hidden: %s after %d questions\nabsent: %s after %d", hidden, work, absent, other)
	}
}
