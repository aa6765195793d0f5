package powerbox_test

import (
	"testing"

	"github.com/powerbox-project/powerbox"
)

// TestPlainIntegers: how a number is written, beside what it is.
func TestPlainIntegers(t *testing.T) {
	for text, want := range map[string]bool{"1": true, "0": true, "-7": true, "100": true, "9007199254740993": true, "1.0": false, "1e0": false, "1e2": false, "0.5": false, "true": false} {
		v, err := powerbox.ParseValue([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if v.IsPlainInteger() != want {
			t.Errorf("%s is a plain integer: %t", text, !want)
		}
		if v.IsRounded() != (text == "9007199254740993") {
			t.Errorf("%s is rounded: %t", text, v.IsRounded())
		}
	}
}
