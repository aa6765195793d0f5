package e2e

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestOperatorsWholePath follows one denial through the pages: it appears live and is
// explained, the call is tried, works with a capability, is verified in the browser, and
// fails again after the capability was revoked with a preview.
func TestOperatorsWholePath(t *testing.T) {
	w, b := operating(t, options{})
	alice := w.caller(aliceToken)
	b.do(chromedp.Navigate(w.url + "/admin/live?decision=DENY"))
	b.until(`document.querySelector("[data-says]").textContent === "Following."`)
	if a := alice.ambient("documents", data("search_documents", nil)); a.reason() != "capability_required" {
		t.Fatalf("a call without a capability: %s", a.Raw)
	}
	b.until(`document.querySelectorAll("tr.fresh").length === 1`)
	b.press("tr.fresh a", ".verdict")
	b.says("explained", "Denied.", "capability_required", "Cause and fix", "Try this call", "Freeze documents")
	b.press(`.verdict .actions a[href^="/admin/try"]`, "#operation")
	if form := b.js(`[document.querySelector("#agent").value, document.querySelector("#operation").value]`); form != `["documents","documents:read/search"]` {
		t.Errorf("the form to try the call has %s", form)
	}

	held := alice.reports()
	search := func() answer {
		return alice.present("documents", data("search_documents", nil), proven{chain: []string{held.Token}, operation: opSearch})
	}
	b.do(chromedp.SendKeys(chromedp.CSS("#capability"), held.ID))
	b.press("form.fields button", "#verdict")
	b.says("tried", "Every layer holds")
	allowed(t, search())
	var record string
	for _, r := range w.records("decision=ALLOW&operation=" + opSearch) {
		if r.Powerbox.Capability == held.ID && r.Powerbox.OutcomeOf == "" {
			record = r.ID
		}
	}
	b.do(chromedp.Navigate(w.url + "/admin/evidence/" + record))
	b.verified("ok")
	b.press(`.verdict .actions a[href^="/admin/revoke"]`, "form.confirm")
	b.says("preview", "1 capability ends")
	b.press("form.confirm button.deny", ".result")
	if a := search(); a.reason() != "revoked" {
		t.Errorf("a call after the revocation: %s; want revoked", a.Raw)
	}
	b.do(chromedp.Navigate(w.url + "/admin/live?decision=DENY&reason=revoked"))
	if rows := b.js(`document.querySelector(".records tbody").innerText`); !strings.Contains(rows, "revoked") {
		t.Errorf("the denial after the revocation is not among %s", rows)
	}
}
