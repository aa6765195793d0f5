package token

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
)

// The parties of the extension's own example, and one that is its own key.
const (
	registry = "agent-registry.example.com"
	manager  = "portfolio-manager-agent-7a3f"
	router   = "trade-router-agent-b2c4"
	market   = "market-access-agent-d8e9"
	desk     = "desk-agent-11aa"
)

// noon is when the tokens of these tests are issued, and later when they are
// used.
var (
	noon  = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	later = noon.Add(10 * time.Minute)
)

// partyOf returns a signer that depends on nothing but its name.
func partyOf(t testing.TB, name string) PartySigner {
	t.Helper()
	switch name {
	case router:
		return keyOf(t, name, ES256)
	case market:
		k, err := NewLatticeKey([]byte((name + strings.Repeat("-", 32))[:32]))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	return keyOf(t, name, Ed25519)
}

// directory is the JWK Set of the parties that are not their own keys.
func directory(t testing.TB, names ...string) json.RawMessage {
	t.Helper()
	keys := []any{}
	for _, name := range names {
		var jwk map[string]any
		if err := json.Unmarshal(partyOf(t, name).Party().JWK().AppendJSON(nil), &jwk); err != nil {
			t.Fatal(err)
		}
		jwk["kid"] = name
		keys = append(keys, jwk)
	}
	return marshal(t, map[string]any{"keys": keys})
}

func marshal(t testing.TB, v any) json.RawMessage {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

// forgedLink is a link that a test may spoil: anybody can sign anything.
type forgedLink struct {
	LinkClaims
	signer PartySigner
	edit   func(text string) string // after signing
}

// scopeForgery is a question in the making: the manager's token, passed on to the
// router, by it to the market, and so on.
type scopeForgery struct {
	scopeVector
	t      testing.TB
	claims ScopeClaims
	signer PartySigner
	edit   func(text string) string
	chain  []*forgedLink
}

func newScopeForgery(t testing.TB, links int) *scopeForgery {
	f := &scopeForgery{t: t, signer: partyOf(t, registry)}
	f.scopeVector = scopeVector{
		Keys: directory(t, registry, manager, router, desk), Requested: []string{"trade.execute"},
		At: later.Format(time.RFC3339Nano), MaxDepth: 2, Revoked: []string{}, Caller: manager,
	}
	f.claims = ScopeClaims{Issuer: registry, Subject: manager, Scopes: []string{"trade.execute", "portfolio.read"}, IssuedAt: noon, ExpiresAt: noon.Add(time.Hour)}
	if links > 2 {
		f.Keys = directory(t, registry, manager, router, market)
	}
	names := []string{manager, router, market, partyOf(t, "did").Party().DID()}
	for i := range links {
		f.chain = append(f.chain, &forgedLink{LinkClaims: LinkClaims{
			Delegator: names[i], Delegate: names[i+1], Scopes: []string{"trade.execute"},
			IssuedAt: noon, ExpiresAt: noon.Add(time.Duration(30-5*i) * time.Minute), Nonce: "nonce-" + string(rune('a'+i)),
		}})
		f.Caller = names[i+1]
	}
	return f
}

// statementText signs claims whatever they say.
func statementText(t testing.TB, signer PartySigner, signature string, members ...powerbox.Member) string {
	t.Helper()
	data, err := signStatement(signer, signature, members)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func (l *forgedLink) text(t testing.TB) string {
	if l.signer == nil {
		l.signer = partyOf(t, l.Delegator)
	}
	text := statementText(t, l.signer, "delegation_proof", textMember("delegator", l.Delegator), textMember("delegate", l.Delegate),
		scopesMember(l.Scopes), instantMember("issued_at", l.IssuedAt), instantMember("expires_at", l.ExpiresAt), textMember("nonce", l.Nonce))
	if l.edit != nil {
		text = l.edit(text)
	}
	return text
}

// finish signs everything.
func (f *scopeForgery) finish() scopeVector {
	if f.Token == "" {
		f.Token = statementText(f.t, f.signer, "signature", textMember("issuer", f.claims.Issuer), textMember("subject", f.claims.Subject),
			scopesMember(f.claims.Scopes), instantMember("issued_at", f.claims.IssuedAt), instantMember("expires_at", f.claims.ExpiresAt))
		if f.edit != nil {
			f.Token = f.edit(f.Token)
		}
	}
	if f.chain != nil && f.Links == nil {
		texts := make([]string, len(f.chain))
		for i, l := range f.chain {
			texts[i] = l.text(f.t)
		}
		all := "[" + strings.Join(texts, ",") + "]"
		f.Links = &all
	}
	return f.scopeVector
}

// replaced edits a text, in which there must be something to edit.
func replaced(t testing.TB, before, after string) func(string) string {
	return func(text string) string {
		if !strings.Contains(text, before) {
			t.Fatalf("%q is not in %s", before, text)
		}
		return strings.Replace(text, before, after, 1)
	}
}

// misnamed signs with one key and names the algorithm of another.
type misnamed struct {
	PartySigner
	party PartyKey
}

func (m misnamed) Party() PartyKey { return m.party }
