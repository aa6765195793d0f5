package config

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// The forms accept what their regular expressions match, which the schema shows.
func TestFormsAreTheirPatterns(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	ofAttributes := func(s string) bool { return attributes.fits(s) && !digit(s[0]) }
	for pattern, fits := range map[string]func(string) bool{
		ids.pattern: ids.fits, names.pattern: names.fits, digests.pattern: digests.fits, logs.pattern: logs.fits,
		attributes.pattern: ofAttributes, liveNames.pattern: liveNames.fits, prefixes.pattern: prefixes.fits,
	} {
		expression := regexp.MustCompile(pattern)
		texts := []string{"", "\n", "a\n", "é", "a b", "a\x00", "0a", "_a"}
		for _, n := range []int{1, 2, 42, 43, 44, 63, 64, 65, 127, 128, 129, 255, 256, 257} {
			texts = append(texts, strings.Repeat("a", n))
		}
		for c := range 256 {
			texts = append(texts, string([]byte{byte(c)}), strings.Repeat("a", 42)+string([]byte{byte(c)}))
		}
		for range 2000 {
			b := make([]byte, random.IntN(70))
			for i := range b {
				b[i] = byte(' ' + random.IntN(96))
			}
			texts = append(texts, string(b))
		}
		for _, s := range texts {
			if got, want := fits(s), expression.MatchString(s); got != want {
				t.Errorf("%s: %q fits: %v; want %v", pattern, s, got, want)
			}
		}
	}
}
