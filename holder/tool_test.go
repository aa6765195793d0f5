package holder_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/token"
)

// mcpServer is a protected MCP server with sessions, or without any. It verifies what comes as a
// gateway would, and keeps what it was asked.
type mcpServer struct {
	agent

	stateless bool
	asked     []string // methods of HTTP or MCP, with the session
}

func newMCPServer(t *testing.T, stateless bool) *mcpServer {
	t.Helper()
	s := &mcpServer{agent: agent{issuer: newKey(t)}, stateless: stateless}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/agent-card.json", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"name":"documents","supportedInterfaces":[{"url":%q,"protocolBinding":"MCP","protocolVersion":"2025-11-25"}],
			"capabilities":{"extensions":[{"uri":%q,"params":{"issuer":%[1]q,"skills":{"search_documents":{"operation":"documents/documents:read/search"}},
			"capabilityGrants":[{"id":"documents:read","operations":["search"],"attenuable":true}]}}]}}`, s.URL, holder.ExtensionURI)
	})
	mux.HandleFunc("/", s.handle)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *mcpServer) handle(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	method, id, arguments := r.Method, "null", powerbox.Object()
	if m, err := powerbox.ParseValue(body); err == nil {
		name, _ := m.Get("method")
		method, _ = name.Text()
		if v, ok := m.Get("id"); ok {
			id = v.String()
		}
		params, _ := m.Get("params")
		arguments, _ = params.Get("arguments")
	}
	s.asked = append(s.asked, strings.TrimSpace(method+" "+r.Header.Get("Mcp-Session-Id")))
	if err := s.shown(r, body, method, arguments); err != nil {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":%s}`, id, errorJSON(err))
		return
	}
	switch {
	case method == "initialize" && s.stateless:
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"no sessions"}}`, id)
	case method == "initialize":
		w.Header().Set("Mcp-Session-Id", "s1")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25"}}`, id)
	case method == "tools/call":
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n"+
			"data: {\"jsonrpc\":\"2.0\",\"id\":\"another\",\"result\":{}}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[]}}\n\n", id)
	}
}

// shown verifies what a request presents: the session, or a chain with a proof of this request.
func (s *mcpServer) shown(r *http.Request, body []byte, method string, arguments powerbox.Value) error {
	if s.stateless && method == "tools/call" && (r.Header.Get("Mcp-Method") != method || r.Header.Get("Mcp-Name") != "search_documents" || !strings.Contains(string(body), `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`)) {
		return fmt.Errorf("headers %v; want those of the revision", r.Header)
	}
	if r.Header.Get(holder.HeaderProof) == "" {
		if !strings.HasPrefix(r.Header.Get("Authorization"), "DPoP ") {
			return errors.New("nothing was shown")
		}
		return nil
	}
	u, err := token.ParseChain(token.SplitChain(r.Header.Get(holder.HeaderCapability)))
	if err != nil {
		return err
	}
	v, err := u.Verify(token.NewKeySet(s.issuer.Public()), token.Options{Now: now, Revoked: token.UnsafeNothingRevoked})
	if err != nil {
		return err
	}
	name := "a2a.message"
	if method == "tools/call" {
		name = opSearch
	} else {
		arguments = powerbox.Object()
	}
	op, err := powerbox.ParseOperation(name)
	if err != nil {
		return err
	}
	_, err = v.CheckProof(r.Header.Get(holder.HeaderProof), token.Expected{
		Now: now, Operation: op, Arguments: arguments, Audience: s.URL,
		Request: &token.Request{Method: r.Method, URL: s.URL, Digest: token.DigestOf(body)},
	})
	return err
}

// A skill of an MCP server is a tool: each request of its session is signed.
func TestToolsOfMCPServersAreCalled(t *testing.T) {
	args := value(t, `{"query":"q1"}`)
	for name, try := range map[string]struct {
		stateless bool
		want      []string
	}{
		"with sessions":    {false, []string{"initialize", "notifications/initialized s1", "tools/call s1", "DELETE s1"}},
		"without sessions": {true, []string{"initialize", "tools/call"}},
	} {
		s, c := newMCPServer(t, try.stateless), newClient(t)
		to, err := c.Discover(t.Context(), s.URL)
		if err != nil {
			t.Fatal(err)
		}
		held := holder.Capability{ID: "cap_1", Agent: s.URL, Chain: []string{s.mint(t, "cap_1", c.Key.Public(), nil)}}
		byReference := holder.Capability{ID: "cap_1", Agent: s.URL}
		for way, call := range map[string]func() ([]byte, error){
			"under a chain":  func() ([]byte, error) { return c.Invoke(t.Context(), to, held, "search_documents", args) },
			"by reference":   func() ([]byte, error) { return c.Invoke(t.Context(), to, byReference, "search_documents", args) },
			"with a session": func() ([]byte, error) { return c.Send(t.Context(), to, "search_documents", args) },
		} {
			s.asked = nil
			if got, err := call(); err != nil || string(got) != `{"content":[]}` || !slices.Equal(s.asked, try.want) {
				t.Errorf("%s, %s: %s, %v after %q; want the result after %q", name, way, got, err, s.asked, try.want)
			}
		}
	}
}

// A refusal is a denial, and a server that answers nothing is an error.
func TestToolsThatAreNotCalled(t *testing.T) {
	s, c := newMCPServer(t, false), newClient(t)
	to, err := c.Discover(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	nobody := *c
	nobody.Session = nil
	if _, err := nobody.Send(t.Context(), to, "search_documents", powerbox.Object()); !errors.Is(err, powerbox.ErrDenied) {
		t.Errorf("%v; want a denial", err)
	}
	silent := *c
	silent.HTTP = answering(`{"jsonrpc":"2.0","id":"1","result":{}}`)
	if _, err := silent.Send(t.Context(), to, "search_documents", powerbox.Object()); err == nil || !strings.Contains(err.Error(), "no revision") {
		t.Errorf("%v; want an error about the revision", err)
	}
	if _, err := (&holder.Client{}).Send(t.Context(), to, "search_documents", powerbox.Object()); err == nil {
		t.Error("a client without a clock called")
	}
}
