package app_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/powerbox-project/powerbox/internal/identity/oidctest"
)

// enterprise is an identity provider that signs what a test wants.
type enterprise struct {
	t   *testing.T
	url string
	key *ecdsa.PrivateKey
	ids atomic.Int64
}

func openEnterprise(t *testing.T) *enterprise {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	idp := oidctest.New(t, jose.JSONWebKey{Key: &key.PublicKey, KeyID: "1", Use: "sig", Algorithm: "ES256"})
	return &enterprise{t: t, url: idp.URL, key: key}
}

// sign signs claims as a token of a type.
func (e *enterprise) sign(typ string, claims map[string]any) string {
	e.t.Helper()
	header := map[jose.HeaderKey]any{"kid": "1"}
	if typ != "" {
		header[jose.HeaderType] = typ
	}
	return oidctest.Sign(e.t, jose.ES256, e.key, header, claims)
}

// hall is a door that believes the assertions of an enterprise.
type hall struct {
	*door
	idp *enterprise
}

func openHall(t *testing.T) hall {
	t.Helper()
	idp := openEnterprise(t)
	d := openDoorAs(t, "  access_token: 30m\n  identity_assertions: [{issuer: \""+idp.url+"\"}]\n", true, func(_, text string) string {
		return strings.Replace(text, "identity: {dev:", "identity: {providers: [{issuer: \""+idp.url+"\"}], dev:", 1)
	})
	d.clock.Store(int64(time.Minute)) // the server has been running for a while
	return hall{d, idp}
}

// claims are those of an assertion for the backend and dev, with some changed; nil removes one.
func (h hall) claims(change map[string]any) map[string]any {
	at := noon.Add(time.Duration(h.clock.Load()))
	out := map[string]any{
		"iss": h.idp.url, "sub": "dev", "aud": h.url, "client_id": "backend", "resource": h.url + "/agents/notes", "scope": "notes:read",
		"jti": "id " + strconv.FormatInt(h.idp.ids.Add(1), 10), "iat": at.Unix(), "exp": at.Add(5 * time.Minute).Unix(),
	}
	for name, value := range change {
		if out[name] = value; value == nil {
			delete(out, name)
		}
	}
	return out
}

const assertionType = "oauth-id-jag+jwt"

// assertion is one of these claims.
func (h hall) assertion(change map[string]any) string {
	h.t.Helper()
	return h.idp.sign(assertionType, h.claims(change))
}

// presents presents an assertion as the backend.
func (h hall) presents(assertion string, change ...string) tokens {
	h.t.Helper()
	return h.token(append([]string{
		"client_id", "backend", "client_secret", "a-secret-of-the-backend", "grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion", assertion,
	}, change...)...)
}

// TestAnAssertionOfAnIdentityProviderGivesACapability: a client that an enterprise lets act for a
// person gets a token without a page. Policy decides, and a revocation ends it.
func TestAnAssertionOfAnIdentityProviderGivesACapability(t *testing.T) {
	h := openHall(t)
	metadata := h.get(http.DefaultClient, h.url+"/.well-known/oauth-authorization-server").body
	for _, want := range []string{`"urn:ietf:params:oauth:grant-type:jwt-bearer"`, `"authorization_grant_profiles_supported":["urn:ietf:params:oauth:grant-profile:id-jag"]`} {
		if !strings.Contains(metadata, want) {
			t.Errorf("the metadata lacks %s: %s", want, metadata)
		}
	}
	if strings.Contains(metadata, h.idp.url) {
		t.Error("the metadata tells strangers which identity provider is trusted")
	}
	got := h.presents(h.assertion(nil))
	if got.Scope != "notes:read" || got.Type != "Bearer" || got.Expires != 1800 || got.Refresh != "" || !h.active(got.Access) {
		t.Fatalf("the tokens: %+v", got)
	}
	if !h.may(got.Access, "read_note") || h.may(got.Access, "delete_note") {
		t.Error("the token does not permit exactly what the assertion names")
	}
	if all := h.presents(h.assertion(map[string]any{"sub": "eve", "scope": nil})); all.Scope != "notes:read" {
		t.Errorf("without a scope: %+v; want what policy permits this person", all)
	}
	if narrow := h.presents(h.assertion(nil), "scope", "notes:read/search"); narrow.Scope != "notes:read/search" || h.may(narrow.Access, "read_note") {
		t.Errorf("a narrower scope: %+v", narrow)
	}
	detail := []any{map[string]any{"type": "urn:powerbox:task-capability", "grant": "notes:read", "operations": []string{"read"}, "purpose": "Prepare the meeting"}}
	if details := h.presents(h.assertion(map[string]any{"scope": nil, "authorization_details": detail})); details.Scope != "notes:read/read" || details.Details[0].Purpose != "Prepare the meeting" {
		t.Errorf("authorization details: %+v", details)
	}
	if h.post(http.DefaultClient, "/oauth/revoke", url.Values{"client_id": {"backend"}, "client_secret": {"a-secret-of-the-backend"}, "token": {got.Access}}); h.active(got.Access) || h.may(got.Access, "read_note") {
		t.Error("the token outlives its revocation")
	}
	h.refused("a person without a permit", "invalid_grant", h.presents(h.assertion(map[string]any{"sub": "mallory"})))
}

// TestAnAssertionWaitsForAPersonWherePolicyWantsOne: policy can want a person although an identity
// provider has consented. The client shows the page, and a later assertion gives the token.
func TestAnAssertionWaitsForAPersonWherePolicyWantsOne(t *testing.T) {
	h := openHall(t)
	writes := map[string]any{"scope": "notes:write"}
	waits := h.presents(h.assertion(writes))
	h.refused("before the approval", "interaction_required", waits)
	again := h.presents(h.assertion(writes))
	if waits.Page == "" || again.Page != waits.Page {
		t.Fatalf("the pages: %q, then %q; want one page", waits.Page, again.Page)
	}
	page := h.get(h.dev, waits.Page).body
	if !strings.Contains(page, "The identity provider <strong>"+h.idp.url) || strings.Contains(page, "the browser returns") {
		t.Errorf("the page does not say on whose word the client asks: %s", page)
	}
	h.answer(waits.Page)
	h.clock.Add(int64(time.Minute))
	got := h.presents(h.assertion(writes))
	if got.Scope != "notes:write" || !h.may(got.Access, "delete_note") {
		t.Fatalf("after the approval: %+v", got)
	}
	h.revokeAll(h.dev)
	if h.active(got.Access) {
		t.Error("the token outlives its approval")
	}
}

// answer has the person approve a question by the interface of people.
func (d *door) answer(page string) {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, d.url+"/v1/approvals/"+page[strings.LastIndexByte(page, '/')+1:], strings.NewReader("{}"))
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Powerbox-Dev-User", "dev")
	if got := d.do(http.DefaultClient, r); got.status != http.StatusOK {
		d.t.Fatalf("the approval by the interface: %d %s", got.status, got.body)
	}
}

// TestATK107_AssertionsOfOthersAreRefused: nothing but a fresh identity assertion of a trusted
// provider, for this server, this client and one of its resources, gives a token.
func TestATK107_AssertionsOfOthersAreRefused(t *testing.T) {
	h := openHall(t)
	other := openEnterprise(t)
	at := noon.Add(time.Minute)
	for name, c := range map[string]struct {
		assertion, code string
		change          []string
	}{
		"no assertion":                   {"", "invalid_grant", nil},
		"an ID token":                    {h.idp.sign("JWT", h.claims(nil)), "invalid_grant", nil},
		"an ID token without a typ":      {h.idp.sign("", h.claims(nil)), "invalid_grant", nil},
		"an access token":                {h.idp.sign("at+jwt", h.claims(nil)), "invalid_grant", nil},
		"a client assertion":             {h.idp.sign("client-authentication+jwt", h.claims(nil)), "invalid_grant", nil},
		"another audience":               {h.assertion(map[string]any{"aud": "https://other.example.org"}), "invalid_grant", nil},
		"two audiences":                  {h.assertion(map[string]any{"aud": []string{h.url, "https://other.example.org"}}), "invalid_grant", nil},
		"the resource as audience":       {h.assertion(map[string]any{"aud": h.url + "/agents/notes"}), "invalid_grant", nil},
		"another client's":               {h.assertion(map[string]any{"client_id": "third"}), "invalid_grant", nil},
		"no client":                      {h.assertion(map[string]any{"client_id": nil}), "invalid_grant", nil},
		"another client that presents":   {h.assertion(nil), "invalid_grant", []string{"client_id", "third", "client_secret", "a-secret-of-the-third"}},
		"a public client":                {h.assertion(map[string]any{"client_id": "inspector"}), "unauthorized_client", []string{"client_id", "inspector", "client_secret", ""}},
		"a wrong secret":                 {h.assertion(nil), "invalid_client", []string{"client_secret", "a-secret-of-the-third"}},
		"expired":                        {h.assertion(map[string]any{"iat": at.Add(-5 * time.Minute).Unix(), "exp": at.Unix()}), "invalid_grant", nil},
		"valid for too long":             {h.assertion(map[string]any{"exp": at.Add(11 * time.Minute).Unix()}), "invalid_grant", nil},
		"of the future":                  {h.assertion(map[string]any{"iat": at.Add(time.Minute).Unix()}), "invalid_grant", nil},
		"without an end":                 {h.assertion(map[string]any{"exp": nil}), "invalid_grant", nil},
		"without iat":                    {h.assertion(map[string]any{"iat": nil}), "invalid_grant", nil},
		"without jti":                    {h.assertion(map[string]any{"jti": nil}), "invalid_grant", nil},
		"of before the server began":     {h.assertion(map[string]any{"iat": noon.Add(-time.Minute).Unix(), "exp": at.Add(time.Minute).Unix()}), "invalid_grant", nil},
		"an unknown issuer":              {other.sign(assertionType, h.claims(map[string]any{"iss": other.url})), "invalid_grant", nil},
		"the issuer's name, another key": {other.sign(assertionType, h.claims(nil)), "invalid_grant", nil},
		"the server as issuer":           {h.assertion(map[string]any{"iss": h.url}), "invalid_grant", nil},
		"a tenant that is not trusted":   {h.assertion(map[string]any{"tenant": "acme"}), "invalid_grant", nil},
		"bound to a key":                 {h.assertion(map[string]any{"cnf": map[string]string{"jkt": "x"}}), "invalid_grant", nil},
		"for an actor":                   {h.assertion(map[string]any{"act": map[string]string{"sub": "agent"}}), "invalid_grant", nil},
		"a workload as person":           {h.assertion(map[string]any{"sub": "spiffe://example.org/job"}), "invalid_grant", nil},
		"no resource":                    {h.assertion(map[string]any{"resource": nil}), "invalid_grant", nil},
		"a resource elsewhere":           {h.assertion(map[string]any{"resource": "https://evil.example.org/mcp"}), "invalid_target", nil},
		"a resource beside it":           {h.assertion(nil), "invalid_target", []string{"resource", h.url + "/agents/other"}},
		"two resources":                  {h.assertion(map[string]any{"resource": []string{h.url + "/agents/notes", h.url + "/agents/other"}}), "invalid_target", nil},
	} {
		if got := h.presents(c.assertion, c.change...); got.Error != c.code || got.Access != "" {
			t.Errorf("ATK-107 %s: %+v; want %s", name, got, c.code)
		}
	}
	good := h.assertion(nil)
	if got := h.call("notes", good, "read_note"); got.status != http.StatusUnauthorized {
		t.Errorf("ATK-107 an assertion as a session: %d %s", got.status, got.body)
	}
	if got := h.presents(good); !h.may(got.Access, "read_note") {
		t.Errorf("ATK-107 the assertion itself: %+v", got)
	}
}

// TestATK108_AnAssertionCountsOnce: an assertion gives one token, and never more than it names.
func TestATK108_AnAssertionCountsOnce(t *testing.T) {
	h := openHall(t)
	once := h.assertion(nil)
	if got := h.presents(once); got.Access == "" {
		t.Fatalf("the first time: %+v", got)
	}
	h.refused("ATK-108 a replay", "invalid_grant", h.presents(once))
	h.refused("ATK-108 a copy with another signature", "invalid_grant", h.presents(h.idp.sign(assertionType, h.copied(once))))
	for name, c := range map[string]struct {
		scope any
		asks  string
	}{
		"a grant beside it": {"notes:read", "notes:read notes:write"}, "a grant instead": {"notes:read", "notes:write"}, "a whole grant": {"notes:read/search", "notes:read"},
		"another operation": {"notes:read/search", "notes:read/read"}, "a scope of nothing": {"", ""}, "offline access alone": {"offline_access", ""},
		"an unknown scope": {"notes:all", ""}, "details and a scope": {nil, "notes:read"}, "no text": {[]string{"notes:read"}, ""},
	} {
		change := map[string]any{"scope": c.scope}
		want := "invalid_scope"
		switch name {
		case "details and a scope":
			want = "invalid_request"
			change["authorization_details"] = []any{map[string]any{"type": "urn:powerbox:task-capability", "grant": "notes:read", "operations": []string{"read"}}}
		case "no text":
			want = "invalid_grant"
		}
		h.refused("ATK-108 "+name, want, h.presents(h.assertion(change), "scope", c.asks))
	}
	h.refused("ATK-108 empty details", "invalid_authorization_details", h.presents(h.assertion(map[string]any{"scope": nil, "authorization_details": []any{}})))
	h.refused("ATK-108 details of the client", "invalid_request", h.presents(h.assertion(nil), "authorization_details", "[]"))
	if got := h.presents(h.assertion(map[string]any{"scope": "notes:read offline_access"})); got.Refresh != "" {
		t.Errorf("ATK-108 with offline_access: %+v; want no refresh token", got)
	}
	if got := h.presents(h.assertion(nil)); got.Expires != 1800 {
		t.Errorf("ATK-108 the token: %+v", got)
	}
	for _, lasts := range h.capabilities() {
		if lasts.After(noon.Add(time.Duration(h.clock.Load()) + 30*time.Minute)) {
			t.Errorf("ATK-108 a capability of no approval lasts until %s, longer than its token", lasts)
		}
	}
}

// copied are the claims of a token.
func (h hall) copied(token string) map[string]any {
	h.t.Helper()
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		h.t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(signed.UnsafePayloadWithoutVerification(), &out); err != nil {
		h.t.Fatal(err)
	}
	for _, name := range []string{"iat", "exp"} { // whole seconds
		out[name] = int64(out[name].(float64)) //nolint:forcetypeassert // a number
	}
	return out
}

// capabilities are the ends of all that are in force.
func (d *door) capabilities() []time.Time {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, d.url+"/v1/capabilities", nil)
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+d.operator)
	got := d.do(http.DefaultClient, r)
	var listed []struct{ Expires time.Time }
	if err := json.Unmarshal([]byte(got.body), &listed); err != nil || len(listed) == 0 {
		d.t.Fatalf("the capabilities: %d %s, %v", got.status, got.body, err)
	}
	var out []time.Time
	for _, c := range listed {
		out = append(out, c.Expires)
	}
	return out
}

// TestATK109_WhatIsStoppedGetsNothingByAnAssertion: the enterprise's word does not outweigh an
// operator's. After a thaw a further assertion counts.
func TestATK109_WhatIsStoppedGetsNothingByAnAssertion(t *testing.T) {
	for name, c := range map[string]struct{ path, target, thaw string }{
		"a frozen person": {"/v1/people/freeze", `"principal":"user:dev"`, "/v1/people/thaw"}, "a removed person": {"/v1/people/remove", `"principal":"user:dev"`, ""},
		"a frozen agent": {"/v1/freezes", `"target":"agent:notes"`, "/v1/thaws"}, "a frozen client": {"/v1/freezes", `"target":"client:@URL#backend"`, "/v1/thaws"},
	} {
		t.Run(name, func(t *testing.T) {
			h := openHall(t)
			got := h.presents(h.assertion(nil))
			if !h.may(got.Access, "read_note") {
				t.Fatalf("the tokens: %+v", got)
			}
			h.operate(c.path, "{"+c.target+`,"reason":"test"}`)
			if h.active(got.Access) || h.may(got.Access, "read_note") {
				t.Error("ATK-109 the earlier token still counts")
			}
			h.refused("ATK-109 a further assertion", "invalid_grant", h.presents(h.assertion(nil)))
			if c.thaw == "" {
				return
			}
			h.operate(c.thaw, "{"+c.target+`,"reason":"test"}`)
			if again := h.presents(h.assertion(nil)); !h.may(again.Access, "read_note") {
				t.Errorf("ATK-109 after the thaw: %+v", again)
			}
		})
	}
}
