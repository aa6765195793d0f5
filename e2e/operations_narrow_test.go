package e2e

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestOperatorsNarrowAndKeep narrows a capability to its use with a passkey: the old one is
// denied, and the new one, which its holder finds in its list, allows the used operations alone.
// One that was not used is kept, on record.
func TestOperatorsNarrowAndKeep(t *testing.T) {
	w, b := operating(t, options{})
	alice := w.caller(aliceToken)
	held := alice.reports()
	search := func(with granted) answer {
		return alice.present("documents", data("search_documents", nil), proven{chain: []string{with.Token}, operation: opSearch})
	}
	allowed(t, search(held))
	idle := alice.reports()

	b.opened(w.url, "/admin/advisor?agent=documents", "advisor-held")
	b.sized(1440)
	b.do(chromedp.Navigate(w.url + "/admin/advisor?agent=documents"))
	b.says("advisor", "Capabilities in force", "1 call", "unused", "not used in 30 days")
	b.do(chromedp.SendKeys(chromedp.CSS("form.keep input[name=reason]"), "quarterly report"))
	b.press("form.keep button", "#held-title")
	b.says("kept", "Kept by user:carol")
	if r := w.lastEvent("operator.keep"); r.Powerbox.Requester != "user:carol" || r.Powerbox.Capability != idle.ID {
		t.Errorf("the capability that is kept is recorded as %+v; want %s, by user:carol", r, idle.ID)
	}
	b.press(`a[href*="/narrow?keep="]`, "form.confirm")
	b.says("difference", "stays search", "goes retrieve", "1 capability ends")
	b.fits("narrow")
	b.accessible("narrow")
	path := `"/admin/capabilities/` + held.ID + `/narrow"`
	if got := b.js(signedFor(path, `{keep: "search"}`, path, `{keep: "retrieve"}`)); got != "403" {
		t.Errorf("a passkey signed that search stays, and retrieve was sent: HTTP %s; want 403", got)
	}
	allowed(t, search(held))
	b.press("form.confirm .deny", "#allows")
	if a := search(held); a.reason() != "revoked" {
		t.Errorf("a call under the old capability: %s; want revoked", a.Raw)
	}
	list := capabilities(t, alice.call("documents", "a2a/capabilities/list", map[string]any{}))
	var narrower granted
	for _, c := range list {
		if strings.HasSuffix(b.at(), c.ID) {
			narrower = c
		}
	}
	if narrower.Token == "" {
		t.Fatalf("the holder's list has %+v; want the new capability", list)
	}
	allowed(t, search(narrower))
	handle := map[string]any{"resourceHandle": narrower.ResourceHandles[0].Handle}
	if a := alice.present("documents", data("retrieve_document", handle), proven{chain: []string{narrower.Token}, operation: opRetrieve, arguments: handle}); a.reason() != "operation_not_granted" {
		t.Errorf("a call of what was not kept: %s; want operation_not_granted", a.Raw)
	}
}
