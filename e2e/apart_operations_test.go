package e2e

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestAGatewayApartIsOperated holds a remote gateway to what a server is held to:
// it has metrics, an operator's mode goes over the rules of its agent, and it
// lets streams end when it is told to.
func TestAGatewayApartIsOperated(t *testing.T) {
	agent := newRawAgent(t)
	agent.quiet()
	address := "127.0.0.1:" + freePort(t)
	w, all := startRemote(t, 1, options{
		agent: "    modes: [{grant: 'documents:read', mode: observe}]", extra: "defaults: {drain: 1s, drain_notice: 4s}\n",
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
	eventually(t, atOnce, func() string { return "an operator's mode does not go over the rules" }, func() bool {
		return w.post(w.agentURL("documents"), search, nil).reason() == "capability_required"
	})
	w.run("mode", "documents", "configured")
	eventually(t, atOnce, func() string { return "the rules do not come back" }, func() bool {
		return w.post(w.agentURL("documents"), search, nil).Error == nil
	})
	var list []struct {
		Heard *struct {
			Version                  string
			Unsent, Sequence, Behind int64
		}
	}
	eventually(t, patience, func() string { return "the server does not say how the gateway is:\n" + w.run("gateway", "list") }, func() bool {
		text := w.run("gateway", "list", "--output", "json")
		if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) != 1 {
			t.Fatalf("%v: %s", err, text)
		}
		h := list[0].Heard
		return h != nil && h.Version != "" && h.Unsent == 0 && h.Behind == 0
	})
	if line := w.run("gateway", "list"); !strings.Contains(line, list[0].Heard.Version) || !strings.Contains(line, " all ") {
		t.Errorf("listed: %s", line)
	}
	agent.quiet()
	stream := w.open("documents", streaming(), nil)
	if err := all[0].process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, atOnce, func() string { return "it does not say that it ends" }, func() bool { return strings.Contains(all[0].log.String(), "a second signal ends at once") })
	if a := w.post(w.agentURL("documents"), streaming(), nil); a.reason() != "server_stopping" {
		t.Errorf("a new stream: %s", a.Raw)
	}
	if last := stream.next(patience); !strings.Contains(last, "server_stopping") {
		t.Errorf("the stream ends with %q", last)
	}
}

// TestEXT27_TheDiskOfAGatewayApartIsFull: no call continues whose record cannot be
// written. With room again the gateway continues automatically, and every answered call
// is on record, before and after.
func TestEXT27_TheDiskOfAGatewayApartIsFull(t *testing.T) {
	w, all := startRemote(t, 1, options{})
	alice := w.caller(aliceToken)
	held := alice.reports()
	allowed(t, alice.looksUp(held))
	reached := len(w.documents.got())
	limited := &town{t: t, process: all[0].process}
	limited.full(0)
	for range 2 {
		if a := alice.looksUp(held); a.reason() != "evidence_unavailable" {
			t.Errorf("without room: %s", a.Raw)
		}
	}
	if n := len(w.documents.got()) - reached; n > 0 {
		t.Errorf("%d calls reached the agent", n)
	}
	limited.full(unix.RLIM_INFINITY)
	allowed(t, alice.looksUp(held))
	killed(t, all[0].process)
	all[0].boot()
	eventually(t, 10*time.Second, func() string { return "it does not go on\n" + all[0].log.String() }, func() bool { return alice.looksUp(held).Error == nil })
	if n := len(w.documents.got()) - reached; n != 2 {
		t.Errorf("%d calls reached the agent; want those 2 that were answered", n)
	}
}

// TestAGatewayThatNoClientIsLedTo: without gateway_url the card leads past a gateway that is
// enrolled, which it says itself, and doctor.
func TestAGatewayThatNoClientIsLedTo(t *testing.T) {
	w := start(t, options{issuer: "  feed: {heartbeat: 100ms}"})
	r := &replica{w: w, state: filepath.Join(t.TempDir(), "state"), address: "127.0.0.1:" + freePort(t)}
	r.enroll()
	r.boot()
	if log := r.log.String(); !strings.Contains(log, "leads clients to the server and not here: set agents.gateway_url") {
		t.Errorf("the gateway says nothing of it: %s", log)
	}
	if said, _ := w.cli("doctor"); !strings.Contains(said, "a gateway is enrolled in front of documents") {
		t.Errorf("doctor says nothing of it:\n%s", said)
	}
}
