package e2e

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// byID makes a call under a capability by its id, which a header names on every
// binding.
func (c *caller) byID(held granted, body []byte) answer {
	c.w.t.Helper()
	url := c.w.agentURL("documents")
	h := c.headers(url)
	h.Set("Powerbox-Capability", held.ID)
	return c.w.post(url, body, h)
}

// follows opens a stream in the same way, and returns it with what it says first.
func (c *caller) follows(held granted, body []byte) (*http.Response, []byte) {
	c.w.t.Helper()
	url := c.w.agentURL("documents")
	h := c.headers(url)
	h.Set("Powerbox-Capability", held.ID)
	h.Set("A2A-Version", c.w.on.version)
	if c.w.on == (wire{}) {
		h.Set("A2A-Version", "1.0")
	}
	r, _ := c.w.encode(url, body)
	res := c.w.send(r, h)
	c.w.t.Cleanup(func() { _ = res.Body.Close() })
	first := make([]byte, 64<<10)
	n, err := res.Body.Read(first)
	if errors.Is(err, io.EOF) && n > 0 {
		err = nil // it came whole
	}
	if err != nil || n == 0 || strings.Contains(string(first[:n]), "-31403") {
		c.w.t.Fatalf("the stream begins with %q, %v", first[:n], err)
	}
	return res, first[:n]
}

var uuids = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// taskIn is the task that a piece of a stream is about: the one of the ids in it
// that can be read as one.
func (c *caller) taskIn(held granted, piece []byte) string {
	c.w.t.Helper()
	for _, id := range uuids.FindAllString(string(piece), -1) {
		if c.byID(held, rpc("GetTask", map[string]any{"id": id})).Error == nil {
			return id
		}
	}
	c.w.t.Fatalf("no task that can be read in %q", piece)
	return ""
}

// TestATK34_BudgetsOfStreams spends a budget by streams: what a stream takes it has
// taken when it begins. Following it, reading its task and the events that come take
// nothing; a further message does; leaving it gives nothing back. A paid task can be
// read and ended when the budget is spent (ATK-42).
func TestATK34_BudgetsOfStreams(t *testing.T) {
	everywhere(t, func(t *testing.T, on wire) {
		spendsByStreams(t, start(t, options{on: on, agent: "    enforces: context", reads: ", uses: 3"}))
	})
}

// TestATK34_BudgetsOfStreamsApart does so at two gateways that do not keep the budget.
func TestATK34_BudgetsOfStreamsApart(t *testing.T) {
	w, _ := startRemote(t, 2, options{agent: "    enforces: context", reads: ", uses: 3"})
	spendsByStreams(t, w)
}

func spendsByStreams(t *testing.T, w *town) {
	t.Helper()
	w.client = &http.Client{Timeout: stepTime} // what should be refused may be a stream without an end
	alice := w.caller(aliceToken)
	held := alice.reports()
	hang := []byte(strings.Replace(string(data("search_documents", map[string]any{"query": "hang"})), `"SendMessage"`, `"SendStreamingMessage"`, 1))
	reads := func(task string) {
		t.Helper()
		for range 4 {
			if a := alice.byID(held, rpc("GetTask", map[string]any{"id": task})); a.Error != nil {
				t.Errorf("ATK-34 reading %s: %s", task, a.Raw)
			}
		}
	}
	_, first := alice.follows(held, text("SendStreamingMessage", "task open"))
	task := alice.taskIn(held, first)
	reads(task)
	open, first := alice.follows(held, hang)
	hung := alice.taskIn(held, first)
	reads(hung)
	for range 2 {
		alice.follows(held, rpc("SubscribeToTask", map[string]any{"id": hung}))
	}
	if a := alice.byID(held, about("SendMessage", map[string]any{"taskId": task})); a.Error != nil {
		t.Errorf("ATK-34 a further message, the third call: %s", a.Raw)
	}
	spent := func() {
		t.Helper()
		w.documents.forget()
		for name, body := range map[string][]byte{
			"a further message": about("SendMessage", map[string]any{"taskId": hung}), "a further message that is answered by a stream": about("SendStreamingMessage", map[string]any{"taskId": hung}),
			"another stream": hang, "a call": data("search_documents", map[string]any{"query": "x"}), "free text": text("SendMessage", "task"),
		} {
			if a := alice.byID(held, body); a.reason() != "limit_exceeded" {
				t.Errorf("ATK-34 %s beyond the budget: %s", name, a.Raw)
			}
		}
		if n := len(w.documents.got()); n != 0 {
			t.Errorf("ATK-34 %d calls beyond the budget reached the agent", n)
		}
	}
	spent()
	reads(hung)
	alice.follows(held, rpc("SubscribeToTask", map[string]any{"id": hung}))
	// Who leaves a stream has not given it back.
	_ = open.Body.Close()
	w.soon("the outcome of the stream", func() bool {
		return len(w.records("outcome_of="+open.Header.Get("Powerbox-Decision"))) == 1
	})
	spent()
	// It is over already, which is for the agent to say.
	if a := alice.byID(held, rpc("CancelTask", map[string]any{"id": task})); a.Error != nil && a.Error.Code == -31403 || len(w.documents.got()) != 1 {
		t.Errorf("ATK-34 ending what was paid for: %s", a.Raw)
	}
}

// TestATK34_BudgetsOfMCP has a stock client spend a budget: sessions, lists and the
// streams that carry them take nothing, calls of tools do, each once, whatever the
// server asks in between.
func TestATK34_BudgetsOfMCP(t *testing.T) {
	w := start(t, options{on: wire{overMCP, "2025-11-25"}, upstream: sessions(t), reads: ", uses: 2", agent: "    mcp: {server_requests: [elicitation/create]}\n"})
	alice := w.caller(aliceToken)
	held := alice.reports()
	var asked []string
	s := connect(t, w.agentURL("documents"), presenting{alice, func() string { return held.ID }}, &asked)
	lists := func() {
		t.Helper()
		for range 3 {
			if _, err := s.ListTools(t.Context(), &mcp.ListToolsParams{}); err != nil {
				t.Errorf("ATK-34 listing: %v", err)
			}
			if err := s.Ping(t.Context(), nil); err != nil {
				t.Errorf("ATK-34 a ping: %v", err)
			}
		}
	}
	lists()
	for n := range 2 {
		if got := toolSaid(t, s, "search_documents", map[string]any{"query": "x"}); got != "secret" || len(asked) != n+1 {
			t.Errorf("ATK-34 call %d: %q, asked %d times", n, got, len(asked))
		}
	}
	other, _ := json.Marshal(map[string]any{"resourceHandle": held.ResourceHandles[0].Handle}) // which answers without asking
	if a := alice.raw(held.ID, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"retrieve_document","arguments":`+string(other)+`}}`, "Mcp-Session-Id", s.ID()); a.reason() != "limit_exceeded" {
		t.Errorf("ATK-34 beyond the budget: %s", a.Raw)
	}
	lists()
}

// TestATK42_SumsAndFreeText sends text that cannot be counted beside the counted
// argument, or instead of it; and reads a task under a capability that has a sum.
func TestATK42_SumsAndFreeText(t *testing.T) {
	w := start(t, options{agent: "    enforces: context", reads: ", sum: {amount: 5}"})
	alice := w.caller(aliceToken)
	held := alice.reports()
	skill := func(query string, amount any) map[string]any {
		return skillPart("search_documents", map[string]any{"query": query, "amount": amount})
	}
	for name, body := range map[string][]byte{
		"text beside the amount": parted("SendMessage", []any{skill("x", 1), map[string]any{"text": "and for 1000 more"}}, nil, nil),
		"text alone":             text("SendMessage", "for 1000, please"),
	} {
		if a := alice.byID(held, body); a.reason() != "message_not_bound" {
			t.Errorf("ATK-42 %s: %s", name, a.Raw)
		}
	}
	if n := len(w.documents.got()); n != 0 {
		t.Errorf("ATK-42 %d calls reached the agent", n)
	}
	_, first := alice.follows(held, parted("SendStreamingMessage", []any{skill("hang", 5)}, nil, nil))
	task := alice.taskIn(held, first)
	if a := alice.byID(held, parted("SendMessage", []any{skill("x", 1)}, nil, nil)); a.reason() != "limit_exceeded" {
		t.Errorf("ATK-42 beyond the sum: %s", a.Raw)
	}
	alice.follows(held, rpc("SubscribeToTask", map[string]any{"id": task}))
}

// TestATK34_BudgetsOfExecutions spends a budget by streams and jobs of Agent Auth:
// each takes what it takes when it begins, and no more by its events and polls.
func TestATK34_BudgetsOfExecutions(t *testing.T) {
	b := newBank(t, bankOptions{capabilities: "        - {name: prices, description: Prices, sensitivity: read, uses: 2}\n        - {name: reports, description: A report, sensitivity: read, uses: 1}\n"})
	m := b.active("alice", "prices", "reports")
	job := b.want("ATK-34", m.execute("reports", nil), http.StatusAccepted, "")
	for range 3 {
		if r := b.ask(http.MethodGet, strings.TrimPrefix(job.text("status_url"), b.url), m.token(b.url+"/capability/execute"), nil); r.Status != http.StatusOK {
			t.Errorf("ATK-34 a poll: %d %s", r.Status, r.Raw)
		}
	}
	b.want("ATK-34 a second job", m.execute("reports", nil), http.StatusForbidden, "limit_exceeded")
	ended := make(chan reply, 2)
	for range 2 {
		go func() { ended <- m.execute("prices", nil) }()
	}
	b.soon("two streams", func() bool { return b.did("prices") == 2 })
	b.want("ATK-34 a third stream", m.execute("prices", nil), http.StatusForbidden, "limit_exceeded")
	close(b.wait)
	for range 2 {
		if r := <-ended; !strings.Contains(r.Raw, "event: data\ndata: \"two\"") || !strings.HasSuffix(r.Raw, "event: done\ndata: \n\n") {
			t.Errorf("ATK-34 a stream that was paid for: %q", r.Raw)
		}
	}
	b.want("ATK-34 after they ended", m.execute("prices", nil), http.StatusForbidden, "limit_exceeded")
	if b.did("prices") != 2 || b.did("reports") != 1 {
		t.Errorf("ATK-34 the service was asked %d and %d times", b.did("prices"), b.did("reports"))
	}
}
