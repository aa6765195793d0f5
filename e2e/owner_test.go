package e2e

import (
	"encoding/json"
	"testing"

	"github.com/powerbox-project/powerbox"
)

// TestATK18_ADelegateDoesNotOwnTheDelegatorsTasks narrows a capability for a
// sub-agent, which may read and cancel tasks like every holder: its own, not
// those of the one that delegated to it.
func TestATK18_ADelegateDoesNotOwnTheDelegatorsTasks(t *testing.T) {
	everywhere(t, tryATK18ADelegateDoesNotOwnTheDelegatorsTasks)
}

func tryATK18ADelegateDoesNotOwnTheDelegatorsTasks(t *testing.T, on wire) {
	w := start(t, options{on: on, agent: "    admit_free_text: unsafe"})
	alice, sub := w.caller(aliceToken), w.caller("")
	c := alice.reports()
	open := text("SendMessage", "task open")
	a := alice.present("documents", open, proven{chain: []string{c.Token}, operation: "a2a.message"})
	var result struct {
		Task struct {
			ID string `json:"id"`
		} `json:"task"`
	}
	if err := json.Unmarshal(a.Result, &result); err != nil || result.Task.ID == "" {
		t.Fatalf("no task: %s", a.Raw)
	}
	chain := alice.keepFor(sub.key.Public(), []string{c.Token}, func(t powerbox.Clause) (powerbox.Clause, bool) {
		return t, t.Pattern.Name() != opRetrieve
	})
	task := map[string]any{"task": result.Task.ID}
	for method, operation := range map[string]string{"GetTask": "a2a.task.read", "CancelTask": "a2a.task.cancel"} {
		body := rpc(method, map[string]any{"id": result.Task.ID})
		if a := sub.present("documents", body, proven{chain: chain, operation: operation, arguments: task}); a.Error == nil || a.Error.Code != -32001 {
			t.Errorf("%s by the delegate: %s", method, a.Raw)
		}
	}
	body := rpc("GetTask", map[string]any{"id": result.Task.ID})
	if a := alice.present("documents", body, proven{chain: []string{c.Token}, operation: "a2a.task.read", arguments: task}); a.Error != nil {
		t.Errorf("by its owner: %s", a.Raw)
	}
}

// TestATK39_NumbersThatReadersRound sends an argument that a double rounds.
func TestATK39_NumbersThatReadersRound(t *testing.T) {
	w := start(t, options{})
	alice := w.caller(aliceToken)
	c := alice.reports()
	for _, number := range []string{"9007199254740993", "0.10000000000000001", "99.99999999999999999999"} {
		body := []byte(`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"` + nonce() +
			`","role":"ROLE_USER","parts":[{"data":{"skill":"search_documents","arguments":{"limit":` + number + `}}}]}}}`)
		if a := alice.present("documents", body, proven{chain: []string{c.Token}, operation: opSearch}); a.reason() != "argument_number" {
			t.Errorf("%s: %s", number, a.Raw)
		}
	}
	if n := len(w.documents.got()); n > 0 {
		t.Errorf("%d calls reached the agent", n)
	}
}

// TestGATE4_DeclaredArgumentsHoldInEveryMode has a skill with declared
// arguments: they bind a caller without a capability as well.
func TestGATE4_DeclaredArgumentsHoldInEveryMode(t *testing.T) {
	w := start(t, options{
		mode:  "scoped",
		extra: "scopes:\n  reader:\n    mail: [mail:send/send]",
		mail:  ", arguments: {to: {constraint_type: one_of, values: [team@example.org]}}",
		callersOf: func(w *town) string {
			return "  callers:\n    - {agent: reader, key: " + w.reader.key.Public().Thumbprint() + "}"
		},
	})
	for to, allowed := range map[string]bool{"team@example.org": true, "exfil@attacker.example": false} {
		a := w.reader.send("mail", data("send_mail", map[string]any{"to": to}))
		if (a.Error == nil) != allowed {
			t.Errorf("to %s: %s", to, a.Raw)
		}
	}
	if n := len(w.mail.got()); n != 1 {
		t.Errorf("%d letters reached the agent; want one", n)
	}
}
