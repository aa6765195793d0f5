package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// receiptIn cuts the receipt of the decision out of an answer, or of the events of a stream,
// and returns the rest.
func receiptIn(t *testing.T, raw string) (receipt, rest string) {
	t.Helper()
	return memberIn(t, raw, a2a.MemberReceipt)
}

func memberIn(t *testing.T, raw, member string) (value, rest string) {
	t.Helper()
	name := `"` + member + `":`
	at := strings.Index(raw, name)
	if at < 0 {
		return "", raw
	}
	decoder := json.NewDecoder(strings.NewReader(raw[at+len(name):]))
	var found json.RawMessage
	if err := decoder.Decode(&found); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return string(found), raw[:at] + raw[at+len(name)+int(decoder.InputOffset()):]
}

// TestEXT26_ReceiptsInAnswers: a caller that asks for it gets the receipt of its call in
// the metadata of the answer, or of the last event, and everything else as the agent
// wrote it. Both verifiers hold it, and it is the record of the decision.
func TestEXT26_ReceiptsInAnswers(t *testing.T) {
	for _, on := range []wire{{}, {overREST, "1.0"}, {overMCP, "2025-11-25"}} {
		for _, kind := range []string{"application/json", "text/event-stream"} {
			t.Run(on.String()+" "+kind, func(t *testing.T) { tryReceipt(t, on, kind) })
		}
	}
}

func tryReceipt(t *testing.T, on wire, kind string) {
	w := start(t, options{on: on})
	alice := w.caller(aliceToken)
	c := alice.reports()
	// 1e2 and 9007199254740993 show that nothing was written anew.
	event, metadata := `{"task":{"id":"t1","contextId":"c1","n":1e2,"status":{"state":"TASK_STATE_WORKING"},"metadata":{"own":9007199254740993}}}`, "metadata"
	last := strings.Replace(event, "WORKING", "COMPLETED", 1)
	if on.binding == overMCP {
		event, metadata = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1,"progressToken":1}}`, "_meta"
		last = `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"é"}],"_meta":{"own":9007199254740993}}}`
	} else if on == (wire{}) {
		event, last = `{"jsonrpc":"2.0","id":1,"result":`+event+`}`, `{"jsonrpc":"2.0","id":1,"result":`+last+`}`
	}
	said := last
	if kind != "application/json" {
		said = "data: " + event + "\n\ndata: " + last + "\n\n"
	}
	w.documents.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, said)
	})
	call := func(asks string) answer {
		body, h := alice.searching(c.Token)
		if on.binding != overMCP && kind != "application/json" {
			body = []byte(strings.Replace(string(body), `"SendMessage"`, `"SendStreamingMessage"`, 1))
			h = alice.proof("documents", body, proven{chain: []string{c.Token}, operation: opSearch})
		}
		if asks != "" {
			h.Set("Powerbox-Receipt", asks)
		}
		return w.post(w.agentURL("documents"), body, h)
	}
	for _, asks := range []string{"", "yes"} {
		if a := call(asks); string(a.Raw) != said || a.Header.Get("Powerbox-Receipt") != "" {
			t.Errorf("EXT-26 asked with %q: %s", asks, a.Raw)
		}
	}
	a := call("metadata")
	receipt, rest := receiptIn(t, string(a.Raw))
	if rest = strings.Replace(rest, `"`+metadata+`":{,`, `"`+metadata+`":{`, 1); rest != said || receipt == "" {
		t.Fatalf("EXT-26 %s: beside the receipt %q there is\n%s, want\n%s", a.Header, receipt, rest, said)
	}
	if kind != "application/json" && strings.Index(string(a.Raw), a2a.MemberReceipt) < strings.Index(string(a.Raw), "\n\n") {
		t.Errorf("EXT-26 it is not in the last event: %s", a.Raw)
	}
	holds := w.receiptHolds
	if on == (wire{}) {
		holds = w.receiptHoldsAlone // one binding stands for all
	}
	holds(receipt, a.Header.Get("Powerbox-Decision"))

	a = call("outcome")
	outcome, rest := memberIn(t, string(a.Raw), a2a.MemberOutcomeReceipt)
	receipt, rest = receiptIn(t, rest)
	if rest = strings.NewReplacer(`"`+metadata+`":{,,`, `"`+metadata+`":{`).Replace(rest); rest != said || receipt == "" || outcome == "" {
		t.Fatalf("EXT-26 %s: beside the receipts %q and %q there is\n%s, want\n%s", a.Header, receipt, outcome, rest, said)
	}
	w.receiptHolds(receipt, a.Header.Get("Powerbox-Decision"))
	holds(outcome, w.outcomeOf(a.Header.Get("Powerbox-Decision")))
}

// outcomeOf is the id of the record of the outcome of a call, which was durable before the
// answer.
func (w *town) outcomeOf(decision string) string {
	w.t.Helper()
	all := w.outcomes(decision)
	if len(all) != 1 || all[0].Status != "ACHIEVED" {
		w.t.Fatalf("EXT-26 the outcomes of %s are %+v", decision, all)
	}
	return all[0].ID
}

// receiptHolds has both verifiers look at a receipt with the record that it is of.
func (w *town) receiptHolds(receipt, record string) {
	w.t.Helper()
	w.judged(receipt, record, false)
}

// receiptHoldsAlone is receiptHolds, and has both verifiers reject changed receipts and another
// record.
func (w *town) receiptHoldsAlone(receipt, record string) {
	w.t.Helper()
	w.judged(receipt, record, true)
}

// judged has both verifiers judge a receipt with its record. With changed, they also judge other
// forms of the receipt, and another record.
func (w *town) judged(receipt, id string, changed bool) {
	w.t.Helper()
	if len(receipt) == 0 || len(receipt) > evidence.MaxReceipt {
		w.t.Errorf("EXT-26 a receipt of %d bytes", len(receipt))
	}
	a := w.equipped()
	a.has("receipt", []byte(receipt))
	record := w.run("evidence", "show", id)
	a.has("record", []byte(record))
	a.judges(receiptCase{"receipt", "record", 0})
	if !changed {
		return
	}
	all := w.records("limit=2")
	if all[0].ID == id {
		all = all[1:]
	}
	other := w.run("evidence", "show", all[0].ID)
	bent := strings.Replace(receipt, `"leaf":"cG93`, `"leaf":"cG94`, 1)
	if record == other || bent == receipt {
		w.t.Fatal("there is nothing to tell apart")
	}
	var spaced bytes.Buffer
	if err := json.Indent(&spaced, []byte(strings.ReplaceAll(receipt, "\u2014", `\u2014`)), "", "  "); err != nil {
		w.t.Fatal(err)
	}
	a.has("spaced", spaced.Bytes()) // as clients write it again
	a.has("bent", []byte(bent))
	a.has("moved", []byte(strings.Replace(receipt, `\nindex `, `\nindex 1`, 1)))
	a.has("other", []byte(other))
	for _, c := range []receiptCase{{"receipt", "", 0}, {"spaced", "record", 0}, {"receipt", "other", 4}, {"bent", "", 4}, {"moved", "", 4}} {
		a.judges(c)
	}
}

// receiptCase is a receipt and a record, "" for none, by their files, and the exit code of both
// verifiers.
type receiptCase struct {
	receipt, record string
	code            int
}

// judges has both verifiers judge a case. They agree on what they print of a receipt that holds.
func (a *auditor) judges(c receiptCase) {
	a.t.Helper()
	ours := []string{"evidence", "verify-receipt", c.receipt, "--trust", "trust.json"}
	js := []string{"verify.mjs", "--receipt", c.receipt, "--trust", "trust.json"}
	if c.record != "" {
		ours, js = append(ours, "--record", c.record), append(js, c.record)
	}
	first, code := a.runs(filepath.Join(a.dir, "powerbox"), ours...)
	second, codeJS := a.runs(node(a.t), js...)
	if code != c.code || codeJS != c.code || c.code == 0 && strings.TrimSpace(first) != strings.TrimSpace(second) {
		a.t.Errorf("EXT-26 %+v: exit %d and %d, want %d\n%s\n%s", c, code, codeJS, c.code, first, second)
	}
}
