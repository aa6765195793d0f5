package identity_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/steady"
	"github.com/powerbox-project/powerbox/token"
)

func code(err error) powerbox.Code {
	var refused *identity.Error
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

func TestSEP11_HolderByProof(t *testing.T) {
	i, k := newIssuer(t), holderKey(t)
	id := "key:" + k.Public().Thumbprint()
	a := authenticator(t, identity.Config{
		Providers: []identity.Provider{i.provider()},
		Callers:   []identity.CallerRule{{Agent: "orchestrator", Key: k.Public().Thumbprint()}},
	})
	bound := i.token(t, map[string]any{"cnf": map[string]any{"jkt": k.Public().Thumbprint()}})
	free := i.token(t, nil)
	for n, c := range []struct {
		name, authorization, proof, principal string
		consumed                              bool
	}{
		{"bound token", "DPoP " + bound, proof(t, k, bound, "1"), "user:alice", true},
		{"bearer token with a proof", "Bearer " + free, proof(t, k, free, "2"), "user:alice", true},
		{"proof alone", "", proof(t, k, "", "3"), "", false},
		{"proof beside a foreign token", "Bearer opaque", proof(t, k, "", "4"), "", false},
		{"proof beside a foreign token, with its hash", "Bearer opaque", proof(t, k, "opaque", "5"), "", false},
	} {
		headers := []string{"DPoP", c.proof}
		if c.authorization != "" {
			headers = append(headers, "Authorization", c.authorization)
		}
		got, consumed, err := a.Authenticate(request(t, headers...), audience, now)
		if err != nil || consumed != c.consumed {
			t.Errorf("%d %s: consumed = %v, err = %v", n, c.name, consumed, err)
		}
		if got.Holder.ID != id || got.Holder.Key != k.Public() || got.Agent != "orchestrator" || got.Principal != c.principal {
			t.Errorf("%d %s: caller = %+v", n, c.name, got)
		}
	}
}

func TestSEP11_ProofsThatDoNotHold(t *testing.T) {
	i, k, thief := newIssuer(t), holderKey(t), holderKey(t)
	bound := i.token(t, map[string]any{"cnf": map[string]any{"jkt": k.Public().Thumbprint()}})
	free := i.token(t, nil)
	old, err := token.SignDPoP(k, token.DPoPRequest{Method: "POST", URL: audience, AccessToken: free, Now: now.Add(-20 * time.Second)}, "old")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		headers  []string
		want     powerbox.Code
		consumed bool
	}{
		"bound token without a proof":        {[]string{"Authorization", "DPoP " + bound}, identity.CodeProofMissing, true},
		"bound token as bearer":              {[]string{"Authorization", "Bearer " + bound}, identity.CodeProofMissing, true},
		"bound token as bearer with a proof": {[]string{"Authorization", "Bearer " + bound, "DPoP", proof(t, k, bound, "1")}, identity.CodeProofMissing, true},
		"stolen token, own key":              {[]string{"Authorization", "DPoP " + bound, "DPoP", proof(t, thief, bound, "1")}, identity.CodeProofKey, true},
		"free token as DPoP":                 {[]string{"Authorization", "DPoP " + free}, identity.CodeProofMissing, true},
		"proof without the token's hash":     {[]string{"Authorization", "DPoP " + free, "DPoP", proof(t, k, "", "1")}, token.CodeProofToken, true},
		"proof of another token":             {[]string{"Authorization", "DPoP " + free, "DPoP", proof(t, k, bound, "1")}, token.CodeProofToken, true},
		"two proofs":                         {[]string{"DPoP", proof(t, k, "", "1"), "DPoP", proof(t, k, "", "2")}, identity.CodeMalformed, false},
		"no proof at all":                    {[]string{"DPoP", "proof"}, token.CodeMalformed, false},
		"proof from before the start":        {[]string{"Authorization", "Bearer " + free, "DPoP", old}, identity.CodeProofBefore, true},
		"two tokens":                         {[]string{"Authorization", "Bearer " + free, "Authorization", "Bearer opaque"}, identity.CodeMalformed, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := authenticator(t, identity.Config{Providers: []identity.Provider{i.provider()}, Started: now.Add(-10 * time.Second)})
			_, consumed, err := a.Authenticate(request(t, c.headers...), audience, now)
			if code(err) != c.want || consumed != c.consumed {
				t.Errorf("err = %v, consumed = %v; want %s, %v", err, consumed, c.want, c.consumed)
			}
		})
	}
}

func TestProofsAreForTheConfiguredURL(t *testing.T) {
	k := holderKey(t)
	a := authenticator(t, identity.Config{})
	r := request(t, "DPoP", proof(t, k, "", "1"))
	r.Host = "evil.example" // decides nothing
	if _, _, err := a.Authenticate(r, audience, now); err != nil {
		t.Error(err)
	}
	r = request(t, "DPoP", proof(t, k, "", "2"))
	r.URL.Path = "/agents/mail"
	if _, _, err := a.Authenticate(r, audience, now); code(err) != token.CodeProofRequest {
		t.Errorf("err = %v; want a proof for another path refused", err)
	}
	r = request(t, "DPoP", proof(t, k, "", "3"))
	if _, _, err := a.Authenticate(r, "https://%zz", now); code(err) != token.CodeProofRequest {
		t.Errorf("err = %v; want no audience to fit no proof", err)
	}
}

// TestATK73_ProofsOfCallers: a proof that was used stays so when the clock jumps ahead,
// others are used meanwhile, and the clock comes back.
func TestATK73_ProofsOfCallers(t *testing.T) {
	k := holderKey(t)
	a := authenticator(t, identity.Config{})
	for i, step := range []struct {
		id    string
		after time.Duration
		want  powerbox.Code
	}{{"1", 0, ""}, {"2", time.Hour, ""}, {"1", time.Second, identity.CodeProofReplayed}, {"2", time.Hour + time.Second, identity.CodeProofReplayed}, {"3", 2 * time.Second, ""}} {
		at := now.Add(step.after)
		p, err := token.SignDPoP(k, token.DPoPRequest{Method: "POST", URL: audience, Now: at}, step.id)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := a.Authenticate(request(t, "DPoP", p), audience, at); code(err) != step.want {
			t.Errorf("ATK-73 step %d: %v; want %q", i, err, step.want)
		}
	}
}

func TestSEP11_ProofsAreUsedOnce(t *testing.T) {
	defer steady.Believe()()
	k, other := holderKey(t), holderKey(t)
	a := authenticator(t, identity.Config{ProofCapacity: 12}) // 4 of them for strangers
	try := func(k *token.PrivateKey, id string, at time.Time) powerbox.Code {
		p, err := token.SignDPoP(k, token.DPoPRequest{Method: "POST", URL: audience, Now: at}, id)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = a.Authenticate(request(t, "DPoP", p), audience, at)
		return code(err)
	}
	for _, step := range []struct {
		name string
		got  powerbox.Code
		want powerbox.Code
	}{
		{"first use", try(k, "1", now), ""},
		{"second use", try(k, "1", now), identity.CodeProofReplayed},
		{"same id of another key", try(other, "1", now), ""},
		{"remembered for twice the window", try(k, "1", now.Add(60*time.Second)), identity.CodeProofReplayed},
		{"another", try(k, "2", now.Add(60*time.Second)), ""},
		{"another still", try(k, "3", now.Add(60*time.Second)), ""},
		{"memory full", try(k, "4", now.Add(60*time.Second)), identity.CodeProofCapacity},
		{"memory turned over", try(k, "4", now.Add(120*time.Second)), ""},
		{"and what is newer is kept", try(k, "3", now.Add(120*time.Second)), identity.CodeProofReplayed},
		{"after a long time nothing is", try(k, "3", now.Add(time.Hour)), ""},
		{"a clock set back forgets nothing", try(k, "3", now), identity.CodeProofReplayed},
	} {
		if step.got != step.want {
			t.Errorf("%s: %q; want %q", step.name, step.got, step.want)
		}
	}
}

// Nothing that merely names someone makes a caller.
func TestATK32_IdentityHeadersDecideNothing(t *testing.T) {
	i := newIssuer(t)
	a := authenticator(t, identity.Config{
		Providers: []identity.Provider{i.provider()}, Dev: []identity.DevUser{{Name: "alice", Token: "alice-token"}},
		Callers: []identity.CallerRule{{Agent: "orchestrator", Client: "orchestrator"}},
	})
	r := request(t,
		"X-Forwarded-User", "alice", "X-Agent-ID", "orchestrator", "X-Forwarded-For", "127.0.0.1", "Forwarded", "for=127.0.0.1",
		"X-Forwarded-Client-Cert", "URI=spiffe://pb.example/orchestrator", "X-Remote-User", "alice", "Remote-User", "alice",
		"X-Client-Cert", "x", "Powerbox-Context", "x", "Powerbox-Caller", "orchestrator", "From", "alice@pb.example",
		"Cookie", "alice-token", "Proxy-Authorization", "Bearer alice-token", "X-Authorization", "Bearer alice-token")
	r.URL.RawQuery = "access_token=alice-token"
	r.URL.User = url.UserPassword("alice", "alice-token")
	c, consumed, err := a.Authenticate(r, audience, now)
	if err != nil || consumed {
		t.Errorf("consumed = %v, err = %v", consumed, err)
	}
	if diff := cmp.Diff(identity.Caller{}, c, sameKey); diff != "" {
		t.Error(diff)
	}
}

func certificate(t *testing.T, uris ...string) *x509.Certificate {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now, NotAfter: now.Add(time.Hour)}
	for _, s := range uris {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = append(template.URIs, u)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func sha(b []byte) string {
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func withCertificate(r *http.Request, c *x509.Certificate, verified bool) *http.Request {
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}}
	if verified {
		r.TLS.VerifiedChains = [][]*x509.Certificate{{c}}
	}
	return r
}

func TestATK32_HolderByCertificate(t *testing.T) {
	i := newIssuer(t)
	plain, svid, two := certificate(t), certificate(t, "spiffe://pb.example/mail"), certificate(t, "spiffe://pb.example/a", "https://pb.example")
	byKey := func(c *x509.Certificate) string { return "mtls:" + sha(c.RawSubjectPublicKeyInfo) }
	a := authenticator(t, identity.Config{Providers: []identity.Provider{i.provider()}, Callers: []identity.CallerRule{
		{Agent: "mail", SPIFFE: "spiffe://pb.example/mail"}, {Agent: "plain", MTLS: sha(plain.RawSubjectPublicKeyInfo)}, {Agent: "orchestrator", Client: "orchestrator"},
	}})
	for _, c := range []struct {
		name        string
		certificate *x509.Certificate
		verified    bool
		id, agent   string
	}{
		{"by key", plain, true, byKey(plain), "plain"},
		{"by SPIFFE id", svid, true, "spiffe://pb.example/mail", "mail"},
		{"several URIs are no SPIFFE id", two, true, byKey(two), ""},
		{"unverified", svid, false, "", ""},
	} {
		got, _, err := a.Authenticate(withCertificate(request(t), c.certificate, c.verified), audience, now)
		if err != nil || got.Holder.ID != c.id || got.Agent != c.agent || !got.Holder.Key.IsZero() {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
	bound := "Bearer " + i.token(t, map[string]any{"azp": nil, "client_id": "other", "cnf": map[string]any{"x5t#S256": sha(plain.Raw)}})
	got, _, err := a.Authenticate(withCertificate(request(t, "Authorization", bound), plain, true), audience, now)
	if err != nil || got.Principal != "user:alice" || got.Agent != "plain" {
		t.Errorf("token bound to the certificate: %+v, %v", got, err)
	}
	_, _, err = a.Authenticate(withCertificate(request(t, "Authorization", bound), svid, true), audience, now)
	if code(err) != identity.CodeCertificate {
		t.Errorf("err = %v; want a token bound to another certificate refused", err)
	}
	_, _, err = a.Authenticate(withCertificate(request(t, "Authorization", "Bearer "+i.token(t, nil)), svid, true), audience, now)
	if code(err) != identity.CodeCallerAmbiguous {
		t.Errorf("err = %v; want a certificate of one agent with the token of another refused", err)
	}
}

func TestDevUsers(t *testing.T) {
	a := authenticator(t, identity.Config{Dev: []identity.DevUser{
		{Name: "alice", Token: "alice-token", Groups: []string{"finance"}, Roles: []string{"reader"}, Attributes: map[string]powerbox.Value{"x": powerbox.Bool(true)}},
		{Name: "bob", Token: "bobs-token"},
	}})
	got, consumed, err := a.Authenticate(request(t, "Authorization", "Bearer alice-token"), audience, now)
	want := identity.Caller{
		Principal: "user:alice", Groups: []string{"finance"}, Roles: []string{"reader"}, Attributes: map[string]powerbox.Value{"x": powerbox.Bool(true)},
		Holder: identity.Holder{ID: "dev:alice"}, SessionExpires: now.Add(12 * time.Hour), Authenticated: now,
	}
	if diff := cmp.Diff(want, got, sameKey); diff != "" || !consumed || err != nil {
		t.Errorf("consumed = %v, err = %v %s", consumed, err, diff)
	}
	k := holderKey(t)
	got, _, err = a.Authenticate(request(t, "Authorization", "DPoP bobs-token", "DPoP", proof(t, k, "bobs-token", "1")), audience, now)
	if err != nil || got.Principal != "user:bob" || got.Holder.Key != k.Public() {
		t.Errorf("%+v, %v", got, err)
	}
	none := authenticator(t, identity.Config{})
	if got, consumed, err := none.Authenticate(request(t, "Authorization", "Bearer alice-token"), audience, now); err != nil || consumed || got.Principal != "" {
		t.Errorf("without dev users: %+v, %v, %v", got, consumed, err)
	}
}

func TestConfigurationsThatAreRefused(t *testing.T) {
	keys := []byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`)
	good := identity.Provider{Issuer: "https://idp.example", JWKS: keys}
	with := func(change func(*identity.Provider)) []identity.Provider {
		p := good
		change(&p)
		return []identity.Provider{p}
	}
	for want, c := range map[string]identity.Config{
		"Started is not set":                      {Started: time.Time{}},
		"provider 1: no issuer":                   {Providers: []identity.Provider{{}}},
		"no key set and there is no client":       {Providers: []identity.Provider{{Issuer: "https://idp.example"}}},
		`no array "keys"`:                         {Providers: with(func(p *identity.Provider) { p.JWKS = []byte(`{}`) })},
		"no usable key":                           {Providers: with(func(p *identity.Provider) { p.JWKS = []byte(`{"keys":[{"kty":"oct","k":"AA"}]}`) })},
		"JSON at byte":                            {Providers: with(func(p *identity.Provider) { p.JWKS = []byte(`{`) })},
		"101 keys":                                {Providers: with(func(p *identity.Provider) { p.JWKS = manyKeys(101) })},
		"does not name one claim":                 {Providers: with(func(p *identity.Provider) { p.Principal = "user:all" })},
		`"user:{a}{b}" does not name one`:         {Providers: with(func(p *identity.Provider) { p.Principal = "user:{a}{b}" })},
		`"user:{" does not name one`:              {Providers: with(func(p *identity.Provider) { p.Principal = "user:{" })},
		"is configured twice":                     {Providers: []identity.Provider{good, good}},
		"begin alike":                             {Providers: []identity.Provider{good, {Issuer: "https://b.example", JWKS: keys, Principal: "user:b/{sub}"}}},
		"caller 1: has no agent name":             {Callers: []identity.CallerRule{{Key: "x"}}},
		"has 0 identities":                        {Callers: []identity.CallerRule{{Agent: "a"}}},
		"has 2 identities":                        {Callers: []identity.CallerRule{{Agent: "a", Key: "x", MTLS: "y"}}},
		"is not a SPIFFE id":                      {Callers: []identity.CallerRule{{Agent: "a", SPIFFE: "pb.example/a"}}},
		`key:x is both "a" and "b"`:               {Callers: []identity.CallerRule{{Agent: "a", Key: "x"}, {Agent: "b", Key: "x"}}},
		"dev user 1 has no name":                  {Dev: []identity.DevUser{{Token: "long enough"}}},
		"the token is too short":                  {Dev: []identity.DevUser{{Name: "a", Token: "short"}}},
		`"a" and "a" have the same name or token`: {Dev: []identity.DevUser{{Name: "a", Token: "token-of-a"}, {Name: "a", Token: "token-of-b"}}},
		`"a" and "b" have the same name or token`: {Dev: []identity.DevUser{{Name: "a", Token: "token-of-a"}, {Name: "b", Token: "token-of-a"}}},
	} {
		if want != "Started is not set" {
			c.Started = now
		}
		if _, err := identity.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("err = %v; want %q", err, want)
		}
	}
}

func TestClientsOfSeveralProviders(t *testing.T) {
	a, b := newIssuer(t), newIssuer(t)
	pa, pb := a.provider(), b.provider()
	pa.Principal, pb.Principal = "user:a/{sub}", "user:b/{sub}"
	auth := authenticator(t, identity.Config{
		Providers: []identity.Provider{pa, pb},
		Callers:   []identity.CallerRule{{Agent: "orchestrator", Client: a.URL + "#orchestrator"}},
	})
	for _, c := range []struct {
		i                *issuer
		principal, agent string
	}{{a, "user:a/alice", "orchestrator"}, {b, "user:b/alice", ""}} {
		got, _, err := auth.Authenticate(request(t, "Authorization", "Bearer "+c.i.token(t, nil)), audience, now)
		if err != nil || got.Principal != c.principal || got.Agent != c.agent || got.Holder.ID != fmt.Sprintf("client:%s#orchestrator", c.i.URL) {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

func manyKeys(n int) []byte {
	return []byte(`{"keys":[` + strings.Repeat(`{},`, n-1) + `{}]}`)
}

// unsaid is a replay whose store is away.
type unsaid struct{}

func (unsaid) Fresh(string, time.Time, time.Time) (bool, error) {
	return false, errors.New("the database is away")
}

// A proof whose use cannot be looked up does not count as a wrong credential.
func TestSEP11_WhetherAProofWasUsedIsNotKnown(t *testing.T) {
	a := authenticator(t, identity.Config{Replay: unsaid{}})
	_, _, err := a.Authenticate(request(t, "DPoP", proof(t, holderKey(t), "", "1")), audience, now)
	if !errors.Is(err, identity.ErrUnavailable) || errors.Is(err, identity.ErrUnauthenticated) {
		t.Errorf("%v", err)
	}
}
