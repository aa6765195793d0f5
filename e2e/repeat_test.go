package e2e

import (
	"strings"
	"testing"
)

// TestRepeatedDenials has a caller ask again and again for what it may not do:
// it is told to stop, the operator is told once, the log of evidence does not
// grow with every try, and what the caller may do it still does.
func TestRepeatedDenials(t *testing.T) {
	address, section := telemetryAt(t, "")
	w := start(t, options{extra: section + "limits: {denials: 5}\n"})
	alice := w.caller(aliceToken)
	c := alice.reports()
	last := answer{}
	for n := range 50 {
		last = alice.send("documents", data("delete_document", map[string]any{"resourceHandle": "x"}))
		if told := strings.Contains(last.Error.Message, "again and again"); last.reason() != "capability_required" || told != (n >= 5) || told != (last.Header.Get("Retry-After") == "30") {
			t.Fatalf("denial %d: %v %s", n, last.Header, last.Raw)
		}
	}
	if last.Header.Get("Powerbox-Decision") != "" {
		t.Errorf("the last: %v %s", last.Header, last.Raw)
	}
	if n := len(w.documents.got()); n > 0 {
		t.Errorf("%d calls reached the agent", n)
	}
	allowed(t, alice.search(c.Token))
	denied, told := 0, 0
	for _, r := range w.records("decision=DENY") {
		denied++
		if r.has("denials_repeated") {
			told++
		}
	}
	if denied != 7 || told != 2 { // five, then the first and the tenth of the burst
		t.Errorf("%d denials on record, %d of them tell of others; want 7 and 2", denied, told)
	}
	if n := strings.Count(w.log.String(), "denied again and again"); n != 1 {
		t.Errorf("the log tells of it %d times\n%s", n, w.log)
	}
	counted(t, address, `powerbox_hijack_signals_total{agent="documents"}`, "1")
	counted(t, address, `powerbox_denials_total{agent="documents",mode="require",reason="capability_required"}`, "50")
}
