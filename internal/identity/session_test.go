package identity_test

import (
	"crypto"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/identity/oidctest"
	"github.com/powerbox-project/powerbox/token"
)

var sameKey = cmp.Comparer(func(a, b token.PublicKey) bool { return a == b })

func TestSessionOfAProvider(t *testing.T) {
	i := newIssuer(t)
	a := authenticator(t, identity.Config{Providers: []identity.Provider{i.provider()}, Callers: []identity.CallerRule{{Agent: "orchestrator", Client: "orchestrator"}}})
	got, consumed, err := a.Authenticate(request(t, "Authorization", "Bearer "+i.token(t, nil)), audience, now)
	if err != nil || !consumed {
		t.Fatalf("consumed = %v, err = %v", consumed, err)
	}
	want := identity.Caller{
		Principal: "user:alice", Groups: []string{"finance"}, Roles: []string{"reader"},
		Attributes: map[string]powerbox.Value{"department": powerbox.String("accounts")},
		Holder:     identity.Holder{ID: "client:orchestrator"}, Agent: "orchestrator",
		SessionExpires: now.Add(time.Hour).UTC(), Authenticated: now.UTC(),
	}
	if diff := cmp.Diff(want, got, sameKey); diff != "" {
		t.Error(diff)
	}
}

// TestAAPA6_WhenAPersonLoggedIn: a session says when its person logged in, which a
// refreshed token does not make later.
func TestAAPA6_WhenAPersonLoggedIn(t *testing.T) {
	i := newIssuer(t)
	a := authenticator(t, identity.Config{Providers: []identity.Provider{i.provider()}})
	before := now.Add(-time.Hour)
	for name, c := range map[string]struct {
		differs map[string]any
		want    time.Time
	}{
		"said":                       {map[string]any{"auth_time": before.Unix()}, before},
		"not said":                   {map[string]any{"iat": before.Unix()}, before},
		"later than the token":       {map[string]any{"auth_time": now.Add(time.Hour).Unix()}, now},
		"said in a way that is none": {map[string]any{"auth_time": "just now"}, time.Time{}},
	} {
		got, _, err := a.Authenticate(request(t, "Authorization", "Bearer "+i.token(t, c.differs)), audience, now)
		if err != nil || !got.Authenticated.Equal(c.want) {
			t.Errorf("AAP-A6 %s: %s, %v; want %s", name, got.Authenticated, err, c.want)
		}
	}
}

func TestSessionAudiences(t *testing.T) {
	i := newIssuer(t)
	a := authenticator(t, identity.Config{Providers: []identity.Provider{i.provider()}})
	for name, aud := range map[string]any{
		"agent": audience, "server": "https://pb.example", "one of several": []any{"https://other.example", audience}, "beside nonsense": []any{1, audience},
	} {
		c, consumed, err := a.Authenticate(request(t, "Authorization", "bearer  "+i.token(t, map[string]any{"aud": aud})), audience, now)
		if err != nil || !consumed || c.Principal != "user:alice" {
			t.Errorf("%s: caller = %+v, consumed = %v, err = %v", name, c, consumed, err)
		}
	}
}

// A value that does not name us passes untouched and identifies no user.
func TestATK35_ForeignAuthorizationIsNotOurs(t *testing.T) {
	i, other := newIssuer(t), newIssuer(t)
	a := authenticator(t, identity.Config{Providers: []identity.Provider{i.provider()}, Dev: []identity.DevUser{{Name: "dev", Token: "dev-token"}}})
	for name, value := range map[string]string{
		"other scheme":                     "Basic YWxpY2U6cGFzcw==",
		"no token":                         "Bearer",
		"empty":                            "",
		"opaque":                           "Bearer 0123456789",
		"three parts and no JWT":           "Bearer a.b.c",
		"our issuer, upstream's audience":  "Bearer " + i.token(t, map[string]any{"aud": "https://upstream.example"}),
		"our issuer, another agent":        "Bearer " + i.token(t, map[string]any{"aud": "https://pb.example/agents/mail"}),
		"our issuer, audience below ours":  "Bearer " + i.token(t, map[string]any{"aud": audience + "/x"}),
		"our issuer, no audience":          "Bearer " + i.token(t, map[string]any{"aud": nil}),
		"other issuer":                     "Bearer " + other.token(t, map[string]any{"aud": "https://upstream.example"}),
		"bound to a key, foreign all over": "DPoP " + other.token(t, map[string]any{"aud": "https://upstream.example"}),
	} {
		t.Run(name, func(t *testing.T) {
			c, consumed, err := a.Authenticate(request(t, "Authorization", value), audience, now)
			if err != nil || consumed {
				t.Errorf("consumed = %v, err = %v; want a foreign value that decides nothing", consumed, err)
			}
			if diff := cmp.Diff(identity.Caller{}, c, sameKey); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What names us is ours even where it does not hold, and is never forwarded.
func TestATK35_BadTokensOfOursAreConsumed(t *testing.T) {
	i, other := newIssuer(t), newIssuer(t)
	a := authenticator(t, identity.Config{Providers: []identity.Provider{i.provider()}})
	seconds := func(d time.Duration) int64 { return now.Add(d).Unix() }
	for name, c := range map[string]struct {
		claims map[string]any
		want   powerbox.Code
	}{
		"expired now":             {map[string]any{"exp": seconds(0)}, identity.CodeExpired},
		"expiry missing":          {map[string]any{"exp": nil}, identity.CodeClaim},
		"expiry text":             {map[string]any{"exp": "9999999999"}, identity.CodeClaim},
		"expiry beyond time":      {map[string]any{"exp": int64(1) << 62}, identity.CodeClaim},
		"issued in the future":    {map[string]any{"iat": seconds(31 * time.Second)}, identity.CodeNotYetValid},
		"issue time missing":      {map[string]any{"iat": nil}, identity.CodeClaim},
		"not yet valid":           {map[string]any{"nbf": seconds(31 * time.Second)}, identity.CodeNotYetValid},
		"not before as text":      {map[string]any{"nbf": "0"}, identity.CodeClaim},
		"subject missing":         {map[string]any{"sub": nil}, identity.CodeClaim},
		"subject a number":        {map[string]any{"sub": 7}, identity.CodeClaim},
		"subject endless":         {map[string]any{"sub": strings.Repeat("a", 256)}, identity.CodeClaim},
		"subject of two lines":    {map[string]any{"sub": "alice\nbob"}, identity.CodeClaim},
		"logout token":            {map[string]any{"events": map[string]any{}}, identity.CodeType},
		"groups an object":        {map[string]any{"groups": map[string]any{}}, identity.CodeClaim},
		"groups of numbers":       {map[string]any{"groups": []any{1}}, identity.CodeClaim},
		"roles a number":          {map[string]any{"realm_access": map[string]any{"roles": 1}}, identity.CodeClaim},
		"bound to a key":          {map[string]any{"cnf": map[string]any{"jkt": "x"}}, identity.CodeProofMissing},
		"bound to a certificate":  {map[string]any{"cnf": map[string]any{"x5t#S256": "x"}}, identity.CodeCertificate},
		"bound by something else": {map[string]any{"cnf": map[string]any{"kid": "x"}}, identity.CodeClaim},
		"bound by nothing":        {map[string]any{"cnf": map[string]any{}}, identity.CodeClaim},
		"bound to a number":       {map[string]any{"cnf": map[string]any{"jkt": 1}}, identity.CodeClaim},
		"issuer missing":          {map[string]any{"iss": nil}, identity.CodeUnknownIssuer},
		"issuer with a slash":     {map[string]any{"iss": i.URL + "/"}, identity.CodeUnknownIssuer},
	} {
		t.Run(name, func(t *testing.T) { wantRefused(t, a, "Bearer "+i.token(t, c.claims), c.want) })
	}
	good := i.token(t, nil)
	parts := strings.Split(good, ".")
	for name, c := range map[string]struct {
		token string
		want  powerbox.Code
	}{
		"other issuer":     {other.token(t, nil), identity.CodeUnknownIssuer},
		"signature cut":    {good[:len(good)-8], identity.CodeSignature},
		"signature of all": {parts[0] + "." + parts[1] + ".!", identity.CodeMalformed},
		"claims not JSON":  {parts[0] + ".e30x." + parts[2], identity.CodeMalformed},
		"claims a list":    {parts[0] + ".W10." + parts[2], identity.CodeMalformed},
		"key of another": {
			oidctest.Sign(t, jose.RS256, other.rsa, map[jose.HeaderKey]any{"kid": "one"}, i.claims(nil)), identity.CodeSignature,
		},
		"endless": {i.token(t, map[string]any{"x": strings.Repeat("x", 32<<10)}), identity.CodeMalformed},
	} {
		t.Run(name, func(t *testing.T) { wantRefused(t, a, "Bearer "+c.token, c.want) })
	}
}

func wantRefused(t *testing.T, a *identity.Authenticator, authorization string, want powerbox.Code) {
	t.Helper()
	c, consumed, err := a.Authenticate(request(t, "Authorization", authorization), audience, now)
	var refused *identity.Error
	if !errors.As(err, &refused) || !errors.Is(err, identity.ErrUnauthenticated) || !errors.Is(err, powerbox.ErrDenied) {
		t.Fatalf("err = %v; want ErrUnauthenticated and ErrDenied", err)
	}
	if refused.Code != want || !consumed {
		t.Errorf("code = %s (%v), consumed = %v; want %s and consumed", refused.Code, err, consumed, want)
	}
	if diff := cmp.Diff(identity.Caller{}, c, sameKey); diff != "" {
		t.Error("a refused token made a caller:", diff)
	}
}

// The key is the issuer's, found by an opaque id; whatever else the header
// says about keys is not looked at.
func TestATK14_HeaderChoosesNoKey(t *testing.T) {
	i, other := newIssuer(t), newIssuer(t)
	a := authenticator(t, identity.Config{Providers: []identity.Provider{i.provider()}})
	embedded := jose.JSONWebKey{Key: other.rsa.Public()}
	for name, c := range map[string]struct {
		header map[jose.HeaderKey]any
		want   powerbox.Code
	}{
		"embedded key":       {map[jose.HeaderKey]any{"kid": "one", "jwk": embedded}, identity.CodeSignature},
		"key set elsewhere":  {map[jose.HeaderKey]any{"kid": "one", "jku": other.URL + "/keys"}, identity.CodeSignature},
		"certificate":        {map[jose.HeaderKey]any{"kid": "one", "x5u": other.URL}, identity.CodeSignature},
		"no key id":          {map[jose.HeaderKey]any{"jwk": embedded}, identity.CodeSignature},
		"path as key id":     {map[jose.HeaderKey]any{"kid": "../../../../dev/null"}, identity.CodeUnknownKey},
		"query as key id":    {map[jose.HeaderKey]any{"kid": "one' OR '1'='1"}, identity.CodeUnknownKey},
		"key id a number":    {map[jose.HeaderKey]any{"kid": 1}, identity.CodeMalformed},
		"type of a DPoP":     {map[jose.HeaderKey]any{"kid": "one", "typ": "dpop+jwt"}, identity.CodeType},
		"type of a token":    {map[jose.HeaderKey]any{"kid": "one", "typ": "aat+jwt"}, identity.CodeType},
		"type a number":      {map[jose.HeaderKey]any{"kid": "one", "typ": 1}, identity.CodeType},
		"compressed":         {map[jose.HeaderKey]any{"kid": "one", "zip": "DEF"}, identity.CodeMalformed},
		"critical extension": {map[jose.HeaderKey]any{"kid": "one", "crit": []string{"x"}}, identity.CodeMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			wantRefused(t, a, "Bearer "+oidctest.Sign(t, jose.RS256, other.rsa, c.header, i.claims(nil)), c.want)
		})
	}
	if n := other.Fetches.Load(); n != 0 {
		t.Errorf("the key set that a header named was fetched %d times", n)
	}
}

func TestTheKeyDecidesTheAlgorithm(t *testing.T) {
	i := newIssuer(t)
	published := []jose.JSONWebKey{
		{Key: i.rsa.Public(), KeyID: "RS256", Algorithm: "RS256"},
		{Key: []byte("a secret of thirty-two bytes or so"), KeyID: "HS256"},
		{Key: i.rsa.Public(), KeyID: "enc", Use: "enc"},
	}
	keys := otherKeys(t)
	for alg, k := range keys {
		published = append(published, jose.JSONWebKey{Key: k.(crypto.Signer).Public(), KeyID: string(alg)})
	}
	i.Publish(published...)
	a := authenticator(t, identity.Config{Providers: []identity.Provider{i.provider()}})
	for alg, k := range keys {
		raw := oidctest.Sign(t, alg, k, map[jose.HeaderKey]any{"kid": string(alg)}, i.claims(nil))
		if c, _, err := a.Authenticate(request(t, "Authorization", "Bearer "+raw), audience, now); err != nil || c.Principal != "user:alice" {
			t.Errorf("%s: %v", alg, err)
		}
		raw = oidctest.Sign(t, alg, k, nil, i.claims(nil))
		if _, _, err := a.Authenticate(request(t, "Authorization", "Bearer "+raw), audience, now); err != nil {
			t.Errorf("%s without a key id: %v", alg, err)
		}
		wantRefused(t, a, "Bearer "+oidctest.Sign(t, alg, k, map[jose.HeaderKey]any{"kid": "RS256"}, i.claims(nil)), identity.CodeAlgorithm)
	}
	wantRefused(t, a, "Bearer "+oidctest.Sign(t, jose.PS256, i.rsa, map[jose.HeaderKey]any{"kid": "RS256"}, i.claims(nil)), identity.CodeAlgorithm)
	wantRefused(t, a, "Bearer "+oidctest.Sign(t, jose.RS256, i.rsa, map[jose.HeaderKey]any{"kid": "enc"}, i.claims(nil)), identity.CodeUnknownKey)
	secret := []byte("a secret of thirty-two bytes or so")
	wantRefused(t, a, "Bearer "+oidctest.Sign(t, jose.HS256, secret, map[jose.HeaderKey]any{"kid": "HS256"}, i.claims(nil)), identity.CodeUnknownKey)
}

func TestKeysAreFetchedWhenNeededAndNotMore(t *testing.T) {
	i := newIssuer(t)
	a := authenticator(t, identity.Config{Providers: []identity.Provider{i.provider()}})
	at := now
	try := func(kid string) powerbox.Code {
		claims := i.claims(map[string]any{"iat": at.Unix(), "exp": at.Add(time.Hour).Unix()})
		raw := oidctest.Sign(t, jose.RS256, i.rsa, map[jose.HeaderKey]any{"kid": kid}, claims)
		_, _, err := a.Authenticate(request(t, "Authorization", "Bearer "+raw), audience, at)
		var refused *identity.Error
		if errors.As(err, &refused) {
			return refused.Code
		}
		return ""
	}
	for _, step := range []struct {
		name    string
		after   time.Duration
		broken  bool
		kid     string
		want    powerbox.Code
		fetches int32
	}{
		{"the first token fetches", 0, false, "one", "", 1},
		{"the second does not", 0, false, "one", "", 1},
		{"an unknown key soon after does not", time.Second, false, "two", identity.CodeUnknownKey, 1},
		{"an unknown key later does", 30 * time.Second, false, "two", identity.CodeUnknownKey, 2},
		{"and not again at once", 0, false, "two", identity.CodeUnknownKey, 2},
		{"a set of some age is fetched again", 10 * time.Minute, false, "one", "", 3},
		{"and kept for a while when that fails", 10 * time.Minute, true, "one", "", 4},
		{"and not for ever", time.Hour, true, "one", identity.CodeKeysUnavailable, 5},
		{"until it works again", 30 * time.Second, false, "one", "", 6},
	} {
		at = at.Add(step.after)
		i.Broken.Store(step.broken)
		if got := try(step.kid); got != step.want || i.Fetches.Load() != step.fetches {
			t.Errorf("%s: code %q after %d fetches; want %q after %d", step.name, got, i.Fetches.Load(), step.want, step.fetches)
		}
	}
}

func TestKeysAreFetchedOnceForAll(t *testing.T) {
	i := newIssuer(t)
	a := authenticator(t, identity.Config{Providers: []identity.Provider{i.provider()}})
	raw := i.token(t, nil)
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			if _, _, err := a.Authenticate(request(t, "Authorization", "Bearer "+raw), audience, now); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := i.Fetches.Load(); n > 2 {
		t.Errorf("%d fetches for 32 callers at once", n)
	}
}

func TestSessionOfAKeySetFile(t *testing.T) {
	i := newIssuer(t)
	file, err := jose.JSONWebKey{Key: i.rsa.Public(), KeyID: "one"}.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	p := i.provider()
	p.JWKS = []byte(`{"keys":[{"kty":"new","kid":"one"},` + string(file) + `]}`)
	a := authenticator(t, identity.Config{Providers: []identity.Provider{p}})
	if _, _, err := a.Authenticate(request(t, "Authorization", "Bearer "+i.token(t, nil)), audience, now); err != nil || i.Fetches.Load() != 0 {
		t.Errorf("err = %v after %d fetches; want none", err, i.Fetches.Load())
	}
}

func TestPrincipalNamedByEmail(t *testing.T) {
	i := newIssuer(t)
	p := i.provider()
	p.Principal = "user:{email}"
	a := authenticator(t, identity.Config{Providers: []identity.Provider{p}})
	c, _, err := a.Authenticate(request(t, "Authorization", "Bearer "+i.token(t, map[string]any{"email": "a@b.example", "email_verified": true})), audience, now)
	if err != nil || c.Principal != "user:a@b.example" {
		t.Errorf("principal = %q, err = %v", c.Principal, err)
	}
	wantRefused(t, a, "Bearer "+i.token(t, map[string]any{"email": "a@b.example"}), identity.CodeClaim)
	wantRefused(t, a, "Bearer "+i.token(t, map[string]any{"email": "a@b.example", "email_verified": "true"}), identity.CodeClaim)
}

func TestDiscoveryOfAnotherIssuerIsRefused(t *testing.T) {
	i, liar := newIssuer(t), newIssuer(t)
	p := i.provider()
	p.Issuer = liar.URL + "/" // whose document says it without the slash
	a := authenticator(t, identity.Config{Providers: []identity.Provider{p}})
	wantRefused(t, a, "Bearer "+i.token(t, map[string]any{"iss": p.Issuer}), identity.CodeKeysUnavailable)
}
