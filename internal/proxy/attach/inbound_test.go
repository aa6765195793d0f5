package attach_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/token"
)

func TestInboundVerifiesTheContext(t *testing.T) {
	w := newTown(t, nil)
	body := call("work", "")
	good := w.context(body, nil)
	for name, compact := range map[string]string{
		"none":            "",
		"another body":    w.context([]byte("x"), nil),
		"another agent":   w.context(body, func(c *token.Context) { c.Audience = "other" }),
		"another issuer":  w.context(body, func(c *token.Context) { c.Issuer = w.gateway.URL + "/agents/peer" }),
		"one that is old": w.context(body, func(c *token.Context) { c.IssuedAt, c.Expires = w.now.Add(-2*time.Minute), w.now.Add(-time.Minute) }),
		"another task":    w.context(body, func(c *token.Context) { c.Task = "task-of-somebody" }),
		"another tenant":  w.context(body, func(c *token.Context) { c.Tenant = "tenant-of-somebody" }),
		"two of them":     good + "," + good,
		"one from before": w.context(body, func(c *token.Context) { c.IssuedAt = w.attach.InboundFrom().Add(-time.Second) }),
	} {
		if reason := w.post(w.in.URL, body, header("Powerbox-Context", compact)); reason != "context" {
			t.Errorf("%s: %q", name, reason)
		}
	}
	if len(w.agentIn) > 0 {
		t.Fatal("a call reached the agent")
	}
	if reason := w.post(w.in.URL, body, header("Powerbox-Context", good)); reason != "" || w.bodies[0] != string(body) {
		t.Errorf("one that holds: %q, %q", reason, w.bodies)
	}
	if reason := w.post(w.in.URL, body, header("Powerbox-Context", good)); reason != "context" || len(w.agentIn) != 1 {
		t.Errorf("again: %q", reason)
	}
}

func TestInboundMarksWhatTheAgentGets(t *testing.T) {
	w := newTown(t, nil)
	h := w.comes("cap_1", "", header("tracestate", "powerbox=forged,vendor=x", "Powerbox-Purpose", "p"), nil)
	if strings.Contains(h.Get("tracestate"), "forged") || !strings.HasSuffix(h.Get("tracestate"), ",vendor=x") || !strings.HasPrefix(h.Get("traceparent"), "00-") {
		t.Errorf("tracing: %q, %q", h.Get("traceparent"), h.Get("tracestate"))
	}
	if h.Get("Powerbox-Delegation") != "" || h.Get("Powerbox-Purpose") != "" || h.Get("Powerbox-Context") == "" {
		t.Errorf("headers: %v", h)
	}
}

func TestInboundCardLeadsHereAndPublishesTheKey(t *testing.T) {
	w := newTown(t, nil)
	r, err := http.Get(w.in.URL + "/.well-known/agent-card.json")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(raw) || !strings.Contains(string(raw), `"url":"`+w.in.URL+`"`) || strings.Contains(string(raw), w.agent.URL) || !strings.Contains(string(raw), w.key.Public().JWK().String()) {
		t.Errorf("the card: %s", raw)
	}
}

// What another party's key is needed for is useless, and no reason to refuse
// the call.
func TestInboundLeavesWhatIsForSomebodyElse(t *testing.T) {
	w := newTown(t, nil)
	w.key = newKey(t) // chains are for another key from here on
	h := w.comes("cap_1", "", nil, nil)
	if got, refused := w.goes(call("read", ""), header("tracestate", h.Get("tracestate"))); got != "" || refused != "nothing presented" {
		t.Errorf("presented %q, refused %q", got, refused)
	}
}
