package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/cli"
)

// The root says what the exit codes mean, and which version it is.
func TestRootHelp(t *testing.T) {
	run := func(args ...string) string {
		var out, talk bytes.Buffer
		if code := Run(t.Context(), args, func(string) string { return "" }, strings.NewReader(""), &out, &talk); code != cli.ExitFine {
			t.Fatalf("%v: %d %s", args, code, talk.String())
		}
		return out.String()
	}
	help := run("--help")
	for _, text := range []string{"0  fine", "1  an error", "2  wrong use", "3  something is denied", "4  something is invalid"} {
		if !strings.Contains(help, text) {
			t.Errorf("the help does not say %q:\n%s", text, help)
		}
	}
	// The help of a command begins with its short description, also where there is a long one.
	if trust := run("evidence", "trust", "--help"); !strings.HasPrefix(trust, "Write the ") && !strings.HasPrefix(trust, "Print the ") {
		t.Errorf("the help of evidence trust begins with %.80q", trust)
	}
	if version := run("--version"); version != run("version") || !strings.HasPrefix(version, "powerbox ") {
		t.Errorf("--version says %q", version)
	}
}
