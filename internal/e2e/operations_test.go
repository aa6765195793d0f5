package e2e

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/chromedp/chromedp"
)

// opened loads a page for operators at the widths of a phone and of a screen, and checks it.
func (b *browser) opened(base, path, name string) {
	b.t.Helper()
	for _, width := range []int64{1440, 390} {
		b.sized(width)
		b.do(chromedp.Navigate(base + path))
		b.fits(name + "-" + strconv.FormatInt(width, 10))
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
