package powerbox_test

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/powerbox-project/powerbox"
)

var numbers = rapid.OneOf(
	rapid.StringMatching(`-?(0|[1-9][0-9]{0,2})(\.[0-9]{1,3})?([eE][+-]?[0-9])?`),
	rapid.StringMatching(`-?[1-9][0-9]{0,30}(\.[0-9]{1,30})?`),
	rapid.StringMatching(`-?[1-9](\.[0-9]{1,18})?[eE][+-]?[0-2]?[0-9]{1,2}`),
	rapid.SampledFrom([]string{"9007199254740991", "9007199254740992", "9007199254740993", "9007199254740992.5", "0.1", "0.10", "1e-1", "100", "1E+2", "0", "0.000", "0e7"}),
)

func TestDecimalsAgreeWithRationals(t *testing.T) {
	var r rates
	rapid.Check(t, func(t *rapid.T) {
		for range 5 {
			s, u := numbers.Draw(t, "a"), numbers.Draw(t, "b")
			switch rapid.IntRange(0, 5).Draw(t, "near") {
			case 0:
				u = respelled(s)
			case 1:
				u = s[:len(s)-1] + "7"
			}
			a, errA := powerbox.ParseDecimal(s)
			b, errB := powerbox.ParseDecimal(u)
			x, okX := new(big.Rat).SetString(s)
			y, okY := new(big.Rat).SetString(u)
			r.note("both parse", errA == nil && errB == nil)
			if !okX || !okY {
				t.Fatalf("%s or %s is not a rational", s, u)
			}
			if errA != nil && (x.Sign() != 0 || !strings.HasPrefix(s, "-")) {
				t.Fatalf("%s: %v", s, errA)
			}
			if errA != nil || errB != nil {
				continue
			}
			if got, want := a.Compare(b), x.Cmp(y); got != want || (a == b) != (want == 0) || b.Compare(a) != -want {
				t.Fatalf("%s against %s: %d; want %d", s, u, got, want)
			}
			r.note("equal", a == b)
			r.note("same sign and exponent", a != b && len(a.String()) == len(b.String()))
			back, ok := new(big.Rat).SetString(a.String())
			if !ok || back.Cmp(x) != 0 || must(powerbox.ParseDecimal(a.String())) != a {
				t.Fatalf("%s is written as %s", s, a)
			}
			n, isInt := a.Int64()
			if want := x.IsInt() && x.Num().IsInt64(); isInt != want || want && x.Num().Int64() != n {
				t.Fatalf("%s as int64 is %d, %v", s, n, isInt)
			}
			r.note("an int64", isInt)
		}
	})
	r.atLeast(t, 5)
}

// respelled writes the same number in another way.
func respelled(s string) string {
	switch {
	case strings.ContainsAny(s, "eE"):
		return strings.ToUpper(s)
	case strings.Contains(s, "."):
		return s + "0"
	default:
		return s + ".000"
	}
}

func TestATK39_RefusedNumbers(t *testing.T) {
	for _, c := range []struct{ in, text string }{
		{"NaN", "is not a JSON number"},
		{"Infinity", "is not a JSON number"},
		{"-Infinity", "is not a JSON number"},
		{"inf", "is not a JSON number"},
		{"", "is not a JSON number"},
		{"-", "is not a JSON number"},
		{"+1", "is not a JSON number"},
		{"01", "is not a JSON number"},
		{"-01", "is not a JSON number"},
		{"1.", "is not a JSON number"},
		{".5", "is not a JSON number"},
		{"1e", "is not a JSON number"},
		{"1e+", "is not a JSON number"},
		{"1e1.5", "is not a JSON number"},
		{"0x10", "is not a JSON number"},
		{"1_000", "is not a JSON number"},
		{"1,5", "is not a JSON number"},
		{" 1", "is not a JSON number"},
		{"1 ", "is not a JSON number"},
		{"--1", "is not a JSON number"},
		{"\u0661", "is not a JSON number"},
		{"-0", "is negative zero; write 0"},
		{"-0.0", "is negative zero"},
		{"-0e5", "is negative zero"},
		{"1e400", "cannot be held"},
		{"-1e400", "cannot be held"},
		{"1e309", "cannot be held"},
		{"1.7976931348623159e308", "cannot be held"},
		{"1e-400", "cannot be held"},
		{"1e-324", "cannot be held"},
		{"1e99999", "exponent out of range"},
		{"1e-99999", "exponent out of range"},
		{"1e99999999999999999999", "exponent out of range"},
		{"0e99999", "exponent out of range"},
		{strings.Repeat("9", 600), "has 600 characters; want at most 512"},
		{"0." + strings.Repeat("9", 501), "has 501 significant digits; want at most 500"},
	} {
		d, err := powerbox.ParseDecimal(c.in)
		wantError(t, err, c.text)
		if d != (powerbox.Decimal{}) {
			t.Errorf("ATK-39: %q gives %s beside its error", c.in, d)
		}
	}
}

func TestATK39_Neighbours(t *testing.T) {
	ascending := []string{
		"-1.7976931348623157e308", "-9007199254740993", "-9007199254740992", "-1", "-0.1", "-5e-324", "0", "5e-324", "0.1", "0.10000000000000000001", "1", "1.0000000000000001", "10",
		"9007199254740991", "9007199254740992", "9007199254740993", "9007199254740994", "9223372036854775807", "9223372036854775808", "18446744073709551615", "1e300", "1.7976931348623157e308",
	}
	for i, s := range ascending {
		for j, u := range ascending {
			want := 0
			if i != j {
				want = map[bool]int{true: -1, false: 1}[i < j]
			}
			if got := num(s).Compare(num(u)); got != want {
				t.Errorf("ATK-39: %s against %s: %d; want %d", s, u, got, want)
			}
		}
	}
	for _, n := range []int64{0, 1, -1, 1 << 53, 1<<53 + 1, math.MaxInt64, math.MinInt64} {
		if got, ok := powerbox.Int(n).Int64(); !ok || got != n || powerbox.Int(n).String() != must(powerbox.ParseDecimal(powerbox.Int(n).String())).String() {
			t.Errorf("ATK-39: %d comes back as %d, %v", n, got, ok)
		}
	}
	for _, s := range []string{"0.5", "9223372036854775808", "-9223372036854775809", "1e19", "1e30"} {
		if n, ok := num(s).Int64(); ok {
			t.Errorf("ATK-39: %s is the int64 %d", s, n)
		}
	}
}

func TestDecimalString(t *testing.T) {
	for in, want := range map[string]string{
		"0.0": "0", "1.0": "1", "1E+2": "100", "-12.50": "-12.5", "1e20": "100000000000000000000", "1e21": "1e21", "1.5e21": "1.5e21",
		"0.00001": "0.00001", "0.000001": "0.000001", "0.0000001": "1e-7", "12e-8": "1.2e-7", "123456789.123": "123456789.123",
	} {
		if got := num(in).String(); got != want {
			t.Errorf("%s is written as %s; want %s", in, got, want)
		}
	}
	// What String writes is read back, at the longest as well.
	digits := strings.Repeat("7", 500)
	for exponent := -812; exponent <= -190; exponent++ {
		s := fmt.Sprintf("-%se%d", digits, exponent)
		if d, err := powerbox.ParseDecimal(s); err == nil && must(powerbox.ParseDecimal(d.String())) != d {
			t.Errorf("%s does not come back", s)
		}
	}
}
