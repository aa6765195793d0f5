package cli_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/cli"
)

type named string

// TestATK120_ATextStaysOnItsLine prints texts of others of every kind that a command has.
func TestATK120_ATextStaysOnItsLine(t *testing.T) {
	const text = "a\nb\tc\x1b[2J\u009b\r\u202e\u2028\u200bd"
	const want = `a\nb\tc\u001b[2J\u009b\u000d\u202e\u2028\u200bd`
	for name, arg := range map[string]any{
		"text": text, "named text": named(text), "error": errors.New(text), "list": []string{text}, "bytes": []byte(text), "map": map[string]string{"k": text},
	} {
		var out strings.Builder
		cli.Printf(&out, "%s\t%d %s\n", arg, 7, 2*time.Second)
		got := strings.TrimSuffix(out.String(), "\t7 2s\n")
		got = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(got, "map[k:"), "["), "]")
		if got != want {
			t.Errorf("%s: %q; want %q", name, got, want)
		}
	}
}
