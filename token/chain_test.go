package token

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox"
)

func TestChainOfEveryDepthIsVerifiedAndDecides(t *testing.T) {
	for hops := range MaxDepth + 1 {
		f := newFamily(t, hops)
		v := f.verify(t)
		if got, want := v.Authority().Depth(), MaxDepth-hops; got != want {
			t.Errorf("%d hops: depth %d, want %d", hops, got, want)
		}
		op, args := operation(t, "read"), value(t, `{"path":"/q1"}`)
		attempt, err := powerbox.Invocation(op, args)
		if err != nil {
			t.Fatal(err)
		}
		if d := powerbox.Decide(attempt, v.Authority(), at); !d.Allowed {
			t.Errorf("%d hops: %v", hops, d.Err())
		}
		proof, err := v.SignProof(f.holders[hops], Proof{ID: "p", IssuedAt: at, Operation: "read", Arguments: args})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.CheckProof(proof, Expected{Now: at, Operation: op, Arguments: args}); err != nil {
			t.Errorf("%d hops: %v", hops, err)
		}
	}
}

// TestATK55_OtherOperationIsRefusedBeforeSignatures: where the caller can say
// what the chain is for, a chain that cannot serve costs no signature check,
// which the chains with a false signature show.
func TestATK55_OtherOperationIsRefusedBeforeSignatures(t *testing.T) {
	for _, hops := range []int{0, 1, 4} {
		f := newFamily(t, hops)
		forgedRoot := slices.Clone(f.tokens)
		forgedRoot[0] = flip(forgedRoot[0])
		o := quiet(at)
		warm := NewMemo(1 << 20)
		if _, err := warm.Verify(JoinChain(f.tokens), f.anchors, o); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name      string
			tokens    []string
			operation string
			code      powerbox.Code
		}{
			{"no operation", f.tokens, "", ""},
			{"its operation", f.tokens, "read", ""},
			{"another", f.tokens, "write", powerbox.CodeOperation},
			{"its operation, not signed", forgedRoot, "read", CodeSignature},
			{"another, not signed", forgedRoot, "write", powerbox.CodeOperation},
		} {
			o.Operation = powerbox.Operation{}
			if c.operation != "" {
				o.Operation = operation(t, c.operation)
			}
			u, err := ParseChain(c.tokens)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := u.Verify(f.anchors, o); codeOf(err) != c.code {
				t.Errorf("%d hops, %s: %v, want %q", hops, c.name, err, c.code)
			}
			for _, m := range []*Memo{NewMemo(1 << 20), warm} {
				if _, err := m.Verify(JoinChain(c.tokens), f.anchors, o); codeOf(err) != c.code {
					t.Errorf("%d hops, %s, with memory: %v, want %q", hops, c.name, err, c.code)
				}
			}
		}
	}
}

// TestATK55_LastTokenIsReadFirst: a token that goes too far is found out
// without a look at those before its parent.
func TestATK55_LastTokenIsReadFirst(t *testing.T) {
	f, wide := overWide(t, 3)
	garbage := "x." + strings.Repeat("x", 8) + ".x"
	head, _, _ := strings.Cut(f.tokens[0], ".")
	junk := head + ".x.x" // the header of a root, which fixes the draft, and nothing else
	for _, c := range []struct {
		name   string
		tokens []string
		code   powerbox.Code
		link   int
	}{
		{"too far", []string{f.tokens[0], f.tokens[1], f.tokens[2], wide}, CodeWidened, 3},
		{"too far after garbage", []string{junk, garbage, f.tokens[2], wide}, CodeWidened, 3},
		{"of another chain", []string{f.tokens[0], f.tokens[2], f.tokens[1], wide}, CodeDepth, 1},
		{"not a token", []string{junk, garbage, f.tokens[2], garbage}, CodeMalformed, 3},
		{"after no token", []string{junk, f.tokens[1], garbage, wide}, CodeMalformed, 2},
		{"without a header of a root", []string{garbage, f.tokens[1], f.tokens[2], wide}, CodeMalformed, 0},
	} {
		_, err := ParseChain(c.tokens)
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Code != c.code || e.Link != c.link {
			t.Errorf("%s: %v, want %s at token %d", c.name, err, c.code, c.link)
		}
	}
}

// TestCommonHeadersAreThoseThatAreWritten: a header recognized by its bytes
// has the meaning that parsing gives it.
func TestCommonHeadersAreThoseThatAreWritten(t *testing.T) {
	for _, typ := range []string{typeToken, typeProof} {
		for _, algorithm := range []string{"Ed25519", "EdDSA", "ES256"} {
			compact, err := sign(keyOf(t, "x", Ed25519), algorithm, typ, "", []byte("{}"))
			if err != nil {
				t.Fatal(err)
			}
			part, _, _ := strings.Cut(compact, ".")
			if !slices.Contains([]string{linkHeaderEd25519, linkHeaderEdDSA, linkHeaderES256, proofHeaderEd25519, proofHeaderEdDSA, proofHeaderES256}, part) {
				t.Errorf("%s, %s: %s is not among the common headers", typ, algorithm, part)
			}
			for _, read := range []string{typeToken, typeProof, typeContext} {
				head, err := decodeBase64(part)
				if err != nil {
					t.Fatal(err)
				}
				want, refused := parseHeader(value(t, string(head)), read)
				got, err := readHeader(part, read)
				if got != want || codeOf(err) != codeOf(refused) {
					t.Errorf("%s, %s read as %s: %v, %v; want %v, %v", typ, algorithm, read, got, err, want, refused)
				}
			}
		}
	}
}
