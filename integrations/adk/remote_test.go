package powerboxadk_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/remoteagent/v2"
	"google.golang.org/adk/v2/agent/workflowagents/sequentialagent"

	"github.com/powerbox-project/powerbox/holder"
	powerboxa2a "github.com/powerbox-project/powerbox/integrations/a2a"
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
	var remote []agent.Agent
	for _, name := range []string{"reader", "writer"} {
		peer, err := out.Peer(t.Context(), w.url+"/agents/"+name)
		if err != nil {
			t.Fatal(err)
		}
		a, err := remoteagent.NewA2A(g.Remote(remoteagent.A2AConfig{Name: name, Description: name}, peer))
		if err != nil {
			t.Fatal(err)
		}
		remote = append(remote, a)
	}
	root, err := sequentialagent.New(sequentialagent.Config{AgentConfig: agent.Config{Name: "coordinator", SubAgents: remote}})
	if err != nil {
		t.Fatal(err)
	}
	g.Know(root)
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
