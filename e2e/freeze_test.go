package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// run runs a verb of the program against the town's server and returns what it
// printed.
func (w *town) run(args ...string) string {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), binary, append(args, "-c", filepath.Join(w.dir, "powerbox.yaml"))...)
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	if err := cmd.Run(); err != nil {
		w.t.Fatalf("powerbox %s: %v\n%s%s", strings.Join(args, " "), err, out.String(), talk.String())
	}
	return out.String()
}

// quiet makes the agent answer every call with a stream of one event, and then
// nothing until its caller goes.
func (a *rawAgent) quiet() {
	a.call = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"jsonrpc":"2.0","id":1,"result":{"task":{"id":"`+nonce()+`","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}}`+"\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

// live is a stream that is open.
type live struct {
	t      *testing.T
	events chan string // closed at the end of the stream
	leave  func()      // has its caller go
}

// open begins a stream of a task that works, and waits for its first event.
func (w *town) open(agent string, body []byte, header http.Header) *live {
	w.t.Helper()
	return w.opens(agent, body, header, "TASK_STATE_WORKING")
}

// opens begins a stream and waits for its first event, with a state in it.
func (w *town) opens(agent string, body []byte, header http.Header, state string) *live {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	w.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.agentURL(agent), bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header = header.Clone()
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("A2A-Version", "1.0")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	l := &live{w.t, make(chan string, 16), cancel}
	go func() {
		defer response.Body.Close()
		defer close(l.events)
		lines := bufio.NewScanner(response.Body)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				l.events <- data
			}
		}
	}()
	if first := l.next(10 * time.Second); !strings.Contains(first, state) {
		w.t.Fatalf("the stream begins with %q\n%s", first, w.log)
	}
	return l
}

// next is the next event, "" at the end of the stream.
func (l *live) next(within time.Duration) string {
	l.t.Helper()
	select {
	case e := <-l.events:
		return e
	case <-time.After(within):
		l.t.Fatalf("nothing came within %v", within)
		return ""
	}
}

// cut expects that the stream ends at once, with a denial.
func (l *live) cut(code string) {
	l.t.Helper()
	began := time.Now()
	last := l.next(atOnce)
	var a answer
	if err := json.Unmarshal([]byte(last), &a); err != nil || a.reason() != code {
		l.t.Errorf("the stream ends with %s; want %s", last, code)
	}
	if more := l.next(atOnce); more != "" {
		l.t.Errorf("after it was cut: %s", more)
	}
	l.t.Logf("cut with %s after %v", code, time.Since(began).Round(time.Millisecond))
}

// streaming is a call that the quiet agent answers with a stream.
func streaming() []byte {
	return bytes.Replace(data("search_documents", map[string]any{}), []byte(`"SendMessage"`), []byte(`"SendStreamingMessage"`), 1)
}

// TestATK24_StreamsAreCutWhileNothingFlows has streams on which nothing comes:
// an operator's freeze, and a revocation, end them at once; and what
// was thawed continues.
func TestATK24_StreamsAreCutWhileNothingFlows(t *testing.T) {
	onStores(t, tryATK24StreamsAreCutWhileNothingFlows)
}

func tryATK24StreamsAreCutWhileNothingFlows(t *testing.T) {
	agent := newRawAgent(t)
	agent.quiet()
	w := start(t, options{upstream: agent.url})
	alice := w.caller(aliceToken)
	for _, target := range []string{"agent:documents", "user:alice", "cap"} {
		c := alice.reports()
		if target == "cap" {
			target = c.ID
		}
		open := func() *live {
			body := streaming()
			return w.open("documents", body, alice.proof("documents", body, proven{chain: []string{c.Token}, operation: opSearch}))
		}
		stream := open()
		w.run("freeze", target, "--reason", "odd calls")
		stream.cut("frozen")
		body := streaming()
		if a := alice.present("documents", body, proven{chain: []string{c.Token}, operation: opSearch}); a.reason() != "frozen" || !strings.Contains(a.Error.Message, "an operator stopped") {
			t.Errorf("ATK-24 %s frozen: %s", target, a.Raw)
		}
		if out := w.run("freeze"); !strings.Contains(out, target) || !strings.Contains(out, "odd calls") {
			t.Errorf("frozen: %s", out)
		}
		// It stays over a restart, and is over when it is thawed.
		w.again(func() {})
		if a := alice.present("documents", body, proven{chain: []string{c.Token}, operation: opSearch}); a.reason() != "frozen" {
			t.Errorf("ATK-24 %s frozen, restarted: %s", target, a.Raw)
		}
		w.run("thaw", target, "--reason", "explained")
		stream = open()
		w.run("revoke", c.ID)
		stream.cut("revoked")
	}
	// Each stopped call is on record with its operator and reason, like every denial.
	frozen := 0
	for _, r := range w.records("limit=1000") {
		if r.Action == "operator.freeze" {
			frozen++
		}
	}
	if frozen != 3 {
		t.Errorf("%d freezes on record; want 3", frozen)
	}
}

// TestATK24_FreezeIsInForceInObserve: an operator's stop is no trial.
func TestATK24_FreezeIsInForceInObserve(t *testing.T) {
	asGiven(t)
	agent := newRawAgent(t)
	agent.quiet()
	w := behind(t, agent.stock, "observe", "")
	stream := w.open("documents", streaming(), nil)
	w.run("freeze", "agent:documents", "--reason", "r")
	stream.cut("frozen")
	if a := w.post(w.agentURL("documents"), streaming(), nil); a.reason() != "frozen" {
		t.Errorf("ATK-24 observed: %s", a.Raw)
	}
	w.run("thaw", "agent:documents", "--reason", "r")
	w.open("documents", streaming(), nil)
}

// TestATK24_StreamsEndWithTheSession: a stream allowed by a caller's scope or role,
// without a capability, ends with the caller's session.
func TestATK24_StreamsEndWithTheSession(t *testing.T) {
	const callers = `  providers:
    - {issuer: https://login.example.org, audience: [https://agents.example.org], jwks_file: keys.json, principal: 'idp:{sub}'}
  callers:
    - {agent: reporter, client: reporter-app}
`
	for name, o := range map[string]options{
		"scope": {mode: "scoped", extra: "scopes:\n  reporter: {documents: [documents:read/search]}\n"},
		"role":  {agent: "    authorization: {model: ROLE}", policies: defaultPolicies + `permit(principal, action in Action::"documents/documents:read", resource == Agent::"documents");`},
	} {
		agent, l := newRawAgent(t), newLogin(t)
		agent.quiet()
		o.upstream, o.callers, o.files = agent.url, callers, map[string]string{"keys.json": l.jwks(t)}
		w := start(t, o)
		// Long enough to begin with on a machine with other work.
		stream := w.open("documents", streaming(), http.Header{"Authorization": {"Bearer " + l.session(t, "dora", map[string]any{"client_id": "reporter-app", "exp": time.Now().Add(5 * time.Second).Unix()})}})
		t.Log(name)
		stream.cut("expired")
	}
}
