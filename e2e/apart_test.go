package e2e

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/programtest"
	"github.com/powerbox-project/powerbox/internal/remote/link"
	"github.com/powerbox-project/powerbox/internal/wire/signed"
	"github.com/powerbox-project/powerbox/token"
)

// replica is one remote gateway.
type replica struct {
	w       *town
	agent   string // that it is in front of; documents where empty
	state   string
	address string
	flags   []string
	tls     *tls.Config // of clients, nil where it speaks no TLS
	process *exec.Cmd
	program string // that is run; the built one where empty
	log     *programtest.Log
}

// startRemote starts a server whose documents agent has remote gateways, behind a
// proxy that takes one after the other.
func startRemote(t *testing.T, replicas int, o options, flags ...string) (*town, []*replica) {
	t.Helper()
	var next atomic.Int64
	var all []*replica
	own := new(http.Transport) // servers of other tests close idle connections of the default one
	t.Cleanup(own.CloseIdleConnections)
	front := httpServer(t, func(w http.ResponseWriter, r *http.Request) {
		one := all[int(next.Add(1))%len(all)]
		to := &url.URL{Scheme: "http", Host: one.address}
		proxy := httputil.ReverseProxy{Transport: own, FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to); p.Out.Host = p.In.Host }}
		proxy.ServeHTTP(w, r)
	})
	o.agent += "\n    gateway_url: " + front
	o.issuer += "  feed: {heartbeat: 100ms}"
	w := start(t, o)
	w.apart = front
	for range replicas {
		r := &replica{w: w, state: filepath.Join(t.TempDir(), "state"), address: "127.0.0.1:" + freePort(t), flags: flags, program: o.gateway}
		if o.on.binding == overGRPC { // of several, the last is spoken to
			w.grpc["documents"] = "127.0.0.1:" + freePort(t)
			r.flags = append([]string{"--grpc-listen", w.grpc["documents"]}, flags...)
		}
		r.enroll()
		r.boot()
		all = append(all, r)
	}
	return w, all
}

func (r *replica) enroll() {
	t := r.w.t
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(strings.TrimSpace(r.w.run("gateway", "token", "--agent", cmp.Or(r.agent, "documents")))), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), cmp.Or(r.program, binary), "gateway", "enroll", "--server", r.w.url, "--token-file", file, "--state", r.state).CombinedOutput()
	if err != nil {
		t.Fatalf("enroll: %v\n%s", err, out)
	}
}

// boot runs the gateway and waits until it is ready.
func (r *replica) boot() {
	t := r.w.t
	t.Helper()
	r.log = &programtest.Log{}
	r.process = exec.Command(cmp.Or(r.program, r.w.program, binary), append([]string{"gateway", "--state", r.state, "--listen", r.address, "--dev"}, r.flags...)...)
	r.process.Stderr, r.process.Env = r.log, append(os.Environ(), r.w.env...)
	if err := r.process.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func(p *exec.Cmd) { exited <- p.Wait() }(r.process)
	t.Cleanup(func() {
		_ = r.process.Process.Signal(syscall.SIGTERM)
		select {
		case <-exited:
		case <-time.After(15 * time.Second):
			_ = r.process.Process.Kill()
		}
	})
	eventually(t, 20*time.Second, func() string { return "the gateway is not ready\n" + r.log.String() }, func() bool {
		client, scheme := http.DefaultClient, "http://"
		if r.tls != nil {
			client, scheme = r.client(), "https://"
		}
		response, err := client.Get(scheme + r.address + "/readyz")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

// killed kills the process, and waits until it has gone.
func killed(t *testing.T, p *exec.Cmd) {
	t.Helper()
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, func() string { return "it does not end" }, func() bool { return syscall.Kill(p.Process.Pid, 0) != nil })
}

// atOnce is how long what comes at once may take on a machine with other work. It is
// no verdict on the second that docs/explanation/trust.md speaks of.
const atOnce = 10 * time.Second

// eventually tries until it is so.
func eventually(t *testing.T, within time.Duration, what func() string, so func() bool) {
	t.Helper()
	limit := time.After(within)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-limit:
			t.Fatal(what())
		case <-tick.C:
		}
	}
}

// await waits, as long as the test may take, and leaves the processor to what it waits for.
func await(so func() bool) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !so() {
		<-tick.C
	}
}

// soon is what comes at once, and fails where nothing does.
func soon[T any](t *testing.T, otherwise string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(atOnce):
		t.Fatal(otherwise)
		panic("unreachable")
	}
}

func httpServer(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

// looksUp is a call that only reads.
func (c *caller) looksUp(held granted) answer {
	body := data("search_documents", map[string]any{})
	return c.present("documents", body, proven{chain: []string{held.Token}, operation: opSearch})
}

// TestATK25_AGatewayApart runs a remote gateway: it decides, is
// told of a freeze at once, continues without the server for the time of its lease,
// and then denies.
func TestATK25_AGatewayApart(t *testing.T) {
	w, all := startRemote(t, 1, options{}, "--lease", "2s")
	alice := w.caller(aliceToken)
	held := alice.reports()
	if a := alice.looksUp(held); a.Error != nil {
		t.Fatalf("search: %s\n%s\n%s", a.Raw, all[0].log, w.log)
	}
	// Its context is signed by its own key, which the agent's key set has.
	got := w.documents.got()
	keys := w.keySet("documents")
	if c, err := token.VerifyContext(got[0].header.Get("Powerbox-Context"), keys, "documents", time.Now(), got[0].body); err != nil || c.Principal == "" {
		t.Errorf("context: %+v, %v", c, err)
	}
	// A handle opens with the shared key.
	body := data("retrieve_document", map[string]any{"resourceHandle": held.ResourceHandles[0].Handle})
	if a := alice.present("documents", body, proven{
		chain: []string{held.Token}, operation: opRetrieve, arguments: map[string]any{"resourceHandle": held.ResourceHandles[0].Handle},
	}); a.Error != nil {
		t.Errorf("retrieve: %s", a.Raw)
	}
	if !strings.Contains(payload(t, w.documents.got()[1].header.Get("Powerbox-Context")), "/vault/q1-") {
		t.Error("the context does not say which resource is meant")
	}
	// The server's own gateway is not this agent's.
	if r := w.post(w.url+"/agents/documents", body, nil); r.Status != http.StatusMisdirectedRequest {
		t.Errorf("at the server: %d %s", r.Status, r.Raw)
	}
	w.run("freeze", "agent:documents", "--reason", "r")
	eventually(t, atOnce, func() string { return "a freeze is not known" }, func() bool { return alice.looksUp(held).reason() == "frozen" })
	w.run("thaw", "agent:documents", "--reason", "r")
	eventually(t, atOnce, func() string { return "a thaw is not known" }, func() bool { return alice.looksUp(held).Error == nil })
	w.run("mode", "documents", "prefer")
	eventually(t, atOnce, func() string { return "a mode is not known" }, func() bool {
		return w.post(w.agentURL("documents"), data("search_documents", map[string]any{}), nil).Error == nil
	})
	w.run("mode", "documents", "require")
	eventually(t, atOnce, func() string { return "a mode is not known" }, func() bool {
		return w.post(w.agentURL("documents"), data("search_documents", map[string]any{}), nil).reason() == "capability_required"
	})
	// Without the server it continues until the lease is over; what writes does not.
	killed(t, w.process)
	if a := alice.looksUp(held); a.Error != nil {
		t.Errorf("within the lease: %s", a.Raw)
	}
	began := time.Now()
	eventually(t, atOnce, func() string { return "calls go on after the lease is over" }, func() bool { return alice.looksUp(held).reason() == "revocations_stale" })
	t.Logf("without news: denied after %v", time.Since(began).Round(10*time.Millisecond))
	w.boot()
	eventually(t, 10*time.Second, func() string { return "calls do not go on with the server\n" + all[0].log.String() }, func() bool { return alice.looksUp(held).Error == nil })
}

// TestATK24_StreamsEndWithTheLease: a server that hangs, and a stream on which
// nothing comes.
func TestATK24_StreamsEndWithTheLease(t *testing.T) {
	agent := newRawAgent(t)
	agent.quiet()
	w, _ := startRemote(t, 1, options{upstream: agent.url}, "--lease", "2s", "--upstream", agent.url)
	alice := w.caller(aliceToken)
	held := alice.reports()
	body := streaming()
	stream := w.open("documents", body, alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch}))
	standStill(t, w.process.Process)
	began := time.Now()
	last := stream.next(atOnce)
	var a answer
	if err := json.Unmarshal([]byte(last), &a); err != nil || a.reason() != "revocations_stale" {
		t.Errorf("the stream ends with %s", last)
	}
	saysThatItPasses(t, last)
	t.Logf("cut %v after the feed was silent, with a lease of 2s", time.Since(began).Round(10*time.Millisecond))
	if a := alice.looksUp(held); a.reason() != "revocations_stale" {
		t.Errorf("a call after that: %s", a.Raw)
	}
	if err := w.process.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, func() string { return "calls do not go on" }, func() bool {
		body := streaming()
		h := alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.agentURL("documents"), bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = h
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("A2A-Version", "1.0")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		first := make([]byte, 256)
		n, _ := io.ReadAtLeast(response.Body, first, 1)
		return strings.Contains(string(first[:n]), "TASK_STATE_WORKING")
	})
}

// TestEXT27_AGatewayApartKilled kills a gateway again and again: every decision
// that it answered is in the server's evidence, which verifies.
func TestEXT27_AGatewayApartKilled(t *testing.T) {
	w, all := startRemote(t, 1, options{})
	var answered []string
	for range 3 {
		for range 20 {
			a := w.post(w.agentURL("documents"), data("search_documents", map[string]any{}), nil)
			if id := a.Header.Get("Powerbox-Decision"); id != "" {
				answered = append(answered, id)
			}
		}
		killed(t, all[0].process)
		all[0].boot()
	}
	if len(answered) != 60 {
		t.Fatalf("%d answers name their record", len(answered))
	}
	bundle := ""
	eventually(t, 20*time.Second, func() string { return "records are lost\n" + all[0].log.String() + w.log.String() }, func() bool {
		bundle = string(w.operator(http.MethodGet, "/v1/evidence/bundle", nil))
		for _, id := range answered {
			if !strings.Contains(bundle, `"`+id+`"`) {
				return false
			}
		}
		return true
	})
	trust, err := evidence.ParseTrust(bytes.TrimSpace(w.operator(http.MethodGet, "/v1/evidence/trust", nil)))
	if err != nil {
		t.Fatal(err)
	}
	report, err := evidence.Verify(strings.NewReader(bundle), trust)
	if err != nil || report.Verdict() != evidence.OK {
		t.Fatalf("the evidence does not verify: %v %v", err, report.Problems)
	}
}

// TestATK18_TwoGatewaysOfOneAgent are taken in turn: a task's whole life goes
// through, and a proof serves once at both (ATK-20).
func TestATK18_TwoGatewaysOfOneAgent(t *testing.T) {
	w, all := startRemote(t, 2, options{agent: "    admit_free_text: unsafe"})
	alice := w.caller(aliceToken)
	held := alice.reports()
	for round := range 4 {
		say := func(body []byte, operation string, arguments map[string]any) answer {
			return alice.present("documents", body, proven{chain: []string{held.Token}, operation: operation, arguments: arguments})
		}
		a := say(text("SendMessage", "task open"), "a2a.message", nil)
		var result struct {
			Task struct {
				ID string `json:"id"`
			} `json:"task"`
		}
		if err := json.Unmarshal(a.Result, &result); err != nil || result.Task.ID == "" {
			t.Fatalf("no task: %s\n%s%s", a.Raw, all[0].log, all[1].log)
		}
		id := result.Task.ID
		for range 3 + round {
			if a := say(rpc("GetTask", map[string]any{"id": id}), "a2a.task.read", map[string]any{"task": id}); a.Error != nil {
				t.Errorf("ATK-18 its owner does not find it: %s", a.Raw)
			}
		}
		if a := say(rpc("CancelTask", map[string]any{"id": id}), "a2a.task.cancel", map[string]any{"task": id}); a.Error != nil {
			t.Errorf("ATK-18 its owner cannot cancel it: %s", a.Raw)
		}
		bob := w.caller(bobToken)
		theirs := bob.reports()
		for range 2 {
			a := bob.present("documents", rpc("GetTask", map[string]any{"id": id}), proven{chain: []string{theirs.Token}, operation: "a2a.task.read", arguments: map[string]any{"task": id}})
			if a.Error == nil || a.Error.Code != -32001 {
				t.Errorf("ATK-18 somebody else's task: %s", a.Raw)
			}
		}
	}
	body := data("search_documents", map[string]any{})
	h := alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch})
	for n := range 4 {
		if a := w.post(w.agentURL("documents"), body, h); (a.Error == nil) != (n == 0) || n > 0 && a.reason() != "proof_replayed" {
			t.Errorf("ATK-20 use %d of a proof: %s", n+1, a.Raw)
		}
	}
}

// TestATK36_EnrolmentTokens serve once, for what they are, and show nowhere.
func TestATK36_EnrolmentTokens(t *testing.T) {
	aboutTheFile(t)
	w, all := startRemote(t, 1, options{}, "--lease", "2s")
	enroll := func(text, server string) (string, error) {
		dir := t.TempDir()
		file := filepath.Join(dir, "token")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), binary, "gateway", "enroll", "--server", server, "--token-file", file, "--state", filepath.Join(dir, "state")).CombinedOutput()
		return string(out), err
	}
	good := strings.TrimSpace(w.run("gateway", "token", "--agent", "documents", "--output", "json"))
	var made struct {
		Token string `json:"token"`
	}
	if err := json.Unmarshal([]byte(good), &made); err != nil {
		t.Fatal(err)
	}
	fingerprint, secret, _ := strings.Cut(strings.TrimPrefix(made.Token, "pbgw1_"), ".")
	for name, c := range map[string]struct{ text, want string }{
		"another type":       {strings.Replace(made.Token, "pbgw1_", "pbxx1_", 1), "does not contain a token"},
		"the operator's":     {w.secret(), "does not contain a token"},
		"a user's":           {aliceToken, "does not contain a token"},
		"another secret":     {"pbgw1_" + fingerprint + "." + strings.Repeat("A", 43), "unknown, was used or has expired"},
		"the operator's key": {"pbgw1_" + fingerprint + "." + w.secret(), "unknown, was used or has expired"},
	} {
		if out, err := enroll(c.text, w.url); err == nil || !strings.Contains(out, c.want) {
			t.Errorf("ATK-36 %s: %v %s", name, err, out)
		}
	}
	if out, err := enroll(made.Token, w.url); err != nil {
		t.Fatalf("enroll: %v %s", err, out)
	}
	if out, err := enroll(made.Token, w.url); err == nil || !strings.Contains(out, "was used") {
		t.Errorf("ATK-36 a second time: %v %s", err, out)
	}
	// A server with another key than the token says is not believed.
	if out, err := enroll("pbgw1_"+strings.Repeat("A", 43)+"."+tokenSecret(w.run("gateway", "token", "--agent", "documents")), w.url); err == nil || !strings.Contains(out, "another key than the token says") {
		t.Errorf("ATK-36 another server: %v %s", err, out)
	}
	// The secret is nowhere: not in logs, not in evidence, not in the store.
	bundle := string(w.operator(http.MethodGet, "/v1/evidence/bundle", nil))
	store, err := os.ReadFile(filepath.Join(w.dir, "powerbox-data", "powerbox.db"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"server's log": w.log.String(), "gateway's log": all[0].log.String(), "evidence": bundle, "store": string(store)} {
		if strings.Contains(text, secret) {
			t.Errorf("ATK-36 the secret of a token is in the %s", name)
		}
	}
	if !strings.Contains(bundle, "gateway.enroll") {
		t.Error("EXT-24 an enrolment is not on record")
	}
	err = filepath.WalkDir(all[0].state, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	// A gateway that was closed is believed no more.
	var kept struct{ Gateway string }
	file, err := os.ReadFile(filepath.Join(all[0].state, "enrolment.json"))
	if err != nil || json.Unmarshal(file, &kept) != nil {
		t.Fatal(err)
	}
	if listed := w.run("gateway", "list"); !strings.Contains(listed, kept.Gateway) {
		t.Fatalf("listed: %s", listed)
	}
	call := func() string {
		return w.post(w.agentURL("documents"), data("search_documents", map[string]any{}), nil).reason()
	}
	if code := call(); code != "capability_required" {
		t.Errorf("before it is closed: %s", code)
	}
	w.run("gateway", "close", kept.Gateway)
	eventually(t, atOnce, func() string { return "a closed gateway goes on" }, func() bool { return call() == "revocations_stale" })
	killed(t, all[0].process)
	out, err := exec.CommandContext(t.Context(), binary, "gateway", "--state", all[0].state, "--listen", all[0].address, "--dev").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "for enrolled gateways") {
		t.Errorf("ATK-36 a closed gateway starts: %v %s", err, out)
	}
}

func tokenSecret(text string) string {
	_, secret, _ := strings.Cut(strings.TrimSpace(text), ".")
	return secret
}

// keySet is what an agent publishes.
func (w *town) keySet(agent string) token.KeySet {
	w.t.Helper()
	r, err := http.Get(w.agentURL(agent) + "/.well-known/jwks.json")
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	keys, err := token.ParseKeySet(text)
	if err != nil {
		w.t.Fatal(fmt.Errorf("%w: %s", err, text))
	}
	return keys
}

// TestSEP23_AGatewaySpeaksForNobody: anyone who has a gateway's key can ask the
// server what a gateway asks, and cannot be one of its callers.
func TestSEP23_AGatewaySpeaksForNobody(t *testing.T) {
	w, all := startRemote(t, 1, options{})
	alice := w.caller(aliceToken)
	held := alice.reports()
	seed, err := os.ReadFile(filepath.Join(all[0].state, "keys", "gateway.secret"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := signed.NewKey(raw(t, strings.TrimSpace(string(seed))))
	if err != nil {
		t.Fatal(err)
	}
	client := link.Client{Server: w.url, Key: key, Now: time.Now}
	issue := func(body []byte, h http.Header) answer {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+link.PathIssue, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = h.Clone()
		if err := client.Sign(r, body); err != nil {
			t.Fatal(err)
		}
		return w.post(w.url+link.PathIssue, body, r.Header)
	}
	want := map[string]any{"grants": []string{"documents:read"}, "purpose": "p", "resourceQuery": map[string]any{"collection": "reports", "filter": map[string]any{}}}
	ask := rpc("a2a/capabilities/request", want)
	if a := issue(ask, alice.headers(w.agentURL("documents"))); a.Error != nil {
		t.Errorf("as the caller sent it: %s", a.Raw)
	}
	for name, h := range map[string]http.Header{
		"without a session":          {},
		"with a session alone":       {"Authorization": {"DPoP " + aliceToken}},
		"with a proof for elsewhere": alice.headers(w.url + "/agents/mail"),
	} {
		if a := issue(ask, h); a.Error == nil {
			t.Errorf("SEP-23 %s: %s", name, a.Raw)
		}
	}
	body := data("search_documents", map[string]any{})
	before := len(w.documents.got())
	if a := issue(body, alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch})); a.Status != http.StatusBadRequest || len(w.documents.got()) != before {
		t.Errorf("SEP-23 a call goes through the server: %d %s", a.Status, a.Raw)
	}
	if a := w.post(w.url+link.PathIssue, ask, alice.headers(w.agentURL("documents"))); a.Status != http.StatusUnauthorized {
		t.Errorf("SEP-23 without a gateway's key: %d %s", a.Status, a.Raw)
	}
}

// A gateway takes over another configuration of the server.
func TestAGatewayApartFollowsTheConfiguration(t *testing.T) {
	w, all := startRemote(t, 1, options{})
	alice := w.caller(aliceToken)
	held := alice.reports()
	if a := alice.looksUp(held); a.Error != nil {
		t.Fatalf("search: %s", a.Raw)
	}
	w.again(func() {
		w.rewrite("powerbox.yaml", "    - {skill: search_documents, grant: documents:read, operation: search, effect: read}\n", "")
	})
	eventually(t, 15*time.Second, func() string { return "a skill that is gone is served\n" + all[0].log.String() }, func() bool {
		return alice.looksUp(held).reason() == "skill_unmapped"
	})
}

// TestATK25_AnExtensionIsForReads: an operator lets gateways continue for a planned
// outage; what changes something is denied all the same.
func TestATK25_AnExtensionIsForReads(t *testing.T) {
	w, all := startRemote(t, 1, options{}, "--lease", "2s")
	alice := w.caller(aliceToken)
	held := alice.request("documents", map[string]any{
		"grants": []string{"documents:read", "documents:write"}, "purpose": "p",
		"resourceQuery": map[string]any{"collection": "reports", "filter": map[string]any{"quarter": "2025-Q1"}},
	})
	handle := map[string]any{"resourceHandle": held[1].ResourceHandles[0].Handle}
	writes := func() answer {
		return alice.present("documents", data("delete_document", handle), proven{chain: []string{held[1].Token}, operation: opDelete, arguments: handle})
	}
	if a, b := alice.looksUp(held[0]), writes(); a.Error != nil || b.Error != nil {
		t.Fatalf("before: %s %s", a.Raw, b.Raw)
	}
	sequence := func() int64 {
		n, err := os.ReadFile(filepath.Join(all[0].state, "feed"))
		if err != nil {
			return 0
		}
		at, _ := strconv.ParseInt(string(n), 10, 64)
		return at
	}
	w.run("feed", "extend", "--until", "1m", "--reason", "a new disk")
	eventually(t, atOnce, func() string { return "the extension is not known" }, func() bool { return sequence() == 1 })
	killed(t, w.process)
	eventually(t, atOnce, func() string { return "what writes goes on" }, func() bool { return writes().reason() == "revocations_stale" })
	if a := alice.looksUp(held[0]); a.Error != nil {
		t.Errorf("what reads does not go on: %s", a.Raw)
	}
}
