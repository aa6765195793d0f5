package e2e

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// TestATK44_BothVerifiersDemandCosignaturesOfReceipts: a receipt whose checkpoint a pinned
// witness has not cosigned is rejected, offline, by the binary and by verify.mjs alike.
func TestATK44_BothVerifiersDemandCosignaturesOfReceipts(t *testing.T) {
	w := watched(t)
	one := newWatcher(t, "one.example/w", w.logKey())
	w.again(func() { w.under("", one) })
	elsewhere := newWatcher(t, "else.example/w", w.logKey())
	alice := w.caller(aliceToken)
	c := alice.reports()
	answered := alice.asksFor(c, "SendMessage", "outcome")
	receipt, _ := memberIn(t, string(answered.Raw), a2a.MemberOutcomeReceipt)
	parsed, err := evidence.ParseReceipt([]byte(receipt))
	if err != nil {
		t.Fatalf("%v in %s", err, answered.Raw)
	}
	at := strings.Index(receipt, "\u2014 one.example/w ")
	if at < 0 {
		t.Fatalf("ATK-44 no cosignature in %s", receipt)
	}
	end := at + strings.Index(receipt[at:], `\n`) + len(`\n`)
	a := w.handed()
	a.has("receipt", []byte(receipt))
	a.has("cut", []byte(receipt[:at]+receipt[end:]))
	forged := []byte(receipt)
	if forged[end-50] == 'A' {
		forged[end-50] = 'B'
	} else {
		forged[end-50] = 'A'
	}
	a.has("forged", forged)
	key, other := one.key.String(), elsewhere.key.String()
	for name, test := range map[string]struct {
		file  string
		flags []string
		code  int
	}{
		"cosigned":             {"receipt", []string{"--witness", key}, 0},
		"one of two":           {"receipt", []string{"--witness", key, "--witness", other, "--quorum", "1"}, 0},
		"both of two":          {"receipt", []string{"--witness", key, "--witness", other}, 4},
		"by another":           {"receipt", []string{"--witness", other}, 4},
		"taken away":           {"cut", []string{"--witness", key}, 4},
		"without one, unasked": {"cut", nil, 0},
		"forged":               {"forged", []string{"--witness", key}, 4},
		"a log's key":          {"receipt", []string{"--witness", w.logKey()}, 2},
		"pinned twice":         {"receipt", []string{"--witness", key, "--witness", key}, 2},
		"too many":             {"receipt", []string{"--witness", key, "--quorum", "2"}, 2},
	} {
		ours := append([]string{"evidence", "verify-receipt", test.file, "--trust", "trust.json"}, test.flags...)
		js := append([]string{"verify.mjs", "--receipt", test.file, "--trust", "trust.json"}, test.flags...)
		first, code := a.runs(filepath.Join(a.dir, "powerbox"), ours...)
		second, codeJS := a.runs(node(t), js...)
		if code != test.code || codeJS != test.code || code == 0 && strings.TrimSpace(first) != strings.TrimSpace(second) {
			t.Errorf("ATK-44 %s: exit %d and %d, want %d\n%s\n%s", name, code, codeJS, test.code, first, second)
		}
	}
	if decision := answered.Header.Get("Powerbox-Decision"); parsed.Hash() != w.sealed(w.outcomeOf(decision)) {
		t.Error("EXT-26 the receipt is not of the outcome")
	}
}

// sealed is the hash of a record.
func (w *town) sealed(id string) evidence.Hash {
	w.t.Helper()
	sealed, err := evidence.ParseSealed([]byte(strings.TrimSuffix(w.run("evidence", "show", id), "\n")))
	if err != nil {
		w.t.Fatal(err)
	}
	return sealed.Hash()
}

// TestEXT26_AStreamThatWaitsHasItsReceipts: the event with which a task waits for its caller
// is the last one, and has the receipts.
func TestEXT26_AStreamThatWaitsHasItsReceipts(t *testing.T) {
	w := start(t, options{})
	w.documents.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_INPUT_REQUIRED"}}}}`+"\n\n")
	})
	alice := w.caller(aliceToken)
	a := alice.asksFor(alice.reports(), "SendStreamingMessage", "outcome")
	receipt, _ := receiptIn(t, string(a.Raw))
	outcome, _ := memberIn(t, string(a.Raw), a2a.MemberOutcomeReceipt)
	w.receiptHolds(receipt, a.Header.Get("Powerbox-Decision"))
	w.receiptHolds(outcome, w.outcomeOf(a.Header.Get("Powerbox-Decision")))
}
