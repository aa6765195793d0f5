package e2e

import (
	"strconv"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// sized gives the browser's window the width of a phone or a screen.
func (b *browser) sized(width int64) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1}); err != nil {
		b.t.Fatal(err)
	}
}

// fits checks that a page begins at its top, that nothing is wider than the window, and
// that every link of the menu can be seen.
func (b *browser) fits(name string) {
	b.t.Helper()
	b.shot(name)
	if top := b.js(`scrollY`); top != "0" {
		b.t.Errorf("page %s begins at %s; want 0", name, top)
	}
	if wide := b.js(`[...document.querySelectorAll("body, body *")].filter(e => !e.closest(".graph, .unseen, .scroll") && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80)).slice(0, 5)`); wide != "[]" {
		b.t.Errorf("page %s is wider than its window of %s: %s", name, b.js(`innerWidth`), wide)
	}
	if cut := b.js(`document.documentElement.scrollWidth > innerWidth`); cut != "false" {
		b.t.Errorf("page %s scrolls to the side", name)
	}
}

// TestPagesFitPhonesAndScreens opens the pages of an administrator, on a phone and on a
// wide screen.
func TestPagesFitPhonesAndScreens(t *testing.T) {
	asGiven(t)
	bank := serveBank(t, "localhost:"+freePort(t), "      administrators: [\"user:root\"]",
		"identity:\n  dev:\n    - {name: root, token: root-session-token}\n    - {name: alice, token: alice-session-token}\n", "--dev")
	host := bank.host()
	agent := host.register(map[string]any{"name": "Helper with a rather long name of its own", "host_name": "Laptop", "reason": "To pay what is due before the end of the month", "capabilities": []any{"check_balance", "transfer_money"}})
	waiting := bank.approvalID("root", agent.code)
	w := openBrowser(t)
	w.do(chromedp.Navigate(bank.url + "/login"))
	for _, width := range []int64{390, 1440} {
		w.sized(width)
		w.do(chromedp.Navigate(bank.url + "/login"))
		w.fits("login-" + strconv.FormatInt(width, 10))
	}
	w.authenticator()
	w.login(bank.url, "root", "/approve/"+waiting)
	for _, width := range []int64{390, 1440} {
		w.sized(width)
		w.do(chromedp.Navigate(bank.url + "/approve/" + waiting))
		w.fits("question-" + strconv.FormatInt(width, 10))
	}
	w.do(chromedp.Click(chromedp.CSS(".ask:not(.risky) input[name=grant]")))
	w.press("button.approve", "#did-title")
	w.passkey(bank.url)
	freeze := `{person: "user:alice", reason: "lost the laptop with everything on it, and is away"}`
	if status := w.js(signedFor(`"/people/freeze"`, freeze, `"/people/freeze"`, freeze)); status != "200" {
		t.Fatalf("freeze: HTTP %s", status)
	}
	for _, width := range []int64{390, 1440} {
		w.sized(width)
		for name, path := range map[string]string{
			"people": "/people", "hosts": "/hosts", "approvals": "/approve", "approved": "/approved", "passkeys": "/passkeys", "activity": "/activity",
			"registry": "/registry", "nothing-wired": "/admin/graph", "grant": "/host-agents/" + agent.id + "/grants?capability=transfer_money", "revoke": "/host-agents/" + agent.id + "/revoke",
		} {
			w.do(chromedp.Navigate(bank.url + path))
			w.fits(name + "-" + strconv.FormatInt(width, 10))
		}
	}
	w.do(chromedp.Navigate(bank.url + "/map"))
	if drawn := w.js(`document.querySelectorAll(".graph").length`); drawn != "0" {
		t.Errorf("GATE-12 where nothing is wired, the page has %s empty pictures", drawn)
	}
	w.says("GATE-12", "Nothing is wired yet")
}
