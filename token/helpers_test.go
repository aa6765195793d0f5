package token

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
)

// at is when the tokens of these tests are used; they are issued a minute
// before.
var at = time.Unix(1_800_000_000, 0)

// keyOf returns a key that depends on nothing but its name.
func keyOf(t testing.TB, name string, algorithm Algorithm) *PrivateKey {
	t.Helper()
	k, err := GenerateKey(algorithm, strings.NewReader((name + strings.Repeat("-", 32))[:32]))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func tools(t testing.TB, text string) []powerbox.Clause {
	t.Helper()
	v, err := powerbox.ParseValue([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	clauses, err := parseTools(v, Draft02)
	if err != nil {
		t.Fatal(err)
	}
	return clauses
}

func value(t testing.TB, text string) powerbox.Value {
	t.Helper()
	v, err := powerbox.ParseValue([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func operation(t testing.TB, name string) powerbox.Operation {
	t.Helper()
	op, err := powerbox.ParseOperation(name)
	if err != nil {
		t.Fatal(err)
	}
	return op
}

const readAndSearch = `{"read":{"path":{"constraint_type":"one_of","values":["/q1","/q2"]}},"search":{}}`

// family is an issuer, holders and the chain between them.
type family struct {
	issuer  *PrivateKey
	holders []*PrivateKey
	anchors KeySet
	tokens  []string
}

func quiet(now time.Time) Options { return Options{Now: now, Revoked: UnsafeNothingRevoked} }

func newFamily(t testing.TB, hops int) family {
	t.Helper()
	f := family{issuer: keyOf(t, "issuer", Ed25519)}
	f.anchors = NewKeySet(f.issuer.Public())
	f.holders = append(f.holders, keyOf(t, "holder 0", Ed25519))
	root, err := Mint(f.issuer, Root{
		ID: "root", Issuer: "https://agent.example", IssuedAt: at.Add(-time.Minute), Expires: at.Add(time.Hour),
		MaxDepth: MaxDepth, Holder: f.holders[0].Public(), Tools: tools(t, readAndSearch),
		Private: &Private{Capability: "cap-1", Grant: "documents:read", Principal: "p-1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	f.tokens = []string{root}
	for range hops {
		f.derive(t, func(*Narrowing) {})
	}
	return f
}

// derive adds a token for a new holder, whose algorithm is not that of the
// last one.
func (f *family) derive(t testing.TB, change func(*Narrowing)) {
	t.Helper()
	algorithm := Ed25519
	if len(f.tokens)%2 == 1 {
		algorithm = ES256
	}
	f.passOn(t, algorithm, change)
}

// passOn adds a token for a new holder.
func (f *family) passOn(t testing.TB, algorithm Algorithm, change func(*Narrowing)) {
	t.Helper()
	next := keyOf(t, "holder "+strings.Repeat("i", len(f.tokens)), algorithm)
	parent := f.verify(t)
	n := Narrowing{
		ID: "child " + strings.Repeat("i", len(f.tokens)), Now: at, Tools: parent.Tools(),
		MaxDepth: parent.Authority().Depth() - 1, Holder: next.Public(),
	}
	change(&n)
	child, err := Derive(parent, f.holders[len(f.holders)-1], n)
	if err != nil {
		t.Fatal(err)
	}
	f.holders = append(f.holders, next)
	f.tokens = append(f.tokens, child)
}

func (f *family) verify(t testing.TB) Verified {
	t.Helper()
	u, err := ParseChain(f.tokens)
	if err != nil {
		t.Fatal(err)
	}
	v, err := u.Verify(f.anchors, quiet(at))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// codeOf returns the code of err, "" for nil and "other" for errors that are
// not ours.
func codeOf(err error) powerbox.Code {
	var e *Error
	var w *WiderError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Code
	case errors.As(err, &w):
		return CodeWidened
	}
	return "other"
}
