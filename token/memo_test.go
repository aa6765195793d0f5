package token

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/eddsa"
)

func TestMemoAnswersLikeAColdVerification(t *testing.T) {
	m := NewMemo(1 << 20)
	f := newFamily(t, 3)
	for n := range f.tokens {
		tokens := f.tokens[:n+1]
		u, err := ParseChain(tokens)
		if err != nil {
			t.Fatal(err)
		}
		cold, err := u.Verify(f.anchors, quiet(at))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			warm, err := m.Verify(JoinChain(tokens), f.anchors, quiet(at))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(cold.Tokens(), warm.Tokens()); d != "" || !cold.Authority().Equal(warm.Authority()) || cold.Holder() != warm.Holder() {
				t.Errorf("%d tokens: another answer: %s", n+1, d)
			}
		}
	}
}

// TestATK26_MemoAgreesOnEveryVector asks every question twice, so that the
// second answer comes from memory where there is one, and compares.
func TestATK26_MemoAgreesOnEveryVector(t *testing.T) {
	m := NewMemo(8 << 20)
	for _, c := range append(stepVectors(), tableVectors()...) {
		v := c.vector(t)
		anchors, err := ParseKeySet(v.Anchors)
		if err != nil {
			continue
		}
		tokens, err := ParseChainFile(v.Chain)
		if err != nil || JoinChain(tokens) == "" && len(tokens) > 0 {
			continue
		}
		o := Options{Now: time.Unix(v.At, 0), Revoked: newRevocationList(v.Revoked).has}
		u, cold := ParseChain(tokens)
		if cold == nil {
			_, cold = u.Verify(anchors, o)
		}
		for range 2 {
			if _, warm := m.Verify(JoinChain(tokens), anchors, o); codeOf(warm) != codeOf(cold) {
				t.Errorf("%s: with memory %v, without %v", v.Name, warm, cold)
			}
		}
	}
}

func recalled(m *Memo, bytes string, anchors *KeySet) (*chain, bool) {
	return m.recall(m.hash(bytes, anchors), bytes, anchors)
}

func TestMemoIsUsed(t *testing.T) {
	m := NewMemo(1 << 20)
	f := newFamily(t, 2)
	if _, err := m.Verify(JoinChain(f.tokens), f.anchors, quiet(at)); err != nil {
		t.Fatal(err)
	}
	for n := range f.tokens {
		if _, ok := recalled(m, JoinChain(f.tokens[:n+1]), &f.anchors); !ok {
			t.Errorf("the prefix of %d tokens is not remembered", n+1)
		}
	}
	if known := m.longestPrefix(JoinChain(f.tokens)+",x,y", append(slices.Clone(f.tokens), "x", "y"), &f.anchors); len(known) != 3 {
		t.Errorf("the longest prefix has %d tokens", len(known))
	}
}

func TestATK23_MemoHoldsNoVerdict(t *testing.T) {
	m := NewMemo(1 << 20)
	f := newFamily(t, 2)
	chain := JoinChain(f.tokens)
	verify := func(o Options) error {
		_, err := m.Verify(chain, f.anchors, o)
		return err
	}
	if err := verify(quiet(at)); err != nil {
		t.Fatal(err)
	}
	if got := codeOf(verify(quiet(at.Add(time.Hour)))); got != CodeExpired {
		t.Errorf("after expiry: %q", got)
	}
	if got := codeOf(verify(quiet(at.Add(-time.Hour)))); got != CodeNotYetValid {
		t.Errorf("before issue: %q", got)
	}
	if got := codeOf(verify(Options{Now: at})); got != CodeRevocationUnknown {
		t.Errorf("without a list: %q", got)
	}
	for _, id := range f.verify(t).IDs() {
		got := verify(Options{Now: at, Revoked: func(s string) bool { return s == id }})
		if codeOf(got) != CodeRevoked {
			t.Errorf("revoked %s: %v", id, got)
		}
	}
}

// TestATK7_MemoKnowsUnderWhichKeys: what one agent's keys vouch for, another's
// do not.
func TestATK7_MemoKnowsUnderWhichKeys(t *testing.T) {
	m := NewMemo(1 << 20)
	f := newFamily(t, 1)
	chain := JoinChain(f.tokens)
	if _, err := m.Verify(chain, f.anchors, quiet(at)); err != nil {
		t.Fatal(err)
	}
	for _, anchors := range []KeySet{{}, NewKeySet(f.holders[0].Public())} {
		if _, err := m.Verify(chain, anchors, quiet(at)); err == nil {
			t.Error("accepted under other keys")
		}
	}
	if _, ok := recalled(m, chain, &f.anchors); !ok {
		t.Error("a refusal drove out what is known")
	}
}

func TestATK55_RefusalsFillNoMemory(t *testing.T) {
	m := NewMemo(1 << 20)
	f := newFamily(t, 1)
	f.tokens[1] = flip(f.tokens[1])
	if _, err := m.Verify(JoinChain(f.tokens), f.anchors, quiet(at)); codeOf(err) != CodeSignature {
		t.Fatal(err)
	}
	for _, c := range []struct {
		chain string
		code  powerbox.Code
	}{
		{"", CodeEmptyChain},
		{"x", CodeMalformed},
		{strings.Repeat("x", MaxTokenBytes+1), CodeTooLarge},
		{strings.Repeat("x", 1<<20), CodeTooLarge},
		// Every comma ends a prefix that could be known.
		{strings.Repeat(",", MaxTokenBytes), CodeTooDeep},
		{strings.Repeat(",", MaxChainBytes), CodeTooDeep},
	} {
		if _, err := m.Verify(c.chain, f.anchors, quiet(at)); codeOf(err) != c.code {
			t.Errorf("%.10q, %d bytes: %v, want %s", c.chain, len(c.chain), err, c.code)
		}
	}
	if len(m.young)+len(m.old)+len(m.youngKeys) != 0 {
		t.Error("a refusal is remembered")
	}
}

func TestATK55_MemoIsBounded(t *testing.T) {
	f := newFamily(t, 0)
	m := NewMemo(2 * 3 * (memoryBase + memoryFactor*3000))
	parent := f.verify(t)
	first := ""
	for i := range 40 {
		child, err := Derive(parent, f.holders[0], Narrowing{ID: strings.Repeat("x", i+1), Now: at, Tools: parent.Tools(), Holder: f.holders[0].Public()})
		if err != nil {
			t.Fatal(err)
		}
		chain := JoinChain([]string{f.tokens[0], child})
		if first == "" {
			first = chain
		}
		for range 2 {
			if _, err := m.Verify(chain, f.anchors, quiet(at)); err != nil {
				t.Fatal(err)
			}
		}
		if m.used > m.budget || len(m.young)+len(m.old) > 20 {
			t.Fatalf("%d bytes of %d, %d entries", m.used, m.budget, len(m.young)+len(m.old))
		}
	}
	if _, ok := recalled(m, first, &f.anchors); ok {
		t.Error("the first chain was never forgotten")
	}
	if _, ok := recalled(m, f.tokens[0], &f.anchors); !ok {
		t.Error("the root, used all the time, was forgotten")
	}
	small := NewMemo(10)
	if _, err := small.Verify(first, f.anchors, quiet(at)); err != nil || len(small.young) != 0 {
		t.Errorf("a memo without room: %v, %d entries", err, len(small.young))
	}
}

// again returns a new chain by the keys of f.
func again(t testing.TB, f family, id string) string {
	t.Helper()
	root := f.verify(t)
	child, err := Derive(root, f.holders[len(f.holders)-1], Narrowing{ID: id, Now: at, Tools: root.Tools(), Holder: f.holders[0].Public()})
	if err != nil {
		t.Fatal(err)
	}
	return JoinChain(append(slices.Clone(f.tokens), child))
}

// A holder signs one chain after another: its key is worked out once.
func TestMemoKnowsTheKeysOfHolders(t *testing.T) {
	m := NewMemo(1 << 20)
	f := newFamily(t, 1)
	keys := map[*eddsa.Key]bool{}
	for _, id := range []string{"a", "b", "c"} {
		v, err := m.Verify(again(t, f, id), f.anchors, quiet(at))
		if err != nil {
			t.Fatal(err)
		}
		leaf := v.chain.leaf()
		if keys[leaf.again] = true; leaf.name != keyName(leaf.holder) {
			t.Errorf("chain %s: the holder is called %q", id, leaf.name)
		}
	}
	if len(keys) != 1 || len(m.youngKeys) != 2 {
		t.Errorf("one holder has %d keys; the memo has %d, want 2", len(keys), len(m.youngKeys))
	}
}

// A key that is known decides nothing: its chain must be signed as every other.
func TestATK7_KnownKeysVouchForNoChain(t *testing.T) {
	m := NewMemo(1 << 20)
	f := newFamily(t, 1)
	for i := range 40 {
		if _, err := m.Verify(again(t, f, strings.Repeat("x", i+1)), f.anchors, quiet(at)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Verify(flip(again(t, f, "forged")), f.anchors, quiet(at)); codeOf(err) != CodeSignature {
		t.Errorf("a bad signature of a known holder: %v", err)
	}
	l := &link{}
	l.holder = f.holders[0].Public()
	for range 2 { // as a stranger, and as one that is known
		if !l.isHolder(l.holder.URI()) {
			t.Error("a holder is not named by its own URI")
		}
		for _, uri := range []string{"", l.holder.Thumbprint(), keyName(l.holder), f.holders[1].Public().URI(), l.holder.URI() + "x"} {
			if l.isHolder(uri) {
				t.Errorf("%q names holder %s", uri, l.holder)
			}
		}
		m.know(l)
	}
	if l.name == "" {
		t.Error("the holder is not known")
	}
}

// Keys are forgotten like chains, and those in use stay.
func TestATK55_MemoForgetsKeys(t *testing.T) {
	m := NewMemo(2 * 6 * (memoryBase + signerCost + memoryFactor*3000))
	f := newFamily(t, 0)
	root := f.verify(t)
	for i := range 60 {
		child, err := Derive(root, f.holders[0], Narrowing{ID: strings.Repeat("x", i+1), Now: at, Tools: root.Tools(), Holder: keyOf(t, strconv.Itoa(i), Ed25519).Public()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Verify(JoinChain([]string{f.tokens[0], child}), f.anchors, quiet(at)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(m.youngKeys) + len(m.oldKeys); n == 0 || n > 30 {
		t.Errorf("%d keys are remembered; want some, at most 30", n)
	}
	l := &link{}
	l.holder = f.holders[0].Public()
	if m.know(l); l.name != keyName(l.holder) {
		t.Error("the key in every chain is forgotten")
	}
}

func TestMemoSkipsPrefixesThatCannotBePresented(t *testing.T) {
	v := forged{name: "x", hops: 2, change: func(f *forgery) {
		f.links[1].claims["authorization_details"] = []any{}
		f.leaf().tools(object{})
	}}.vector(t)
	anchors, err := ParseKeySet(v.Anchors)
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := ParseChainFile(v.Chain)
	if err != nil {
		t.Fatal(err)
	}
	m := NewMemo(1 << 20)
	if _, err := m.Verify(JoinChain(tokens), anchors, quiet(time.Unix(v.At, 0))); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Verify(JoinChain(tokens[:2]), anchors, quiet(time.Unix(v.At, 0))); codeOf(err) != CodeEmptyCapability {
		t.Error(err)
	}
}

// TestATK23_MemoComparesEveryByte: equal hashes are not enough.
func TestATK23_MemoComparesEveryByte(t *testing.T) {
	f := newFamily(t, 2)
	c, chain := f.verify(t).chain, JoinChain(f.tokens)
	if !c.is(chain) {
		t.Error("a chain is not itself")
	}
	for _, other := range []string{
		"", "x", f.tokens[0], JoinChain(f.tokens[:2]), JoinChain(f.tokens[:2]) + ",", chain + ",", chain + "x",
		strings.Join(f.tokens, ""), strings.Join(f.tokens, ";"), strings.Join(f.tokens, ",,"), flip(chain),
	} {
		if c.is(other) {
			t.Errorf("is %.20q, %d bytes", other, len(other))
		}
	}
}

func TestMemoServesSeveralGoroutines(t *testing.T) {
	m := NewMemo(1 << 16)
	f := newFamily(t, 4)
	var wg sync.WaitGroup
	for n := range f.tokens {
		for range 4 {
			wg.Go(func() {
				for range 20 {
					if _, err := m.Verify(JoinChain(f.tokens[:n+1]), f.anchors, quiet(at)); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
}

// TestWarmVerificationAllocatesNothing: bytes in, decision out, revocation of
// every link looked at.
func TestWarmVerificationAllocatesNothing(t *testing.T) {
	m := NewMemo(1 << 20)
	f := newFamily(t, 3)
	chain, o := JoinChain(f.tokens), quiet(at)
	attempt, err := powerbox.Invocation(operation(t, "read"), value(t, `{"path":"/q1"}`))
	if err != nil {
		t.Fatal(err)
	}
	allowed := 0
	check := func() {
		v, err := m.Verify(chain, f.anchors, o)
		if err != nil {
			t.Fatal(err)
		}
		if powerbox.Decide(attempt, v.Authority(), at).Allowed {
			allowed++
		}
	}
	check()
	if n := testing.AllocsPerRun(100, check); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if allowed != 102 {
		t.Errorf("allowed %d times of 102", allowed)
	}
}

func BenchmarkWarmThreeHops(b *testing.B) {
	m := NewMemo(1 << 20)
	f := newFamily(b, 3)
	chain, o := JoinChain(f.tokens), quiet(at)
	attempt, err := powerbox.Invocation(operation(b, "read"), value(b, `{"path":"/q1"}`))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		v, err := m.Verify(chain, f.anchors, o)
		if err != nil || !powerbox.Decide(attempt, v.Authority(), at).Allowed {
			b.Fatal(err)
		}
	}
}

func BenchmarkColdThreeHops(b *testing.B) {
	f := newFamily(b, 3)
	b.ReportAllocs()
	for b.Loop() {
		u, err := ParseChain(f.tokens)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := u.Verify(f.anchors, quiet(at)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseThreeHops(b *testing.B) {
	f := newFamily(b, 3)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseChain(f.tokens); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkNewLeaf shows a new token on a known prefix at two depths.
func BenchmarkNewLeaf(b *testing.B) {
	for _, hops := range []int{0, 8} {
		b.Run(map[int]string{0: "one hop", 8: "nine hops"}[hops], func(b *testing.B) {
			f := newFamily(b, hops)
			parent := f.verify(b)
			var chains []string
			for i := range 512 {
				child, err := Derive(parent, f.holders[hops], Narrowing{ID: "leaf " + string(rune(0x4e00+i)), Now: at, Tools: parent.Tools(), Holder: f.holders[0].Public()})
				if err != nil {
					b.Fatal(err)
				}
				chains = append(chains, JoinChain(append(parent.Tokens(), child)))
			}
			m := NewMemo(1 << 22)
			i := 0
			for b.Loop() {
				if i++; i%len(chains) == 0 {
					b.StopTimer()
					m = NewMemo(1 << 22)
					if _, err := m.Verify(JoinChain(f.tokens), f.anchors, quiet(at)); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
				if _, err := m.Verify(chains[i%len(chains)], f.anchors, quiet(at)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDerive(b *testing.B) {
	f := newFamily(b, 0)
	parent := f.verify(b)
	n := Narrowing{ID: "leaf", Now: at, Tools: parent.Tools(), Holder: f.holders[0].Public()}
	for b.Loop() {
		if _, err := Derive(parent, f.holders[0], n); err != nil {
			b.Fatal(err)
		}
	}
}
