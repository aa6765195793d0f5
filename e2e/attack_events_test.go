package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/token"
)

// inEvents answers each call with one text of JSON, and says that it is events. The kits read
// it as what it is.
func inEvents(t *testing.T, kind, result string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var call struct{ ID json.RawMessage }
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(call.ID)+`,"result":`+result+`}`)
	}
}

// TestATK147_NoAnswerIsEventsToTheGatewayAlone has an agent answer calls that ask for no
// stream with JSON under the type of events. Kits read it as every answer, and so must the
// gateway: the record says what they read, and a task of another caller is kept back.
func TestATK147_NoAnswerIsEventsToTheGatewayAlone(t *testing.T) {
	const events = "text/event-stream"
	w := start(t, options{})
	alice, bob := w.caller(aliceToken), w.caller(bobToken)
	held, of := alice.reports(), bob.reports()
	const task = `{"task":{"id":"of-bob","contextId":"of-bob","status":{"state":"TASK_STATE_COMPLETED"}}}`
	w.documents.answers(inEvents(t, "application/json", task))
	allowed(t, bob.present("documents", data("search_documents", nil), proven{chain: []string{of.Token}, operation: opSearch}))

	call := func() answer {
		return alice.present("documents", data("search_documents", nil), proven{chain: []string{held.Token}, operation: opSearch})
	}
	w.documents.answers(inEvents(t, events, readEvent))
	if a := call(); w.outcome(a) != "ACHIEVED" || a.Header.Get("Content-Type") != "application/json" || !strings.Contains(string(a.Raw), "READ") {
		t.Errorf("ATK-147 an answer came as %s, and is %s on record: %s", a.Header.Get("Content-Type"), w.outcome(a), a.Raw)
	}
	w.documents.answers(inEvents(t, events, task))
	if a := call(); a.reason() != "task_taken" {
		t.Errorf("ATK-147 another caller's task: %s", a.Raw)
	}
	// What no kit reads as the answer to such a call does not pass.
	w.documents.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", events)
		_, _ = io.WriteString(w, `data: {"jsonrpc":"2.0","id":1,"result":`+readEvent+"}\n\n")
	})
	if a := call(); w.outcome(a) != "unknown" || strings.Contains(string(a.Raw), "READ") {
		t.Errorf("ATK-147 events: %s", a.Raw)
	}
}

// TestATK147_ObservedEvents is about the mode in which answers pass as they came.
func TestATK147_ObservedEvents(t *testing.T) {
	w := start(t, options{mode: "observe"})
	w.documents.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"jsonrpc":"2.0","id":1,"result":`+readEvent+"}\n\n")
	})
	if a := w.post(w.agentURL("documents"), text("SendMessage", "hello"), http.Header{}); w.outcome(a) != "FAILED" || a.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("ATK-147 events for a message: %v %s", a.Header, a.Raw)
	}
}

// TestATK147_StockClients is the same for the kits themselves, through attach: what one reads
// as its answer is an answer on record.
func TestATK147_StockClients(t *testing.T) {
	w := start(t, options{agent: "    enforces: context\n"})
	a := w.attach("attach", newKey(t), documentsThrough(w), "--session-file", w.sessionFile())
	w.documents.answers(inEvents(t, "text/event-stream", readEvent))
	for name, read := range map[string]func() []string{
		"JavaScript": func() []string {
			return javascript(t, a.where.Agents["documents"], "", []string{"skill", "search_documents", "{}"})
		},
		"Go": func() []string {
			return golang(t, commandLine(t), strings.TrimSuffix(a.where.Agents["documents"], cardPath), []string{"send", "$url", "hello"})
		},
	} {
		before := len(w.documents.got())
		said := strings.Join(read(), "\n")
		if len(w.documents.got()) == before {
			t.Errorf("ATK-147 no call of %s reached the agent: %s", name, said)
			continue
		}
		got := w.documents.got()
		last := got[len(got)-1]
		c, err := token.VerifyContext(last.header.Get("Powerbox-Context"), w.keySet("documents"), "documents", time.Now(), last.body)
		if err != nil {
			t.Fatal(err)
		}
		if all := w.outcomes(c.Decision); !strings.Contains(said, "READ") || len(all) != 1 || all[0].Status != "ACHIEVED" {
			t.Errorf("ATK-147 %s read %s; on record is %+v", name, said, all)
		}
	}
}

// TestATK147_CardsInEvents has an agent without a gateway answer with its extended card under
// the type of events. Its URLs would lead the client of attach elsewhere.
func TestATK147_CardsInEvents(t *testing.T) {
	w := start(t, options{})
	a := w.attach("attach", newKey(t), "agents:\n  - name: documents\n    card: "+w.documents.url+"\n", "--session-file", w.sessionFile())
	const card = `{"name":"Documents","description":"d","version":"1","capabilities":{"extendedAgentCard":true},"defaultInputModes":["text"],"defaultOutputModes":["text"],"skills":[],` +
		`"supportedInterfaces":[{"url":"http://elsewhere.example/a2a","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}`
	for _, kind := range []string{"application/json", "text/event-stream", "Text/Event-Stream; x=1"} {
		w.documents.answers(inEvents(t, kind, card))
		got := a.post(a.agentURL("documents"), rpc("GetExtendedAgentCard", map[string]any{}), http.Header{"A2a-Version": {"1.0"}})
		if s := string(got.Raw); strings.Contains(s, "elsewhere.example") || !strings.Contains(s, a.agentURL("documents")) {
			t.Errorf("ATK-147 %s: %d %s", kind, got.Status, s)
		}
	}
}
