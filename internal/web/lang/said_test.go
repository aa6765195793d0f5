package lang

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSaidTranslatesFinishedTexts puts the values of an English text into the German one, also
// those that look like a place of a value.
func TestSaidTranslatesFinishedTexts(t *testing.T) {
	for english, german := range map[string]string{
		"a capability is required":                                                  "eine Berechtigung ist erforderlich",
		`no agent "mail" is protected here`:                                         "hier wird kein Agent \u201email\u201c geschützt",
		"the scope of desk at mail allows it":                                       "der Geltungsbereich von desk bei mail erlaubt es",
		`operation "%s": argument "b" is required (max)`:                            "Operation \u201e%s\u201c: das Argument \u201eb\u201c ist erforderlich (max)",
		`operation "a\nb" is not granted`:                                           "die Operation \u201ea\\nb\u201c ist nicht erteilt",
		"words that no catalogue has":                                               "words that no catalogue has",
		`the calling agent's scope does not allow it: operation "x" is not granted`: "der Geltungsbereich des aufrufenden Agenten erlaubt es nicht: die Operation \u201ex\u201c ist nicht erteilt",
		"an operator froze the agent mail":                                          "ein Betreiber hat den Agenten mail gesperrt",
		`operation "x": argument "y" does not satisfy its max constraint`:           "Operation \u201ex\u201c: das Argument \u201ey\u201c erfüllt seine Grenze max nicht",
	} {
		if got := German.Said(english); got != german {
			t.Errorf("%s: %s; want %s", english, got, german)
		}
		if got := English.Said(english); got != english {
			t.Errorf("in English: %s; want %s", got, english)
		}
	}
}

// TestSaidIsInTheCode wants each English text of the catalogue in the code that says it.
func TestSaidIsInTheCode(t *testing.T) {
	var code strings.Builder
	for _, pattern := range []string{"../api/*.go", "../../../gate/*.go", "../../../*.go", "../../people/*.go", "../../issuing/approval/*.go", "../../issuing/provider/*.go", "../../credential/*.go", "../../app/*.go", "../../config/*.go", "../../../token/*.go"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(names), err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			code.Write(data)
		}
	}
	for english := range readFile("de" + saidFile) {
		for part := range strings.SplitSeq(strings.ReplaceAll(english, `"%s"`, "%q"), "%s") {
			for part := range strings.SplitSeq(part, "%q") {
				if part = strings.TrimSpace(part); !strings.Contains(code.String(), part) {
					t.Errorf("no code says %q of %q", part, english)
				}
			}
		}
	}
}

// TestSaidKeepsValues wants as many values in both languages.
func TestSaidKeepsValues(t *testing.T) {
	for english, german := range readFile("de" + saidFile) {
		if a, b := strings.Count(english, "%s"), strings.Count(german, "%s"); a != b {
			t.Errorf("%q has %d values, %q has %d", english, a, german, b)
		}
	}
}
