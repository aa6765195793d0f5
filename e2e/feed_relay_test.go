package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/programtest"
)

// feedRelay is a running powerbox relay.
type feedRelay struct {
	w       *town
	url     string
	process *exec.Cmd
	log     *programtest.Log
	token   string // file with what followers show
}

const (
	relayToken    = "the-token-of-the-relay-0123456789abcdef"
	followerToken = "the-token-of-followers-0123456789abcdef"
)

// startRelay runs a relay of the feed at an address, of the server's feed for "".
func (w *town) startRelay(t *testing.T, upstream string, flags ...string) *feedRelay {
	t.Helper()
	dir, port := t.TempDir(), freePort(t)
	r := &feedRelay{w: w, url: "http://127.0.0.1:" + port, log: &programtest.Log{}, token: filepath.Join(dir, "follower")}
	for name, text := range map[string]string{"relay": relayToken + "\n", "follower": followerToken + "\n", "admit": "\n" + followerToken + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if upstream == "" {
		upstream = w.url
	}
	r.process = exec.Command(binary, append([]string{
		"relay", "--server", upstream, "--issuer", w.url, "--key", strings.TrimSpace(w.run("feed", "key")), "--listen", "127.0.0.1:" + port,
		"--token-file", filepath.Join(dir, "relay"), "--admit-file", filepath.Join(dir, "admit"),
	}, flags...)...)
	r.process.Stderr = r.log
	if err := r.process.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func(p *exec.Cmd) { _ = p.Wait(); close(exited) }(r.process)
	t.Cleanup(func() {
		_ = r.process.Process.Signal(syscall.SIGCONT)
		_ = r.process.Process.Signal(syscall.SIGTERM)
		select {
		case <-exited:
		case <-time.After(15 * time.Second):
			_ = r.process.Process.Kill()
		}
	})
	eventually(t, 20*time.Second, func() string { return "the relay is not ready\n" + r.log.String() }, func() bool { return r.says(t, "") })
	return r
}

// says reports whether the relay is ready and says so in these words.
func (r *feedRelay) says(t *testing.T, words string) bool {
	t.Helper()
	response, err := http.Get(r.url + "/readyz")
	if err != nil {
		return false
	}
	defer response.Body.Close()
	var body bytes.Buffer
	_, _ = body.ReadFrom(response.Body)
	return response.StatusCode == http.StatusOK && strings.Contains(body.String(), words)
}

// withRelays are the options of a server that a relay may follow.
func withRelays() options {
	return options{
		issuer: "  feed: {heartbeat: 100ms, relays: [{name: edge, token_file: edge.token}]}\n#",
		files:  map[string]string{"edge.token": relayToken},
	}
}

// TestATK25_ARelayOfTheRunningFeed has a gateway follow a relay of a relay: a
// capability revoked at the server is refused at once, and revoke --wait knows.
func TestATK25_ARelayOfTheRunningFeed(t *testing.T) {
	w, all := startRemote(t, 1, withRelays())
	killed(t, all[0].process)
	inner := w.startRelay(t, "")
	outer := w.startRelay(t, inner.url, "--token-file", inner.token)
	all[0].flags = append(all[0].flags, "--feed", outer.url, "--feed-token-file", outer.token)
	all[0].boot()
	alice := w.caller(aliceToken)
	held, other := alice.reports(), alice.reports()
	allowed(t, alice.looksUp(held))
	eventually(t, atOnce, func() string { return "nobody follows\n" + outer.log.String() + all[0].log.String() }, func() bool {
		return inner.says(t, "1 followers") && outer.says(t, "1 followers")
	})
	out, talk, code := w.exits("revoke", "--wait", held.ID)
	if code != 0 {
		t.Errorf("revoke --wait behind relays: %d\n%s%s", code, out, talk)
	}
	if a := alice.looksUp(held); a.reason() != "revoked" {
		t.Errorf("after revoke --wait: %s", a.Raw)
	}
	allowed(t, alice.looksUp(other))
	// Followers without a valid credential are refused.
	for name, c := range map[string]struct{ url, token string }{
		"the relay without a token":            {outer.url, ""},
		"the relay with its own token":         {outer.url, relayToken},
		"the server with a follower's token":   {w.url, followerToken},
		"the operator's with a relay's token":  {w.url + "/v1/records?", relayToken},
		"the server's interface of operators ": {w.url + "/v1/feed/key?", relayToken},
	} {
		for _, path := range []string{"/v1/feed/snapshot", "/v1/feed?after=0"} {
			at := c.url + path
			if strings.HasSuffix(c.url, "?") {
				at = c.url
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.token != "" {
				req.Header.Set("Authorization", "Bearer "+c.token)
			}
			response, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s, %s: %d", name, path, response.StatusCode)
			}
		}
	}
}

// TestATK25_ARelayThatLies puts something between the running relay and a gateway
// that leaves out, forges and repeats: the gateway notices, says so, continues at the
// server and refuses revoked capabilities.
func TestATK25_ARelayThatLies(t *testing.T) {
	w, all := startRemote(t, 1, withRelays())
	killed(t, all[0].process)
	relay := w.startRelay(t, "")
	lies := &liar{w: &town{url: relay.url}}
	all[0].flags = append(all[0].flags, "--feed", httpServer(t, lies.ServeHTTP), "--feed-token-file", relay.token, "--lease", "8s")
	alice := w.caller(aliceToken)
	isEvent := func(frame string) bool { return strings.HasPrefix(frame, "event: event\n") }
	var first string
	for _, c := range []struct {
		name, noticed string
		frames        func(string) []string
	}{
		{"leaves out", "is known", func(frame string) []string {
			if isEvent(frame) {
				return nil
			}
			return []string{frame}
		}},
		{"forges", "signature", func(frame string) []string {
			return []string{strings.Replace(frame, ".eyJ", ".eyK", 1)}
		}},
		{"repeats", "the revocation feed was lost", func(frame string) []string {
			if first == "" && !isEvent(frame) {
				first = frame
			}
			return []string{first}
		}},
		{"says nothing", "nothing was heard for half of the lease", func(string) []string { return nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			lies.lie(nil, nil)
			all[0].boot()
			held := alice.reports()
			eventually(t, patience, func() string { return "what is good is refused\n" + all[0].log.String() }, func() bool { return alice.looksUp(held).Error == nil })
			eventually(t, atOnce, func() string { return "nobody follows\n" + all[0].log.String() }, func() bool { return relay.says(t, "1 followers") })
			lies.lie(c.frames, nil)
			out, talk, code := w.exits("revoke", "--wait", held.ID)
			if code != 0 {
				t.Errorf("revoke --wait: %d\n%s%s\n%s", code, out, talk, all[0].log)
			}
			if a := alice.looksUp(held); a.reason() != "revoked" {
				t.Errorf("what was revoked: %s\n%s", a.Raw, all[0].log)
			}
			if log := all[0].log.String(); !strings.Contains(log, c.noticed) {
				t.Errorf("it is not noticed: want %q in\n%s", c.noticed, log)
			}
			killed(t, all[0].process)
		})
	}
}

// TestATK25_ARelayWithoutItsServer has the server go and the relay stay: what it
// repeats is good for the lease and no longer.
func TestATK25_ARelayWithoutItsServer(t *testing.T) {
	w, all := startRemote(t, 1, withRelays())
	killed(t, all[0].process)
	relay := w.startRelay(t, "")
	all[0].flags = append(all[0].flags, "--feed", relay.url, "--feed-token-file", relay.token, "--lease", "4s")
	all[0].boot()
	alice := w.caller(aliceToken)
	held := alice.reports()
	allowed(t, alice.looksUp(held))
	killed(t, w.process)
	eventually(t, patience, func() string { return "it goes on without news\n" + all[0].log.String() }, func() bool {
		a := alice.looksUp(held)
		return a.reason() == "revocations_stale"
	})
	w.boot()
	eventually(t, patience, func() string { return fmt.Sprintf("it does not come back\n%s\n%s", all[0].log, relay.log) }, func() bool {
		return alice.looksUp(held).Error == nil
	})
}

// TestRelayIsChecked refuses to run a relay that lacks what it is safe by.
func TestRelayIsChecked(t *testing.T) {
	asGiven(t)
	key := strings.Repeat("A", 43)
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"--server is missing": {"--key", key, "--admit-anyone"},
		"--key is missing":    {"--server", "https://x.example", "--admit-anyone"},
		"--admit-anyone":      {"--server", "https://x.example", "--key", key},
		"want at least 32":    {"--server", "https://x.example", "--key", key, "--admit-file", short},
		"32 bytes":            {"--server", "https://x.example", "--key", "x", "--admit-anyone"},
		"no place":            {"--server", "x.example", "--key", key, "--admit-anyone"},
		"together":            {"--server", "https://x.example", "--key", key, "--admit-anyone", "--tls-key", "k"},
	} {
		out, err := exec.CommandContext(t.Context(), binary, append([]string{"relay", "--listen", "127.0.0.1:0"}, args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: %v %s; want %q", args, err, out, want)
		}
	}
}
