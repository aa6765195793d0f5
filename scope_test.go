package powerbox_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/powerbox-project/powerbox"
)

func TestEXT3_ScopeGrammar(t *testing.T) {
	for _, good := range []string{"trade", "trade.execute", "trade.execute.limit", "trade.*", "trade.execute.*", "a-b_c.D9", "-", "_", "9"} {
		if p, err := powerbox.ParseScope(good); err != nil || !strings.HasPrefix(good, p.Name()) {
			t.Errorf("EXT-3: scope %q gives %v, %v", good, p, err)
		}
	}
	for _, bad := range []string{
		"", ".", "*", ".*", "*.*", "**", "trade.", ".trade", "trade..execute", "trade.*.execute", "trade*", "trade.ex*", "trade.**", "trade.*.*",
		"trade .execute", " trade", "trade ", "trade/execute", "trade:execute", "tr\u00e4de", "trade\x00", "trade\n", "trade.\xff", "trade,read", "trade read", "\u200btrade",
	} {
		if p, err := powerbox.ParseScope(bad); err == nil {
			t.Errorf("EXT-3: scope %q parses as %s", bad, p)
		} else if p != (powerbox.Pattern{}) {
			t.Errorf("EXT-3: scope %q gives %s beside its error", bad, p)
		}
	}
}

func TestEXT4_Containment(t *testing.T) {
	for _, c := range []struct {
		scope, operation string
		want             bool
	}{
		{"trade", "trade", true},
		{"trade", "trade.execute", true},
		{"trade", "trade.execute.now", true},
		{"trade", "trade-report", false},
		{"trade", "tradex", false},
		{"trade", "Trade", false},
		{"trade", "tra", false},
		{"trade.*", "trade", false},
		{"trade.*", "trade.execute", true},
		{"trade.*", "trade.execute.now", true},
		{"trade.*", "trade-report", false},
		{"trade.*", "trade-report.x", false},
		{"trade.*", "trade.", false},
		{"trade.*", "trade.*", true},
		{"trade.execute", "trade.execute", true},
		{"trade.execute", "trade", false},
		{"trade.execute", "trade.execution", false},
		{"trade.execute.*", "trade.execute.now", true},
		{"trade.execute.*", "trade.cancel", false},
	} {
		if got := scope(c.scope).Matches(op(c.operation)); got != c.want {
			t.Errorf("EXT-4: scope %s matches %s: %v; want %v", c.scope, c.operation, got, c.want)
		}
	}
	for _, c := range []struct {
		wide, narrow string
		want         bool
	}{
		{"trade", "trade", true},
		{"trade", "trade.*", true},
		{"trade.*", "trade", false},
		{"trade", "trade.execute", true},
		{"trade.*", "trade.execute", true},
		{"trade.*", "trade.execute.*", true},
		{"trade.execute", "trade", false},
		{"trade", "trade-report", false},
		{"trade.*", "trade-report", false},
		{"trade-report", "trade", false},
	} {
		if got := scope(c.wide).Covers(scope(c.narrow)); got != c.want {
			t.Errorf("EXT-4: scope %s covers %s: %v; want %v", c.wide, c.narrow, got, c.want)
		}
	}
	if exactly("trade").Matches(op("trade.execute")) || !exactly("trade").Matches(op("trade")) {
		t.Error("EXT-4: an exact name covers itself and nothing else")
	}
}

// A prefix of bytes is not a prefix of segments.
func TestATK2_ScopePrefix(t *testing.T) {
	segment := rapid.StringMatching(`[a-c_-]{1,3}`)
	var r rates
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOfN(segment, 1, 3).Draw(t, "scope"), ".")
		name := s + rapid.SampledFrom([]string{"", ".", "-", "_", "x", ".x", ".x.y", "..x", ".-"}).Draw(t, "rest")
		want := name == s || strings.HasPrefix(name, s+".") && len(name) > len(s)+1
		if got := scope(s).Matches(op(name)); got != want {
			t.Fatalf("ATK-2: scope %s matches %s: %v", s, name, got)
		}
		if got := scope(s + ".*").Matches(op(name)); got != (want && name != s) {
			t.Fatalf("ATK-2: scope %s.* matches %s: %v", s, name, got)
		}
		r.note("matches", want)
		r.note("shares a prefix only", !want)
	})
	r.atLeast(t, 5)
	if scope("trade.*").Matches(op("trade-report")) {
		t.Error("ATK-2: trade.* admits trade-report")
	}
}

// Nothing is cut off: a scope parses whole or not at all, and comes back as it
// went in.
func TestATK4_LongScopes(t *testing.T) {
	for length := 1; length <= 600; length++ {
		s := strings.Repeat("a.", length/2) + strings.Repeat("a", length%2)
		s = strings.TrimSuffix(s, ".") + strings.Repeat("z", length-len(strings.TrimSuffix(s, ".")))
		for _, wildcard := range []string{"", ".*"} {
			p, err := powerbox.ParseScope(s + wildcard)
			if (err == nil) != (length <= powerbox.MaxOperationBytes-len(".x")) {
				t.Fatalf("ATK-4: scope of %d bytes: %v", length, err)
			}
			if err == nil && p.Name()+wildcard != s+wildcard {
				t.Fatalf("ATK-4: scope of %d bytes has become one of %d", length, len(p.Name()))
			}
			if err == nil && (p.Matches(op(s)) != (wildcard == "") || !p.Matches(op(s+".x")) || p.Matches(op(s[:len(s)-1]+"!"))) {
				t.Fatalf("ATK-4: scope of %d bytes does not match what it names", length)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`[a-zA-Z0-9_-]{1,40}(\.[a-zA-Z0-9_-]{1,40}){0,5}(\.\*)?`).Draw(t, "scope")
		p := scope(s)
		back := p.Name()
		if p.Kind() == powerbox.Below {
			back += ".*"
		}
		if again := scope(back); back != s || again != p {
			t.Fatalf("ATK-4: %s comes back as %s", s, back)
		}
	})
}

func TestOperationNames(t *testing.T) {
	longest := strings.Repeat("x", powerbox.MaxOperationBytes)
	for _, name := range []string{"a", "docs:read", "Gr\u00fc\u00dfe", " ", "*", longest} {
		if o, err := powerbox.ParseOperation(name); err != nil || o.String() != name || o.IsZero() {
			t.Errorf("operation %q gives %q, %v", name, o, err)
		}
	}
	for name, text := range map[string]string{"": "is empty", longest + "x": "has 257 bytes; want 1 to 256", "a\xff": "is not UTF-8"} {
		_, err := powerbox.ParseOperation(name)
		wantError(t, err, text)
	}
}

func TestPatternKinds(t *testing.T) {
	for _, c := range []struct {
		kind powerbox.PatternKind
		want string
	}{{powerbox.Exact, "a exact a"}, {powerbox.Subtree, "a subtree a.**"}, {powerbox.Below, "a below a.*"}} {
		p := must(powerbox.NewPattern(c.kind, "a"))
		if got := p.Name() + " " + p.Kind().String() + " " + p.String(); got != c.want {
			t.Errorf("%s; want %s", got, c.want)
		}
	}
	for kind, name := range map[powerbox.PatternKind]string{0: "a", 4: "a", powerbox.Exact: "", powerbox.Subtree: "a b", powerbox.Below: "a.*"} {
		if p, err := powerbox.NewPattern(kind, name); err == nil || p != (powerbox.Pattern{}) {
			t.Errorf("pattern %d %q gives %v, %v", kind, name, p, err)
		}
	}
}

func TestATK5_ZeroPatternMatchesNothing(t *testing.T) {
	var zero powerbox.Pattern
	if zero.Matches(op("a")) || zero.Covers(zero) || zero.Covers(exactly("a")) || exactly("a").Covers(zero) || zero.String() != "(none)" || zero.Kind().String() != "none" {
		t.Error("ATK-5: the zero pattern has to do with something")
	}
	var nothing powerbox.Operation
	for _, p := range []powerbox.Pattern{zero, exactly("a"), scope("a"), scope("a.*"), powerbox.ExactPattern(nothing)} {
		if p.Matches(nothing) {
			t.Errorf("ATK-5: %s matches the operation without a name", p)
		}
	}
}
