package e2e

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// unseen lists characters in an agent's text that reverse the text around them, are
// invisible, or control a terminal.
const unseen = "\u202e\u2066\u200b\u009b\u034f\u3164"

// TestATK49_ValuesThatTurnWhatIsRead asks for values that are not what they look like, and
// wants them by their numbers on the page and in a shell, with a mark (AAP-A8).
func TestATK49_ValuesThatTurnWhatIsRead(t *testing.T) {
	asGiven(t)
	b := startBank(t)
	alice := b.visitor("alice")
	ask := func(values ...any) (code, text string) {
		t.Helper()
		agent := b.host().register(map[string]any{"name": "Payer", "capabilities": []any{limited("transfer_money", map[string]any{"destination_account": map[string]any{"in": values}})}})
		at := alice.open(agent.code)
		_, text = alice.get(at)
		return agent.code, text
	}
	code, text := ask("acc\u202e321", "b\u3164\u009b31m")
	for _, part := range strings.SplitAfter(text, "<") {
		if strings.ContainsAny(part, unseen) && !strings.Contains(part, `value="&#34;`) { // what the form sends back is exact
			t.Errorf("ATK-49 the page shows %q", part)
		}
	}
	if !strings.Contains(text, `acc\u202e321`) || !strings.Contains(text, `b\u3164\u009b31m`) || !strings.Contains(text, "characters that cannot be seen") {
		t.Errorf("ATK-49 the page does not mark what cannot be seen: %s", text)
	}
	for _, args := range [][]string{{"show", code}, {"list"}, {"deny", code}} {
		out, err := exec.Command(binary, append(append([]string{"approval"}, args...), "--server", b.url, "--as", "alice")...).CombinedOutput()
		if err != nil || strings.ContainsAny(string(out), unseen) {
			t.Errorf("ATK-49 powerbox approval %v: %v %q", args, err, out)
		}
		if args[0] == "show" && !strings.Contains(string(out), `acc\u202e321`) {
			t.Errorf("ATK-49 powerbox approval show: %q", out)
		}
	}
	if _, text := ask("p\u0430yments"); !strings.Contains(text, "mixes letters") {
		t.Errorf("ATK-49 a value of several scripts is not marked: %s", text)
	}
	if _, text := ask("payments"); strings.Contains(text, "mixes letters") || strings.Contains(text, "cannot be seen") {
		t.Errorf("a value in plain letters is marked: %s", text)
	}
}

// terminal runs the program with a terminal as its output, and returns what that gets.
func terminal(t *testing.T, args ...string) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Fatal("pseudo-terminals are opened as Linux has them")
	}
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = master.Close() }()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(filepath.Join("/dev/pts", strconv.Itoa(n)), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = slave, slave
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "POWERBOX_AGENTS_PASSPHRASE=a passphrase of the test")
	got := make(chan string)
	go func() {
		var all strings.Builder
		part := make([]byte, 4096)
		for {
			n, err := master.Read(part)
			all.Write(part[:n])
			if err != nil { // the last that had it open has ended
				got <- all.String()
				return
			}
		}
	}()
	_ = cmd.Run() // a refusal is an answer
	_ = slave.Close()
	return <-got
}

// TestATK49_WhatATerminalObeys has an untrusted provider answer with terminal control
// sequences, in its document, in its catalogue and in its refusals.
func TestATK49_WhatATerminalObeys(t *testing.T) {
	asGiven(t)
	const says = `\u001b]0;owned\u0007\u001b[2J\u009b31m\u202e`
	mux := http.NewServeMux()
	b := serveWords(t, mux)
	mux.HandleFunc("GET /.well-known/agent-configuration", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"version": "1.0-draft", "provider_name": "evil", "description": "A ` + says + ` service", "issuer": "` + b + `", "algorithms": ["Ed25519"], "modes": ["delegated"],
			"approval_methods": ["device_authorization"], "endpoints": {"register": "/agent/register", "capabilities": "/capability/list", "describe_capability": "/capability/describe", "execute": "/capability/execute",
			"request_capability": "/agent/request-capability", "status": "/agent/status", "reactivate": "/agent/reactivate", "revoke": "/agent/revoke", "revoke_host": "/host/revoke", "rotate_key": "/agent/rotate-key",
			"rotate_host_key": "/host/rotate-key", "introspect": "/agent/introspect"}, "default_location": "` + b + `/capability/execute"}`))
	})
	mux.HandleFunc("GET /capability/list", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"capabilities": [{"name": "read", "description": "Read ` + says + `"}], "has_more": false}`))
	})
	mux.HandleFunc("GET /capability/describe", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"error": "unauthorized", "message": "No ` + says + `"}`))
	})
	for _, c := range []struct {
		want string
		args []string
	}{
		{"service", []string{"agent", "discover", b}},
		{"Read", []string{"agent", "capabilities", "list", b, "--anonymous"}},
		{"No ", []string{"agent", "capabilities", "describe", b, "read", "--anonymous"}},
		{`\u202e`, []string{"agent", "capabilities", "list", b, "--anonymous", "--output", "json"}},
	} {
		got := terminal(t, c.args...)
		if !strings.Contains(got, c.want) {
			t.Errorf("powerbox %v did not get as far: %q", c.args, got)
		}
		if strings.ContainsAny(got, "\x1b\x07\u009b\u202e") {
			t.Errorf("ATK-49 powerbox %v tells the terminal %q", c.args, got)
		}
	}
}

// serveWords serves a mux, and returns its URL.
func serveWords(t *testing.T, mux *http.ServeMux) string {
	t.Helper()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}
