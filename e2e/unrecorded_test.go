package e2e

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// fillsUp makes the disk of the server full while the documents agent works, so that the
// decision is on record and the outcome cannot be.
func (w *town) fillsUp() {
	w.documents.sees(func(http.ResponseWriter, *http.Request) { w.full(0) })
}

// standsAlone checks that an answer says that the outcome of a call is not on record, with
// none of the agent's words, and that the record says the same.
func standsAlone(t *testing.T, w *town, a answer, retryable string) {
	t.Helper()
	w.full(unix.RLIM_INFINITY)
	w.documents.sees(nil)
	if a.reason() != "outcome_unrecorded" || bytes.Contains(a.Raw, []byte("echo")) {
		t.Errorf("ATK-75 %s %s", a.reason(), a.Raw)
		return
	}
	if said := a.Error.Data[0].Metadata; said["retryable"] != retryable || said["decision"] != a.Header.Get("Powerbox-Decision") {
		t.Errorf("ATK-75 %v, decision %s", said, a.Header.Get("Powerbox-Decision"))
	}
	r := w.decided(a)
	if out := w.records("outcome_of=" + r.ID); r.Decision != "ALLOW" || len(out) != 0 {
		t.Errorf("ATK-75 the record says %s, and its outcome is %+v", r.Decision, out)
	}
}

// An agent answers and the disk is full by then. The caller gets no answer whose outcome is
// not on record.
func TestATK75_NoAnswerWithoutItsOutcome(t *testing.T) {
	aboutTheFile(t)
	everywhere(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on, agent: "    enforces: context\n"})
		alice := w.caller(aliceToken)
		held := alice.request("documents", map[string]any{
			"grants": []string{"documents:read", "documents:write"}, "purpose": "p", "resourceQuery": quarter("2025-Q1"),
		})
		handle := map[string]any{"resourceHandle": held[0].ResourceHandles[0].Handle}
		allowed(t, alice.byID(held[0], data("retrieve_document", handle)))
		w.fillsUp()
		standsAlone(t, w, alice.byID(held[0], data("retrieve_document", handle)), "true")
		w.fillsUp()
		handle["resourceHandle"] = held[1].ResourceHandles[0].Handle
		standsAlone(t, w, alice.byID(held[1], data("delete_document", handle)), "false")

		w.fillsUp()
		url := w.agentURL("documents")
		h := alice.headers(url)
		h.Set("Powerbox-Capability", held[0].ID)
		h.Set("A2A-Version", cmp.Or(on.version, "1.0"))
		r, _ := w.encode(url, text("SendStreamingMessage", "task"))
		res := w.send(r, h)
		defer res.Body.Close()
		rest, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		w.full(unix.RLIM_INFINITY)
		w.documents.sees(nil)
		said := string(rest)
		if on.binding == overGRPC {
			said += res.Header.Get("Grpc-Message") + res.Trailer.Get("Grpc-Message")
		}
		if !strings.Contains(said, "could not record the outcome") || strings.Contains(strings.ToLower(said), "completed") {
			t.Errorf("ATK-75 a stream: %q, %v", said, res.Trailer)
		}
		if out := w.records("outcome_of=" + res.Header.Get("Powerbox-Decision")); len(out) != 0 {
			t.Errorf("ATK-75 a stream has the outcome %+v", out)
		}
	})
}

// An agent says that a task is completed and keeps the stream open: the caller hears of the
// end after it is on record, and not after the stream has ended.
func TestATK75_NoLastEventWithoutItsOutcome(t *testing.T) {
	aboutTheFile(t)
	w := start(t, options{mode: "prefer"})
	alice := w.caller(aliceToken)
	begun, over := make(chan struct{}), make(chan struct{})
	defer close(over)
	event := func(state string) string {
		return `data: {"jsonrpc":"2.0","id":1,"result":{"statusUpdate":{"taskId":"t1","contextId":"c1","status":{"state":"TASK_STATE_` + state + `"}}}}` + "\n\n"
	}
	w.documents.answers(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(rw, event("WORKING"))
		_ = http.NewResponseController(rw).Flush()
		select { // the task has an owner on record before the disk is full
		case <-begun:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(rw, event("COMPLETED"))
		_ = http.NewResponseController(rw).Flush()
		select {
		case <-over:
		case <-r.Context().Done():
		}
	})
	held := alice.reports()
	stream, _ := alice.follows(held, parted("SendStreamingMessage", []any{skillPart("search_documents", map[string]any{"query": "x"})}, nil, nil))
	w.full(0)
	close(begun)
	first := make([]byte, 64<<10)
	n, _ := stream.Body.Read(first)
	first = first[:n]
	w.full(unix.RLIM_INFINITY)
	if said := string(first); !strings.Contains(said, "outcome_unrecorded") || strings.Contains(said, "COMPLETED") {
		t.Errorf("ATK-75 the stream says %q", said)
	}
}

// The same for a tool of an MCP server.
func TestATK75_NoAnswerWithoutItsOutcomeOverMCP(t *testing.T) {
	aboutTheFile(t)
	w := start(t, options{on: wire{overMCP, "2025-11-25"}})
	alice := w.caller(aliceToken)
	held := alice.reports()
	handle := map[string]any{"resourceHandle": held.ResourceHandles[0].Handle}
	allowed(t, alice.byID(held, invoke("retrieve_document", handle, "")))
	w.fillsUp()
	standsAlone(t, w, alice.byID(held, invoke("retrieve_document", handle, "")), "true")
}

// unrecordedAtBank checks what an agent of Agent Auth is told of a call whose outcome is not
// on record.
func (b *bank) unrecordedAtBank(t *testing.T, what string, r reply) {
	t.Helper()
	b.full(unix.RLIM_INFINITY)
	if r.Status != http.StatusInternalServerError || r.text("error") != "outcome_unrecorded" {
		t.Errorf("ATK-75 %s: %d %s", what, r.Status, r.Raw)
		return
	}
	if out := b.records("outcome_of=" + r.Header.Get("Powerbox-Decision")); len(out) != 0 {
		t.Errorf("ATK-75 %s has the outcome %+v", what, out)
	}
}

// The same for executions of Agent Auth: results, refusals of the service, streams and jobs.
func TestATK75_NoExecutionWithoutItsOutcome(t *testing.T) {
	aboutTheFile(t)
	b := newBank(t, bankOptions{})
	m := b.active("alice", "transfer_money", "slow_job", "ticker")
	fills := func(works, asked func()) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.works, b.asked = works, asked
	}
	full := func() { b.full(0) }
	fills(full, nil)
	b.unrecordedAtBank(t, "a result", m.execute("transfer_money", map[string]any{"amount": 1}))
	b.refuse("transfer_money", true)
	b.unrecordedAtBank(t, "a refusal of the service", m.execute("transfer_money", map[string]any{"amount": 1}))
	b.unrecordedAtBank(t, "the beginning of a job", m.execute("slow_job", nil))
	fills(nil, nil)
	job := b.want("execute", m.execute("slow_job", nil), http.StatusAccepted, "")
	b.mu.Lock()
	b.polls = 1 // it is done when it is asked about next
	b.mu.Unlock()
	fills(nil, full)
	at := job.text("status_url")[len(b.url):]
	b.unrecordedAtBank(t, "a job", b.ask(http.MethodGet, at, m.token(b.url+"/capability/execute"), nil))
	fills(full, nil)
	close(b.wait)
	stream := m.execute("ticker", nil)
	b.full(unix.RLIM_INFINITY)
	if !strings.Contains(stream.Raw, `"outcome_unrecorded"`) {
		t.Errorf("ATK-75 a stream: %s", stream.Raw)
	}
	if out := b.records("outcome_of=" + stream.Header.Get("Powerbox-Decision")); len(out) != 0 {
		t.Errorf("ATK-75 a stream has the outcome %+v", out)
	}
	// With room again the poll that failed tells the result and records it.
	fills(nil, nil)
	again := b.want("poll", b.ask(http.MethodGet, at, m.token(b.url+"/capability/execute"), nil), http.StatusOK, "")
	if out := b.records("outcome_of=" + job.Header.Get("Powerbox-Decision")); len(out) != 1 || again.text("status") != "completed" {
		t.Errorf("ATK-75 with room again the job says %s, and its outcome is %+v", again.Raw, out)
	}
}
