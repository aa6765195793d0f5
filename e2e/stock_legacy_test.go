package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// legacyCard is a card of version 0.3 of the protocol.
const legacyCard = `{"name": "Old documents", "description": "Keeps documents", "version": "1.0.0", "protocolVersion": "0.3.0",
"url": "%s/invoke", "preferredTransport": "JSONRPC", "capabilities": {"streaming": true},
"defaultInputModes": ["text"], "defaultOutputModes": ["text"], "skills": [
{"id": "search_documents", "name": "Search", "description": "Search", "tags": ["test"]},
{"id": "delete_document", "name": "Delete", "description": "Delete", "tags": ["test"]}]}`

// legacyAnswers are what an agent of version 0.3 says, by method. Several are a
// stream.
var legacyAnswers = map[string][]string{
	"message/send": {`{"kind": "message", "messageId": "m-1", "role": "agent", "parts": [{"kind": "text", "text": "heard"}]}`},
	"message/stream": {
		`{"kind": "task", "id": "t-1", "contextId": "c-1", "status": {"state": "working"}}`,
		`{"kind": "artifact-update", "taskId": "t-1", "contextId": "c-1", "artifact": {"artifactId": "a-1", "parts": [{"kind": "text", "text": "one"}]}}`,
		`{"kind": "status-update", "taskId": "t-1", "contextId": "c-1", "final": true, "status": {"state": "completed"}}`,
	},
	"tasks/get":    {`{"kind": "task", "id": "t-1", "contextId": "c-1", "status": {"state": "completed"}}`},
	"tasks/cancel": {`{"kind": "task", "id": "t-1", "contextId": "c-1", "status": {"state": "canceled"}}`},
}

// newLegacy is an agent of version 0.3, which says the same in every run.
func newLegacy(t *testing.T) *stock {
	t.Helper()
	s := &stock{}
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	s.url = srv.URL
	mux.HandleFunc("POST /invoke", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.requests = append(s.requests, received{body, r.Header.Clone()})
		s.mu.Unlock()
		var call struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.Unmarshal(body, &call)
		if call.Method != "message/stream" {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc": "2.0", "id": %s, "result": %s}`, call.ID, legacyAnswers[call.Method][0])
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, event := range legacyAnswers[call.Method] {
			fmt.Fprintf(w, "data: {\"jsonrpc\": \"2.0\", \"id\": %s, \"result\": %s}\n\n", call.ID, event)
		}
	})
	mux.HandleFunc("GET "+cardPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, legacyCard, s.url)
	})
	return s
}

// TestSEP18_StockClientSpeaksVersion03 is the same client with an agent of the
// version before: unhindered in observe, held to one skill in scoped.
func TestSEP18_StockClientSpeaksVersion03(t *testing.T) {
	asGiven(t)
	t.Setenv("A2A_LEGACY", "1")
	l := newLogin(t)
	bearer := l.token(t, "alice", "reporter-app")
	alone, guarded := newLegacy(t), newLegacy(t)
	w := behind(t, guarded, "observe", "")
	talk := func(base string) []string {
		return javascript(t, base+cardPath, bearer, []string{"send", "hello"}, []string{"stream", "work"}, []string{"get", "$task"}, []string{"cancel", "$task"})
	}
	direct := seen(alone, talk(alone.url), alone.url)
	through := seen(guarded, talk(w.agentURL("documents")), w.agentURL("documents"))
	if diff := cmp.Diff(direct, through); diff != "" {
		t.Errorf("directly (-) and through the gateway (+):\n%s", diff)
	}
	if len(direct.Printed) != 6 || len(direct.Bodies) != 4 {
		t.Errorf("got %q for %q", direct.Printed, direct.Bodies)
	}

	agent := newLegacy(t)
	w = scoped(t, l, agent)
	skills := w.agentURL("documents") + "/skills/"
	allowed := javascript(t, skills+"search_documents"+cardPath, bearer, []string{"send", "hello"}, []string{"stream", "work"}, []string{"get", "$task"})
	if diff := cmp.Diff(direct.Printed[:5], allowed); diff != "" {
		t.Errorf("directly (-) and at the URL of the allowed skill (+):\n%s", diff)
	}
	refused := javascript(t, skills+"delete_document"+cardPath, bearer, []string{"send", "hello"}, []string{"stream", "hello"})
	if code, why := failed(t, refused[0]); code != -31403 || why["code"] != "outside_caller_scope" {
		t.Errorf("the refused skill: %s", refused[0])
	}
	if !strings.Contains(refused[1], "-31403") {
		t.Errorf("the refused skill, streaming: %s", refused[1])
	}
	if n := len(agent.got()); n != 3 {
		t.Errorf("%d requests reached the agent; want 3", n)
	}
}
