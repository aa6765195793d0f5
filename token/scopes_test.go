package token

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
)

// reasonOf returns reason and failure point of a *ScopeError.
func reasonOf(err error) (powerbox.Code, int) {
	var e *ScopeError
	if errors.As(err, &e) {
		return e.Reason, e.FailurePoint
	}
	return powerbox.Code(fmt.Sprintf("other: %v", err)), 0
}

// parsed signs a question's parts and takes them in.
func (f *scopeForgery) parsed() (*ScopeToken, []*DelegationLink) {
	f.t.Helper()
	v := f.finish()
	t, err := ParseScopeToken([]byte(v.Token))
	if err != nil {
		f.t.Fatal(err)
	}
	if v.Links == nil {
		return t, nil
	}
	links, err := ParseLinks([]byte(*v.Links))
	if err != nil {
		f.t.Fatal(err)
	}
	return t, links
}

func (f *scopeForgery) options(t testing.TB) ScopeOptions {
	keys, err := parseDirectory(f.Keys)
	if err != nil {
		t.Fatal(err)
	}
	return ScopeOptions{
		Now: later, Keys: func(id string) []PartyKey { return keys[id] }, Revoked: UnsafeNothingRevoked, Caller: f.Caller, MaxDepth: f.MaxDepth,
	}
}

func TestEXT11_AVerifiedChainIsAnAuthority(t *testing.T) {
	f := newScopeForgery(t, 2)
	f.claims.Scopes = []string{"trade", "portfolio.*"}
	f.chain[0].Scopes = []string{"trade.execute", "portfolio.read"}
	f.chain[1].Scopes = []string{"portfolio.read"}
	f.chain[1].IssuedAt = noon.Add(time.Minute)
	st, links := f.parsed()
	v, err := VerifyScopes(st, links, f.options(t))
	if err != nil {
		t.Fatal(err)
	}
	a := v.Authority()
	if d := cmp.Diff([]string{"portfolio.read.**"}, a.Names()); d != "" || a.Depth() != 0 {
		t.Errorf("%s, depth %d", d, a.Depth())
	}
	want := powerbox.Window{From: noon.Add(30 * time.Second), Until: noon.Add(25*time.Minute + 1)}
	if a.Window() != want {
		t.Errorf("window is %v", a.Window())
	}
	for name, allowed := range map[string]bool{"portfolio.read": true, "portfolio.read.all": true, "portfolio.readable": false, "trade.execute": false} {
		attempt, err := powerbox.Invocation(operation(t, name), powerbox.Object())
		if err != nil {
			t.Fatal(err)
		}
		for _, now := range []time.Time{later, v.expires} {
			if d := powerbox.Decide(attempt, a, now); d.Allowed != allowed {
				t.Errorf("%s at %s: %v", name, now, d)
			}
		}
		if d := powerbox.Decide(attempt, a, v.expires.Add(1)); d.Allowed {
			t.Errorf("%s after its expiry", name)
		}
	}
	if v.Token() != st || len(v.Links()) != 2 || v.Links()[1].Claims().Delegate != market || st.Claims().Subject != manager {
		t.Error("what was verified is not what comes back")
	}
	var none VerifiedScopes
	if none.scopes() != nil || !none.Authority().IsEmpty() {
		t.Error("the zero VerifiedScopes has something")
	}
}

func TestEXT12_VerificationDemandsWhatItNeeds(t *testing.T) {
	f := newScopeForgery(t, 1)
	st, links := f.parsed()
	o := f.options(t)
	o.Revoked = nil
	if reason, at := reasonOf(errorOf(VerifyScopes(st, links, o))); reason != CodeRevocationUnknown || at != OfToken {
		t.Errorf("nobody says what is revoked: %s at %d", reason, at)
	}
	o = f.options(t)
	o.Keys = nil
	if reason, _ := reasonOf(errorOf(VerifyScopes(st, links, o))); reason != CodeUnknownKey {
		t.Errorf("no keys: %s", reason)
	}
}

func errorOf(_ VerifiedScopes, err error) error { return err }

func TestEXT7_ACallerIsKnownByItsKeyUnderBothNames(t *testing.T) {
	key := partyOf(t, "did").Party()
	f := newScopeForgery(t, 0)
	f.claims.Subject = key.DID()
	for caller, ok := range map[string]bool{key.DID(): true, "key:" + key.classic.Thumbprint(): true, "key:" + partyOf(t, manager).Party().classic.Thumbprint(): false} {
		f.Caller, f.Token = caller, ""
		st, _ := f.parsed()
		_, err := VerifyScopes(st, nil, f.options(t))
		if (err == nil) != ok {
			t.Errorf("%s: %v", caller, err)
		}
	}
	lattice := partyOf(t, market).Party().DID()
	if HolderID(lattice) != lattice || HolderID("client:reader") != "client:reader" {
		t.Error("a name that is no key of calls does not stay as it is")
	}
}

func TestEXT8_DelegateNarrowsOffline(t *testing.T) {
	a, b := partyOf(t, "a"), partyOf(t, market)
	f := newScopeForgery(t, 0)
	f.claims.Subject = a.Party().DID()
	st, _ := f.parsed()
	c := LinkClaims{Delegate: b.Party().DID(), Scopes: []string{"trade.execute"}, IssuedAt: noon, ExpiresAt: noon.Add(time.Minute * 30), Nonce: "1"}
	first, err := Delegate(a, st, nil, c)
	if err != nil {
		t.Fatal(err)
	}
	links, err := ParseLinks([]byte("[" + string(first) + "]"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := Delegate(b, st, links, LinkClaims{Delegate: router, Scopes: c.Scopes, IssuedAt: noon, ExpiresAt: c.ExpiresAt, Nonce: "1"})
	if err != nil {
		t.Fatal(err)
	}
	if links, err = ParseLinks([]byte("[" + string(first) + "," + string(second) + "]")); err != nil {
		t.Fatal(err)
	}
	f.Caller = router
	if _, err := VerifyScopes(st, links, f.options(t)); err != nil {
		t.Error(err)
	}
	for reason, change := range map[powerbox.Code]func(*LinkClaims){
		CodeScopeEscalation:       func(c *LinkClaims) { c.Scopes = []string{"trade"} },
		CodeTemporalExceedsParent: func(c *LinkClaims) { c.ExpiresAt = st.Claims().ExpiresAt.Add(1) },
		CodeMalformed:             func(c *LinkClaims) { c.Scopes = []string{"trade."} },
		CodeNonceMissing:          func(c *LinkClaims) { c.Nonce = "" },
	} {
		wrong := c
		change(&wrong)
		if got, at := reasonOf(failed(Delegate(a, st, nil, wrong))); got != reason || at != 0 {
			t.Errorf("%s: got %s at %d", reason, got, at)
		}
	}
	if got, _ := reasonOf(failed(Delegate(b, st, nil, c))); got != CodeChainDiscontinuity {
		t.Errorf("another key: %s", got)
	}
}

func failed(_ []byte, err error) error { return err }

func TestEXT5_SignedTokensAreReadable(t *testing.T) {
	claims := ScopeClaims{Issuer: registry, Subject: manager, Scopes: []string{"trade"}, IssuedAt: noon, ExpiresAt: later}
	for _, name := range []string{registry, router, market} {
		signer := partyOf(t, name)
		data, err := SignScopeToken(signer, claims)
		if err != nil {
			t.Fatal(err)
		}
		st, err := ParseScopeToken(data)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(claims, st.Claims()); d != "" || !signer.Party().Verify(st.signed, st.signature) {
			t.Errorf("%s: %s", name, d)
		}
	}
	claims.Scopes = nil
	if reason, _ := reasonOf(failed(SignScopeToken(partyOf(t, registry), claims))); reason != CodeMalformed {
		t.Errorf("no scopes: %s", reason)
	}
	if _, err := SignScopeToken(brokenParty{partyOf(t, registry)}, claims); !errors.Is(err, errBroken) {
		t.Error(err)
	}
	if _, err := SignLink(brokenParty{partyOf(t, registry)}, LinkClaims{}); !errors.Is(err, errBroken) {
		t.Error(err)
	}
	if AsParty(keyOf(t, "a", ES256)).Party() != keyOf(t, "a", ES256).Party() {
		t.Error("a signer of tokens has another key as a party")
	}
}

var errBroken = errors.New("broken")

type brokenParty struct{ PartySigner }

func (brokenParty) Sign([]byte) ([]byte, error) { return nil, errBroken }

func TestEXT6_TheKeyHasTheAlgorithm(t *testing.T) {
	for name, want := range map[string]string{registry: "Ed25519", router: "ES256", market: "ML-DSA-87"} {
		k := partyOf(t, name).Party()
		again, err := ParsePartyKey(k.JWK().AppendJSON(nil))
		if err != nil || again.DID() != k.DID() || k.Algorithm() != want {
			t.Errorf("%s: %v, %s", name, err, k.Algorithm())
		}
		if own, ok := keyOfDID(k.DID()); !ok || own.DID() != k.DID() {
			t.Errorf("%s is not its own key", name)
		}
	}
	var none PartyKey
	if none.Verify(nil, nil) || none.JWK().Kind() != powerbox.KindNull {
		t.Error("the zero key is one")
	}
	lattice := string(partyOf(t, market).Party().JWK().AppendJSON(nil))
	for text, code := range map[string]powerbox.Code{
		"{": CodeMalformed, `"key"`: CodeMalformed, `{"kty":"AKP"}`: CodeAlgorithm,
		strings.Replace(lattice, "ML-DSA-87", "ML-DSA-65", 1):            CodeAlgorithm,
		`{"kty":"AKP","alg":"ML-DSA-87","pub":"AA=="}`:                   CodeMalformed,
		`{"kty":"AKP","alg":"ML-DSA-87","pub":"AAAA"}`:                   CodeMalformed,
		strings.Replace(lattice, `{`, `{"priv":"AAAA",`, 1):              CodePrivateKey,
		string(keyOf(t, "a", Ed25519).JWK()):                             CodePrivateKey,
		`{"kty":"OKP","crv":"Ed25519","x":"AAAA"}`:                       CodeMalformed,
		strings.Replace(rfc8037Public(t), `{`, `{"alg":"ML-DSA-87",`, 1): CodeAlgorithm,
	} {
		if _, err := ParsePartyKey([]byte(text)); codeOf(err) != code {
			t.Errorf("%.60s: %v; want %s", text, err, code)
		}
	}
	for _, id := range []string{"did:jwk:", "did:jwk:=", "did:jwk:e30", "did:web:x", partyOf(t, "a").Party().DID() + "A"} {
		if _, ok := keyOfDID(id); ok {
			t.Errorf("%s is a key", id)
		}
	}
}

func rfc8037Public(t testing.TB) string {
	return string(keyOf(t, "a", Ed25519).Public().JWK().AppendJSON(nil))
}

func TestEXT33_LatticeKeysStaySecret(t *testing.T) {
	k, ok := partyOf(t, market).(*LatticeKey)
	if !ok {
		t.Fatal("not a lattice key")
	}
	again, err := ParsePartySigner(k.JWK())
	if err != nil || again.Party().DID() != k.Party().DID() {
		t.Fatal("it does not come back:", err)
	}
	if s, err := ParsePartySigner(keyOf(t, "a", Ed25519).JWK()); err != nil || s.Party() != keyOf(t, "a", Ed25519).Party() {
		t.Error(err)
	}
	other, err := NewLatticeKey(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	swapped := strings.Replace(string(k.JWK()), encodeBase64(k.key.Bytes()), encodeBase64(other.key.Bytes()), 1)
	for text, code := range map[string]powerbox.Code{
		"{":             CodeMalformed,
		`{"kty":"AKP"}`: CodeAlgorithm,
		swapped:         CodeMalformed,
		strings.Replace(swapped, `"priv":"`, `"priv":"=`, 1):    CodeMalformed,
		strings.Replace(swapped, `"priv":"`, `"priv":"AAAA`, 1): CodeMalformed,
	} {
		if _, err := ParsePartySigner([]byte(text)); codeOf(err) != code {
			t.Errorf("%.40s: %v; want %s", text, err, code)
		}
	}
	secret := encodeBase64(k.key.Bytes())
	shown := fmt.Sprintf("%v %+v %#v %s %d", k, k, k, k, k) + string(marshal(t, k)) + k.LogValue().String() + slog.AnyValue(k).String()
	if strings.Contains(shown, secret) || !strings.Contains(shown, "ML-DSA-87") {
		t.Error(shown)
	}
	for _, size := range []int{0, 31, 33} {
		if _, err := NewLatticeKey(make([]byte, size)); codeOf(err) != CodeMalformed {
			t.Errorf("a seed of %d bytes: %v", size, err)
		}
	}
}

func TestEXT13_Directory(t *testing.T) {
	k := NewKeySet(keyOf(t, "a", Ed25519).Public(), keyOf(t, "b", ES256).Public())
	if p := k.Parties(); len(p) != 2 || p[1] != keyOf(t, "b", ES256).Party() {
		t.Error(p)
	}
	jwk := rfc8037Public(t)
	named := strings.Replace(jwk, "{", `{"kid":"a",`, 1)
	two := `{"keys":[` + named + "," + named + `]}`
	if d, err := parseDirectory([]byte(two)); err != nil || len(d["a"]) != 2 {
		t.Error(d, err)
	}
	for text, code := range map[string]powerbox.Code{
		"": CodeMalformed, "{}": CodeMalformed, `{"keys":[{}]}`: CodeAlgorithm, `{"keys":[` + jwk + `]}`: CodeMalformed,
	} {
		if _, err := parseDirectory([]byte(text)); codeOf(err) != code {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestEXT12_ErrorsAreDenials(t *testing.T) {
	for _, at := range []int{OfToken, 3} {
		err := fails(CodeExpired, at, "has expired")
		if !errors.Is(err, powerbox.ErrDenied) || !strings.Contains(err.Error(), "expired") {
			t.Error(err)
		}
	}
}

// FuzzScopeToken: whatever parses means the same when it is written canonically,
// and without keys it is never verified.
func FuzzScopeToken(f *testing.F) {
	for _, v := range readScopeVectors(f) {
		if len(v.Token) < 4<<10 {
			f.Add(v.Token)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		st, err := ParseScopeToken([]byte(text))
		if err != nil {
			if reason, at := reasonOf(err); reason != CodeMalformed || at != OfToken {
				t.Errorf("%s at %d", reason, at)
			}
			return
		}
		claims := st.Claims()
		members := []powerbox.Member{
			textMember("algorithm", st.algorithm), textMember("issuer", claims.Issuer), textMember("subject", claims.Subject), scopesMember(claims.Scopes),
		}
		sameStatement(t, &st.statement, members)
		if _, err := VerifyScopes(st, nil, ScopeOptions{Now: claims.IssuedAt, Revoked: UnsafeNothingRevoked, Caller: claims.Subject}); err == nil && !strings.HasPrefix(claims.Issuer, didPrefix) {
			t.Error("verified without keys")
		}
	})
}

// sameStatement compares the signed claims with the read ones: every member
// but the times, whose digits are the signer's.
func sameStatement(t *testing.T, s *statement, want []powerbox.Member) {
	t.Helper()
	v, err := powerbox.ParseValue(s.signed)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range want {
		if got, _ := v.Get(m.Name); !got.Equal(m.Value) {
			t.Errorf("%s is signed as %s and read as %s", m.Name, got, m.Value)
		}
	}
	if members, _ := v.Members(); len(members) != len(want)+2 {
		t.Errorf("%s has other members than were read", s.signed)
	}
	again, err := appendCanonical(nil, v)
	if err != nil || string(again) != string(s.signed) {
		t.Errorf("%s is not canonical: %v", s.signed, err)
	}
	if s.expiresAt.Before(s.issuedAt) || len(s.patterns) != len(s.scopes) || len(s.patterns) == 0 {
		t.Errorf("%+v", s)
	}
}

// FuzzLinks: the same for chains, which are never longer than the limit.
func FuzzLinks(f *testing.F) {
	for _, v := range readScopeVectors(f) {
		if v.Links != nil && len(*v.Links) < 8<<10 {
			f.Add(*v.Links)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		links, err := ParseLinks([]byte(text))
		if err != nil {
			var e *ScopeError
			if !errors.As(err, &e) || e.FailurePoint < 0 {
				t.Error(err)
			}
			return
		}
		if len(links) == 0 || len(links) > MaxDepth {
			t.Errorf("%d links", len(links))
		}
		for _, l := range links {
			c := l.Claims()
			sameStatement(t, &l.statement, []powerbox.Member{
				textMember("algorithm", l.algorithm), textMember("delegator", c.Delegator), textMember("delegate", c.Delegate), textMember("nonce", c.Nonce), scopesMember(c.Scopes),
			})
		}
	})
}

// FuzzCheckScopes: no input makes it panic, and an answer is always JSON with a
// reason where it is a refusal.
func FuzzCheckScopes(f *testing.F) {
	for _, v := range readScopeVectors(f) {
		if v.Links != nil && len(v.Keys)+len(*v.Links) < 3<<10 {
			f.Add(string(v.Keys), v.Token, *v.Links, strings.Join(v.Requested, " "), v.Caller, v.MaxDepth)
		}
	}
	f.Fuzz(func(t *testing.T, keys, tok, links, requested, caller string, depth int) {
		r := CheckScopes(ScopeCheckRequest{
			Keys: []byte(keys), Token: []byte(tok), Links: []byte(links), Requested: strings.Fields(requested), Caller: caller, At: later, MaxDepth: depth,
		})
		if r.Valid != (r.Reason == "") {
			t.Errorf("%+v", r)
		}
		if data, err := json.Marshal(r); err != nil || !json.Valid(data) {
			t.Errorf("%v: %s", err, data)
		}
	})
}
