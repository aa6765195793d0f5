package gate

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/token"
)

// issued has scope tokens on record, by their hash.
type issued map[string]Issued

func (i issued) Issued(_ context.Context, _ *Target, hash string) (Issued, error) {
	one, ok := i[hash]
	if !ok {
		return Issued{}, &Refusal{[]evidence.Reason{{Code: CodeCapabilityUnknown, Message: "not issued here"}}}
	}
	return one, nil
}

// names keeps which link a nonce names.
type names struct {
	links map[string]string
	err   error
}

func (n *names) Name(_ context.Context, l NamedLink, _ time.Time) (bool, error) {
	if _, ok := n.links[l.ID]; !ok && n.err == nil {
		n.links[l.ID] = l.Link
	}
	return n.links[l.ID] == l.Link, n.err
}

// withScopes lets the town's gate take a scope token for reading the one handle
// h and for searching.
func (w *town) withScopes() (*PresentedScopes, *names) {
	w.t.Helper()
	text, err := token.SignScopeToken(w.issuer, token.ScopeClaims{
		Issuer: agentURL, Subject: w.holder.Party().DID(), Scopes: []string{"documents"}, IssuedAt: at, ExpiresAt: at.Add(time.Minute),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	t, err := token.ParseScopeToken(text)
	if err != nil {
		w.t.Fatal(err)
	}
	kept := &names{links: map[string]string{}}
	w.gate.Nonces = kept
	w.gate.Scopes = Scopes{Revocations: w.revoked, MaxLifetime: time.Hour, Records: issued{t.Hash(): {
		Held:   Held{Capability: "cap_1", OnRecord: "cap_1", Root: "cap_1", Principal: "pw_alice", Authority: authority(w.t, "read=h", "search", "delete", "a2a.message"), Links: []string{"cap_1"}},
		Scopes: map[string]string{"read": "documents.read", "search": "documents.search", "a2a.message": ""},
	}}}
	return &PresentedScopes{Token: text}, kept
}

func (w *town) tried(p *PresentedScopes, name string, change ...func(*Call)) Verdict {
	w.t.Helper()
	c := w.call(Require, try(w.t, name, handle("h")), try(w.t, "a2a.message"))
	c.Presented = []Presented{{Scopes: p}}
	for _, f := range change {
		f(c)
	}
	return w.check(c)
}

func (w *town) linked(delegate *token.PrivateKey, nonce string, scopes ...string) []byte {
	w.t.Helper()
	link, err := token.SignLink(w.holder, token.LinkClaims{
		Delegator: w.holder.Party().DID(), Delegate: delegate.Party().DID(), Scopes: scopes, IssuedAt: at, ExpiresAt: at.Add(time.Minute), Nonce: nonce,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return append(append([]byte("["), link...), ']')
}

func TestEXT7_TheRecordBoundsAScopeToken(t *testing.T) {
	w := newTown(t)
	p, _ := w.withScopes()
	if v := w.tried(p, "read"); !v.Allowed || v.Basis != OnCapability || v.Held.Capability != "cap_1" {
		t.Fatalf("%+v", v.Reasons)
	}
	other := func(c *Call) { c.Attempts[0] = try(t, "read", handle("x")) }
	if v := w.tried(p, "read", other); v.Allowed || v.Reasons[0].Code != CodeHandle {
		t.Errorf("a resource that is not on record: %v", codes(v))
	}
	// It is on record, and no scope stands for it.
	if v := w.tried(p, "delete"); v.Allowed {
		t.Error("an operation without a scope is held")
	}
	if d := cmp.Diff([]string{"a2a.message", "read", "search"}, w.tried(p, "search").Held.Authority.Names()); d != "" {
		t.Error(d)
	}
	if v := w.tried(p, "read", func(c *Call) { c.Caller.Holder = "" }); v.Allowed || v.Reasons[0].Code != string(token.CodeNotSubject) {
		t.Errorf("nobody: %v", codes(v))
	}
	for name, wrong := range map[string]*PresentedScopes{"nothing": {}, "no links": {Token: p.Token, Links: []byte("x")}} {
		if v := w.tried(wrong, "read"); v.Allowed || v.Reasons[0].Code != string(token.CodeMalformed) {
			t.Errorf("%s: %v", name, codes(v))
		}
	}
	w.gate.Scopes = nil
	if v := w.tried(p, "read"); v.Allowed || v.Reasons[0].Code != codeScopesNotTaken {
		t.Errorf("a gate that takes none: %v", codes(v))
	}
}

func TestEXT14_ANonceIsTakenByWhatIsAllowed(t *testing.T) {
	w := newTown(t)
	p, kept := w.withScopes()
	bob := key(t, "bob")
	as := func(c *Call) { c.Caller = Caller{Holder: "key:" + bob.Public().Thumbprint()} }
	p.Links = w.linked(bob, "n", "documents.read")
	if v := w.tried(p, "search", as); v.Allowed || len(kept.links) != 0 {
		t.Errorf("a refused call took a nonce: %v", codes(v))
	}
	if v := w.tried(p, "read"); v.Allowed || len(kept.links) != 0 {
		t.Errorf("another caller took a nonce: %v", codes(v))
	}
	v := w.tried(p, "read", as)
	if !v.Allowed || len(kept.links) != 1 || v.Held.Authority.Depth() != 2 {
		t.Fatalf("%v, %d", codes(v), len(kept.links))
	}
	if d := cmp.Diff([]string{"key:" + w.holder.Public().Thumbprint()}, v.Held.Through); d != "" {
		t.Error(d)
	}
	if v := w.tried(p, "read", as); !v.Allowed {
		t.Errorf("the same link again: %v", codes(v))
	}
	again := *p
	again.Links = w.linked(bob, "n", "documents")
	if v := w.tried(&again, "read", as); v.Allowed || v.Reasons[0].Code != string(token.CodeNonceReused) {
		t.Errorf("another link of that nonce: %v", codes(v))
	}
	kept.err = errors.New("the store is gone")
	if v := w.tried(p, "read", as); v.Allowed || v.Reasons[0].Code != CodeUnavailable {
		t.Errorf("without a store: %v", codes(v))
	}
}
