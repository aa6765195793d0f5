package e2e

import (
	"encoding/base64"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/remote/link"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// receiptBehind is the receipt in the metadata that a call of gRPC ended with, "" for none.
func receiptBehind(t *testing.T, a answer) string {
	t.Helper()
	return binaryBehind(t, a, "Powerbox-Receipt-Bin")
}

func binaryBehind(t *testing.T, a answer, name string) string {
	t.Helper()
	text := a.Trailer.Get(name)
	receipt, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return string(receipt)
}

// asksFor searches and asks for a receipt, by a stream where method says so.
func (c *caller) asksFor(held granted, method, asks string) answer {
	c.w.t.Helper()
	body := []byte(strings.Replace(string(data("search_documents", nil)), `"SendMessage"`, `"`+method+`"`, 1))
	h := c.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch})
	if asks != "" {
		h.Set("Powerbox-Receipt", asks)
	}
	return c.w.post(c.w.agentURL("documents"), body, h)
}

// TestEXT26_ReceiptsOverGRPC: a caller over gRPC gets the receipt of its call in the
// metadata that the call ends with, also of a stream. Messages stay as they were.
func TestEXT26_ReceiptsOverGRPC(t *testing.T) {
	for _, on := range []wire{{overGRPC, "1.0"}, {overGRPC, "0.3"}} {
		t.Run(on.String(), func(t *testing.T) {
			w := start(t, options{on: on})
			alice := w.caller(aliceToken)
			c := alice.reports()
			for _, method := range []string{"SendMessage", "SendStreamingMessage"} {
				for _, asks := range []string{"", "yes"} {
					if a := alice.asksFor(c, method, asks); a.Error != nil || receiptBehind(t, a) != "" {
						t.Errorf("EXT-26 %s asked with %q: %v %s", method, asks, a.Trailer, a.Raw)
					}
				}
				a := alice.asksFor(c, method, "metadata")
				if a.Error != nil || a.Header.Get("Powerbox-Receipt") != "" || strings.Contains(string(a.Raw), "powerbox-receipt") {
					t.Fatalf("EXT-26 %s: %v %v %s", method, a.Header, a.Trailer, a.Raw)
				}
				w.receiptHolds(receiptBehind(t, a), a.Header.Get("Powerbox-Decision"))
				a = alice.asksFor(c, method, "outcome")
				w.receiptHolds(receiptBehind(t, a), a.Header.Get("Powerbox-Decision"))
				w.receiptHolds(binaryBehind(t, a, "Powerbox-Outcome-Receipt-Bin"), w.outcomeOf(a.Header.Get("Powerbox-Decision")))
			}
			body := data("delete_document", map[string]any{})
			h := alice.proof("documents", body, proven{chain: []string{c.Token}, operation: opDelete, arguments: map[string]any{}})
			h.Set("Powerbox-Receipt", "metadata")
			if a := w.post(w.agentURL("documents"), body, h); a.Error == nil || receiptBehind(t, a) != "" {
				t.Errorf("EXT-26 a denial: %v %s", a.Trailer, a.Raw)
			}
		})
	}
}

// TestEXT26_ReceiptsAtARemoteGateway: a remote gateway waits until the
// server has the record, and the answer has its receipt on every binding.
func TestEXT26_ReceiptsAtARemoteGateway(t *testing.T) {
	for _, on := range []wire{{}, {overREST, "1.0"}, {overGRPC, "1.0"}, {overMCP, "2025-11-25"}} {
		t.Run(on.String(), func(t *testing.T) {
			w, _ := startRemote(t, 1, options{on: on})
			alice := w.caller(aliceToken)
			c := alice.reports()
			methods := []string{"SendMessage", "SendStreamingMessage"}
			if on.binding == overMCP {
				methods = methods[:1]
			}
			for _, method := range methods {
				a := alice.asksFor(c, method, "outcome")
				receipt, _ := receiptIn(t, string(a.Raw))
				outcome, _ := memberIn(t, string(a.Raw), a2a.MemberOutcomeReceipt)
				if on.binding == overGRPC {
					receipt, outcome = receiptBehind(t, a), binaryBehind(t, a, "Powerbox-Outcome-Receipt-Bin")
				}
				if a.Error != nil || receipt == "" || outcome == "" {
					t.Fatalf("EXT-26 %s: %v %v %s", method, a.Header, a.Trailer, a.Raw)
				}
				w.receiptHolds(receipt, a.Header.Get("Powerbox-Decision"))
				w.receiptHolds(outcome, w.outcomeOf(a.Header.Get("Powerbox-Decision")))
			}
		})
	}
}

// TestEXT26_ReceiptsOfOtherAgentsRecords: a gateway gets receipts of its agent's records
// alone.
func TestEXT26_ReceiptsOfOtherAgentsRecords(t *testing.T) {
	w, all := startRemote(t, 1, options{})
	alice := w.caller(aliceToken)
	a := alice.mailsUnder(alice.request("mail", map[string]any{"grants": []string{"mail:send"}, "purpose": "p"})[0], "bob@example.org")
	mailed := a.Header.Get("Powerbox-Decision")
	own := alice.asksFor(alice.reports(), "SendMessage", "metadata").Header.Get("Powerbox-Decision")
	l := w.falselyAs(all[0].state)
	for record, want := range map[string]bool{own: true, mailed: false, "rec_guessed": false} {
		var said link.ReceiptAnswer
		if status := l.tells(link.PathReceipt, link.ReceiptQuery{Record: record}, &said); status != http.StatusOK || record == "" || (len(said.Receipt) > 0) != want {
			t.Errorf("EXT-26 the receipt of %q: HTTP %d, %q", record, status, said.Receipt)
		}
	}
}

// TestEXT26_ReceiptsUnderWitnesses: where witnesses cosign, the receipt has their
// cosignatures and an auditor can demand them, within the size of a receipt.
func TestEXT26_ReceiptsUnderWitnesses(t *testing.T) {
	w := watched(t)
	one, two := newWatcher(t, "one.example/w", w.logKey()), newWatcher(t, "two.example/w", w.logKey())
	w.again(func() { w.under("", one, two) })
	alice := w.caller(aliceToken)
	a := alice.asksFor(alice.reports(), "SendMessage", "metadata")
	receipt, _ := receiptIn(t, string(a.Raw))
	if receipt == "" || len(receipt) > evidence.MaxReceipt {
		t.Fatalf("EXT-26 a receipt of %d bytes: %s", len(receipt), a.Raw)
	}
	w.receiptHolds(receipt, a.Header.Get("Powerbox-Decision"))
	to := w.handed()
	to.has("receipt", []byte(receipt))
	elsewhere := newWatcher(t, "else.example/w", w.logKey())
	for _, test := range []struct {
		keys []string
		code int
	}{{[]string{one.key.String(), two.key.String()}, 0}, {[]string{elsewhere.key.String()}, 4}} {
		args := []string{"evidence", "verify-receipt", "receipt", "--trust", "trust.json"}
		for _, key := range test.keys {
			args = append(args, "--witness", key)
		}
		if out, code := to.runs(filepath.Join(to.dir, "powerbox"), args...); code != test.code {
			t.Errorf("EXT-26 under %v: exit %d, want %d\n%s", test.keys, code, test.code, out)
		}
	}
}
