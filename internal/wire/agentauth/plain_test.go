package agentauth_test

import (
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// TestAAPA8_PlainWords removes from words of agents the characters that are invisible or
// reach into the lines around them, and leaves letters with their marks as they are.
func TestAAPA8_PlainWords(t *testing.T) {
	for given, want := range map[string]string{
		"Caf\u00e9 e\u0301\u0323": "Caf\u00e9 e\u0301\u0323", "\u0928\u092e\u0938\u094d\u0924\u0947": "\u0928\u092e\u0938\u094d\u0924\u0947", "a\u3164b\u115f\uffa0c\u2800d\u034fe\ufe0f\U000e0101": "abcde",
		"\u3164": "", "x\u2028y\u2029z": "x y z", "p\u200bay\u2066 \u202eme": "pay me",
		"Z" + strings.Repeat("\u0334\u20dd", 40) + "a\u0300": "Z\u0334\u20dd\u0334a\u0300",
	} {
		if got := agentauth.Plain(given, 80); got != want {
			t.Errorf("AAP-A8 %q becomes %q; want %q", given, got, want)
		}
	}
}

// What could end a quotation is spelled, and an apostrophe is none of that.
func TestATK135_Quotable(t *testing.T) {
	for text, want := range map[string]string{
		"Alice\u2019s report":   "Alice\u2019s report",
		"it\u201d and approved": `it\u201d and approved`,
		"it\u2019 and approved": `it\u2019 and approved`,
		"\u2019s":               `\u2019s`,
		"s\u2019":               `s\u2019`,
		"a\xff\u2019\xff":       "a\ufffd" + `\u2019` + "\ufffd",
		`"` + "`":               `\u0022\u0060`,
	} {
		if got := agentauth.Quotable(text); got != want {
			t.Errorf("%q is %q; want %q", text, got, want)
		}
	}
}
