package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/powerbox-project/powerbox/internal/programtest"
	pages "github.com/powerbox-project/powerbox/internal/web/console"
)

// notPages are the GET routes of the console that show no page of their own.
var notPages = map[string]string{
	"/{$}": "redirects", "/map": "redirects", "/login/provider": "redirects", "/login/callback": "redirects", "/language": "redirects",
	"/approve/events": "a stream", "/admin/live/events": "a stream", "/console/{file}": "a file",
	"/admin/evidence/records.csv": "a file", "/admin/evidence/records.ocsf.jsonl": "a file", "/admin/evidence/bundle.jsonl": "a file", "/admin/evidence/trust.json": "a file",
	"/admin/evidence/verify.mjs": "a file", "/admin/evidence/{id}/record.json": "a file", "/admin/evidence/{id}/proof.txt": "a file",
}

// allPages is a server that has something on every page of the console, and where each page
// is, by its route. Carol operates and administers; alice has a call that waits.
func allPages(t *testing.T) (*town, *pagesBank, map[string][]string) {
	t.Helper()
	w := start(t, options{
		dev: reviewers, host: "localhost", mail: ", approval: true",
		agent: `
  - id: harbour
    upstream: "http://127.0.0.1:9"
    agent_auth:
      unknown_hosts: 0
      questions: 0
      administrators: ["user:carol"]
      capabilities:
        - {name: check_balance, description: See the balance of one account, sensitivity: read}
        - name: transfer_money
          description: Move money to another account
          sensitivity: write
          input: {type: object, properties: {amount: {type: number, x-currency: currency}, currency: {enum: [EUR, USD]}, destination_account: {type: string, title: account}}}
`,
		extra: "approvals: {operators: [\"user:carol\"]}\n",
	})
	bank := &pagesBank{t: t, url: w.url, log: &programtest.Log{}, dir: w.dir}
	host := bank.host()
	wants := map[string]any{"name": "Helper with a rather long name of its own", "host_name": "Laptop", "reason": "To pay what is due before the end of the month", "capabilities": []any{"check_balance", transfers(900, "")}}
	known := host.register(wants)
	answered := bank.approvalID("carol", known.code)
	bank.approve("carol", answered)
	waiting := bank.host().register(wants)
	alice := w.caller(aliceToken)
	held := alice.reports()
	alice.ambient("documents", data("search_documents", nil))
	mails := alice.request("mail", map[string]any{"grants": []string{"mail:send"}, "purpose": "Tell Bob about the figures"})[0]
	call := heldIn(t, alice.mailsUnder(mails, "bob@example.org"))
	w.operator(http.MethodPost, "/v1/freezes", map[string]any{"target": "agent:mail", "reason": "answers strangely"})
	var made struct {
		Sequence int `json:"sequence"`
	}
	if err := json.Unmarshal(w.operator(http.MethodPost, "/v1/revocations", map[string]any{"target": mails.ID}), &made); err != nil || made.Sequence == 0 {
		t.Fatalf("no revocation: %v", err)
	}
	carol := bank.visitor("carol")
	hostID := hostIn(t, carol, "/hosts/")
	alice.ambient("documents", data("search_documents", nil))
	denied := w.records("decision=DENY&limit=1")[0].ID
	return w, bank, map[string][]string{
		"/approve": {"/approve"}, "/approve/{id}": {"/approve/" + bank.approvalID("carol", waiting.code), "/approve/" + answered, "alice /approve/" + call.asked()},
		"/approved": {"/approved"}, "/login": {"/login?next=/approve"}, "/passkeys": {"/passkeys"}, "/sessions": {"/sessions"}, "/first": {"/first?secret=none"}, "/activity": {"/activity"}, "/people": {"/people"},
		"/hosts": {"/hosts"}, "/hosts/{host}/revoke": {"/hosts/" + hostID + "/revoke"}, "/hosts/{host}/link": {"/hosts/" + hostID + "/link"},
		"/host-agents/{agent}/revoke": {"/host-agents/" + known.id + "/revoke"}, "/host-agents/{agent}/grants": {"/host-agents/" + known.id + "/grants?capability=transfer_money"},
		"/registry": {"/registry"}, "/registry/{id}": {"/registry/documents"},
		"/admin": {"/admin"}, "/admin/try": {"/admin/try"}, "/admin/policy": {"/admin/policy"}, "/admin/advisor": {"/admin/advisor?agent=documents"}, "/admin/settings": {"/admin/settings"},
		"/admin/live": {"/admin/live"}, "/admin/agents": {"/admin/agents"}, "/admin/agents/{id}": {"/admin/agents/documents", "/admin/agents/mail"},
		"/admin/agents/{id}/freeze": {"/admin/agents/documents/freeze"}, "/admin/agents/{id}/thaw": {"/admin/agents/mail/thaw"}, "/admin/agents/{id}/mode": {"/admin/agents/documents/mode?to=observe"},
		"/admin/capabilities": {"/admin/capabilities"}, "/admin/capabilities/{id}": {"/admin/capabilities/" + held.ID}, "/admin/capabilities/{id}/narrow": {"/admin/capabilities/" + held.ID + "/narrow?keep=search"},
		"/admin/graph": {"/admin/graph?agent=documents&until=2040-01-02T15:04"}, "/admin/give/{id}": {"/admin/give/" + denied},
		"/admin/revoke": {"/admin/revoke?target=" + held.ID}, "/admin/revoke/{sequence}": {fmt.Sprintf("/admin/revoke/%d", made.Sequence)},
		"/admin/evidence": {"/admin/evidence"}, "/admin/evidence/{id}": {"/admin/evidence/" + denied},
	}
}

// hostIn is the id of the first host on the page of a person's agents.
func hostIn(t *testing.T, who *visitor, before string) string {
	t.Helper()
	_, page := who.get("/hosts")
	_, after, ok := strings.Cut(page, `href="`+before)
	id, _, end := strings.Cut(after, "/")
	if !ok || !end {
		t.Fatalf("no host on the page:\n%s", page)
	}
	return id
}

// complaints are what a browser reports about its pages: errors of scripts, and what the
// policy for content forbids.
type complaints struct {
	mu  sync.Mutex
	all []string
}

func (c *complaints) add(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, text)
}

// take returns the complaints, and forgets them.
func (c *complaints) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.all
	c.all = nil
	return all
}

// complaining collects what the browser complains about, from the next page on.
func (b *browser) complaining() *complaints {
	b.t.Helper()
	c := &complaints{}
	err := chromedp.Listen(b.ctx, func(event any) {
		switch e := event.(type) {
		case *log.EventEntryAdded:
			if e.Entry.Source != "network" { // the status of a page that shows a problem
				c.add(string(e.Entry.Source) + ": " + e.Entry.Text)
			}
		case *runtime.EventExceptionThrown:
			c.add(e.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			if e.Type == "error" || e.Type == "warning" {
				c.add("console." + string(e.Type))
			}
		}
	})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `self.violations = []; addEventListener("securitypolicyviolation", e => violations.push(e.violatedDirective + " " + e.blockedURI + " " + e.sample))`,
	}); err != nil {
		b.t.Fatal(err)
	}
	return c
}

// controls is a script that lists what the Tab key has to reach, in the order of the page.
const controls = `[...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")].filter(e => !e.disabled && e.checkVisibility({visibilityProperty: true}))`

// byKeys goes through a page with the Tab key alone, from the link that skips the menu: the
// focus comes to every control, in the order in which they are read, and can be seen.
func (b *browser) byKeys(name string) {
	b.t.Helper()
	found := b.js(`(() => {
		const all = ` + controls + `;
		all.forEach((e, i) => e.dataset.nth = i);
		self.reached = []; self.unseen = [];
		document.addEventListener("focusin", e => {
			const nth = e.target.dataset.nth, style = getComputedStyle(e.target);
			if (nth === undefined) return;
			reached.push(Number(nth));
			const r = e.target.getBoundingClientRect();
			if (style.outlineStyle === "none" || parseFloat(style.outlineWidth) === 0 || r.bottom < 1 || r.top > innerHeight - 1 || r.right < 1) unseen.push(e.target.outerHTML.slice(0, 90));
		});
		const first = document.querySelector("a.skip");
		document.activeElement?.blur();
		first.focus();
		const jumps = [], onlyPlaced = ".graph, header, table, .decide"; // not in the flow of lines
		all.forEach((e, i) => {
			if (i === 0 || e.closest(onlyPlaced) || all[i-1].closest(onlyPlaced)) return;
			const was = all[i-1].getBoundingClientRect(), is = e.getBoundingClientRect();
			if (is.bottom <= was.top && is.left < was.right && e.closest("main") && all[i-1].closest("main")) jumps.push(e.outerHTML.slice(0, 90));
		});
		// A field for a time takes a press for each of its parts.
		return {n: all.length + 8 * all.filter(e => e.type === "datetime-local").length, jumps, positive: document.querySelectorAll("[tabindex]:not([tabindex='0']):not([tabindex='-1'])").length};
	})()`)
	var page struct {
		N, Positive int
		Jumps       []string
	}
	if err := json.Unmarshal([]byte(found), &page); err != nil || page.N == 0 {
		b.t.Fatalf("%s: %s", name, found)
	}
	if page.Positive > 0 || len(page.Jumps) > 0 {
		b.t.Errorf("%s: the order of the Tab key is not that of the page: %d tabindexes, jumps up at %v", name, page.Positive, page.Jumps)
	}
	b.do(chromedp.KeyEvent(strings.Repeat(kb.Tab, page.N+1)))
	missing := b.js(`(() => {
		const all = ` + controls + `, order = self.reached.filter((n, i, r) => r.indexOf(n) === i);
		return {missing: all.filter(e => e.dataset.nth && !order.includes(Number(e.dataset.nth))).map(e => e.outerHTML.slice(0, 90)), unseen: self.unseen.slice(0, 3), ordered: order.every((n, i) => i === 0 || n > order[i-1])};
	})()`)
	if missing != `{"missing":[],"unseen":[],"ordered":true}` {
		b.t.Errorf("%s: by the Tab key alone: %s; want every control, in order, with a focus that can be seen", name, missing)
	}
	b.js(`(document.querySelector("a.skip").focus(), 0)`)
	b.do(chromedp.KeyEvent(kb.Enter), chromedp.KeyEvent(kb.Tab))
	if at := b.js(`[location.hash, document.activeElement === document.body || document.querySelector("main").contains(document.activeElement) || document.querySelector("footer")?.contains(document.activeElement) === true]`); at != `["#main",true]` {
		b.t.Errorf("%s: after the link that skips the menu, the focus is at %s", name, at)
	}
}

// narrow gives the page every width, and wants no scrolling to the side.
func (b *browser) narrow(name string, widths ...int64) {
	b.t.Helper()
	for _, width := range widths {
		b.sized(width)
		b.settled()
		if wide := b.js(`document.documentElement.scrollWidth <= innerWidth ? [] : [innerWidth, ...[...document.querySelectorAll("body *")].filter(e => !e.closest(".graph, .unseen, .scroll") && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80)).slice(0, 5)]`); wide != "[]" {
			b.t.Errorf("%s is wider than its window: %s", name, wide)
		}
	}
}

// scripting switches the scripts of pages on or off.
func (b *browser) scripting(on bool) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on}); err != nil {
		b.t.Fatal(err)
	}
}

// TestEveryPage opens every page of the console: by keys alone, without a complaint of the
// browser, at the widest and narrowest width, without JavaScript, and in German. A route that the list lacks
// fails. Then one person denies and another freezes by keys alone.
func TestEveryPage(t *testing.T) {
	w, _, at := allPages(t)
	for _, route := range pages.Pages() {
		if _, ok := at[route]; !ok && notPages[route] == "" {
			t.Errorf("no browser test opens the page %s: add it to allPages", route)
		}
	}
	b := openBrowser(t)
	heard := b.complaining()
	b.authenticator()
	b.login(w.url, "carol", "/admin")
	b.passkey(w.url)
	who := "carol"
	for _, route := range slices.Sorted(maps.Keys(at)) {
		for _, path := range at[route] {
			want := "carol"
			if rest, ok := strings.CutPrefix(path, "alice "); ok {
				path, want = rest, "alice"
			}
			if who != want {
				b.login(w.url, want, url.QueryEscape(path))
				who = want
			}
			b.opensWell(w.url, path, heard)
		}
	}
	b.sized(1440)
	b.denyAndFreeze(w.url, at["/admin/agents/{id}"][0])
}

// opensWell opens one page in dark colours with its scripts, and in light ones without any.
func (b *browser) opensWell(base, path string, heard *complaints) {
	b.t.Helper()
	b.sized(1440)
	b.coloured("dark")
	b.do(chromedp.Navigate(base + path))
	b.settled()
	title := b.js(`document.querySelector("h1")?.innerText ?? ""`)
	b.byKeys(path)
	b.narrow(path, 1920, 1024, 360)
	if said := append(heard.take(), b.violations()...); len(said) > 0 {
		b.t.Errorf("%s: the browser complains: %q", path, said)
	}
	b.inGerman(true)
	b.coloured("light")
	b.scripting(false)
	b.do(chromedp.Navigate(base + path))
	german := b.js(`[document.documentElement.lang, document.querySelector("h1")?.innerText ?? "", document.querySelector("main")?.innerText.length > 40]`)
	b.scripting(true)
	b.inGerman(false)
	if !strings.HasPrefix(german, `["de","`) || strings.HasPrefix(german, `["de",""`) || !strings.HasSuffix(german, "true]") || title == `""` {
		b.t.Errorf("%s: without JavaScript and in German its language, heading and content are %s; in English its heading is %s", path, german, title)
	}
	b.narrow(path+" in German", 1440, 1210, 1024, 360)
	if said := append(heard.take(), b.violations()...); len(said) > 0 {
		b.t.Errorf("%s: without JavaScript the browser complains: %q", path, said)
	}
}

// inGerman has the browser prefer German.
func (b *browser) inGerman(on bool) {
	b.t.Helper()
	headers := network.Headers{}
	if on {
		headers["Accept-Language"] = "de-AT,de;q=0.9,en;q=0.5"
	}
	if _, err := chromedp.Call(b.ctx, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: headers}); err != nil {
		b.t.Fatal(err)
	}
}

// violations are the events of the policy for content on the page.
func (b *browser) violations() (all []string) {
	b.t.Helper()
	if err := json.Unmarshal([]byte(b.js(`self.violations ?? []`)), &all); err != nil {
		b.t.Fatal(err)
	}
	return all
}

// denyAndFreeze has an approver deny a call and an operator freeze an agent, without a mouse.
func (b *browser) denyAndFreeze(base, agent string) {
	b.t.Helper()
	b.login(base, "alice", "/approve")
	b.do(chromedp.KeyEvent("j"), chromedp.KeyEvent(kb.Enter), chromedp.WaitReady(chromedp.CSS("button.deny:focus")))
	b.js(`document.documentElement.dataset.old = "1"; 0`)
	b.do(chromedp.KeyEvent(kb.Enter), chromedp.WaitReady(chromedp.CSS("html:not([data-old]) #did-title")))
	b.says("the denied call", "Denied")
	b.login(base, "carol", "/admin")
	b.do(chromedp.Navigate(base + agent))
	b.tabTo(`a[href$="/freeze"]`)
	b.do(chromedp.KeyEvent(kb.Enter), chromedp.WaitReady(chromedp.CSS("#reason")))
	b.tabTo("#reason")
	b.do(chromedp.KeyEvent("odd calls"))
	b.tabTo("form.confirm button.deny")
	b.do(chromedp.KeyEvent(" "), chromedp.WaitReady(chromedp.CSS("#facts")))
	b.settled()
	b.says("the frozen agent", "Frozen since", "odd calls")
}

// tabTo presses Tab until the focus is at an element.
func (b *browser) tabTo(selector string) {
	b.t.Helper()
	for range 100 {
		if b.js(fmt.Sprintf(`document.activeElement.matches(%q)`, selector)) == "true" {
			return
		}
		b.do(chromedp.KeyEvent(kb.Tab))
	}
	b.t.Fatalf("the Tab key does not come to %s:\n%s", selector, b.source())
}
