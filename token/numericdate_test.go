package token_test

import (
	"testing"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

// TestNumericDateHasAFractionAndIsNoString reads the forms that RFC 7519 section 2 has, and
// others that it does not have.
func TestNumericDateHasAFractionAndIsNoString(t *testing.T) {
	for text, want := range map[string]int64{"1": 1000, "1.5": 1500, "1.0": 1000, "15e-1": 1500, "0": 0, "253402300799": 253402300799000} {
		v, err := powerbox.ParseValue([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if at, ok := token.NumericDate(v); !ok || at.UnixMilli() != want {
			t.Errorf("AAP-H2 %s is read as %v, %t; want %d ms", text, at, ok, want)
		}
	}
	for _, text := range []string{`"1"`, `-1`, `-0.5`, `253402300800`, `1e300`, `null`, `true`, `[1]`, `{}`} {
		v, err := powerbox.ParseValue([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if at, ok := token.NumericDate(v); ok {
			t.Errorf("AAP-H2 %s is read as %v; want it refused", text, at)
		}
	}
}
