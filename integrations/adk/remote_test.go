package powerboxadk_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/remoteagent/v2"
	"google.golang.org/adk/v2/agent/workflowagents/sequentialagent"

	"github.com/powerbox-project/powerbox/holder"
	powerboxa2a "github.com/powerbox-project/powerbox/integrations/a2a"
	powerboxadk "github.com/powerbox-project/powerbox/integrations/adk"
	"github.com/powerbox-project/powerbox/token"
)

// Remote agents of A2A are asked about before anything goes out, and what goes out
// is signed for them.
func TestGATE7_RemoteAgents(t *testing.T) {
	key, err := token.GenerateKey(token.Ed25519, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	calls, got := 0, map[string]http.Header{}
	behind := map[string]*httptest.Server{}
	for _, name := range []string{"reader", "writer"} {
		behind[name] = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				fmt.Fprintf(rw, card, behind[name].URL)
				return
			}
			body, _ := io.ReadAll(r.Body)
			var call struct {
				ID json.RawMessage `json:"id"`
			}
			_ = json.Unmarshal(body, &call)
			mu.Lock()
			got[name] = r.Header.Clone()
			calls++
			mu.Unlock()
			rw.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(rw, `{"jsonrpc":"2.0","id":%s,"result":{"message":{"messageId":"m2","role":"ROLE_AGENT","parts":[{"text":"%s has answered"}]}}}`, call.ID, name)
		}))
		t.Cleanup(behind[name].Close)
	}
	w := &town{t: t}
	w.start(key.Public().Thumbprint(), "upstream: "+behind["reader"].URL)
	g := w.gate()
	out := &powerboxa2a.Outbound{Client: &holder.Client{Key: key, HTTP: &http.Client{Timeout: 20 * time.Second}, Now: time.Now, Random: rand.Reader}} //nolint:forbidigo // the gate beside us reads this clock
	root := w.coordinator(g, out, func(string, holder.Agent) {})
	texts, _ := w.run(g, root)
	said := fmt.Sprint(texts)
	if !strings.Contains(said, "reader has answered") || !strings.Contains(said, violation) {
		t.Errorf("texts %q", texts)
	}
	mu.Lock()
	defer mu.Unlock()
	if h := got["reader"]; h == nil || h.Get("Powerbox-Context") == "" || got["writer"] != nil || calls != 1 {
		t.Errorf("%d calls reached: %v", calls, got)
	}
	for _, e := range w.evidenceOf("writer") {
		if e.Decision != "DENY" || e.Origin != "coordinator" {
			t.Errorf("on record of the writer: %+v", e)
		}
	}
}

// coordinator is an agent whose sub-agents are behind gateways; each is passed to before.
func (w *town) coordinator(g *powerboxadk.Gate, out *powerboxa2a.Outbound, before func(name string, peer holder.Agent)) agent.Agent {
	w.t.Helper()
	var remote []agent.Agent
	for _, name := range []string{"reader", "writer"} {
		peer, err := out.Peer(w.t.Context(), w.url+"/agents/"+name)
		if err != nil {
			w.t.Fatal(err)
		}
		before(name, peer.Agent)
		a, err := remoteagent.NewA2A(g.Remote(remoteagent.A2AConfig{Name: name, Description: name}, peer))
		if err != nil {
			w.t.Fatal(err)
		}
		remote = append(remote, a)
	}
	root, err := sequentialagent.New(sequentialagent.Config{AgentConfig: agent.Config{Name: "coordinator", SubAgents: remote}})
	if err != nil {
		w.t.Fatal(err)
	}
	g.Know(root)
	return root
}

// required is a gateway at which the coordinator needs capabilities, whatever its
// program may hand over.
const required = `listen: %[1]s
issuer: {url: "http://%[1]s"}
identity:
  dev: [{name: alice, token: alice-session-token}]
  callers: [{agent: coordinator, key: "%[2]s"}]
  guards: [{name: program, token_file: guard.token, agents: [coordinator]}]
defaults: {mode: scoped}
agents:
  - {id: coordinator, protocol: local}
  - {id: reader, upstream: "%[3]s", required: [answer/read], modes: [{caller: coordinator, mode: require}]}
  - {id: writer, upstream: "%[3]s", required: [answer/write], modes: [{caller: coordinator, mode: require}]}
offers:
  reader: [{id: answer, operations: [read]}]
  writer: [{id: answer, operations: [write]}]
skills:
  reader: [{skill: answer, grant: answer, operation: read}]
  writer: [{skill: answer, grant: answer, operation: write}]
scopes:
  coordinator: {reader: [answer/read], writer: [answer/write]}
policies: [policies.cedar]
`

// A remote agent is called under the capability of the run's wallet, in the headers of
// the request; one for which there is none is refused by its gateway, on record there.
func TestGATE7_RemoteAgentsUnderCapabilities(t *testing.T) {
	key, err := token.GenerateKey(token.Ed25519, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	reached := 0
	var behind *httptest.Server
	behind = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprintf(rw, card, behind.URL)
			return
		}
		var call struct {
			ID json.RawMessage `json:"id"`
		}
		_ = json.NewDecoder(r.Body).Decode(&call)
		mu.Lock()
		reached++
		mu.Unlock()
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(rw, `{"jsonrpc":"2.0","id":%s,"result":{"message":{"messageId":"m2","role":"ROLE_AGENT","parts":[{"text":"the reader has answered"}]}}}`, call.ID)
	}))
	t.Cleanup(behind.Close)
	w := &town{t: t}
	w.files = map[string]string{"policies.cedar": `permit(principal == User::"user:alice", action, resource);`}
	w.startWith(required, key.Public().Thumbprint(), behind.URL)
	g := w.gate()
	client := &holder.Client{
		Key: key, HTTP: &http.Client{Timeout: 20 * time.Second}, Now: time.Now, Random: rand.Reader, //nolint:forbidigo // the gate beside us reads this clock
		Session: func(context.Context, string) (string, error) { return "alice-session-token", nil },
	}
	out := &powerboxa2a.Outbound{Client: client}
	wallet := holder.NewWallet(key.Public())
	root := w.coordinator(g, out, func(name string, peer holder.Agent) {
		if name != "reader" {
			return
		}
		held, err := client.Request(t.Context(), peer, holder.RequestParams{Grants: []string{"answer"}, Purpose: "test"})
		if err != nil {
			t.Fatal(err)
		}
		if err := wallet.Add(held...); err != nil {
			t.Fatal(err)
		}
	})
	w.ctx = powerboxa2a.WithWallet(t.Context(), wallet)
	texts, _ := w.run(g, root)
	mu.Lock()
	defer mu.Unlock()
	if said := fmt.Sprint(texts); !strings.Contains(said, "the reader has answered") || reached != 1 {
		t.Errorf("%d calls reached; texts %q", reached, texts)
	}
	// The program's own questions are decided by its standing scope.
	under := func(e evidence) bool { return e.Decision == "ALLOW" && strings.HasSuffix(e.Mode, "/capability") }
	if got := w.evidenceOf("reader"); !slices.ContainsFunc(got, under) {
		t.Errorf("on record of the reader: %+v", got)
	}
	refused := func(e evidence) bool { return e.Decision == "DENY" && slices.Contains(e.Codes, "capability_required") }
	if got := w.evidenceOf("writer"); !slices.ContainsFunc(got, refused) || slices.ContainsFunc(got, under) {
		t.Errorf("on record of the writer: %+v", got)
	}
}
