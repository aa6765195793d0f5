package evidence

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func plainByByte(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// TestPlainText puts every byte at every place of texts of every length up to three
// words, among bytes next to those that decide.
func TestPlainText(t *testing.T) {
	for _, filling := range []string{" ", "!", "#", "[", "]", "a", "\x7f"} {
		for length := range 24 {
			text := []byte(strings.Repeat(filling, length))
			if !plain(string(text)) {
				t.Fatalf("%q is not plain", text)
			}
			for place := range length {
				for c := range 256 {
					text[place] = byte(c)
					if got, want := plain(string(text)), plainByByte(string(text)); got != want {
						t.Fatalf("%q: %t; want %t", text, got, want)
					}
				}
				text[place] = filling[0]
			}
		}
	}
}

// TestPlainTextByChance compares texts of bytes that are often at the bounds.
func TestPlainTextByChance(t *testing.T) {
	plains := 0
	rapid.Check(t, func(t *rapid.T) {
		one := rapid.OneOf(rapid.SampledFrom([]byte(" !#[]a\x7f")), rapid.SampledFrom([]byte(" !#[]a\x7f")), rapid.Byte())
		text := string(rapid.SliceOfN(one, 0, 40).Draw(t, "text"))
		want := plainByByte(text)
		if want {
			plains++
		}
		if got := plain(text); got != want {
			t.Fatalf("%q: %t; want %t", text, got, want)
		}
	})
	if plains == 0 {
		t.Error("no text was plain")
	}
}
