package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
)

// full is a standard output on which there is no room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// What could not be told is no success.
func TestOutputThatCannotBeWritten(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"--help"}, {"config", "schema"}, {"completion", "bash"}} {
		var talk strings.Builder
		if code := Run(t.Context(), args, func(string) string { return "" }, nil, full{}, &talk); code != cli.ExitError || !strings.Contains(talk.String(), "no space left") {
			t.Errorf("%v exits with %d: %s", args, code, talk.String())
		}
	}
}

// A word that is no command is named, also before flags, and for help and completion.
func TestUnknownCommands(t *testing.T) {
	for _, args := range [][]string{{"bogus"}, {"bogus", "--limit", "0"}, {"help", "bogus"}, {"evidence", "bogus", "-x"}, {"help", "evidence", "bogus"}, {"completion", "bogus"}, {"registry", "bogus"}, {"guard", "bogus"}, {"agent", "capabilities", "bogus"}} {
		var out, talk strings.Builder
		code := Run(t.Context(), args, func(string) string { return "" }, nil, &out, &talk)
		if code != 2 || out.Len() > 0 || !strings.HasPrefix(talk.String(), `powerbox: unknown command "bogus" for "powerbox`) || strings.Count(talk.String(), "\n") != 1 {
			t.Errorf("%v exits with %d: %s%s", args, code, talk.String(), out.String())
		}
	}
}

// Who ends a verb is told that, and not what became of the request that it was waiting for.
// A mistyped flag is answered with the flags that it can be, as a mistyped command is.
func TestUnknownFlags(t *testing.T) {
	for line, want := range map[string]string{
		"call http://x --skil x":            "unknown flag: --skil; did you mean --skill?",
		"evidence list --reqester x":        "unknown flag: --reqester; did you mean --requester?",
		"approval list --outptu json":       "unknown flag: --outptu; did you mean --output?",
		"call http://x --nothing-like-this": "unknown flag: --nothing-like-this; see powerbox call --help",
		"call http://x -Z":                  "see powerbox call --help",
	} {
		var out, talk strings.Builder
		code := Run(t.Context(), strings.Fields(line), func(string) string { return "" }, nil, &out, &talk)
		if code != 2 || !strings.Contains(talk.String(), want) {
			t.Errorf("%s exits with %d: %s; want %s", line, code, talk.String(), want)
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		interrupt()
		<-r.Context().Done()
	}))
	defer server.Close()
	var talk strings.Builder
	env := func(name string) string { return map[string]string{cli.OperatorTokenEnv: "token"}[name] }
	if code := Run(ctx, []string{"mode", "--server", server.URL}, env, nil, &talk, &talk); code != cli.ExitError || talk.String() != "powerbox: interrupted\n" {
		t.Errorf("exit %d: %s", code, talk.String())
	}
}

// A certificate of an authority that is not known here says how it would be, once, to operators and
// to holders.
func TestAnAuthorityOfOnesOwn(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	env := func(name string) string { return map[string]string{cli.OperatorTokenEnv: "token"}[name] }
	key := filepath.Join(t.TempDir(), "key.jwk")
	for _, args := range [][]string{
		{"keys", "new", key}, {"mode", "--server", server.URL}, {"call", server.URL, "--skill", "read", "--key", key}, {"init", "--agent", server.URL, "--out", key + ".yaml"},
	} {
		var talk strings.Builder
		Run(t.Context(), args, env, nil, io.Discard, &talk)
		if n := strings.Count(talk.String(), "SSL_CERT_FILE"); args[0] != "keys" && n != 1 {
			t.Errorf("%v says it %d times: %s", args, n, talk.String())
		}
	}
}

// A server at issuer.url with other keys never gets the operator's token.
func TestDoctorShowsAStrangerNoToken(t *testing.T) {
	for name, answer := range map[string]string{"other keys": `{"keys":[]}`, "no keys": `<html>`} {
		t.Run(name, func(t *testing.T) {
			var shown []string
			stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "" {
					shown = append(shown, r.URL.Path)
				}
				_, _ = io.WriteString(w, answer)
			}))
			defer stranger.Close()
			dir := t.TempDir()
			keys := filepath.Join(dir, "powerbox-data", "keys")
			if err := os.MkdirAll(keys, 0o700); err != nil {
				t.Fatal(err)
			}
			configuration := fmt.Sprintf("issuer: {url: %q}\nagents: [{id: notes, upstream: %q}]\n", stranger.URL, stranger.URL)
			for file, text := range map[string]string{filepath.Join(dir, "powerbox.yaml"): configuration, filepath.Join(keys, "operator.secret"): "the-token-of-the-operator"} {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			run := func(args ...string) string {
				var out strings.Builder
				Run(t.Context(), args, func(string) string { return "" }, nil, &out, &out)
				return out.String()
			}
			run("keys", "new", filepath.Join(keys, "agent-notes.jwk"))
			if out := run("doctor", "-c", filepath.Join(dir, "powerbox.yaml")); len(shown) > 0 || !strings.Contains(out, "broken   issuer url") {
				t.Errorf("the token was shown at %v\n%s", shown, out)
			}
		})
	}
}

// A verb whose usage says that it takes any number of arguments takes them.
func TestArgumentsAreAsUsageSays(t *testing.T) {
	several := regexp.MustCompile(`(?: |\[)[A-Z]+\.\.\.`)
	found := 0
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			walk(c)
		}
		if cmd.Args == nil || !several.MatchString(cmd.Use) {
			return
		}
		found++
		if err := cmd.Args(cmd, []string{"a", "b"}); err != nil {
			t.Errorf("%s: %v", cmd.UseLine(), err)
		}
	}
	walk(newRoot(&cli.Program{Env: func(string) string { return "" }, Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Now: time.Now}))
	if found < 5 {
		t.Errorf("only %d verbs take several arguments", found)
	}
}

// A certificate that is over, or no certificate, is found before a server is started with it.
func TestDoctorCertificate(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "powerbox.yaml")
	text := "issuer: {url: \"https://127.0.0.1:1\", tls: {certificate: a.pem, key: b.pem}}\nagents: []\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if code := Run(t.Context(), []string{"doctor", "-c", file}, func(string) string { return "" }, nil, &out, &out); code != cli.ExitError || !strings.Contains(out.String(), "broken   tls") {
		t.Errorf("%d: %s", code, out.String())
	}
}
