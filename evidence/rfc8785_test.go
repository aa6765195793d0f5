package evidence

import (
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// testDataOfRFC8785 is where the data of the authors of RFC 8785 are: they come
// with the module that is the oracle of other tests, at the version of go.mod.
func testDataOfRFC8785(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/gowebpki/jcs").Output()
	must(t, err)
	return filepath.Join(strings.TrimSpace(string(out)), "testdata")
}

// TestATK40_TestDataOfRFC8785 puts the test data of RFC 8785 to both
// implementations. Each file has the canonical form also as hex.
func TestATK40_TestDataOfRFC8785(t *testing.T) {
	dir := testDataOfRFC8785(t)
	inputs, err := filepath.Glob(filepath.Join(dir, "input", "*.json"))
	must(t, err)
	if len(inputs) < 6 {
		t.Fatalf("%d files in %s", len(inputs), dir)
	}
	var questions []asked
	var want []string
	for _, name := range inputs {
		input, err := os.ReadFile(name)
		must(t, err)
		output, err := os.ReadFile(filepath.Join(dir, "output", filepath.Base(name)))
		must(t, err)
		got, err := Canonical(input)
		if filepath.Base(name) == "values.json" {
			// 333333333.33333329 and 1E30 are other numbers as 64-bit floats.
			// Powerbox refuses signed values that two readers could read differently
			// (ATK-39).
			wantError(t, err, "more digits than a 64-bit float keeps")
			text := string(input)
			questions, want = append(questions, asked{Canonical: &text}), append(want, "")
			continue
		}
		if err != nil || string(got) != strings.TrimRight(string(output), "\n") {
			t.Errorf("%s: %s, %v; want %s", filepath.Base(name), got, err, output)
		}
		bytes, err := os.ReadFile(filepath.Join(dir, "outhex", strings.TrimSuffix(filepath.Base(name), ".json")+".txt"))
		if err == nil {
			if text := strings.Join(strings.Fields(string(bytes)), ""); !strings.EqualFold(text, hex.EncodeToString(got)) {
				t.Errorf("%s: %x, want %s", filepath.Base(name), got, text)
			}
		}
		text := string(input)
		questions, want = append(questions, asked{Canonical: &text}), append(want, string(got))
	}
	for i, answer := range inNode(t, questions) {
		if answer.Text != want[i] {
			t.Errorf("%s: verify.mjs says %q %s, want %q", filepath.Base(inputs[i]), answer.Text, answer.Error, want[i])
		}
	}
}

// TestATK39_NumbersOfRFC8785 are the samples of its appendix B, by their bits, as
// numbers of a JSON text. Both implementations write them as there, or refuse what
// they never write: minus zero, integers beyond 2^53 in whatever spelling, and what
// is no number.
func TestATK39_NumbersOfRFC8785(t *testing.T) {
	samples := []struct{ given, want string }{
		{"0", "0"},
		{"-0", ""},
		{"5e-324", "5e-324"},
		{"-5e-324", "-5e-324"},
		{"1.7976931348623157e308", ""},
		{"-1.7976931348623157E+308", ""},
		{"9007199254740992", ""},
		{"-9007199254740992", ""},
		{"9007199254740991", "9007199254740991"},
		{"295147905179352830000", ""},
		{"NaN", ""},
		{"Infinity", ""},
		{"9.999999999999997e22", ""},
		{"1e23", ""},
		{"1.0000000000000001e23", ""},
		{"999999999999999700000", ""},
		{"999999999999999900000", ""},
		{"1e21", ""},
		{"9.999999999999997e-7", "9.999999999999997e-7"},
		{"0.000001", "0.000001"},
		{"333333333.3333332", "333333333.3333332"},
		{"333333333.33333325", "333333333.33333325"},
		{"333333333.3333333", "333333333.3333333"},
		{"333333333.3333334", "333333333.3333334"},
		{"333333333.33333343", "333333333.33333343"},
		{"-0.0000033333333333333333", "-0.0000033333333333333333"},
		{"1424953923781206.2", "1424953923781206.2"},
	}
	var questions []asked
	for _, s := range samples {
		questions = append(questions, asked{Canonical: &s.given})
	}
	for i, answer := range inNode(t, questions) {
		got, err := Canonical([]byte(samples[i].given))
		if string(got) != samples[i].want && err == nil || (err != nil) != (samples[i].want == "") {
			t.Errorf("%s: %s, %v; want %q", samples[i].given, got, err, samples[i].want)
		}
		if answer.Text != string(got) {
			t.Errorf("%s: verify.mjs says %q %s, Go %q", samples[i].given, answer.Text, answer.Error, got)
		}
	}
}
