package doors_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// proxy starts a stock proxy with the file of deploy/gateways, in which addresses are
// replaced, and returns its URL. command gets the name of the file.
func (w *town) proxy(t *testing.T, file, own, agent string, command func(name, dir string) *exec.Cmd) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../deploy/gateways", file))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for old, now := range map[string]string{own: address, "127.0.0.1:8710": w.edge, "127.0.0.1:9001": agent} {
		if !bytes.Contains(text, []byte(old)) {
			t.Fatalf("%s does not name %s", file, old)
		}
		text = bytes.ReplaceAll(text, []byte(old), []byte(now))
	}
	dir := t.TempDir()
	name := filepath.Join(dir, file)
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	c := command(name, dir)
	var said bytes.Buffer
	c.Stderr = &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		<-ended
		if t.Failed() {
			t.Logf("%s: %s", file, &said)
		}
	})
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			_ = conn.Close()
			return "http://" + address
		}
		select {
		case err := <-ended:
			t.Fatalf("%s ended: %v\n%s", file, err, &said)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// through sends a call through a proxy, beside headers by which callers pretend to be others.
func through(t *testing.T, url string, c call) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), c.method, url+c.path, strings.NewReader(c.body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = c.header.Clone()
	for _, name := range pretended {
		r.Header.Set(name, "forged")
	}
	a, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	body, err := io.ReadAll(bufio.NewReader(a.Body))
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	return a.StatusCode, string(body), a.Header
}

var pretended = []string{"Powerbox-Context", "Powerbox-Body", "X-Forwarded-User", "X-Forwarded-Uri", "X-Forwarded-Method", "X-Auth-Request-Email", "X-Real-Ip", "Cookie"}

// clean reports headers that must not reach an agent, and a context that is not ours.
func clean(t *testing.T, got http.Header) {
	t.Helper()
	for _, name := range append(pretended[1:], "Dpop", "Authorization") {
		if v := got.Get(name); v != "" {
			t.Errorf("the agent gets %s: %s", name, v)
		}
	}
	if values := got.Values("Powerbox-Context"); len(values) != 1 || strings.Count(values[0], ".") != 2 {
		t.Errorf("the agent gets the context %q", values)
	}
}

// TestCaddyAsksBeforeItForwards: the Caddyfile of deploy/gateways, in Caddy itself.
func TestCaddyAsksBeforeItForwards(t *testing.T) {
	w := newTown(t, "scoped")
	caddy := filepath.Join(t.TempDir(), "caddy")
	if out, err := exec.Command("go", "build", "-C", "../../../bench/caddy", "-o", caddy, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	url := w.proxy(t, "Caddyfile", "127.0.0.1:8080", w.notesAt, func(name, dir string) *exec.Cmd {
		c := exec.Command(caddy, name)
		c.Env = append(os.Environ(), "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir)
		return c
	})
	body := skill("read_note", 1)
	status, answer, _ := through(t, url, w.signs(t, post("notes", body)))
	got, header := w.notes.took()
	if status != http.StatusOK || len(got) != 1 || !strings.HasSuffix(got[0], " "+body) {
		t.Fatalf("%d %s; the agent got %q", status, answer, got)
	}
	clean(t, header)
	status, answer, _ = through(t, url, w.signs(t, post("notes", skill("delete_note", 1))))
	if got, _ := w.notes.took(); status != http.StatusForbidden || reason(answer) != "outside_caller_scope" || len(got) != 0 {
		t.Errorf("%d %s; the agent got %q", status, answer, got)
	}
	status, answer, _ = through(t, url, w.signs(t, post("notes", strings.Replace(body, "{", `{"pad":"`+strings.Repeat("a", 50_000)+`",`, 1))))
	if got, _ := w.notes.took(); status < 400 || len(got) != 0 {
		t.Errorf("a body that is too long: %d %s", status, answer)
	}
}

// TestNginxAsksBeforeItForwards: the nginx.conf of deploy/gateways, in nginx itself. It sends
// no bodies, so that calls with one are denied.
func TestNginxAsksBeforeItForwards(t *testing.T) {
	w := newTown(t, "scoped")
	url := w.nginx(t)
	listen := call{method: http.MethodGet, path: "/agents/tools", header: http.Header{"Accept": {"text/event-stream"}}}
	status, answer, _ := through(t, url, w.signs(t, listen))
	got, header := w.tools.took()
	if status != http.StatusOK || len(got) != 1 {
		t.Fatalf("%d %s; the server got %q", status, answer, got)
	}
	clean(t, header)
	listen.header.Set("Mcp-Session-Id", "of-another")
	status, _, told := through(t, url, w.signs(t, listen))
	if got, _ := w.tools.took(); status < 400 || len(got) != 0 {
		t.Errorf("a session of another caller: %d %v", status, told)
	}
	status, _, told = through(t, url, w.signs(t, post("tools", tool("read_file"))))
	if got, _ := w.tools.took(); status != http.StatusForbidden || told.Get("Powerbox-Reason") != "body_not_sent" || len(got) != 0 {
		t.Errorf("a call with a body: %d %v", status, told)
	}
}
