package e2e

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestOperatorsWholePath follows one denial through the pages: it appears live and is
// explained, its caller is granted exactly the call, the same call works once, the evidence of
// all of it is verified in the browser, and the call fails after the grant was revoked with a
// preview.
func TestOperatorsWholePath(t *testing.T) {
	w, b := operating(t, options{evidence: evidenceConf{arguments: "full"}})
	alice := w.caller(aliceToken)
	arguments := data("search_documents", map[string]any{"query": "Q1"})
	search := func() answer { return alice.ambient("documents", arguments) }
	b.do(chromedp.Navigate(w.url + "/admin/live?decision=DENY"))
	b.until(`document.querySelector("[data-says]").textContent === "Following."`)
	if a := search(); a.reason() != "capability_required" {
		t.Fatalf("a call without a capability: %s", a.Raw)
	}
	b.until(`document.querySelectorAll("tr.fresh a.give").length === 1`)
	b.press("tr.fresh .i a", ".verdict")
	b.says("explained", "Denied.", "capability_required", "Cause and fix", "Try this call", "Freeze documents")
	b.press(`.verdict .actions a[href^="/admin/give"]`, "#change")
	b.says("who", "Type the user")
}
