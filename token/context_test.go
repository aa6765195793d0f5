package token

import (
	"crypto/elliptic"
	"encoding/base64"
	"errors"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
)

const contextBody = `{"jsonrpc":"2.0","id":1,"method":"SendMessage"}`

// contextOf is a context in which every claim is used.
func contextOf(t testing.TB) Context {
	t.Helper()
	authority, err := powerbox.NewAuthority(powerbox.Window{Until: at.Add(time.Hour)}, 2, tools(t, readAndSearch)...)
	if err != nil {
		t.Fatal(err)
	}
	return Context{
		Issuer: "https://agent.example", Audience: "documents", IssuedAt: at.UTC(), Expires: at.Add(time.Minute).UTC(),
		Principal: "user:alice", Holder: "key:abc", Capability: "cap-1", Root: "root-1", Mode: "require",
		Basis: "capability", Decision: "d-1", Task: "t-1", Authority: authority,
		Handles:   map[string]ContextHandle{"h1": {ID: "q1-sales", Name: "Q1 Sales"}, "h2": {ID: "q1-financial"}},
		Delegated: []ContextDelegation{{"https://mail.example", "cap-2"}, {"https://mail.example", "cap-3"}},
		Labels:    []ContextLabel{{Source: "mail", Untrusted: true}, {Source: "ledger", Confidential: true}},
		Digest:    DigestOf([]byte(contextBody)),
	}
}

var contextsEqual = cmp.Comparer(func(a, b powerbox.Authority) bool { return a.Equal(b) })

func TestContextRoundTrip(t *testing.T) {
	full := contextOf(t)
	short := Context{
		Issuer: full.Issuer, Audience: full.Audience, IssuedAt: full.IssuedAt, Expires: full.Expires,
		Mode: "observe", Basis: "ambient", Digest: full.Digest,
	}
	none := short
	none.Handles = map[string]ContextHandle{}
	for name, c := range map[string]Context{"full": full, "short": short, "no handle": none} {
		for _, algorithm := range []Algorithm{Ed25519, ES256} {
			key := keyOf(t, "issuer", algorithm)
			compact, err := SignContext(key, c)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			keys, err := ParseKeySet([]byte(JWKS(keyOf(t, "other", Ed25519).Public(), key.Public()).String()))
			if err != nil {
				t.Fatal(err)
			}
			got, err := VerifyContext(compact, keys, "documents", at.Add(59*time.Second), []byte(contextBody))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if diff := cmp.Diff(c, got, contextsEqual); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
}

// Every attack changes one thing of a good context, or of what it is compared
// with.
func TestATK13_ContextAttacks(t *testing.T) {
	key := keyOf(t, "issuer", Ed25519)
	good := contextOf(t)
	type request struct {
		compact, audience, body string
		now                     time.Time
		keys                    KeySet
	}
	header := `{"alg":"EdDSA","typ":"powerbox-context+jwt"}`
	payload := good.value().String()
	forged := func(header, payload string) string {
		signed := encodeBase64([]byte(header)) + "." + encodeBase64([]byte(payload))
		signature, err := key.Sign([]byte(signed))
		if err != nil {
			t.Fatal(err)
		}
		return signed + "." + encodeBase64(signature)
	}
	claims := func(old, replacement string) func(*request) {
		if !strings.Contains(payload, old) {
			t.Fatalf("no %s in %s", old, payload)
		}
		return func(r *request) { r.compact = forged(header, strings.Replace(payload, old, replacement, 1)) }
	}
	cases := []struct {
		name   string
		change func(*request)
		want   powerbox.Code
	}{
		{"unchanged", func(*request) {}, ""},
		{"absent", func(r *request) { r.compact = "" }, CodeMissingClaim},
		{"not a JWS", func(r *request) { r.compact = "a.b" }, CodeMalformed},
		{"typ missing", func(r *request) { r.compact = forged(`{"alg":"EdDSA"}`, payload) }, CodeType},
		{"typ JWT", func(r *request) { r.compact = forged(`{"alg":"EdDSA","typ":"JWT"}`, payload) }, CodeType},
		{"typ of a token", func(r *request) { r.compact = forged(`{"alg":"EdDSA","typ":"aat+jwt"}`, payload) }, CodeType},
		{"key that nobody knows", func(r *request) { r.keys = NewKeySet(keyOf(t, "other", Ed25519).Public()) }, CodeSignature},
		{"no keys", func(r *request) { r.keys = KeySet{} }, CodeUnknownKey},
		{"other audience", func(r *request) { r.audience = "mail" }, CodeProofAudience},
		{"no audience", func(r *request) { r.audience = "" }, CodeProofAudience},
		{"expired", func(r *request) { r.now = at.Add(time.Minute) }, CodeExpired},
		{"from the future", func(r *request) { r.now = at.Add(-31 * time.Second) }, CodeNotYetValid},
		{"other body", func(r *request) { r.body += " " }, CodeProofRequest},
		{"claim unknown", claims(`"aud"`, `"only":"x","aud"`), CodeMalformed},
		{"mode missing", claims(`"mode":"require",`, ``), CodeMissingClaim},
		{"principal a number", claims(`"user:alice"`, `1`), CodeMalformed},
		{"iat missing", claims(`"iat":1800000000,`, ``), CodeMissingClaim},
		{"exp before iat", claims(`"exp":1800000060`, `"exp":1800000000`), CodeLifetime},
		{"exp far off", claims(`"exp":1800000060`, `"exp":1800000301`), CodeLifetime},
		{"req missing", claims(`"req":`, `"handles":`), CodeMalformed},
		{"digest missing", claims(`"d":`, `"e":`), CodeMissingClaim},
		{"authority unreadable", claims(`"authority":{`, `"authority":{"all":true,`), CodeMalformed},
		{"handles a list", claims(`"handles":{`, `"handles":[],"task":{`), CodeMalformed},
		{"handle without id", claims(`"id":"q1-financial",`, ``), CodeMissingClaim},
		{"delegated no array", func(r *request) {
			c := good
			c.Delegated = nil
			r.compact = forged(header, strings.Replace(c.value().String(), `"iat"`, `"delegated":{},"iat"`, 1))
		}, CodeMalformed},
		{"delegated without agent", claims(`"agent":`, `"name":`), CodeMissingClaim},
		{"labels no array", func(r *request) {
			c := good
			c.Labels = nil
			r.compact = forged(header, strings.Replace(c.value().String(), `"iat"`, `"labels":{},"iat"`, 1))
		}, CodeMalformed},
		{"label without source", claims(`"source":"mail"`, `"origin":"mail"`), CodeMalformed},
		{"label of another trust", claims(`"trust":"untrusted"`, `"trust":"some"`), CodeMalformed},
		{"label with a member more", claims(`"trust":"untrusted"`, `"trust":"untrusted","until":1`), CodeMalformed},
		{"confidential no truth value", claims(`"confidential":true`, `"confidential":1`), CodeMalformed},
		{"handles no object", func(r *request) {
			c := good
			c.Handles = nil
			r.compact = forged(header, strings.Replace(c.value().String(), `"iat"`, `"handles":[],"iat"`, 1))
		}, CodeMalformed},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := request{forged(header, payload), "documents", contextBody, at, NewKeySet(key.Public())}
			c.change(&r)
			_, err := VerifyContext(r.compact, r.keys, r.audience, r.now, []byte(r.body))
			if diff := cmp.Diff(c.want, codeOf(err)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if err != nil && !errors.Is(err, powerbox.ErrDenied) {
				t.Errorf("%v is no denial", err)
			}
		})
	}
}

// A context is never taken for a token or a proof of the same key.
func TestATK13_ContextIsNoToken(t *testing.T) {
	compact, err := SignContext(keyOf(t, "issuer", Ed25519), contextOf(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseChain([]string{compact}); codeOf(err) != CodeType {
		t.Errorf("as a token: %v; want %s", err, CodeType)
	}
	f := newFamily(t, 0)
	if _, err := f.verify(t).CheckProof(compact, Expected{Now: at}); codeOf(err) != CodeType {
		t.Errorf("as a proof: %v; want %s", err, CodeType)
	}
}

// value is what appendJSON writes, by way of an object.
func (c Context) value() powerbox.Value {
	ms := []powerbox.Member{
		{Name: "iat", Value: number(c.IssuedAt.Unix())},
		{Name: "exp", Value: number(c.Expires.Unix())},
		{Name: "authority", Value: c.Authority.JSON()},
		{Name: "req", Value: powerbox.Object(textMember("d", c.Digest))},
	}
	for _, t := range c.texts() {
		if *t.text != "" {
			ms = append(ms, textMember(t.name, *t.text))
		}
	}
	if len(c.Delegated) > 0 {
		delegated := make([]powerbox.Value, len(c.Delegated))
		for i, d := range c.Delegated {
			delegated[i] = powerbox.Object(textMember("agent", d.Agent), textMember("capability", d.Capability))
		}
		ms = append(ms, powerbox.Member{Name: "delegated", Value: powerbox.List(delegated...)})
	}
	if len(c.Labels) > 0 {
		labels := make([]powerbox.Value, len(c.Labels))
		for i, l := range c.Labels {
			labels[i] = powerbox.Object(powerbox.Member{Name: "confidential", Value: powerbox.Bool(l.Confidential)}, textMember("source", l.Source), textMember("trust", trustOf[l.Untrusted]))
		}
		ms = append(ms, powerbox.Member{Name: "labels", Value: powerbox.List(labels...)})
	}
	if c.Handles != nil {
		handles := make([]powerbox.Member, 0, len(c.Handles))
		for name, h := range c.Handles {
			handles = append(handles, powerbox.Member{Name: name, Value: powerbox.Object(
				textMember("id", h.ID), textMember("name", h.Name))})
		}
		ms = append(ms, powerbox.Member{Name: "handles", Value: powerbox.Object(handles...)})
	}
	return powerbox.Object(ms...)
}

// The signed bytes equal those of an object with the same members.
func TestContextIsCanonical(t *testing.T) {
	full := contextOf(t)
	full.Task, full.Handles["\"h\\3"] = "t \n\u00fc", ContextHandle{ID: "<id>", Name: "\x01"}
	none := Context{Handles: map[string]ContextHandle{}}
	none.Issuer, none.Audience, none.Mode, none.Basis = full.Issuer, full.Audience, full.Mode, full.Basis
	for _, c := range []Context{full, none} {
		if got, want := string(c.appendJSON(nil, c.Authority.AppendJSON(nil))), c.value().String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// An authority that could not be read back is refused, and verified ones are
// remembered within bounds.
func TestContextsRememberAuthorities(t *testing.T) {
	key := keyOf(t, "issuer", Ed25519)
	var s Contexts
	of := func(name string, c powerbox.Constraint) Context {
		op, err := powerbox.ParseOperation(name)
		if err != nil {
			t.Fatal(err)
		}
		shape, err := powerbox.NewShape(powerbox.RestAny, powerbox.Field{Name: "a", Constraint: c})
		if err != nil {
			t.Fatal(err)
		}
		out := contextOf(t)
		if out.Authority, err = powerbox.NewAuthority(powerbox.Window{}, 0, powerbox.Clause{Pattern: powerbox.ExactPattern(op), Shape: shape}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	for range 2 {
		if _, err := s.Sign(key, of("a", powerbox.PathUnder{})); !errors.Is(err, powerbox.ErrDenied) {
			t.Errorf("%v; want a refusal", err)
		}
	}
	if len(s.read) != 0 {
		t.Errorf("%d authorities that were refused are remembered", len(s.read))
	}
	for n := range maxAuthorities + 2 {
		if _, err := s.Sign(key, of("a"+strconv.Itoa(n), powerbox.Wildcard{})); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Sign(key, of("a"+strconv.Itoa(maxAuthorities), powerbox.Wildcard{})); err != nil {
		t.Fatal(err)
	}
	if n := len(s.read); n != 2 {
		t.Errorf("%d authorities are remembered; want 2 behind a full memory", n)
	}
	var large powerbox.OneOf
	for n := range 5 {
		large.Values = append(large.Values, powerbox.String(strings.Repeat(strconv.Itoa(n), maxAuthorityMemory/4)))
	}
	if _, err := s.Sign(key, of("a", large)); err != nil || len(s.read) != 2 {
		t.Errorf("%v; %d are remembered after one that is too large", err, len(s.read))
	}
}

func TestSignContextRefuses(t *testing.T) {
	key := keyOf(t, "issuer", Ed25519)
	for name, change := range map[string]func(*Context){
		"issuer":    func(c *Context) { c.Issuer = "" },
		"basis":     func(c *Context) { c.Basis = "" },
		"digest":    func(c *Context) { c.Digest = "" },
		"handle":    func(c *Context) { c.Handles["h"] = ContextHandle{} },
		"delegated": func(c *Context) { c.Delegated[0].Capability = "" },
		"label":     func(c *Context) { c.Labels[0].Source = "" },
		"long task": func(c *Context) { c.Task = strings.Repeat("t", maxIDBytes+1) },
		"no time":   func(c *Context) { c.Expires = c.IssuedAt },
		"lifetime":  func(c *Context) { c.Expires = c.IssuedAt.Add(MaxContextLifetime + time.Second) },
	} {
		c := contextOf(t)
		change(&c)
		if compact, err := SignContext(key, c); compact != "" || !errors.Is(err, powerbox.ErrDenied) {
			t.Errorf("%s: %q, %v; want a refusal", name, compact, err)
		}
	}
}

// TestATK131_AContextIsKnownByWhatIsSigned writes the signature of a context in the other way that
// ES256 has for it, which verifies too.
func TestATK131_AContextIsKnownByWhatIsSigned(t *testing.T) {
	key := keyOf(t, "issuer", ES256)
	compact, err := SignContext(key, contextOf(t))
	if err != nil {
		t.Fatal(err)
	}
	signed := compact[:strings.LastIndexByte(compact, '.')+1]
	signature, err := base64.RawURLEncoding.DecodeString(compact[len(signed):])
	if err != nil {
		t.Fatal(err)
	}
	half := len(signature) / 2
	s := new(big.Int).Sub(elliptic.P256().Params().N, new(big.Int).SetBytes(signature[half:]))
	s.FillBytes(signature[half:])
	other := signed + base64.RawURLEncoding.EncodeToString(signature)
	keys, err := ParseKeySet([]byte(JWKS(key.Public()).String()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := VerifyContext(other, keys, "documents", at, []byte(contextBody)); err != nil || other == compact {
		t.Fatalf("the other way to write the signature: %v", err)
	}
	if ContextID(other) != ContextID(compact) {
		t.Error("ATK-131 one context has two ids")
	}
	changed := contextOf(t)
	changed.Decision = "d-2"
	another, err := SignContext(key, changed)
	if err != nil {
		t.Fatal(err)
	}
	if ContextID(another) == ContextID(compact) || ContextID("no context") != ContextID("") {
		t.Error("ATK-131 ids do not follow what is signed")
	}
}
