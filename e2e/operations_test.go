package e2e

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// opened loads a page for operators on a screen in light colours, and on a small and a large
// phone in dark and light ones, and checks it.
func (b *browser) opened(base, path, name string) {
	b.t.Helper()
	for _, look := range []struct {
		width  int64
		scheme string
	}{{1440, "light"}, {360, "dark"}, {390, "light"}} {
		b.sized(look.width)
		b.coloured(look.scheme)
		b.do(chromedp.Navigate(base + path))
		b.fits(name + "-" + strconv.FormatInt(look.width, 10))
	}
}

// coloured has the browser prefer light or dark colours.
func (b *browser) coloured(scheme string) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}); err != nil {
		b.t.Fatal(err)
	}
}

// TestOperatorsHome shows operators the state of everything, and others nothing.
func TestOperatorsHome(t *testing.T) {
	w := directory(t)
	w.operator(http.MethodPost, "/v1/freezes", map[string]any{"target": "agent:mail", "reason": "answers strangely"})
	b := openBrowser(t)
	b.login(w.url, "carol", "/")
	b.says("home", "Home", "Waiting for you", "documents", "prefer", "agent:mail", "answers strangely", "Name a witness")
	b.opened(w.url, "/admin", "home")
	if status, _ := w.atPage("dora").get("/admin"); status != http.StatusForbidden {
		t.Errorf("a person who is no operator opens the home of operators: HTTP %d; want 403", status)
	}
}

// TestOperatorsTry asks about calls that are not made: by a caller's scope, and by a
// capability that is on record.
func TestOperatorsTry(t *testing.T) {
	w := directory(t)
	b := openBrowser(t)
	b.login(w.url, "carol", "/admin/try")
	ask := func(operation, caller string) {
		t.Helper()
		b.do(chromedp.Navigate(w.url+"/admin/try"), chromedp.SendKeys(chromedp.CSS("#agent"), "documents"), chromedp.SendKeys(chromedp.CSS("#operation"), operation), chromedp.SendKeys(chromedp.CSS("#caller"), caller))
		b.press("form.fields button", "main")
	}
	ask("documents:read/search", "desk")
	b.says("try", "Every layer holds", "the scope of desk at documents allows it", "Not asked: the proof of the holder")
	b.opened(w.url, "/admin/try", "try")
	ask("documents:write/delete", "desk")
	b.says("try", "First layer that does not hold: scope", "denied")
	b.shot("try-denied")
	ask("documents:read/nothing", "desk")
	b.says("try", "it offers [")
	if status, page := w.atPage("dora").post("/admin/try", nil); status != http.StatusForbidden {
		t.Errorf("a person who is no operator tries a call: HTTP %d %s; want 403", status, page)
	}
}

// TestOperatorsPolicy tries a candidate on recorded decisions, and changes nothing.
func TestOperatorsPolicy(t *testing.T) {
	w := directory(t)
	b := openBrowser(t)
	b.login(w.url, "carol", "/admin/policy")
	b.says("policy", "In force: sha256:", ".cedar", "2 of 3 tests fail on the policies in force", "asking_test.yaml", `operation "documents/documents:read/serch" is not offered`)
	rows := b.js(`[...document.querySelectorAll("#tests tbody tr")].map(r => r.cells[0].innerText + ": " + r.cells[1].innerText.trim().split(" ").slice(0, 2).join(" ")).slice(0, 2)`)
	if want := `["strangers search: holds deny","alice searches: fails deny"]`; rows != want {
		t.Errorf("the tests say %s; want %s", rows, want)
	}
	b.opened(w.url, "/admin/policy", "policy")
	b.js(`document.querySelector("textarea").value = "forbid (principal, action, resource);"`)
	b.press("form.fields > p button", "#tried")
	b.says("policy", "What would change", "+forbid (principal, action, resource);")
	b.shot("policy-tried")
	b.js(`document.querySelector("textarea").value = "permit ("`)
	b.press("form.fields > p button", ".problem")
	b.says("policy", ".cedar")
}

// TestOperatorsAdvisor compares what callers may do with what they did.
func TestOperatorsAdvisor(t *testing.T) {
	w := directory(t)
	b := openBrowser(t)
	b.login(w.url, "carol", "/admin/advisor?agent=documents")
	b.says("advisor", "Advisor", "documents")
	b.opened(w.url, "/admin/advisor?agent=documents", "advisor")
	b.do(chromedp.Navigate(w.url + "/admin/advisor?agent=documents&days=0"))
	b.says("advisor", "days must be a number from 1 to 365")
	b.opened(w.url, "/admin/settings", "settings")
	b.says("settings", "Keys to pin", "checkpoints", "records of")
}
