package e2e

import (
	"encoding/csv"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
)

// observedTown is a town with calls, denials, and a record whose words have the signs that
// JSON in a page would escape.
func observedTown(t *testing.T) *town {
	t.Helper()
	w := directory(t)
	for _, agent := range []string{"mail", "documents"} {
		w.operator(http.MethodPost, "/v1/freezes", map[string]any{"target": "agent:" + agent, "reason": "<b>odd</b> & more"})
		w.post(w.agentURL(agent), text("SendMessage", "hello"), nil)
	}
	return w
}

// rows are the texts of a table of records.
func (b *browser) rows() string {
	b.t.Helper()
	return b.js(`[...document.querySelectorAll(".records tbody tr")].map(r => r.innerText.replace(/\s+/g, " "))`)
}

// TestOperatorsEvidence finds records by a query in the URL, counts the results, and
// exports it.
func TestOperatorsEvidence(t *testing.T) {
	w := observedTown(t)
	b := openBrowser(t)
	b.login(w.url, "carol", "/admin/evidence")
	b.says("evidence", "Evidence", "Counts over the newest", "DENY", "frozen", "denied", "CSV of this search")
	b.opened(w.url, "/admin/evidence", "evidence")
	b.sized(1440)
	b.do(chromedp.Navigate(w.url + "/admin/evidence?agent=mail&reason=frozen"))
	b.says("found", "Agent: mail", "Reason: frozen")
	if rows := b.rows(); strings.Count(rows, "frozen") != 1 || strings.Count(rows, "denied") != 1 {
		t.Errorf("the search for one denial finds %s", rows)
	}
	b.press(`a[aria-label="Remove Reason"]`, ".records")
	if rows := b.rows(); strings.Count(rows, `"`) != 4 || b.js(`location.search`) != `"?agent=mail"` {
		t.Errorf("without the reason, at %s: %s", b.js(`location.search`), rows)
	}
	b.do(chromedp.Navigate(w.url + "/admin/evidence?since=yesterday&agent=mail"))
	b.says("a wrong time", `"yesterday" is no time; want one such as`)
	if kept := b.js(`document.querySelector("#f-agent").value + " " + document.querySelector("#f-since").value`); kept != `"mail yesterday"` {
		t.Errorf("the form of a wrong search has %s; want what was typed", kept)
	}
	b.do(chromedp.Navigate(w.url + "/admin/evidence"))
	b.verified("ok")
	b.says("all verified", "Verified: the log is whole.", "None is missing or changed")
	b.shot("evidence-verified")
	b.do(chromedp.Navigate(w.url + "/admin/evidence"))
	b.js(`(window.fetch = (real => async url => { const text = await (await real(url)).text(); return new Response(text.replace('"decision":"DENY"', '"decision":"ALLOW"')); })(window.fetch), 0)`)
	b.verified("tampered")
	b.says("a changed decision", "Not verified: a check failed.", "hash_mismatch")
	carol := w.atPage("carol")
	if _, page := carol.get("/admin/evidence?reason=no_such_reason"); !strings.Contains(page, "No record matches") {
		t.Errorf("a reason that no record has:\n%s", page)
	}
	_, text := carol.get("/admin/evidence/records.csv?decision=DENY")
	lines, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if denied := w.records("decision=DENY"); err != nil || len(denied) == 0 || len(lines) != 1+len(denied) || lines[1][1] != denied[0].ID {
		t.Errorf("the CSV of %d denials, error %v:\n%s", len(denied), err, text)
	}
	_, events := carol.get("/admin/evidence/records.ocsf.jsonl?decision=DENY")
	var event struct {
		Class  int    `json:"class_uid"`
		Status string `json:"status_detail"`
	}
	if first, _, _ := strings.Cut(events, "\n"); json.Unmarshal([]byte(first), &event) != nil || event.Class != 6003 || event.Status == "" {
		t.Errorf("the OCSF events:\n%s", events)
	}
	if _, bundle := carol.get("/admin/evidence/bundle.jsonl"); !strings.Contains(bundle, "powerbox-evidence-bundle/v1") {
		t.Errorf("the bundle:\n%.300s", bundle)
	}
	dora, id := w.atPage("dora"), w.records("limit=1")[0].ID
	for _, path := range []string{"", "/records.csv", "/records.ocsf.jsonl", "/bundle.jsonl", "/trust.json", "/" + id, "/" + id + "/record.json", "/" + id + "/proof.txt"} {
		if status, body := dora.get("/admin/evidence" + path); status != http.StatusForbidden || strings.Contains(body, "frozen") {
			t.Errorf("a person who is no operator at /admin/evidence%s: HTTP %d; want 403", path, status)
		}
	}
}

// TestOperatorsRecord explains a record, and verifies it in the browser; a changed byte
// fails.
func TestOperatorsRecord(t *testing.T) {
	w := observedTown(t)
	b := openBrowser(t)
	b.login(w.url, "carol", "/admin/evidence?decision=DENY&agent=mail")
	b.press(".records .i a", ".verdict")
	b.says("record", "Denied.", "frozen", "Cause and fix", "Record hash", "Calls around it", "this record", "powerbox explain rec_")
	id := w.records("decision=DENY&agent=mail")[0].ID
	b.opened(w.url, "/admin/evidence/"+id, "record")
	b.sized(1440)
	b.verified("ok")
	b.says("verified", "Verified: this record is in the log", "as it states", "to the root", "signature verifies")
	b.shot("record-verified")
	for name, change := range map[string]string{
		"the agent":                 `text => text.replace('"agent_id":"', '"agent_id":"x')`,
		"the signature":             `text => text.replace(/"signature":"(.)/, (all, c) => '"signature":"' + (c === "A" ? "B" : "A"))`,
		"the leaf in the proof":     `text => text.replace(/^index \d+/m, "index 0")`,
		"the root under the proof":  `text => text.replace(/\n\n([^\n]+\n\d+\n)(.)/, (all, head, c) => "\n\n" + head + (c === "A" ? "B" : "A"))`,
		"the key of the trust file": `text => text.replace(/"x":"(.)/, (all, c) => '"x":"' + (c === "A" ? "B" : "A"))`,
	} {
		b.do(chromedp.Navigate(w.url + "/admin/evidence/" + id))
		b.js(`(window.fetch = (real => async url => { const text = await (await real(url)).text(), change = ` + change + `; window.changed ||= change(text) !== text; return new Response(change(text)); })(window.fetch), 0)`)
		b.verified("wrong")
		if b.js(`window.changed`) != "true" {
			t.Errorf("%s was not changed", name)
		}
		b.says(name, "Not verified: a check failed.")
	}
	all := w.records("agent=mail")
	i := slices.IndexFunc(all, func(r recorded) bool { return strings.Contains(r.Intent.Purpose, "<b>") })
	if i < 0 {
		t.Fatalf("no record has the reason of the freeze: %+v", all)
	}
	b.do(chromedp.Navigate(w.url + "/admin/evidence/" + all[i].ID))
	b.says("words with signs", "<b>odd</b> & more")
	b.verified("ok")
}

// TestOperatorsRecordHasItsTrace shows a record under the capability that decided it, with
// the chain of that, and with the calls around it as a tree.
func TestOperatorsRecordHasItsTrace(t *testing.T) {
	w := investigate(t, "approvals: {operators: [\"user:alice\"]}\n")
	b := openBrowser(t)
	b.login(w.url, "alice", "/admin/evidence/"+w.refused)
	b.says("trace", "planner, for user pw_", ", called "+opDelete+" at agent documents.", "Denied.", "operation_not_granted", "The root is first", "holds")
	b.opened(w.url, "/admin/evidence/"+w.refused, "record-traced")
	hops := b.js(`[...document.querySelectorAll(".trail li")].map(l => l.classList[0] + " " + l.innerText.replace(/ rec_\S+/, "").replace("\u2192", "to").trim())`)
	want := `["d0 allowed planner to documents: free text outcome ACHIEVED","d1 allowed documents to mail: mail/mail:send/send outcome ACHIEVED","d0 denied planner to documents: ` + opDelete + ` operation_not_granted this record"]`
	if hops != want {
		t.Errorf("the calls around it are\n%s\nwant\n%s", hops, want)
	}
	if chain := b.js(`[...document.querySelectorAll("section[aria-labelledby=chain-title] tbody code")].map(c => c.title)`); chain != `["`+w.read.ID+`","`+w.child.ID+`"]` {
		t.Errorf("the chain is %s; want %s and %s", chain, w.read.ID, w.child.ID)
	}
	b.do(chromedp.Navigate(w.url + "/admin/evidence?task=" + w.task))
	if rows := b.rows(); strings.Count(rows, "outcome") == 0 {
		t.Errorf("the records of the task are %s", rows)
	}
}

// verified presses the button, and waits for the verdict.
func (b *browser) verified(want string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS("button.verify")), chromedp.WaitReady(chromedp.CSS(".verified[data-verdict]")))
	if got := b.js(`document.querySelector(".verified").dataset.verdict`); got != `"`+want+`"` {
		b.t.Errorf("the verdict is %s; want %q\n%s", got, want, b.js(`document.querySelector(".verified").innerText`))
	}
}

// TestOperatorsLive shows a denial when it happens, says when the connection is lost and
// found, and ends with the login.
func TestOperatorsLive(t *testing.T) {
	w := observedTown(t)
	if _, page := w.atPage("carol").get("/admin/live"); !strings.Contains(page, "frozen") || !strings.Contains(page, w.records("decision=DENY")[0].ID) {
		t.Errorf("without JavaScript the page has not the newest records:\n%s", page)
	}
	b, way := openBrowserBehind(t)
	b.login(w.url, "carol", "/admin/live")
	b.opened(w.url, "/admin/live", "live")
	b.sized(1440)
	follow := func(query string) {
		t.Helper()
		b.do(chromedp.Navigate(w.url + "/admin/live" + query))
		b.until(`document.querySelector("[data-says]").textContent === "Following."`)
	}
	deny := func() { w.post(w.agentURL("documents"), text("SendMessage", "hello"), nil) }
	follow("?decision=DENY&reason=frozen")
	deny()
	b.until(`document.querySelectorAll("tr.fresh").length === 1`)
	newest := w.records("decision=DENY")[0].ID
	if row := b.js(`document.querySelector("tr.fresh").innerText + document.querySelector("tr.fresh a").getAttribute("href")`); !strings.Contains(row, "frozen") || !strings.Contains(row, "/admin/evidence/"+newest) {
		t.Errorf("the row of a new denial is %s", row)
	}
	b.shot("live-denied")
	b.do(chromedp.Click(chromedp.CSS("button.pause")))
	deny()
	b.until(`document.querySelector("[data-says]").textContent === "Paused. 1 new."`)
	b.do(chromedp.Click(chromedp.CSS("button.pause")))
	b.until(`document.querySelectorAll("tr.fresh").length === 2`)

	way.cut.Store(true)
	way.CloseClientConnections()
	b.until(`document.querySelector("[data-says]").textContent.startsWith("The connection is lost since")`)
	deny()
	way.cut.Store(false)
	b.until(`document.querySelectorAll("tr.fresh").length === 3`)
	b.says("found again", "Nothing was missed.")

	b.js(`fetch("/logout", {method: "POST"}).then(() => 0)`)
	b.until(`document.querySelector("[data-says]").textContent.endsWith("Reload the page, and log in again if it asks.")`)
	deny()
	if n := b.js(`document.querySelectorAll("tr.fresh").length`); n != "3" {
		t.Errorf("after the logout the page has %s new rows; want 3", n)
	}
	dora := w.atPage("dora")
	for _, path := range []string{"/admin/live", "/admin/live/events"} {
		if status, _ := dora.get(path); status != http.StatusForbidden {
			t.Errorf("a person who is no operator at %s: HTTP %d; want 403", path, status)
		}
	}
	if status, body := w.atPage("carol").get("/admin/live/events?task=x"); status != http.StatusBadRequest || !strings.Contains(body, "cannot be selected by") {
		t.Errorf("a stream selected by an unknown name: HTTP %d %s", status, body)
	}
}

// way is a proxy between a browser and its server, which can be cut.
type way struct {
	*httptest.Server

	cut atomic.Bool
}

// openBrowserBehind opens a browser whose way to every server can be cut.
func openBrowserBehind(t *testing.T) (*browser, *way) {
	t.Helper()
	p := &way{}
	forward := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(*httputil.ProxyRequest) {}, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.cut.Load() {
			panic(http.ErrAbortHandler)
		}
		forward.ServeHTTP(w, r)
	}))
	p.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(p.Close)
	t.Cleanup(p.CloseClientConnections)
	return openBrowser(t, chromedp.ProxyServer(p.URL), chromedp.Flag("proxy-bypass-list", "<-loopback>")), p
}

// until waits for an expression to be true in the page.
func (b *browser) until(expression string) {
	b.t.Helper()
	b.js(`new Promise((done, no) => {
		const end = Date.now() + 30000;
		const look = () => ` + expression + ` ? done(1) : Date.now() > end ? no(new Error(document.querySelector("main").innerText)) : setTimeout(look, 50);
		look();
	})`)
}
