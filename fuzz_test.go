package powerbox_test

import (
	"math/big"
	"testing"

	"github.com/powerbox-project/powerbox"
)

func FuzzDecodeValue(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.50,-3e2],"b":"\u00e9\ud83d\ude00"}`, `[null,true,false]`, `{"a":1,"\u0061":2}`, `-0`, `1e400`, "\"\xff\"", `"\ud800"`, `[[[]]]`, `{} x`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) { agreeOnJSON(t, in) })
}

func FuzzParseDecimal(f *testing.F) {
	for _, s := range []string{"0", "-1.50e3", "9007199254740993", "1e-324", "-0", "01", "1E+2", "NaN"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		d, err := powerbox.ParseDecimal(in)
		if err != nil {
			return
		}
		want, ok := new(big.Rat).SetString(in)
		got, ok2 := new(big.Rat).SetString(d.String())
		if !ok || !ok2 || want.Cmp(got) != 0 || must(powerbox.ParseDecimal(d.String())) != d {
			t.Fatalf("%s is written as %s", in, d)
		}
	})
}

func FuzzParseScope(f *testing.F) {
	for _, s := range []string{"trade", "trade.*", "trade.execute", "trade..x", "*", "trade-report", ""} {
		f.Add(s, "trade.execute")
	}
	f.Fuzz(func(t *testing.T, in, name string) {
		p, err := powerbox.ParseScope(in)
		if err != nil {
			return
		}
		back := p.Name()
		if p.Kind() == powerbox.Below {
			back += ".*"
		}
		if back != in || !p.Covers(p) {
			t.Fatalf("scope %q comes back as %q", in, back)
		}
		if o, err := powerbox.ParseOperation(name); err == nil && p.Matches(o) != p.Covers(powerbox.ExactPattern(o)) {
			t.Fatalf("scope %q matches and covers %q differently", in, name)
		}
	})
}

func FuzzParseConstraint(f *testing.F) {
	for _, c := range smallLeaves {
		f.Add([]byte(c.JSON().String()), []byte(`[1,"a"]`))
	}
	for _, s := range []string{
		`{"constraint_type":"path","root":"/a"}`, `{"constraint_type":"cidr","prefix":"10.0.0.0/8"}`, `{"constraint_type":"glob","pattern":"a*b"}`,
		`{"constraint_type":"url","schemes":["https"],"hosts":["*.a.example"],"ports":["443"],"path_prefix":"/v1"}`,
		`{"constraint_type":"any","constraints":[{"constraint_type":"all","constraints":[{"constraint_type":"range","min":0},{"constraint_type":"not_one_of","excluded":[1]}]},{"constraint_type":"exact","value":"a"}]}`,
	} {
		f.Add([]byte(s), []byte(`"https://b.a.example:443/v1"`))
	}
	f.Fuzz(func(t *testing.T, in, argument []byte) {
		v, err := powerbox.ParseValue(in)
		if err != nil {
			return
		}
		c, err := powerbox.ParseConstraint(v)
		if err != nil {
			return
		}
		again, err := powerbox.ParseConstraint(c.JSON())
		if err != nil || !again.JSON().Equal(c.JSON()) {
			t.Fatalf("%s comes back as an error: %v", c.JSON(), err)
		}
		normal := powerbox.MeetConstraints(c, c)
		if !powerbox.ConstraintCovers(c, normal) || !powerbox.ConstraintCovers(normal, c) {
			t.Fatalf("%s and its normal form %s do not cover each other", c.JSON(), normal.JSON())
		}
		if a, err := powerbox.ParseValue(argument); err == nil && c.Admits(a) != normal.Admits(a) {
			t.Fatalf("%s and its normal form %s differ on %s", c.JSON(), normal.JSON(), a)
		}
	})
}

func FuzzParseAuthority(f *testing.F) {
	for _, s := range []string{
		`{"depth":1,"expires":"2026-01-02T03:04:05Z","operations":[{"match":"exact","name":"o","shape":{"fields":{"x":{"constraint":{"constraint_type":"exact","value":1},"required":true}},"rest":"none"}}]}`,
		`{"depth":0,"not_before":"2026-01-02T03:04:05.5+02:00","operations":[{"match":"subtree","name":"t","shape":{"fields":{},"rest":"any"}},{"match":"below","name":"t","shape":{"fields":{},"rest":"any"}}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		v, err := powerbox.ParseValue(in)
		if err != nil {
			return
		}
		a, err := powerbox.ParseAuthority(v)
		if err != nil {
			return
		}
		again, err := powerbox.ParseAuthority(a.JSON())
		if err != nil || !again.Equal(a) || !a.Covers(again) || !a.Meet(a).Equal(a) {
			t.Fatalf("%s comes back as %s, %v", a.JSON(), again.JSON(), err)
		}
	})
}
