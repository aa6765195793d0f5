package e2e

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
)

// browserTime bounds what a test does in its browser, in case a page waits for
// what does not come. It is no verdict on how long a page takes: axe alone takes
// seconds a page on a machine with other work.
const browserTime = 5 * time.Minute

// browserStarts is how often a browser is started: on a machine with other work it ends at
// its start now and then, before any page.
const browserStarts = 3

// stepTime is the same for a few steps.
const stepTime = time.Minute

// browser is a window of a real browser. Windows share no cookies, storage or security keys.
type browser struct {
	t   *testing.T
	ctx context.Context
}

// chromium is the browser of this process, in which the tests open their windows: each start of one
// takes half a second of the processor.
var chromium struct {
	mu    sync.Mutex
	ctx   context.Context // nil until it is needed
	close context.CancelFunc
}

// closeChromium ends the browser of this process.
func closeChromium() {
	chromium.mu.Lock()
	defer chromium.mu.Unlock()
	if chromium.ctx != nil {
		chromium.close()
		chromium.ctx = nil
	}
}

// startChromium starts Debian's Chromium, which make test-deps installs.
func startChromium(parent context.Context, t *testing.T, more ...chromedp.ExecAllocatorOption) (context.Context, context.CancelFunc, error) {
	t.Helper()
	path := os.Getenv("CHROME_BIN")
	if path == "" {
		var err error
		if path, err = exec.LookPath("chromium-headless-shell"); err != nil {
			t.Fatal("the pages are tried in a real browser: run make test-deps, or set CHROME_BIN")
		}
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1100, 900))
	allocator, end := chromedp.NewExecAllocator(parent, append(options, more...)...)
	ctx, cancel := chromedp.NewContext(allocator)
	// The context of the first step is that of the browser.
	err := chromedp.Do(ctx, chromedp.Navigate("about:blank"))
	return ctx, func() { cancel(); end() }, err
}

// window opens a window of the browser of this process.
func window(t *testing.T) (context.Context, context.CancelFunc, error) {
	t.Helper()
	chromium.mu.Lock()
	defer chromium.mu.Unlock()
	var err error
	if chromium.ctx == nil {
		chromium.ctx, chromium.close, err = startChromium(context.WithoutCancel(t.Context()), t)
	}
	var ctx context.Context
	cancel := context.CancelFunc(func() {})
	if err == nil {
		ctx, cancel = chromedp.NewContext(chromium.ctx, chromedp.WithNewBrowserContext())
		err = chromedp.Do(ctx, chromedp.Navigate("about:blank"))
	}
	if err != nil {
		cancel()
		chromium.close()
		chromium.ctx = nil // the next one starts it again
	}
	return ctx, cancel, err
}

// openBrowser opens a window, in a browser of the test's own if that needs further options.
func openBrowser(t *testing.T, more ...chromedp.ExecAllocatorOption) *browser {
	t.Helper()
	for left := browserStarts; ; left-- {
		var ctx context.Context
		var cancel context.CancelFunc
		var err error
		if len(more) > 0 {
			ctx, cancel, err = startChromium(t.Context(), t, more...)
		} else {
			ctx, cancel, err = window(t)
		}
		if err == nil {
			t.Cleanup(cancel)
			ctx, cancel = context.WithTimeout(ctx, browserTime)
			t.Cleanup(cancel)
			return &browser{t, ctx}
		}
		cancel()
		if left == 1 {
			t.Fatalf("the browser does not start: %v", err)
		}
	}
}

// do goes through steps.
func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, stepTime)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatalf("in the browser: %v\n%s", err, b.source())
	}
}

// source is the text of the page, for what goes wrong.
func (b *browser) source() string {
	s, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText`))
	return s
}

// press clicks what leads to another page, and waits for an element of that.
func (b *browser) press(selector, next string) {
	b.t.Helper()
	// A mark that the next page does not have.
	b.js(`document.documentElement.dataset.old = "1"; 0`)
	b.do(chromedp.Click(chromedp.CSS(selector)), chromedp.WaitReady(chromedp.CSS("html:not([data-old]) "+next)))
	b.settled()
}

// settled waits until the page has loaded and was drawn.
func (b *browser) settled() {
	b.t.Helper()
	b.js(`new Promise(done => {
		const drawn = () => requestAnimationFrame(() => requestAnimationFrame(() => done(1)));
		document.readyState === "complete" ? drawn() : addEventListener("load", drawn);
	})`)
}

// js evaluates an expression, as JSON.
func (b *browser) js(expression string) string {
	b.t.Helper()
	s, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`(async () => JSON.stringify(await (`+strings.TrimSuffix(strings.TrimSpace(expression), "; 0")+`)))()`, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("in the browser: %v", err)
	}
	return s
}

// text is what the page says.
func (b *browser) text() string {
	b.t.Helper()
	s, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.body.innerText`))
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// says wants every text on the page.
func (b *browser) says(id string, texts ...string) {
	b.t.Helper()
	page := b.text()
	for _, want := range texts {
		if !strings.Contains(page, want) {
			b.t.Errorf("%s the page does not say %q:\n%s", id, want, page)
		}
	}
}

// authenticator gives the browser a security key that verifies its user.
func (b *browser) authenticator() webauthn.AuthenticatorID {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, webauthn.Enable, webauthn.EnableParams{}); err != nil {
		b.t.Fatal(err)
	}
	made, err := chromedp.Call(b.ctx, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
		Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal, HasResidentKey: true, HasUserVerification: true,
		IsUserVerified: true, AutomaticPresenceSimulation: true,
	}})
	if err != nil {
		b.t.Fatal(err)
	}
	return made.AuthenticatorID
}

// login logs in a built-in user, and goes to a page.
func (b *browser) login(base, user, next string) {
	b.t.Helper()
	b.do(chromedp.Navigate(base + "/login?next=" + next))
	b.press(`button[name=user][value=`+user+`]`, "main")
}

// passkey registers one for anyone who is logged in.
func (b *browser) passkey(base string) {
	b.t.Helper()
	b.do(chromedp.Navigate(base+"/passkeys"), chromedp.SendKeys(chromedp.CSS("#name"), "Test key"))
	b.press(`form[data-register] button`, `form[action="/passkeys/remove"], html:not([data-old]) main li`)
}

// shot has the page checked for what people with assistive devices stumble over. With E2E_SHOTS=1
// it also keeps a picture of the page for a reader: that takes a fifth of the time of the browser.
func (b *browser) shot(name string) {
	b.t.Helper()
	b.settled()
	if os.Getenv("E2E_SHOTS") == "1" {
		b.picture(name)
	}
	b.accessible(name)
}

// picture keeps a picture of the page.
func (b *browser) picture(name string) {
	b.t.Helper()
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	folder := filepath.Join("testdata", "shots")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// accessible runs axe-core in the page.
func (b *browser) accessible(name string) {
	b.t.Helper()
	source, err := os.ReadFile(filepath.Join("axe", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		b.t.Fatalf("axe-core is missing, which make test-deps installs: %v", err)
	}
	if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](string(source)+"; true")); err != nil {
		b.t.Fatal(err)
	}
	found := b.js(`axe.run(document, {resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then(r => [r.passes.length, r.violations.map(v => v.id + ": " + v.nodes.map(n => n.html + " " + n.failureSummary).join(" | "))])`)
	var result []json.RawMessage
	var passes int
	var violations []string
	if json.Unmarshal([]byte(found), &result) != nil || len(result) != 2 || json.Unmarshal(result[0], &passes) != nil || json.Unmarshal(result[1], &violations) != nil || passes == 0 {
		b.t.Fatalf("axe on %s: %s", name, found)
	}
	for _, v := range violations {
		b.t.Errorf("page %s: %s", name, v)
	}
}

// thumbprint is the RFC 7638 thumbprint of a key.
func thumbprint(t *testing.T, key ed25519.PrivateKey) string {
	t.Helper()
	x := base64.RawURLEncoding.EncodeToString(key.Public().(ed25519.PublicKey))
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + x + `"}`))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
