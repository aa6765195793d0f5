package token

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
)

func jsonNumber(f float64) string {
	data, err := json.Marshal(f)
	if err != nil || math.IsInf(f, 0) {
		return "1"
	}
	return string(data)
}

func TestCheckResultIsStableJSON(t *testing.T) {
	allowed := vectorOf(t, 0, func(f *forgery) { f.links[0].tools(object{"read": object{}}) })
	denied := vectorOf(t, 1, func(f *forgery) { f.Operation, f.proof = "write", nil })
	broken := allowed
	broken.Chain, broken.Arguments = []byte(`["x"]`), `x`
	for want, v := range map[string]vector{
		`{"authority":{"depth":16,"expires":"2027-01-15T09:00:00Z","not_before":"2027-01-15T07:49:30Z","operations":[{"match":"exact","name":"read","shape":{"fields":{},"rest":"any"}}]},"decision":"allow","reasons":[]}`: allowed,
		`"decision":"deny","reasons":[{"code":"operation_not_granted","link":1,"message":"operation \"write\" is not granted"},{"code":"proof_missing","link":-1,"message":"there is no proof"}]}`:                          denied,
		`{"authority":null,"decision":"deny","reasons":[{"code":"malformed","link":-1,"message":"arguments: JSON at byte 0: want a value"},{"code":"malformed","link":0,`:                                                   broken,
	} {
		data, err := json.Marshal(v.check())
		if err != nil || !strings.Contains(string(data), want) {
			t.Errorf("got %s, want %s (%v)", data, want, err)
		}
	}
}

func TestCheckTakesHashesInHex(t *testing.T) {
	v := vectorOf(t, 1, nil)
	tokens, err := ParseChainFile(v.Chain)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := decodeBase64(DigestOf([]byte(signingInput(tokens[1]))))
	if err != nil {
		t.Fatal(err)
	}
	v.Revoked = []string{"unrelated", hex.EncodeToString(hash)}
	if r := v.check(); r.Allowed || r.Reasons[0].Code != CodeRevoked || r.Reasons[0].Link != 1 {
		t.Errorf("got %v", r.Reasons)
	}
}

func TestParseChainFileRefusesWhatIsNoJSON(t *testing.T) {
	for _, text := range []string{``, `[`, `["a",]`, `["a"] []`, `["\ud800"]`} {
		if _, err := ParseChainFile([]byte(text)); codeOf(err) != CodeMalformed {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestChainHeaderRoundTrips(t *testing.T) {
	for _, tokens := range [][]string{nil, {"a"}, {"a", "b"}} {
		if d := cmp.Diff(tokens, SplitChain(JoinChain(tokens))); d != "" {
			t.Error(d)
		}
	}
}

func TestVerifiedSaysWhatWasSigned(t *testing.T) {
	f := newFamily(t, 1)
	v := f.verify(t)
	private, ok := v.Private()
	if want := (Private{Capability: "cap-1", Grant: "documents:read", Principal: "p-1"}); !ok || private != want {
		t.Errorf("private claim %+v", private)
	}
	if v.Issuer() != "https://agent.example" || v.ID() != "child i" || v.Holder() != f.holders[1].Public() || len(v.Tokens()) != 2 {
		t.Errorf("issuer %q, id %q", v.Issuer(), v.ID())
	}
	w := v.Authority().Window()
	if !w.From.Equal(at.Add(-30*time.Second)) || !w.Until.Equal(at.Add(time.Hour)) {
		t.Errorf("window %v", w)
	}
	foreign := vectorOf(t, 0, nil).mustVerify(t)
	if _, ok := foreign.Private(); ok {
		t.Error("a private claim from nowhere")
	}
}

// vectorOf forges one question that is expected to hold.
func vectorOf(t testing.TB, hops int, change func(f *forgery)) vector {
	return forged{name: "x", hops: hops, change: change}.vector(t)
}

func (v vector) mustVerify(t testing.TB) Verified {
	t.Helper()
	anchors, err := ParseKeySet(v.Anchors)
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := ParseChainFile(v.Chain)
	if err != nil {
		t.Fatal(err)
	}
	u, err := ParseChain(tokens)
	if err != nil {
		t.Fatal(err)
	}
	verified, err := u.Verify(anchors, quiet(time.Unix(v.At, 0)))
	if err != nil {
		t.Fatal(err)
	}
	return verified
}

func TestZeroValuesAreNothing(t *testing.T) {
	var v Verified
	_, private := v.Private()
	if !v.Authority().IsEmpty() || !v.Holder().IsZero() || v.ID()+v.Issuer() != "" || private || v.Tools() != nil || v.Tokens() != nil || v.Links() != nil || v.IDs() != nil {
		t.Error("the zero Verified is something")
	}
	if _, err := (Unverified{}).Verify(KeySet{}, quiet(at)); codeOf(err) != CodeEmptyChain {
		t.Error(err)
	}
}

func TestUnsafeTrustRootChecksEverythingElse(t *testing.T) {
	f := newFamily(t, 2)
	for i := range f.tokens {
		tokens := append([]string{}, f.tokens...)
		tokens[i] = flip(tokens[i])
		u, err := ParseChain(tokens)
		if err != nil {
			t.Fatal(err)
		}
		_, err = u.UnsafeTrustRoot(quiet(at))
		if want := map[bool]powerbox.Code{false: CodeSignature}[i == 0]; codeOf(err) != want {
			t.Errorf("token %d: %v", i, err)
		}
	}
}

func TestDescribeSaysWhatEachTokenNarrowed(t *testing.T) {
	f := newFamily(t, 0)
	f.derive(t, func(n *Narrowing) {
		n.Tools, n.MaxDepth, n.Expires = tools(t, `{"read":{"path":{"constraint_type":"exact","value":"/q1"}}}`), 2, at.Add(time.Minute)
	})
	f.derive(t, func(n *Narrowing) { n.Holder = f.holders[1].Public() })
	got := [][]string{}
	for _, l := range f.verify(t).Links() {
		got = append(got, l.Narrowed)
	}
	want := [][]string{
		nil,
		{"read with narrower path", "without search", "expires 59m0s earlier", "can be delegated 2 times, not 15", "for another holder"},
		nil,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	closed := vectorOf(t, 1, func(f *forgery) { f.links[0].tools(object{"read": object{}, "search": object{}}) }).mustVerify(t)
	if got := closed.Links()[1].Narrowed; len(got) == 0 || got[0] != "read with narrower path" {
		t.Error(got)
	}
}

func TestErrorsAreDenials(t *testing.T) {
	err := refuse(CodeExpired, "late")
	if !errors.Is(err, powerbox.ErrDenied) || err.Error() != "expired: late" || atLink(err, 2).Error() != "token 2: expired: late" {
		t.Error(err)
	}
	other := fmt.Errorf("disk full")
	if atLink(other, 1).Error() != "disk full" || prefixed("x", other).Error() != "disk full" {
		t.Error("an error that is not ours was changed")
	}
}
