package e2e

import (
	"path"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestOperatorsWholePath follows one denial through the pages: it appears live and is
// explained, its caller is granted exactly the call, the same call works once, the evidence of
// all of it is verified in the browser, and the call fails after the grant was revoked with a
// preview.
func TestOperatorsWholePath(t *testing.T) {
	w, b := operating(t, options{extra: "evidence: {arguments: full}\n"})
	alice := w.caller(aliceToken)
	search := func(query string) answer {
		return alice.ambient("documents", data("search_documents", map[string]any{"query": query}))
	}
	b.do(chromedp.Navigate(w.url + "/admin/live?decision=DENY"))
	b.until(`document.querySelector("[data-says]").textContent === "Following."`)
	if a := search("Q1"); a.reason() != "capability_required" {
		t.Fatalf("a call without a capability: %s", a.Raw)
	}
	b.until(`document.querySelectorAll("tr.fresh a.give").length === 1`)
	b.press("tr.fresh .i a", ".verdict")
	b.says("explained", "Denied.", "capability_required", "Cause and fix", "Try this call", "Freeze documents")
	denied := path.Base(b.at())
	b.press(`.verdict .actions a[href^="/admin/give"]`, "#change")

	// The record has a pseudonym: another user's name is refused at the form.
	b.says("the user", "pseudonym in place of the user")
	preview := func(user, next string) {
		b.js(`document.querySelector("#principal").value = "` + user + `"`)
		b.press("#change button", next)
	}
	preview("user:bob", ".problem")
	b.says("another user", "principal is not the user of the denied call")
	preview("user:alice", "form.confirm")
	b.says("preview", `may call documents:read/search at documents for user:alice, with query exactly "Q1" and no other arguments, once.`, "It ends at", "nothing at the caller changes")
	b.fits("give")
	b.accessible("give")
	wider := `{principal: "user:alice", uses: "9", minutes: "60", limits: "", holder: document.querySelector("[name=holder]").value, expires: document.querySelector("[name=expires]").value}`
	if got := b.js(signedFor("location.pathname.replace('/preview', '')", strings.Replace(wider, `"9"`, `"1"`, 1), "location.pathname.replace('/preview', '')", wider)); got != "403" {
		t.Errorf("a passkey signed one use, and nine were asked for: HTTP %s; want 403", got)
	}
	if a := search("Q1"); a.reason() != "capability_required" {
		t.Errorf("a call before the grant: %s; want capability_required", a.Raw)
	}
	b.press("form.confirm .approve", "#allows")
	b.says("given", "user:carol gave it after a denial", "Once in all.")
	if grant := w.lastEvent("operator.grant"); grant.Powerbox.Requester != "user:carol" || grant.Decision != "ALLOW" {
		t.Errorf("the grant is recorded as %+v; want user:carol's", grant)
	}
	given := path.Base(b.at())

	if a := search("Q2"); a.reason() != "capability_required" {
		t.Errorf("a call with another argument: %s; want capability_required", a.Raw)
	}
	done := search("Q1")
	allowed(t, done)
	if r := w.decided(done); r.Powerbox.Capability != given || r.Powerbox.Mode != "require/capability" {
		t.Errorf("the call is recorded under %q in %q; want %q in require/capability", r.Powerbox.Capability, r.Powerbox.Mode, given)
	}
	if a := search("Q1"); a.reason() != "capability_required" {
		t.Errorf("a second call under a grant for one: %s; want capability_required", a.Raw)
	}

	// A second grant is for two calls. It is revoked after the first.
	b.do(chromedp.Navigate(w.url + "/admin/give/" + denied))
	b.js(`document.querySelector("#uses").value = "2"`)
	b.press("#change button", "form.confirm")
	b.says("two calls", "2 times.")
	b.press("form.confirm .approve", "#allows")
	given = path.Base(b.at())
	allowed(t, search("Q1"))
	b.do(chromedp.Navigate(w.url + "/admin/evidence"))
	b.verified("ok")
	b.do(chromedp.Navigate(w.url + "/admin/capabilities/" + given))
	b.press(`.actions a[href^="/admin/revoke"]`, "form.confirm")
	b.says("preview", "1 capability ends")
	b.press("form.confirm button.deny", ".result")
	if a := search("Q1"); a.reason() != "capability_required" {
		t.Errorf("a call after the revocation: %s; want capability_required", a.Raw)
	}
	b.do(chromedp.Navigate(w.url + "/admin/live?decision=DENY&reason=capability_required"))
	if rows := b.js(`document.querySelector(".records tbody").innerText`); !strings.Contains(rows, "capability_required") {
		t.Errorf("the denial after the revocation is not among %s", rows)
	}
}

// at is the path of the page.
func (b *browser) at() string {
	b.t.Helper()
	return strings.Trim(b.js(`location.pathname`), `"`)
}
