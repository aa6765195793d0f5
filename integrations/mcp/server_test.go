package powerboxmcp_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/powerbox-project/powerbox/holder"
)

// Tools of a server in its own process are listed and called under capabilities, as
// at the gateway.
func TestGATE9_Middleware(t *testing.T) {
	w := newTown(t)
	session, err := w.caller("read").connect()
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	list, err := session.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 1 || list.Tools[0].Name != "read_file" {
		t.Fatalf("listed %+v, %v; want what the capability names", list, err)
	}
	call := func(name, path string) (*mcp.CallToolResult, error) {
		return session.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: map[string]any{"path": path}})
	}
	if r, err := call("read_file", "/a"); err != nil || r.IsError {
		t.Errorf("%+v %v", r, err)
	}
	if r, err := call("read_file", "/none"); err != nil || !r.IsError {
		t.Errorf("%+v %v", r, err)
	}
	for _, name := range []string{"delete_file", "unmapped"} {
		own, err := w.caller("read").connect() // the SDK ends a session at a 403
		if err != nil {
			t.Fatal(err)
		}
		if r, err := own.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: map[string]any{"path": "/a"}}); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
		_ = own.Close()
	}
	if want := []string{"read_file /a", "read_file /none"}; !slices.Equal(w.ran, want) {
		t.Errorf("ran %v; want %v", w.ran, want)
	}
	got := w.records()
	for text, want := range map[string]int{
		"files/read/read ALLOW PENDING": 2, "files/read/read ALLOW ACHIEVED": 1, "files/read/read ALLOW FAILED": 1, "files/write/delete DENY": 1,
	} {
		if got[text] != want {
			t.Errorf("on record: %d of %s; want %d: %v", got[text], text, want, got)
		}
	}
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`

func callOf(tool string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + tool + `","arguments":{"path":"/a"}}}`
}

// 401 without a capability, and where one does not hold; 403 with the unmet
// operations alone; both lead to the metadata of RFC 9728.
func TestGATE9_Challenges(t *testing.T) {
	w := newTown(t)
	none, reads := w.caller(), w.caller("read")
	metadata := `resource_metadata="` + strings.TrimSuffix(w.endpoint, "/mcp") + `/.well-known/oauth-protected-resource/mcp"`
	answer, raw := none.post(initialize)
	if got := answer.Header.Get("WWW-Authenticate"); answer.StatusCode != http.StatusUnauthorized || got != "Bearer "+metadata || !strings.Contains(raw, `"capability_required"`) {
		t.Errorf("%d %q %s", answer.StatusCode, got, raw)
	}
	answer, raw = reads.post(initialize)
	id := answer.Header.Get("Mcp-Session-Id")
	if answer.StatusCode != http.StatusOK || id == "" {
		t.Fatalf("%d %s", answer.StatusCode, raw)
	}
	answer, raw = reads.post(callOf("delete_file"), "Mcp-Session-Id", id)
	if got := answer.Header.Get("WWW-Authenticate"); answer.StatusCode != http.StatusForbidden || got != `Bearer error="insufficient_scope", scope="files/write/delete", `+metadata {
		t.Errorf("%d %q %s", answer.StatusCode, got, raw)
	}
	var refused struct {
		ID    int `json:"id"`
		Error struct {
			Code int `json:"code"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(raw), &refused); err != nil || refused.ID != 7 || refused.Error.Code != -31403 {
		t.Errorf("%s", raw)
	}
	if answer, raw = reads.post(callOf("unmapped"), "Mcp-Session-Id", id); answer.StatusCode != http.StatusForbidden || answer.Header.Get("WWW-Authenticate") != "" {
		t.Errorf("a tool that is not mapped: %d %s", answer.StatusCode, raw)
	}
	if answer, raw = w.caller("read").post(callOf("read_file"), "Mcp-Session-Id", id); answer.StatusCode != http.StatusNotFound {
		t.Errorf("ATK-18: a session of somebody else: %d %s", answer.StatusCode, raw)
	}
	got, err := http.Get(strings.TrimSuffix(w.endpoint, "/mcp") + w.server.MetadataPath())
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	var about map[string]any
	if err := json.NewDecoder(got.Body).Decode(&about); err != nil || about["resource"] != w.endpoint || about["powerbox_issuer"] != w.url+"/agents/files" {
		t.Errorf("%v %v", about, err)
	}
	if len(w.ran) != 0 {
		t.Errorf("ran %v", w.ran)
	}
}

// Only the decided message runs: a proof serves once and for its bytes, messages
// are read one way, and the middleware takes nothing that came past the handler.
func TestATK27_OneReading(t *testing.T) {
	w := newTown(t)
	reads := w.caller("read")
	answer, raw := reads.post(initialize)
	id := answer.Header.Get("Mcp-Session-Id")
	if id == "" {
		t.Fatal(raw)
	}
	for name, body := range map[string]string{
		"a name twice":           `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","name":"delete_file","arguments":{}}}`,
		"a name in another case": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","Name":"delete_file","arguments":{}}}`,
		"a method in another":    `{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call","params":{"name":"delete_file"}}`,
		"a batch":                `[` + callOf("delete_file") + `]`,
		"a task":                 `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":{},"task":{}}}`,
		"no id":                  `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"read_file","arguments":{}}}`,
		"a method of nobody":     `{"jsonrpc":"2.0","id":1,"method":"tasks/result","params":{"taskId":"1"}}`,
		"a uri in another case":  `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"docs://a","URI":"docs://b"}}`,
		"ATK-163 a uri of dots":  `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"docs://x/../a"}}`,
		"ATK-163 and for events": `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["docs://x/%2e%2e/a"]}}}`,
		"a ref of two":           `{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"a","Name":"b"},"argument":{"name":"x","value":""}}}`,
		"two subscriptions":      `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["docs://a","docs://b"]}}}`,
		"an answer inside":       `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":{},"inputResponses":{}}}`,
		"a response":             `{"jsonrpc":"2.0","id":1,"result":{}}`,
		"a reserved name":        callOf("a2a.message"),
		"an argument in two":     `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"/a","Path":"/b"}}}`,
		"one of them deeper":     `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"/a","more":[{"\u017fo":1,"so":2}]}}}`,
		"arguments of no object": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":[]}}`,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.endpoint, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Mcp-Session-Id", id)
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = got.Body.Close()
		if got.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d; want 400", name, got.StatusCode)
		}
	}
	var seen http.Header
	reads.Base = noting{func(r *http.Request) { seen = r.Header.Clone() }}
	if answer, raw := reads.post(callOf("read_file"), "Mcp-Session-Id", id, "Powerbox-Decision", "made up"); answer.StatusCode != http.StatusOK || strings.Contains(raw, `"error"`) {
		t.Fatalf("%d %s", answer.StatusCode, raw)
	}
	again := func(body string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.endpoint, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = seen.Clone()
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		_, _ = io.Copy(io.Discard, got.Body)
		return got.StatusCode
	}
	if got := again(callOf("read_file")); got != http.StatusUnauthorized {
		t.Errorf("ATK-20: a proof twice: %d", got)
	}
	if got := again(strings.Replace(callOf("read_file"), "/a", "/b", 1)); got != http.StatusUnauthorized && got != http.StatusForbidden {
		t.Errorf("ATK-20: a proof of other bytes: %d", got)
	}
	if !slices.Equal(w.ran, []string{"read_file /a"}) {
		t.Errorf("ran %v", w.ran)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "past", Version: "1"}, nil)
	one, two := mcp.NewInMemoryTransports()
	if _, err := w.sdk.Connect(t.Context(), one, nil); err != nil {
		t.Fatal(err)
	}
	if session, err := client.Connect(t.Context(), two, nil); err == nil {
		if r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "read_file", Arguments: map[string]any{"path": "/past"}}); err == nil {
			t.Errorf("past the handler: %+v", r)
		}
	}
	if len(w.ran) != 1 || seen.Get(holder.HeaderProof) == "" {
		t.Errorf("ran %v", w.ran)
	}
}

// noting sees requests as they go out.
type noting struct{ see func(*http.Request) }

func (n noting) RoundTrip(r *http.Request) (*http.Response, error) {
	n.see(r)
	return http.DefaultTransport.RoundTrip(r)
}
