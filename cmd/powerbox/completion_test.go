package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/cli"
)

// The shell offers the values that a flag or an argument accepts, and the agents of the configuration.
func TestShellCompletesValues(t *testing.T) {
	file := filepath.Join(t.TempDir(), "powerbox.yaml")
	text := "issuer:\n  url: http://127.0.0.1:8700\nagents:\n  - id: mailer\n    upstream: http://127.0.0.1:9002\n  - id: documents\n    upstream: http://127.0.0.1:9001\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, want string
	}{
		{"report --output ", "text json"},
		{"graph show --output ", "text json dot mermaid svg"},
		{"mode -c FILE ", "documents mailer"},
		{"mode -c FILE documents ", "observe scoped prefer require configured"},
		{"mode -c FILE documents require ", ""},
		{"report -c FILE --agent ", "documents mailer"},
		{"report -c absent.yaml --agent ", ""},
		{"evidence export --format ", "bundle jsonl ocsf cef"},
		{"evidence list --decision ", "ALLOW DENY ABSTAIN"},
		{"usage -c FILE ", "documents mailer"},
	} {
		var out, talk bytes.Buffer
		args := strings.Split("__complete "+strings.ReplaceAll(c.args, "FILE", file), " ")
		code := Run(t.Context(), args, func(string) string { return "" }, strings.NewReader(""), &out, &talk)
		lines := strings.Fields(out.String())
		if code != cli.ExitFine || len(lines) == 0 || lines[len(lines)-1] != ":4" { // :4 is: offer no files
			t.Errorf("%q: exit code %d, %q %q", c.args, code, out.String(), talk.String())
			continue
		}
		if got := strings.Join(lines[:len(lines)-1], " "); got != c.want {
			t.Errorf("%q completes to %q; want %q", c.args, got, c.want)
		}
	}
}
