package token

import (
	"crypto/ed25519"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
)

// line is an issuer and a chain of holders, all with Ed25519, each of which
// narrows expiry and hands on.
func line(t testing.TB, hops int) family {
	t.Helper()
	f := newFamily(t, 0)
	for i := range hops {
		f.passOn(t, Ed25519, func(n *Narrowing) { n.Expires = at.Add(time.Hour - time.Duration(i)*time.Minute) })
	}
	return f
}

// overWide returns the line's tokens with a last one that its parent does not
// cover, though it is right in every other respect.
func overWide(t testing.TB, hops int) (family, string) {
	t.Helper()
	f := line(t, hops-1)
	parent := f.verify(t)
	last := parent.chain.leaf()
	c := claims{
		id: "wide", issuer: last.holder.URI(), issuedAt: at.Unix(), expires: last.expires, depth: last.depth + 1,
		maxDepth: last.maxDepth, holder: last.holder, parentHash: last.hash,
		tools: tools(t, `{"read":{"path":{"constraint_type":"one_of","values":["/q1","/q2","/q3"]}},"search":{}}`),
	}
	wide, err := c.sign(f.holders[len(f.holders)-1], "")
	if err != nil {
		t.Fatal(err)
	}
	return f, wide
}

// BenchmarkPrimitives is what the other costs are compared with.
func BenchmarkPrimitives(b *testing.B) {
	f := line(b, 3)
	key, holder := f.issuer.Public(), f.issuer
	j, err := parseJWS(f.tokens[0], typeToken)
	if err != nil {
		b.Fatal(err)
	}
	signed := []byte(j.signed)
	b.Run("verify", func(b *testing.B) {
		for b.Loop() {
			if !ed25519.Verify(key.x[:], signed, j.signature[:]) {
				b.Fatal("does not verify")
			}
		}
	})
	b.Run("sign", func(b *testing.B) {
		for b.Loop() {
			ed25519.Sign(holder.ed, signed)
		}
	})
}

// BenchmarkChain shows chains of three hops that are accepted.
func BenchmarkChain(b *testing.B) {
	f := line(b, 3)
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ParseChain(f.tokens); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			u, err := ParseChain(f.tokens)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := u.Verify(f.anchors, quiet(at)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkRefused shows what refusals cost that need no signature.
func BenchmarkRefused(b *testing.B) {
	f, wide := overWide(b, 3)
	m := NewMemo(1 << 20)
	if _, err := m.Verify(JoinChain(f.tokens), f.anchors, quiet(at)); err != nil {
		b.Fatal(err)
	}
	good := f.tokens[0]
	head, rest, _ := strings.Cut(good, ".")
	for _, c := range []struct {
		name, chain string
		code        powerbox.Code
		memo        *Memo
	}{
		{"no JWS", "let me in", CodeMalformed, m},
		{"not base64", head + "." + strings.Repeat("?", 800) + "." + strings.Repeat("A", 86), CodeMalformed, m},
		{"not JSON", head + "." + strings.Repeat("x", 800) + "." + strings.Repeat("A", 86), CodeMalformed, m},
		{"other type", encodeBase64([]byte(`{"alg":"EdDSA","typ":"at+jwt"}`)) + "." + rest, CodeType, m},
		{"other algorithm", encodeBase64([]byte(`{"alg":"none","typ":"aat+jwt"}`)) + "." + rest, CodeAlgorithm, m},
		{"cut off", good[:len(good)-1], CodeMalformed, m},
		{"cut in half", good[:len(good)/2], CodeMalformed, m},
		{"too large", strings.Repeat("x", MaxTokenBytes+1), CodeTooLarge, m},
		{"chain too large", strings.Repeat("x", 1<<20), CodeTooLarge, m},
		{"wide on a known prefix", JoinChain(f.tokens) + "," + wide, CodeWidened, m},
		{"wide and cold", JoinChain(f.tokens) + "," + wide, CodeWidened, NewMemo(1 << 20)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.memo.Verify(c.chain, f.anchors, quiet(at)); codeOf(err) != c.code {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkWrongOperation shows a good chain that is used for an operation
// which it does not permit: known, with every reason of the denial, and not
// known, refused for its last token.
func BenchmarkWrongOperation(b *testing.B) {
	f := line(b, 3)
	chain := JoinChain(f.tokens)
	m := NewMemo(1 << 20)
	if _, err := m.Verify(chain, f.anchors, quiet(at)); err != nil {
		b.Fatal(err)
	}
	other := operation(b, "write")
	attempt, err := powerbox.Invocation(other, powerbox.Object())
	if err != nil {
		b.Fatal(err)
	}
	asked := quiet(at)
	asked.Operation = other
	b.Run("known, decided", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			v, err := m.Verify(chain, f.anchors, quiet(at))
			if err != nil || powerbox.Decide(attempt, v.Authority(), at).Allowed {
				b.Fatal(err)
			}
		}
	})
	for name, memo := range map[string]*Memo{"known, refused": m, "cold, refused": NewMemo(1 << 20)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := memo.Verify(chain, f.anchors, asked); codeOf(err) != powerbox.CodeOperation {
					b.Fatal(err)
				}
			}
		})
	}
}
