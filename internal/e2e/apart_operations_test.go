package e2e

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAGatewayApartIsOperated holds a gateway apart to what a server is held to:
// it has metrics, an operator's mode goes over the rules of its agent, and it
// lets streams end when it is told to.
func TestAGatewayApartIsOperated(t *testing.T) {
	agent := newRawAgent(t)
	agent.quiet()
	address := "127.0.0.1:" + freePort(t)
	w, all := startApart(t, 1, options{
		agent: "    modes: [{grant: 'documents:read', mode: observe}]", extra: "defaults: {drain: 1s, drain_notice: 1s}\n",
	}, "--telemetry", address, "--upstream", agent.url)
	search := data("search_documents", nil)
	agent.says("application/json", `{"jsonrpc":"2.0","id":1,"result":{}}`)
	if a := w.post(w.agentURL("documents"), search, nil); a.Error != nil {
		t.Fatalf("observed: %s\n%s", a.Raw, all[0].log)
	}
	counted(t, address, `powerbox_calls_total{agent="documents",basis="ambient",binding="JSONRPC",decision="abstain",method="SendMessage",mode="observe"}`, "1")
	if m := metrics(t, address); m["powerbox_revocation_sequence"] == "" || m[`powerbox_record_duration_seconds_count{agent="documents"}`] != "1" {
		t.Errorf("%v", m)
	}
	w.run("mode", "documents", "require")
	eventually(t, 5*time.Second, func() string { return "an operator's mode does not go over the rules" }, func() bool {
		return w.post(w.agentURL("documents"), search, nil).reason() == "capability_required"
	})
	w.run("mode", "documents", "configured")
	eventually(t, 5*time.Second, func() string { return "the rules do not come back" }, func() bool {
		return w.post(w.agentURL("documents"), search, nil).Error == nil
	})
	agent.quiet()
	stream := w.open("documents", streaming(), nil)
	if err := all[0].process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, func() string { return "it does not say that it ends" }, func() bool { return strings.Contains(all[0].log.String(), "a second signal ends at once") })
	if a := w.post(w.agentURL("documents"), streaming(), nil); a.reason() != "server_stopping" {
		t.Errorf("a new stream: %s", a.Raw)
	}
	if last := stream.next(5 * time.Second); !strings.Contains(last, "server_stopping") {
		t.Errorf("the stream ends with %q", last)
	}
}
