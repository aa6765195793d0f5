package gateway

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/mcp"
)

// answered is a decided call with nothing in it but what reading an answer needs.
func answered(method string, binding a2a.Binding) *decided {
	r := &received{agent: &agent{Agent: Agent{MCP: &MCP{}}}, request: httptest.NewRequest(method, "/", nil), binding: binding}
	return &decided{
		decoded: &decoded{identified: &identified{received: r}, call: a2a.Call{Binding: binding}, mcp: mcp.Message{}},
		verdict: gate.Verdict{Allowed: true, Basis: gate.OnCapability},
	}
}

// A list that cannot be cut does not reach the caller. A server answers requests of before on
// the stream of a GET, so each list is cut there.
func TestListsThatCannotBeCutAreRefused(t *testing.T) {
	for name, response := range map[string]string{
		"tools that are no list":  `{"jsonrpc":"2.0","id":1,"result":{"tools":{"name":"delete"}}}`,
		"a list in letters mixed": `{"jsonrpc":"2.0","id":1,"result":{"Tools":[{"name":"delete"}]}}`,
		"no JSON":                 `{"result":`,
	} {
		got, err := answered(http.MethodGet, a2a.MCP).cutLists([]byte(response))
		if err == nil || got != nil {
			t.Errorf("%s: %s, %v; want an error and no answer", name, got, err)
		}
	}
	got, err := answered(http.MethodGet, a2a.MCP).cutLists([]byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"delete"}]}}`))
	if want := `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`; err != nil || string(got) != want {
		t.Errorf("a tool that the caller may not call: %s, %v; want %s", got, err, want)
	}
}

// Only gRPC says in trailers what became of a call, and only where the stream came to its end.
func TestOutcomesInTrailersAreThoseOfGRPC(t *testing.T) {
	cut := errors.New("cut")
	for _, c := range []struct {
		name    string
		binding a2a.Binding
		err     error
		want    evidence.OutcomeStatus
	}{
		{"gRPC", a2a.GRPC, nil, evidence.Achieved},
		{"gRPC, cut", a2a.GRPC, cut, evidence.Partial},
		{"events", a2a.JSONRPC, nil, evidence.Partial},
		{"events, cut", a2a.JSONRPC, cut, evidence.Partial},
	} {
		s := &stream{
			call: answered(http.MethodPost, c.binding), err: c.err, became: outcome{status: evidence.Partial},
			response: &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {typeGRPC}}, Trailer: http.Header{"Grpc-Status": {"0"}}},
		}
		if s.trailed(); s.became.status != c.want {
			t.Errorf("%s: %s; want %s", c.name, s.became.status, c.want)
		}
	}
}

// A denial tells clients of MCP of ways that they have: they call no methods of the extension,
// and know nothing of A2A's operations.
func TestDenialsNameWaysThatMCPClientsHave(t *testing.T) {
	g := &Gateway{config: Config{Now: func() time.Time { return time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC) }}}
	for _, c := range []struct {
		binding a2a.Binding
		code    string
		want    string
	}{
		{a2a.MCP, gate.CodeCapabilityRequired, "powerbox request"},
		{a2a.MCP, string(powerbox.CodeOperation), "powerbox request"},
		{a2a.MCP, gate.CodeScope, "an operation of this server"},
		{a2a.JSONRPC, gate.CodeCapabilityRequired, "a2a/capabilities/request"},
	} {
		x := answered(http.MethodPost, c.binding)
		x.verdict = gate.Verdict{Reasons: []evidence.Reason{{Code: c.code, Message: "denied"}}}
		d := g.denial(x)
		if !strings.Contains(d.Fix, c.want) || c.binding == a2a.MCP && strings.Contains(d.Message+d.Fix, "a2a/") {
			t.Errorf("%v %s: %q, to fix %q; want %q", c.binding, c.code, d.Message, d.Fix, c.want)
		}
	}
}
