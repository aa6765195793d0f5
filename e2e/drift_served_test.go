package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestCARD12_DeclaredAndNotServed has an agent refuse what its card declares: it is on
// record with the call. What the card does not declare, and refusals that are about
// something else, are no drift.
func TestCARD12_DeclaredAndNotServed(t *testing.T) {
	asGiven(t)
	stream := text("SendStreamingMessage", "hello")
	push := rpc("CreateTaskPushNotificationConfig", map[string]any{"taskId": "t1", "id": "c1", "url": "https://example.com/hook"})
	extended := rpc("GetExtendedAgentCard", map[string]any{})
	const all = `{"streaming":true,"pushNotifications":true,"extendedAgentCard":true}`
	for name, c := range map[string]struct {
		capabilities string
		body         []byte
		code         int
		drift        []string
	}{
		"streams":                      {all, stream, -32004, []string{"streaming:not_served"}},
		"streams, an unknown method":   {all, stream, -32601, []string{"streaming:not_served"}},
		"streams that are undeclared":  {`{}`, stream, -32004, nil},
		"streams, another error":       {all, stream, -32602, nil},
		"push notifications":           {all, push, -32003, []string{"push_notifications:not_served"}},
		"push that is undeclared":      {`{}`, push, -32003, nil},
		"the extended card":            {all, extended, -32007, []string{"extended_agent_card:not_served"}},
		"a message, an unknown method": {all, text("SendMessage", "hello"), -32601, nil},
		"a stream of an ended task":    {all, rpc("SubscribeToTask", map[string]any{"id": "t1"}), -32004, nil},
	} {
		t.Run("CARD-12 "+name, func(t *testing.T) {
			agent := newRawAgent(t)
			agent.card = func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, strings.Replace(agent.cardText(""), `"capabilities":{"streaming":true}`, `"capabilities":`+c.capabilities, 1))
			}
			agent.says("application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":"not here"}}`, c.code))
			w := behind(t, agent.stock, "observe", "")
			a := w.post(w.agentURL("documents"), c.body, nil)
			if !strings.Contains(string(a.Raw), "not here") {
				t.Fatalf("the agent's refusal does not reach the caller: %d %s", a.Status, a.Raw)
			}
			outcomes := w.outcomes(a.Header.Get("Powerbox-Decision"))
			if len(outcomes) != 1 || !slices.Equal(outcomes[0].Outcome.Drift, c.drift) {
				t.Errorf("recorded as %+v; want %q", outcomes, c.drift)
			}
		})
	}
}
