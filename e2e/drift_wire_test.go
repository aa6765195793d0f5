package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// declares has the documents agent say something else of itself.
func (w *town) declares(says func(*a2a.AgentCard)) {
	w.documents.mu.Lock()
	defer w.documents.mu.Unlock()
	w.documents.says = says
}

// driftOf returns the recorded drift of the agent for a call.
func (w *town) driftOf(t *testing.T, a answer) []string {
	t.Helper()
	if r := w.decided(a); r.Decision == "DENY" { // before the agent was asked
		return []string{"push_notifications"}
	}
	var outcomes []recorded
	eventually(t, atOnce, func() string { return "no outcome: " + string(a.Raw) }, func() bool {
		outcomes = w.outcomes(a.Header.Get("Powerbox-Decision"))
		return len(outcomes) == 1
	})
	return outcomes[0].Outcome.Drift
}

// entryFor is what the registry tells a session of the documents agent.
func (w *town) entryFor(t *testing.T, session string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/v1/registry/agents/documents", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+session)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestCARD12_EveryBinding has an agent do on every binding and version what its card
// does not declare: it is on record alike, and kept back where the operator says so.
func TestCARD12_EveryBinding(t *testing.T) {
	push := map[string]any{"taskPushNotificationConfig": map[string]any{"url": "http://127.0.0.1:9/hook"}}
	cases := []struct {
		name  string
		body  func() []byte
		drift string
	}{
		{"a message", func() []byte { return textOf("hello") }, ""},
		{"a stream", func() []byte { return text("SendStreamingMessage", "task") }, "streaming"},
		{"the extended card", func() []byte { return rpc("GetExtendedAgentCard", map[string]any{}) }, "extended_agent_card"},
		{"push notifications", func() []byte {
			return rpc("SendMessage", map[string]any{
				"message":       map[string]any{"messageId": nonce(), "role": "ROLE_USER", "parts": []any{map[string]any{"text": "hello"}}},
				"configuration": push,
			})
		}, "push_notifications"},
	}
	everywhere(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on, mode: "prefer", stock: pushing(), agent: "    drift: block\n    push: {private: true, hosts: [\"127.0.0.1\"]}\n"})
		try := func(card, drift, name string, body []byte, want string) {
			a := w.post(w.agentURL("documents"), body, nil)
			kept := want != "" && drift == "block"
			if got := w.driftOf(t, a); strings.Join(got, " ") != want {
				t.Errorf("CARD-12 %s, %s, %s: recorded as %q; want %q: %s", name, card, drift, got, want, a.Raw)
			}
			if (a.reason() == "undeclared_behaviour") != kept || kept && strings.Contains(string(a.Raw), "echo") {
				t.Errorf("CARD-12 %s, %s, %s: kept back %t: %s", name, card, drift, !kept, a.Raw)
			}
		}
		for _, declared := range []bool{true, false} {
			w.again(func() {
				w.declares(func(card *a2a.AgentCard) {
					card.Capabilities = a2a.AgentCapabilities{Streaming: declared, ExtendedAgentCard: declared, PushNotifications: declared}
				})
			})
			for _, c := range cases {
				if declared {
					c.drift = ""
				}
				try(fmt.Sprint("declared ", declared), "block", c.name, c.body(), c.drift)
			}
		}
		w.again(func() { w.rewrite("powerbox.yaml", "    drift: block\n", "    drift: record\n") })
		for _, c := range cases {
			try("declared false", "record", c.name, c.body(), c.drift)
		}
		var listed struct {
			Drift []struct {
				Behaviour string `json:"behaviour"`
				Times     int    `json:"times"`
			} `json:"drift"`
		}
		if err := json.Unmarshal(w.operator(http.MethodGet, "/v1/registry/agents/documents", nil), &listed); err != nil || fmt.Sprint(listed.Drift) != "[{extended_agent_card 2} {push_notifications 1} {streaming 2}]" {
			t.Errorf("CARD-12 in the registry: %+v %v", listed, err)
		}
		if got := w.entryFor(t, aliceToken); !strings.Contains(got, `"id":"documents"`) || strings.Contains(got, "drift") {
			t.Errorf("CARD-12 a user is told what operators alone may know: %s", got)
		}
		version := cmp.Or(on.version, "1.0")
		w.again(func() {
			w.declares(func(card *a2a.AgentCard) {
				card.SupportedInterfaces = slices.DeleteFunc(slices.Clone(card.SupportedInterfaces), func(i *a2a.AgentInterface) bool { return string(i.ProtocolVersion) == version })
			})
		})
		if a := w.post(w.agentURL("documents"), textOf("hello"), nil); a.reason() != "version_not_supported" {
			t.Errorf("CARD-12 a version that no interface has: %s", a.Raw)
		}
	})
}
