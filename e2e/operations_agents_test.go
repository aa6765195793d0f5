package e2e

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// operating is a town whose carol is its operator, with the agents documents and mail, and a
// browser in which she has logged in and has a passkey.
func operating(t *testing.T, o options) (*town, *browser) {
	t.Helper()
	o.dev, o.host, o.extra = reviewers, "localhost", o.extra+"approvals: {operators: [\"user:carol\"]}\n"
	w := start(t, o)
	b := openBrowser(t)
	b.authenticator()
	b.login(w.url, "carol", "/admin")
	b.passkey(w.url)
	return w, b
}

// lastEvent is the newest record of an action type.
func (w *town) lastEvent(kind string) recorded {
	w.t.Helper()
	var all []recorded
	if err := json.Unmarshal(w.operator(http.MethodGet, "/v1/records?limit=50", nil), &all); err != nil {
		w.t.Fatal(err)
	}
	for _, r := range all {
		if r.Action == kind {
			return r
		}
	}
	w.t.Fatalf("no record of %s", kind)
	return recorded{}
}

// signedFor is a script that has the passkey sign one form and sends another with it.
func signedFor(path, form, toPath, toForm string) string {
	return `(async () => {
		const filled = (fields) => { const f = new FormData(); for (const [name, value] of Object.entries(fields)) f.set(name, value); return f };
		const options = await (await fetch(` + path + ` + "/challenge", {method: "POST", body: filled(` + form + `)})).json();
		const made = await navigator.credentials.get({publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options.publicKey)});
		const f = filled(` + toForm + `); f.set("assertion", JSON.stringify(made.toJSON()));
		return (await fetch(` + toPath + `, {method: "POST", body: f})).status
	})()`
}

// TestOperatorsFreezeAnAgent shows the agents, freezes one of them with a passkey, and thaws
// it; the record names the person. Without the signature nothing is frozen.
func TestOperatorsFreezeAnAgent(t *testing.T) {
	w, b := operating(t, options{})
	alice := w.caller(aliceToken)
	held := alice.reports()
	allowed(t, alice.present("documents", data("search_documents", nil), proven{chain: []string{held.Token}, operation: opSearch}))
	alice.ambient("documents", data("search_documents", nil))
	b.opened(w.url, "/admin/agents", "agents")
	b.says("agents", "documents", "mail", "A2A", "require", "L3", "answers")
	b.do(chromedp.SendKeys(chromedp.CSS("#text"), "mail"))
	b.press("form.filter button", "table")
	if rows := b.js(`document.querySelectorAll("tbody tr").length`); rows != "1" {
		t.Errorf("a filter by mail shows %s agents; want 1", rows)
	}
	b.opened(w.url, "/admin/agents/documents", "agent")
	b.says("agent", "retrieve_document", "free text", "Capabilities in force", "user:alice", "Recent denials")

	b.opened(w.url, "/admin/agents/documents/freeze", "freeze")
	b.says("freeze", "Freeze documents?", "capability in force cannot be used")
	forged := `(async () => { const f = new FormData(); f.set("reason", "forged"); return (await fetch("/admin/agents/documents/freeze", {method: "POST", body: f})).status })()`
	if got := b.js(forged); got != "403" {
		t.Errorf("a freeze without the passkey's signature: HTTP %s; want 403", got)
	}
	for what, sent := range map[string][2]string{"another agent": {"mail", "answers strangely"}, "another reason": {"documents", "for fun"}} {
		if got := b.js(signedFor(`"/admin/agents/documents/freeze"`, `{reason: "answers strangely"}`, `"/admin/agents/`+sent[0]+`/freeze"`, `{reason: "`+sent[1]+`"}`)); got != "403" {
			t.Errorf("a signature for the freeze of documents freezes %s: HTTP %s; want 403", what, got)
		}
	}
	b.do(chromedp.SendKeys(chromedp.CSS("#reason"), "answers strangely"))
	b.press("form.confirm button.deny", "#facts")
	b.says("frozen", "Frozen since", "by user:carol: answers strangely")
	if r := w.lastEvent("operator.freeze"); r.Powerbox.Requester != "user:carol" || r.Intent.Purpose != "answers strangely" {
		t.Errorf("the record of the freeze is by %q for %q; want user:carol", r.Powerbox.Requester, r.Intent.Purpose)
	}
	b.do(chromedp.Navigate(w.url+"/admin/agents/documents/thaw"), chromedp.SendKeys(chromedp.CSS("#reason"), "fixed"))
	b.press("form.confirm button.approve", "#facts")
	if strings.Contains(b.text(), "Frozen since") {
		t.Error("the agent is frozen after the thaw")
	}
	if status, _ := w.atPage("dora").get("/admin/agents"); status != http.StatusForbidden {
		t.Errorf("a person who is no operator opens the agents: HTTP %d; want 403", status)
	}
	if status, _ := w.atPage("dora").post("/admin/agents/documents/freeze", url.Values{"reason": {"x"}}); status != http.StatusForbidden {
		t.Errorf("a person who is no operator freezes an agent: HTTP %d; want 403", status)
	}
}

// TestOperatorsRevokeWithAPreview looks at a capability and its chain, sees what would end,
// revokes it with a passkey, and the next call under the narrowed one is denied.
func TestOperatorsRevokeWithAPreview(t *testing.T) {
	w, b := operating(t, options{})
	alice := w.caller(aliceToken)
	held := alice.reports()
	child := capabilities(t, alice.attenuate(held.ID, map[string]any{"operations": []string{"search"}}))[0]
	search := func() answer {
		return alice.present("documents", data("search_documents", nil), proven{chain: []string{child.Token}, operation: opSearch})
	}
	b.opened(w.url, "/admin/capabilities", "capabilities")
	b.says("capabilities", "user:alice", "documents:read", "issued directly", held.ID[:6])
	if rows := b.js(`document.querySelectorAll("tbody tr").length`); rows != "2" {
		t.Errorf("%s capabilities are shown; want 2", rows)
	}
	b.do(chromedp.SendKeys(chromedp.CSS("#principal"), "user:bob"))
	b.press("form.filter button", "#principal")
	b.says("capabilities", "No capability matches.")

	b.opened(w.url, "/admin/capabilities/"+held.ID, "capability")
	b.says("capability", "in force", "can use documents for user:alice", "documents/documents:read/search", "Narrowed from it", "Revoke it and 1 narrowed from it")
	b.opened(w.url, "/admin/revoke?target="+held.ID, "revoke-preview")
	b.says("preview", "2 capabilities end", "do not return", "Revoke everything for user:alice")
	allowed(t, search())
	b.press("form.confirm button.deny", ".result")
	b.says("revoked", "revocation 1", "The server enforces it.", "No remote gateway is enrolled.")
	if a := search(); a.reason() != "revoked" {
		t.Errorf("a call after the revocation: %s; want revoked", a.Raw)
	}
	if r := w.lastEvent("capability.revoke"); r.Powerbox.Requester != "user:carol" || r.Powerbox.Capability != held.ID {
		t.Errorf("the record of the revocation is by %q of %q; want user:carol of %q", r.Powerbox.Requester, r.Powerbox.Capability, held.ID)
	}
	b.do(chromedp.Navigate(w.url + "/admin/capabilities"))
	b.says("capabilities", "No capability is in force.")
	if status, page := w.atPage("carol").get("/admin/revoke"); status != http.StatusBadRequest || !strings.Contains(page, "nothing to revoke is named") {
		t.Errorf("a preview of nothing: HTTP %d; want 400 with the reason", status)
	}
}

// TestOperatorsSwitchTheMode sees which observed calls another mode would deny, and switches
// with a passkey.
func TestOperatorsSwitchTheMode(t *testing.T) {
	w, b := operating(t, options{mode: "observe"})
	alice := w.caller(aliceToken)
	for range 3 {
		alice.ambient("documents", data("search_documents", nil))
	}
	b.opened(w.url, "/admin/agents/documents/mode?to=require", "mode")
	b.says("mode", "It is in observe now", "3 of 3 observed calls would be denied.", "records of the last 24 hours were looked at", "Switch documents to require")
	b.press("form.confirm button.approve", "#facts")
	b.says("agent", "require", "set by an operator")
	if a := alice.ambient("documents", data("search_documents", nil)); a.reason() != "capability_required" {
		t.Errorf("a call without a capability after the switch: %s", a.Raw)
	}
	b.do(chromedp.Navigate(w.url + "/admin/agents/documents/mode?to=configured"))
	b.says("mode", "The mode of the configuration holds again")
	if status, page := w.atPage("carol").get("/admin/agents/documents/mode?to=strict"); status != http.StatusBadRequest || !strings.Contains(page, "to is one of") {
		t.Errorf("an unknown mode: HTTP %d; want 400", status)
	}
}

// TestOperatorsAtANumericAddress can take authority away with a fresh login, and give none:
// browsers make no passkeys there.
func TestOperatorsAtANumericAddress(t *testing.T) {
	w := start(t, options{dev: reviewers, extra: "approvals: {operators: [\"user:carol\"]}\n"})
	carol := w.atPage("carol")
	reason := url.Values{"reason": {"odd calls"}}
	if status, page := carol.post("/admin/agents/documents/freeze", reason); status != http.StatusOK {
		t.Errorf("a freeze: HTTP %d %s", status, page)
	}
	if r := w.lastEvent("operator.freeze"); r.Powerbox.Requester != "user:carol" {
		t.Errorf("the freeze is on record for %q; want user:carol", r.Powerbox.Requester)
	}
	for path, form := range map[string]url.Values{"/admin/agents/documents/thaw": reason, "/admin/agents/documents/mode": {"to": {"observe"}, "mode": {"observe"}}} {
		if status, page := carol.post(path, form); status != http.StatusForbidden || !strings.Contains(page, "takes a passkey") {
			t.Errorf("%s: HTTP %d %s; want 403 with the reason", path, status, page)
		}
	}
	for _, path := range []string{"/admin/agents/documents/thaw", "/admin/agents/documents/mode?to=observe"} {
		if status, page := carol.get(path); status != http.StatusOK || !strings.Contains(page, "takes a passkey") || strings.Contains(page, `class="confirm"`) {
			t.Errorf("%s: HTTP %d; want the reason and no form\n%s", path, status, page)
		}
	}
	var frozen []struct {
		Target string `json:"target"`
	}
	if err := json.Unmarshal(w.operator(http.MethodGet, "/v1/freezes", nil), &frozen); err != nil || len(frozen) != 1 {
		t.Errorf("frozen: %v %v; want the one agent still", frozen, err)
	}
}

// TestAgentsAreListedInPages reads the list of agents of the operators' interface as a whole, in
// pages, and by selection.
func TestAgentsAreListedInPages(t *testing.T) {
	w := start(t, options{dev: reviewers})
	secret, err := os.ReadFile(filepath.Join(w.dir, "powerbox-data", "keys", "operator.secret"))
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"":                               "200 documents mail",
		"?limit=1":                       "200 documents, next documents",
		"?limit=1&after=documents":       "200 mail",
		"?limit=2":                       "200 documents mail",
		"?first=mail&first=none":         "200 mail documents",
		"?first=mail&limit=1":            "200 mail, next mail",
		"?first=mail&limit=1&after=mail": "200 documents",
		"?health=answers":                "200 documents mail",
		"?health=unreachable":            "200",
		"?after=none":                    "400",
		"?limit=0":                       "400",
		"?name=mail":                     "400",
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/v1/agents"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(secret)))
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var all []struct{ ID string }
		_ = json.NewDecoder(res.Body).Decode(&all) // a refusal is none
		got := strconv.Itoa(res.StatusCode)
		for _, one := range all {
			got += " " + one.ID
		}
		if next := res.Header.Get("Powerbox-Next"); next != "" {
			got += ", next " + next
		}
		if err := res.Body.Close(); err != nil || got != want {
			t.Errorf("/v1/agents%s: %s, %v; want %s", query, got, err, want)
		}
	}
	var summary struct {
		Served struct{ All, Enforcing, Unreachable int }
	}
	if err := json.Unmarshal(w.operator(http.MethodGet, "/v1/summary", nil), &summary); err != nil || summary.Served.All != 2 || summary.Served.Unreachable != 0 {
		t.Errorf("the summary counts %+v, %v", summary.Served, err)
	}
}
