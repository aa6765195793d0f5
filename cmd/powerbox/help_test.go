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
	for _, text := range []string{"0  fine", "1  an error", "2  wrong use", "3  something is denied", "4  something is invalid", "6  pending"} {
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

// An error about a required flag says what the flag is.
func TestMissingFlagsAreExplained(t *testing.T) {
	for _, c := range []struct {
		args, want string
	}{
		{"evidence verify bundle", "powerbox: --trust file is missing: file with the keys to trust, from powerbox evidence trust; see powerbox evidence verify --help\n"},
		{"token verify --at 1", "powerbox: --anchors file is missing: file with the JWK Set of the trusted issuer\n  --chain file is missing: file with the chain; see powerbox token verify --help\n"},
		{"token verify --bogus", "powerbox: unknown flag: --bogus; see powerbox token verify --help\n"},
	} {
		var out, talk bytes.Buffer
		if code := Run(t.Context(), strings.Fields(c.args), func(string) string { return "" }, strings.NewReader(""), &out, &talk); code != 2 || talk.String() != c.want {
			t.Errorf("%s: %d %s; want %s", c.args, code, talk.String(), c.want)
		}
	}
}
