package identity_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/identity/oidctest"
	"github.com/powerbox-project/powerbox/internal/identity/spiffe"
	"github.com/powerbox-project/powerbox/internal/identity/spiffe/spiffetest"
)

// domains are trust domains with the bundles of now.
func domains(t testing.TB, of ...*spiffetest.Domain) *spiffe.Domains {
	t.Helper()
	var list []config.TrustDomain
	for _, d := range of {
		list = append(list, config.TrustDomain{Name: d.Name.Name(), BundleFile: "bundle", Audience: []string{"https://pb.example/" + d.Name.Name()}, MaximumLifetime: 2 * time.Hour})
	}
	made, err := spiffe.New(list)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range of {
		renew(t, made, d)
	}
	return made
}

// renew puts the bundle that a domain has now in place.
func renew(t testing.TB, in *spiffe.Domains, d *spiffetest.Domain) {
	t.Helper()
	data, err := d.Bundle(t).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range in.Files() {
		if f.Domain == d.Name.Name() {
			if err := f.Use(data); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// withSVID has a request come over a connection with an X.509-SVID, which the handshake verified
// by whichever authority.
func withSVID(r *http.Request, s *x509svid.SVID) *http.Request {
	r.TLS = &tls.ConnectionState{PeerCertificates: s.Certificates, VerifiedChains: [][]*x509.Certificate{s.Certificates}}
	return r
}

var workloadRules = []identity.CallerRule{
	{Agent: "planner", SPIFFE: "spiffe://prod.example/ns/agents/sa/planner"},
	{Agent: "job", SPIFFE: "spiffe://prod.example/job/*"},
	{Agent: "report", SPIFFE: "spiffe://prod.example/job/report"},
	{Agent: "deep", SPIFFE: "spiffe://prod.example/deep/a/*/*"},
	{Agent: "wide", SPIFFE: "spiffe://prod.example/deep/*/*/*"},
	{Agent: "tester", SPIFFE: "spiffe://test.example/ns/agents/sa/planner"},
}

// A SPIFFE id is compared whole, or by whole segments of a fixed number. A stranger's
// certificate proves its id and gives no name; a stranger's token is refused.
func TestSPIFFEIdsAreComparedBySegments(t *testing.T) {
	prod, test := spiffetest.New(t, "prod.example", now), spiffetest.New(t, "test.example", now)
	a := authenticator(t, identity.Config{Domains: domains(t, prod, test), Callers: workloadRules})
	for id, want := range map[string]string{
		"spiffe://prod.example/ns/agents/sa/planner":   "planner",
		"spiffe://prod.example/ns/agents/sa/planner2":  "",
		"spiffe://prod.example/ns/agents/sa/planner/x": "",
		"spiffe://prod.example/ns/agents/sa":           "",
		"spiffe://prod.example/x/ns/agents/sa/planner": "",
		"spiffe://test.example/ns/agents/sa/planner":   "tester",
		"spiffe://prod.example/job/17":                 "job",
		"spiffe://prod.example/job/report":             "report",
		"spiffe://prod.example/job":                    "",
		"spiffe://prod.example/job/17/x":               "",
		"spiffe://prod.example/job17":                  "",
		"spiffe://test.example/job/17":                 "",
		"spiffe://prod.example/deep/a/b/c":             "deep",
		"spiffe://prod.example/deep/b/b/c":             "wide",
		"spiffe://prod.example/deep/a/b":               "",
		"spiffe://prod.example":                        "",
	} {
		of := prod
		if id[len("spiffe://"):][0] == 't' {
			of = test
		}
		got, _, err := a.Authenticate(withSVID(request(t), of.X509(t, id)), audience, now)
		if err != nil || got.Agent != want || got.Holder.ID != id || got.Principal != "" {
			t.Errorf("certificate of %s: %+v, %v; want agent %q", id, got, err, want)
		}
		got, consumed, err := a.Authenticate(request(t, "Authorization", "Bearer "+of.JWT(t, id, audience, nil, nil)), audience, now)
		switch {
		case want == "" && (code(err) != identity.CodeStranger || !consumed):
			t.Errorf("token of %s: %+v, %v; want a stranger refused", id, got, err)
		case want != "" && (err != nil || got.Agent != want || got.Holder.ID != id || got.Principal != "" || !consumed):
			t.Errorf("token of %s: %+v, %v; want agent %q", id, got, err, want)
		}
	}
}

// JWT-SVIDs that do not hold, each refused with its reason.
func TestJWTSVIDsThatAreRefused(t *testing.T) {
	const planner = "spiffe://prod.example/ns/agents/sa/planner"
	prod, other := spiffetest.New(t, "prod.example", now), spiffetest.New(t, "other.example", now)
	a := authenticator(t, identity.Config{Domains: domains(t, prod), Callers: workloadRules})
	jwt := func(differs map[string]any, header map[jose.HeaderKey]any) string {
		return prod.JWT(t, planner, audience, differs, header)
	}
	for name, c := range map[string]struct {
		token string
		want  powerbox.Code
	}{
		"good":                            {jwt(nil, nil), ""},
		"good, for the domain's audience": {prod.JWT(t, planner, "https://pb.example/prod.example", nil, nil), ""},
		"good, without iat":               {jwt(map[string]any{"iat": nil}, nil), ""},
		"good, typ JOSE":                  {jwt(nil, map[jose.HeaderKey]any{"typ": "JOSE"}), ""},
		"expired":                         {jwt(map[string]any{"exp": now.Unix()}, nil), identity.CodeExpired},
		"without exp":                     {jwt(map[string]any{"exp": nil}, nil), identity.CodeClaim},
		"not yet valid":                   {jwt(map[string]any{"nbf": now.Add(time.Minute).Unix()}, nil), identity.CodeNotYetValid},
		"valid for too long":              {jwt(map[string]any{"exp": now.Add(3 * time.Hour).Unix()}, nil), identity.CodeLifetime},
		"valid for too long, without iat": {jwt(map[string]any{"iat": nil, "exp": now.Add(3 * time.Hour).Unix()}, nil), identity.CodeLifetime},
		"valid for too long, iat to come": {jwt(map[string]any{"iat": now.Add(2 * time.Hour).Unix(), "exp": now.Add(3 * time.Hour).Unix()}, nil), identity.CodeLifetime},
		"without kid":                     {jwt(nil, map[jose.HeaderKey]any{"kid": nil}), identity.CodeMalformed},
		"another kid":                     {jwt(nil, map[jose.HeaderKey]any{"kid": "x"}), identity.CodeUnknownKey},
		"another typ":                     {jwt(nil, map[jose.HeaderKey]any{"typ": "at+jwt"}), identity.CodeType},
		"critical header":                 {jwt(nil, map[jose.HeaderKey]any{"crit": []string{"x"}}), identity.CodeMalformed},
		"of another domain's authority":   {other.JWT(t, planner, audience, nil, map[jose.HeaderKey]any{"kid": "authority-1"}), identity.CodeSignature},
		"symmetric":                       {oidctest.Sign(t, jose.HS256, []byte("0123456789abcdef0123456789abcdef"), map[jose.HeaderKey]any{"kid": "authority-1"}, map[string]any{"sub": planner, "aud": audience, "exp": now.Add(time.Minute).Unix()}), identity.CodeAlgorithm},
	} {
		got, consumed, err := a.Authenticate(request(t, "Authorization", "Bearer "+c.token), audience, now)
		if code(err) != c.want || !consumed || (c.want == "") != (got.Agent == "planner") {
			t.Errorf("%s: %+v, consumed = %t, %v; want %q", name, got, consumed, err, c.want)
		}
	}
	for name, aud := range map[string]any{"another": "https://else.example", "none": nil} {
		got, consumed, err := a.Authenticate(request(t, "Authorization", "Bearer "+jwt(map[string]any{"aud": aud}, nil)), audience, now)
		if err != nil || consumed || got.Agent != "" || got.Holder.ID != "" {
			t.Errorf("audience %s: %+v, %t, %v; want a token that is not ours, and no caller", name, got, consumed, err)
		}
	}
}

// An issuer of sessions cannot speak for a workload of a trust domain, and a token
// of an issuer is no SVID of a domain that is not configured.
func TestNoIssuerSpeaksForAWorkload(t *testing.T) {
	i, prod := newIssuer(t), spiffetest.New(t, "prod.example", now)
	rules := append([]identity.CallerRule{{Agent: "orchestrator", Client: "orchestrator"}, {Agent: "foreign", SPIFFE: "spiffe://foreign.example/a"}}, workloadRules...)
	a := authenticator(t, identity.Config{Providers: []identity.Provider{i.provider()}, Domains: domains(t, prod), Callers: rules})
	forged := i.token(t, map[string]any{"sub": "spiffe://prod.example/ns/agents/sa/planner"})
	if _, _, err := a.Authenticate(request(t, "Authorization", "Bearer "+forged), audience, now); code(err) == "" {
		t.Errorf("%v; want a token of an issuer refused that names a workload", err)
	}
	got, _, err := a.Authenticate(request(t, "Authorization", "Bearer "+i.token(t, map[string]any{"sub": "spiffe://foreign.example/a"})), audience, now)
	if err != nil || got.Agent != "orchestrator" || got.Principal != "user:spiffe://foreign.example/a" {
		t.Errorf("%+v, %v; want the subject of an issuer to be its user, and no workload", got, err)
	}
}

// An X.509-SVID counts under the bundle of its own trust domain, as the bundle is at
// the time of the request.
func TestX509SVIDsAreOfTheirDomainsBundle(t *testing.T) {
	const planner = "spiffe://prod.example/ns/agents/sa/planner"
	prod, test := spiffetest.New(t, "prod.example", now), spiffetest.New(t, "test.example", now)
	in := domains(t, prod, test)
	a := authenticator(t, identity.Config{Domains: in, Callers: workloadRules})
	is := func(name string, s *x509svid.SVID, at time.Time, good bool) {
		t.Helper()
		got, _, err := a.Authenticate(withSVID(request(t), s), audience, at)
		if good && (err != nil || got.Agent != "planner") || !good && code(err) != identity.CodeCertificate {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	mine := prod.X509(t, planner)
	is("its own", mine, now, true)
	is("its own, again", mine, now, true)
	is("expired", mine, now.Add(time.Hour), false)
	is("not yet valid", mine, now.Add(-time.Hour), false)
	is("signed by another domain", test.X509(t, planner), now, false)
	is("valid for too long", prod.X509(t, planner, func(c *x509.Certificate) { c.NotAfter = now.Add(3 * time.Hour) }), now, false)
	is("an authority", prod.X509(t, planner, func(c *x509.Certificate) { c.IsCA = true; c.KeyUsage |= x509.KeyUsageCertSign }), now, false)
	next := prod.Rotated(t)
	renew(t, in, next)
	is("after the rotation, the old one", mine, now, false)
	is("after the rotation, a new one", next.X509(t, planner), now, true)
	for _, f := range in.Files() {
		f.Drop()
	}
	is("without a bundle", next.X509(t, planner), now, false)
	if _, _, err := a.Authenticate(request(t, "Authorization", "Bearer "+next.JWT(t, planner, audience, nil, nil)), audience, now); code(err) != identity.CodeUnknownKey {
		t.Errorf("%v; want no JWT-SVID without a bundle", err)
	}
}

// A rule for the claims of a token names its agent, and takes the subject for the agent
// itself if it is among them.
func TestTokensNameAgentsByTheirClaims(t *testing.T) {
	i := newIssuer(t)
	rules := []identity.CallerRule{
		{Agent: "robot", Issuer: i.URL, Claims: map[string]string{"sub": "system:serviceaccount:agents:robot"}},
		{Agent: "exchanged", Issuer: i.URL, Claims: map[string]string{"azp": "broker", "/act/sub": "mailer"}},
		{Agent: "broker", Issuer: i.URL, Claims: map[string]string{"azp": "broker"}},
		{Agent: "elsewhere", Issuer: "https://else.example", Claims: map[string]string{"sub": "alice"}},
	}
	a := authenticator(t, identity.Config{Providers: []identity.Provider{i.provider()}, Callers: rules})
	for name, c := range map[string]struct {
		differs          map[string]any
		agent, principal string
		holder           string
	}{
		"a service account":          {map[string]any{"sub": "system:serviceaccount:agents:robot", "azp": nil}, "robot", "", "token:" + i.URL + "#sub=system%3Aserviceaccount%3Aagents%3Arobot"},
		"another's":                  {map[string]any{"sub": "system:serviceaccount:agents:robots", "azp": nil}, "", "user:system:serviceaccount:agents:robots", ""},
		"a person by an agent":       {map[string]any{"azp": "broker"}, "broker", "user:alice", "token:" + i.URL + "#azp=broker"},
		"a person by an actor":       {map[string]any{"azp": "broker", "act": map[string]any{"sub": "mailer"}}, "exchanged", "user:alice", "token:" + i.URL + "#%2Fact%2Fsub=mailer&azp=broker"},
		"an earlier actor":           {map[string]any{"azp": "broker", "act": map[string]any{"sub": "x", "act": map[string]any{"sub": "mailer"}}}, "broker", "user:alice", "token:" + i.URL + "#azp=broker"},
		"a claim that is no text":    {map[string]any{"azp": nil, "sub": "bob", "act": map[string]any{"sub": []string{"mailer"}}}, "", "user:bob", ""},
		"the rule of another issuer": {map[string]any{"azp": nil}, "", "user:alice", ""},
	} {
		got, _, err := a.Authenticate(request(t, "Authorization", "Bearer "+i.token(t, c.differs)), audience, now)
		if err != nil || got.Agent != c.agent || got.Principal != c.principal || got.Holder.ID != c.holder {
			t.Errorf("%s: %+v, %v; want agent %q, principal %q, holder %q", name, got, err, c.agent, c.principal, c.holder)
		}
		if c.principal == "" && (len(got.Groups)+len(got.Roles)+len(got.Attributes) > 0 || got.SessionExpires.IsZero()) {
			t.Errorf("%s: %+v; want nothing of a person", name, got)
		}
	}
}

// Tokens of an issuer of programs name an agent or are refused, and make no person's session.
func TestTokensOfProgramsAreOfNoPerson(t *testing.T) {
	i := newIssuer(t)
	p := i.provider()
	p.Programs = true
	a := authenticator(t, identity.Config{
		Providers: []identity.Provider{p}, People: identity.People{Audience: "https://pb.example/approve"},
		Callers: []identity.CallerRule{{Agent: "robot", Issuer: i.URL, Claims: map[string]string{"/sub": "robot"}}},
	})
	got, _, err := a.Authenticate(request(t, "Authorization", "Bearer "+i.token(t, map[string]any{"sub": "robot"})), audience, now)
	if err != nil || got.Agent != "robot" || got.Principal != "" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, consumed, err := a.Authenticate(request(t, "Authorization", "Bearer "+i.token(t, nil)), audience, now); code(err) != identity.CodeStranger || !consumed {
		t.Errorf("%v; want a program without a rule refused", err)
	}
	for _, aud := range []string{"https://pb.example/approve", audience} {
		for _, sub := range []string{"alice", "robot"} {
			own := i.token(t, map[string]any{"aud": aud, "sub": sub})
			if who, err := a.Person(request(t, "Authorization", "Bearer "+own), audience, now); code(err) != identity.CodePerson {
				t.Errorf("%s for %s: %+v, %v; want a program's token to be no person's session", sub, aud, who, err)
			}
		}
	}
}

// Of an issuer of people, a token that a rule takes for an agent's own is no
// person's session.
func TestAnAgentsOwnTokenIsNoPersonsSession(t *testing.T) {
	i := newIssuer(t)
	a := authenticator(t, identity.Config{
		Providers: []identity.Provider{i.provider()}, People: identity.People{Audience: "https://pb.example/approve"},
		Callers: []identity.CallerRule{{Agent: "robot", Issuer: i.URL, Claims: map[string]string{"sub": "robot"}}},
	})
	for sub, want := range map[string]powerbox.Code{"alice": "", "robot": identity.CodePerson} {
		own := i.token(t, map[string]any{"aud": "https://pb.example/approve", "sub": sub, "azp": nil})
		if who, err := a.Person(request(t, "Authorization", "Bearer "+own), audience, now); code(err) != want {
			t.Errorf("%s: %+v, %v; want %q", sub, who, err, want)
		}
		own = i.token(t, map[string]any{"aud": "pages", "sub": sub, "azp": nil})
		if who, err := a.IDToken(t.Context(), own, "pages", now); code(err) != want {
			t.Errorf("ID token of %s: %+v, %v; want %q", sub, who, err, want)
		}
	}
}

// A client of one issuer cannot take the name of another issuer's client, nor of a
// holder of another kind.
func TestNoClientIsAnotherIssuersClient(t *testing.T) {
	i := newIssuer(t)
	a := authenticator(t, identity.Config{Providers: []identity.Provider{i.provider()}, Callers: []identity.CallerRule{
		{Agent: "own", Client: "https://pb.example#inspector"}, {Agent: "planner", SPIFFE: "spiffe://prod.example/planner"}, {Agent: "key", Key: "x"},
	}})
	for _, azp := range []string{"https://pb.example#inspector", "spiffe://prod.example/planner", "key:x", "token:" + i.URL + "#sub=alice"} {
		got, _, err := a.Authenticate(request(t, "Authorization", "Bearer "+i.token(t, map[string]any{"azp": azp})), audience, now)
		if err != nil || got.Agent != "" || got.Holder.ID == "client:https://pb.example#inspector" {
			t.Errorf("azp %s: %+v, %v; want a stranger", azp, got, err)
		}
	}
}

// The lifetime of an issuer's tokens is bounded, and its key set can change and go.
func TestLifetimeAndKeysOfAnIssuer(t *testing.T) {
	i := newIssuer(t)
	p := i.provider()
	p.MaximumLifetime, p.JWKS = 2*time.Hour, jwks(t, i.rsa.Public(), "one")
	a := authenticator(t, identity.Config{Providers: []identity.Provider{p}})
	is := func(name string, differs map[string]any, want powerbox.Code) {
		t.Helper()
		if _, _, err := a.Authenticate(request(t, "Authorization", "Bearer "+i.token(t, differs)), audience, now); code(err) != want {
			t.Errorf("%s: %v; want %q", name, err, want)
		}
	}
	is("good", nil, "")
	is("too long", map[string]any{"exp": now.Add(2*time.Hour + time.Second).Unix()}, identity.CodeLifetime)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Rekey(i.URL, jwks(t, other.Public(), "one")); err != nil {
		t.Fatal(err)
	}
	is("of the key before", nil, identity.CodeAlgorithm)
	if err := a.Rekey(i.URL, jwks(t, i.rsa.Public(), "one")); err != nil {
		t.Fatal(err)
	}
	is("good again", nil, "")
	if err := a.Rekey(i.URL, []byte("{}")); err == nil {
		t.Error("a key set without keys is taken over")
	}
	is("after a key set that is none", nil, identity.CodeKeysUnavailable)
	a.Unkey(i.URL)
	is("without a key set", nil, identity.CodeKeysUnavailable)
	if err := a.Rekey("https://else.example", nil); err == nil {
		t.Error("a key set of an issuer that is not configured is taken over")
	}
}

func jwks(t testing.TB, key any, kid string) []byte {
	t.Helper()
	data, err := (&jose.JSONWebKey{Key: key, KeyID: kid, Use: "sig"}).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return append(append([]byte(`{"keys":[`), data...), `]}`...)
}
