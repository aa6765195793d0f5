package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/programtest"
	"github.com/powerbox-project/powerbox/token"
)

// attached is a running powerbox attach.
type attached struct {
	*town   // the same town, with calls going through attach
	process *exec.Cmd
	key     *token.PrivateKey
	out     *programtest.Log
	where   struct {
		Proxy   string            `json:"proxy"`
		Agents  map[string]string `json:"agents"`
		Socket  string            `json:"socket"`
		Inbound string            `json:"inbound"`
	}
}

// keyFile writes a key to a file and returns its name.
func (w *town) keyFile(name string, key *token.PrivateKey) string {
	w.t.Helper()
	w.write(name, string(key.JWK()))
	return filepath.Join(w.dir, name)
}

// attach starts powerbox attach with a configuration, and flags over it.
func (w *town) attach(name string, key *token.PrivateKey, config string, flags ...string) *attached {
	w.t.Helper()
	file := name + ".yaml"
	w.write(file, config)
	a := &attached{key: key, out: &programtest.Log{}}
	a.process = exec.Command(cmp.Or(w.program, binary), append([]string{
		"attach", "--output", "json", "--config", filepath.Join(w.dir, file), "--key", w.keyFile(name+".jwk", key),
	}, flags...)...)
	if !strings.HasPrefix(config, "listen:") {
		a.process.Args = append(a.process.Args, "--listen", "127.0.0.1:0")
	}
	a.process.Stderr, a.process.Env = a.out, append(os.Environ(), w.env...)
	stdout, err := a.process.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := a.process.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { a.end() })
	if err := json.NewDecoder(stdout).Decode(&a.where); err != nil {
		_ = a.process.Wait()
		w.t.Fatalf("attach does not begin: %v\n%s", err, a.out)
	}
	through := *w
	through.url, through.grpc = a.where.Proxy, map[string]string{}
	a.town = &through
	return a
}

// end stops the process and returns how it ended.
func (a *attached) end() error {
	_ = a.process.Process.Signal(syscall.SIGTERM)
	return a.process.Wait()
}

// session is the file with alice's session.
func (w *town) sessionFile() string {
	w.write("alice.session", aliceToken+"\n")
	return filepath.Join(w.dir, "alice.session")
}

// readReports asks for what reading the reports of a quarter takes.
const readReports = `    request:
      - {skills: [search_documents], purpose: find the reports, query: {collection: reports, filter: {quarter: 2025-Q1}}, lifetime: 10m}
      - {grants: [documents:read], purpose: talk about the reports, query: {collection: reports, filter: {quarter: 2025-Q1}}}
`

func TestAttachSignsEveryBinding(t *testing.T) { everywhere(t, tryAttach) }

// A client that knows nothing of capabilities is given another URL, in mode
// require: its calls get what the rules ask for, and no more.
func tryAttach(t *testing.T, on wire) {
	w := start(t, options{on: on, agent: "    enforces: context\n"})
	grpc := ""
	if on.binding == overGRPC {
		grpc = "    grpc: 127.0.0.1:" + freePort(t) + "\n"
	}
	a := w.attach("attach", newKey(t), "agents:\n  - name: documents\n    card: "+w.agentURL("documents")+"\n"+grpc+readReports, "--session-file", w.sessionFile())
	a.grpc["documents"] = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(grpc), "grpc:"))
	at := a.agentURL("documents")
	send := func(body []byte) answer { t.Helper(); return a.post(at, body, http.Header{}) }

	search := data("search_documents", map[string]any{"query": "financial"})
	found := send(search)
	allowed(t, found)
	if len(w.documents.got()) != 1 {
		t.Fatalf("%s\n%s", found.Raw, a.out)
	}
	request, _ := a.encode(at, search)
	if got := w.documents.got()[0].body; on.binding != overGRPC && !sameJSON(t, got, request.body) {
		t.Errorf("the body was changed: %s", got)
	}
	if c := w.sent(); c.Holder != "key:"+a.key.Public().Thumbprint() || c.Basis != "capability" {
		t.Errorf("the call was made by %q on %q", c.Holder, c.Basis)
	}
	if a := send(data("delete_document", map[string]any{"resourceHandle": "rh_x"})); a.reason() != "operation_not_granted" {
		t.Errorf("what is not in the capability: %s", a.Raw)
	}
	if a := send(data("retrieve_document", map[string]any{"resourceHandle": "rh_x"})); a.reason() != "handle_not_granted" && a.reason() != "operation_not_granted" {
		t.Errorf("what no rule asks for: %s", a.Raw)
	}
	begun := send(text("SendMessage", "task open"))
	allowed(t, begun)
	var result struct{ Task struct{ ID string } }
	if err := json.Unmarshal(begun.Result, &result); err != nil || result.Task.ID == "" {
		t.Fatalf("no task was begun: %s", begun.Raw)
	}
	task := result.Task.ID
	allowed(t, send(rpc("GetTask", map[string]any{"id": task})))
	allowed(t, send(text("SendStreamingMessage", "hello")))
	allowed(t, send(rpc("CancelTask", map[string]any{"id": task})))
	if got := w.caller(aliceToken).send("documents", rpc("GetTask", map[string]any{"id": task})); got.Error == nil {
		t.Errorf("the task is another holder's, too: %s", got.Raw)
	}
	for _, secret := range []string{aliceToken, `"d":`, "eyJ"} {
		if strings.Contains(a.out.String(), secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
}

// plain makes one request as a client that was only told a URL does.
func plain(t *testing.T, method, target string, body []byte, change func(*http.Request)) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, target, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if len(body) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("A2A-Version", "1.0")
	if change != nil {
		change(r)
	}
	return do(t, http.DefaultClient, r)
}

func do(t *testing.T, c *http.Client, r *http.Request) (int, string) {
	t.Helper()
	response, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(raw)
}

func documentsThrough(w *town) string {
	return "agents:\n  - name: documents\n    card: " + w.agentURL("documents") + "\n" + readReports
}

func TestATK16_AttachIsForProgramsBesideIt(t *testing.T) {
	w := start(t, options{})
	a := w.attach("attach", newKey(t), documentsThrough(w), "--session-file", w.sessionFile())
	body := data("search_documents", nil)
	at := a.agentURL("documents")
	for name, change := range map[string]func(*http.Request){
		"ATK-16 a rebound name":        func(r *http.Request) { r.Host = "evil.example:" + r.URL.Port() },
		"ATK-16 another port":          func(r *http.Request) { r.Host = "127.0.0.1:1" },
		"ATK-16 no port":               func(r *http.Request) { r.Host = "127.0.0.1" },
		"ATK-16 a page":                func(r *http.Request) { r.Header.Set("Origin", "http://"+r.Host) },
		"ATK-16 a page without origin": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
	} {
		t.Run(name, func(t *testing.T) {
			if status, got := plain(t, http.MethodPost, at, body, change); status != http.StatusForbidden || len(w.documents.got()) > 0 {
				t.Errorf("%d %s", status, got)
			}
		})
	}
	if status, got := plain(t, http.MethodPost, strings.Replace(at, "127.0.0.1", "localhost", 1), body, func(r *http.Request) { r.Header.Set("Sec-Fetch-Mode", "cors") }); status != 200 || len(w.documents.got()) != 1 {
		t.Errorf("a program of this machine: %d %s", status, got)
	}
}

func TestAttachKeepsASecret(t *testing.T) {
	w := start(t, options{})
	file := filepath.Join(w.dir, "attach.secret")
	a := w.attach("attach", newKey(t), documentsThrough(w), "--session-file", w.sessionFile(), "--secret-file", file)
	secret, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(file); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %s", info.Mode())
	}
	body := data("search_documents", nil)
	for _, sent := range []string{"", "Bearer x", "Bearer ", "Basic " + strings.TrimSpace(string(secret))} {
		status, _ := plain(t, http.MethodPost, a.agentURL("documents"), body, func(r *http.Request) { r.Header.Set("Proxy-Authorization", sent) })
		if status != http.StatusProxyAuthRequired {
			t.Errorf("with %q: %d", sent, status)
		}
	}
	status, got := plain(t, http.MethodPost, a.agentURL("documents"), body, func(r *http.Request) {
		r.Header.Set("Proxy-Authorization", "Bearer "+strings.TrimSpace(string(secret)))
	})
	if status != 200 || len(w.documents.got()) != 1 || w.documents.got()[0].header.Get("Proxy-Authorization") != "" {
		t.Errorf("with the secret: %d %s", status, got)
	}
	proxy, err := url.Parse(a.where.Proxy)
	if err != nil {
		t.Fatal(err)
	}
	for password, want := range map[string]int{strings.TrimSpace(string(secret)): 200, "x": http.StatusProxyAuthRequired} {
		proxy.User = url.UserPassword("x", password)
		r, err := http.NewRequest(http.MethodPost, w.agentURL("documents"), bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("A2A-Version", "1.0")
		if status, got := do(t, &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy), DisableKeepAlives: true}}, r); status != want {
			t.Errorf("as a proxy's password: %d %s; want %d", status, got, want)
		}
	}
	if err := a.end(); err != nil {
		t.Errorf("attach ended with %v", err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the secret outlives the process")
	}
}

// A client that is told a proxy, and the agent's own URL.
func TestAttachAsHTTPProxy(t *testing.T) {
	w := start(t, options{})
	other := newStock(t, "x")
	a := w.attach("attach", newKey(t), documentsThrough(w), "--session-file", w.sessionFile())
	proxy, err := url.Parse(a.where.Proxy)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}
	through := func(method, target string, body []byte) (int, string) {
		t.Helper()
		r, err := http.NewRequest(method, target, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("A2A-Version", "1.0")
		return do(t, client, r)
	}
	at := w.agentURL("documents")
	if status, card := through(http.MethodGet, at+"/.well-known/agent-card.json", nil); status != 200 || !strings.Contains(card, at) {
		t.Errorf("the card: %d %s", status, card)
	}
	if status, got := through(http.MethodPost, at, data("search_documents", nil)); status != 200 || strings.Contains(got, "error") || len(w.documents.got()) != 1 {
		t.Errorf("a call: %d %s", status, got)
	}
	for _, elsewhere := range []string{other.url + "/invoke", w.agentURL("mail"), at + "0", w.url + "/v1/records", w.url + "/agents/documents/../mail"} {
		status, got := through(http.MethodPost, elsewhere, data("search_documents", nil))
		if status != http.StatusForbidden && !strings.Contains(got, `"path"`) {
			t.Errorf("%s: %d %s", elsewhere, status, got)
		}
	}
	if len(w.documents.got()) != 1 || len(w.mail.got())+len(other.got()) > 0 {
		t.Error("a call went elsewhere")
	}
	c, err := net.Dial("tcp", proxy.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", proxy.Host, proxy.Host)
	first := make([]byte, 12)
	if _, err := io.ReadFull(c, first); err != nil || string(first) != "HTTP/1.1 405" {
		t.Errorf("a tunnel: %q, %v", first, err)
	}
}

// The inbound side passes every binding on to the agent, as it came.
func TestAttachInboundEveryBinding(t *testing.T) { everywhere(t, tryInbound) }

func tryInbound(t *testing.T, on wire) {
	in, grpc := address(t), ""
	file := filepath.Join(t.TempDir(), "again.yaml")
	if on.binding == overGRPC {
		grpc = "    grpc: {listen: \"" + address(t) + "\"}\n"
	}
	text := "agents:\n  - id: again\n    upstream: http://" + in + "\n    mode: require\n" + grpc + `offers:
  again: [{id: again:read, operations: [search]}]
skills:
  again: [{skill: search_documents, grant: again:read, operation: search}]
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w := start(t, options{on: on, extra: "include: [" + file + "]\n", policies: defaultPolicies + `
permit(principal == User::"user:alice", action in Action::"again/again:read", resource == Agent::"again");`})
	if grpc != "" {
		w.grpc["again"] = between(grpc, `"`, `"`)
	}
	a := w.attach("again", newKey(t), documentsThrough(w)+"inbound: {listen: \""+in+"\", forward: \""+w.documents.url+"\", agent: \""+w.agentURL("again")+"\"}\n")
	reachable(t, w.agentURL("again")+cardPath)
	alice := w.caller(aliceToken)
	c := alice.request("again", map[string]any{"grants": []string{"again:read"}, "purpose": "p"})[0]
	args := map[string]any{"query": "x"}
	for _, body := range [][]byte{
		data("search_documents", args),
		bytes.Replace(data("search_documents", args), []byte("SendMessage"), []byte("SendStreamingMessage"), 1),
	} {
		got := alice.present("again", body, proven{chain: []string{c.Token}, operation: "again/again:read/search", arguments: args})
		if got.Error != nil {
			t.Fatalf("%s\n%s", got.Raw, a.out)
		}
	}
	if calls := w.documents.got(); len(calls) != 2 || !strings.HasPrefix(calls[0].header.Get("Tracestate"), "powerbox=") {
		t.Errorf("the agent got %d calls", len(calls))
	}
}

// Where nothing is held the call continues, and the gateway knows whose key
// made it.
func TestAttachProvesItsKey(t *testing.T) { everywhere(t, tryKeyAlone) }

func tryKeyAlone(t *testing.T, on wire) {
	key := newKey(t)
	w := start(t, options{on: on, mode: "scoped", extra: named(t, map[string]*token.PrivateKey{"reporter": key}) + "scopes:\n  reporter: {documents: [documents:read/search]}\n"})
	grpc := ""
	if on.binding == overGRPC {
		grpc = address(t)
	}
	config := "agents:\n  - name: documents\n    card: " + w.agentURL("documents") + "\n"
	if grpc != "" {
		config += "    grpc: " + grpc + "\n"
	}
	a := w.attach("reporter", key, config)
	a.grpc["documents"] = grpc
	got := a.post(a.agentURL("documents"), data("search_documents", nil), http.Header{})
	allowed(t, got)
	if c := w.sent(); c.Holder != "key:"+key.Public().Thumbprint() || c.Basis != "standing" {
		t.Errorf("the call was made by %q on %q", c.Holder, c.Basis)
	}
	got = a.post(a.agentURL("documents"), data("delete_document", nil), http.Header{})
	if got.reason() != "outside_caller_scope" || len(w.documents.got()) != 1 {
		t.Errorf("beyond the scope: %s", got.Raw)
	}
}
