package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// policyTable has a test that holds, one that fails, and one that cannot be asked.
const policyTable = `tests:
  - {name: strangers search, user: "user:eve", operation: documents/documents:read/search, expect: deny}
  - {name: alice searches, user: "user:alice", operation: documents/documents:read/search, expect: allow}
  - {name: a typing error, user: "user:eve", operation: documents/documents:read/serch, expect: deny}
`

// directory is a town whose carol looks after it and whose dora does not, with two
// callers that the operator knows and an agent that streams without saying so.
func directory(t *testing.T) *town {
	t.Helper()
	agent := newRawAgent(t)
	agent.card = func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, strings.Replace(agent.cardText(""), `"capabilities":{"streaming":true}`, `"capabilities":{}`, 1))
	}
	agent.says("text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"statusUpdate\":{\"taskId\":\"t1\",\"contextId\":\"c1\",\"status\":{\"state\":\"TASK_STATE_WORKING\"}}}}\n\n")
	w := start(t, options{
		policies: asking, dev: reviewers, mode: "prefer", upstream: agent.url, host: "localhost",
		files:   map[string]string{"asking_test.yaml": policyTable},
		callers: "  callers:\n    - {agent: desk, client: desk}\n    - {agent: clerk, client: clerk}\n",
		extra: `approvals: {operators: ["user:carol"]}
scopes:
  desk: {documents: ["documents:read/search"]}
  clerk: {mail: ["mail:send/send"]}
  documents: {mail: ["mail:send/send"]}
`,
	})
	w.post(w.agentURL("documents"), text("SendStreamingMessage", "hello"), nil)
	return w
}

// TestCARD19_OnAPage finds agents by what their cards declare on the page, looks at
// one of them, and consents to a card that changed; who may not see an agent is not
// shown it.
func TestCARD19_OnAPage(t *testing.T) {
	w := directory(t)
	weather := newStranger(t, strings.Replace(strangersCard, "STREAMING", "false", 1))
	w.operator(http.MethodPost, "/v1/registry/agents", map[string]any{"url": weather.url, "visible_to": []string{"group:sailing"}})
	b := openBrowser(t)
	b.login(w.url, "carol", "/registry")
	b.says("CARD-19", "documents", "mail", "weather-desk", "not protected here", "ROLE", "CAPABILITY", "Graph")
	b.shot("registry")
	b.do(chromedp.SendKeys(chromedp.CSS("#text"), "ships"))
	b.press("form.search button", "table")
	if page := b.text(); !strings.Contains(page, "weather-desk") || strings.Contains(page, "documents") {
		t.Errorf("CARD-19 a search for ships finds\n%s", page)
	}
	b.do(chromedp.Navigate(w.url + "/registry/documents"))
	b.says("CARD-19", "protected here", "What it can be held to: L1", "documents:write/delete, on resources named by handles", "streaming", "not declared, so not to be relied on", "Mode: prefer", "sha256:")
	b.says("CARD-12", "It did, and does not declare")
	b.shot("registry-agent")

	// A changed card waits, shown with its differences, until someone consents.
	weather.says(strings.Replace(strings.Replace(strangersCard, "STREAMING", "true", 1), `"skills":[`, `"skills":[{"id":"sink","name":"<b>Sink</b>","description":"Sinks ships","tags":["sea"]},`, 1))
	w.operator(http.MethodPost, "/v1/registry/agents/weather-desk/refresh", map[string]any{})
	dora := w.atPage("dora")
	if status, page := dora.get("/registry/weather-desk"); status != http.StatusNotFound || strings.Contains(page, "Weather") {
		t.Errorf("CARD-19 an agent that dora may not see: HTTP %d", status)
	}
	if status, page := dora.get("/registry"); status != http.StatusOK || strings.Contains(page, "weather-desk") || strings.Contains(page, "/registry/documents") || strings.Contains(page, `href="/admin/graph"`) {
		t.Errorf("CARD-19 what dora may see: HTTP %d\n%s", status, page)
	}
	if status, _ := dora.get("/registry/documents"); status != http.StatusNotFound {
		t.Errorf("CARD-19 a protected agent of which policy allows dora nothing: HTTP %d; want 404", status)
	}
	if status, page := w.atPage("alice").get("/registry"); status != http.StatusOK || !strings.Contains(page, "/registry/documents") || strings.Contains(page, "/registry/mail") {
		t.Errorf("CARD-19 alice may be granted something of documents alone: HTTP %d\n%s", status, page)
	}
	if status, _ := dora.post("/registry/weather-desk/accept", url.Values{"card_digest": {"sha256:x"}}); status != http.StatusForbidden {
		t.Errorf("ATK-53 dora accepts a card: HTTP %d; want 403", status)
	}
	carol := w.atPage("carol")
	if status, _ := carol.post("/registry/weather-desk/accept", url.Values{"card_digest": {"sha256:x"}}); status != http.StatusForbidden {
		t.Errorf("ATK-53 a card is accepted without a passkey: HTTP %d; want 403", status)
	}
	b.authenticator()
	b.do(chromedp.Navigate(w.url + "/passkeys"))
	b.passkey(w.url)
	accept, other := `"/registry/weather-desk/accept"`, `{card_digest: "sha256:x"}`
	if got := b.js(signedFor(accept, other, accept, other)); got != "400" {
		t.Errorf("ATK-53 another card than the one that waits is accepted: HTTP %s; want 400", got)
	}
	b.do(chromedp.Navigate(w.url + "/registry/weather-desk"))
	b.says("ATK-53", "Its card says something else now", "widens", "sink")
	b.shot("registry-waits")
	b.press("button.approve", "dl")
	if strings.Contains(b.text(), "something else now") {
		t.Errorf("ATK-53 the accepted card still waits:\n%s", b.text())
	}
	var listed struct {
		Waiting string `json:"waiting_digest"`
		Skills  []struct {
			ID string `json:"id"`
		} `json:"skills"`
	}
	if err := json.Unmarshal(w.operator(http.MethodGet, "/v1/registry/agents/weather-desk", nil), &listed); err != nil || listed.Waiting != "" || len(listed.Skills) != 2 {
		t.Errorf("ATK-53 after consent: %+v, %v", listed, err)
	}
}

// TestGATE12_OnAPage shows the graph: scopes, attempts on record, what one agent could reach
// with and without a gate, and the difference that one edge makes. It is for operators.
func TestGATE12_OnAPage(t *testing.T) {
	w := directory(t)
	w.post(w.agentURL("mail"), text("SendMessage", "hello"), nil)
	b := openBrowser(t)
	b.login(w.url, "carol", "/map")
	b.says("GATE-12", "Graph", "who may hand what to whom", "(unnamed callers)", "Blast radius of every agent", "Edges")
	b.opened(w.url, "/admin/graph", "graph")
	b.do(chromedp.SetValue(chromedp.CSS("#agent"), "desk"))
	b.press(`form.filter button`, "#reach-title")
	b.says("GATE-12", "If desk were taken over", "documents/documents:read/search", "documents/documents:write/delete", "mail/mail:send/send", "only where nothing is gated")
	rows := b.js(`[...document.querySelectorAll("section[aria-labelledby=reach-title] tbody tr")].map(r => [...r.cells].map(c => c.innerText.trim().replace(/\s+/g, " ")))`)
	want := `[["documents","directly","documents/documents:read/search documents/documents:write/delete","everything: its mode lets calls without a capability pass"],["mail","documents","mail/mail:send/send","everything: its mode lets calls without a capability pass"]]`
	if rows != want {
		t.Errorf("GATE-12 what desk could reach:\n%s\nwant\n%s", rows, want)
	}
	if drawn := b.js(`document.querySelectorAll(".graph svg a.open").length + " " + document.querySelectorAll("script").length`); drawn != `"1 2"` {
		t.Errorf("GATE-12 %s boxes are drawn as reached only where nothing is gated, and scripts; want 1 box, and the scripts of the console and of the slider", drawn)
	}
	b.shot("graph-reach")
	// One hop around desk has documents and not mail; a box leads to its agent.
	b.do(chromedp.Navigate(w.url + "/admin/graph?agent=desk&hops=1"))
	if boxes := b.js(`[...document.querySelectorAll(".graph svg a text")].map(a => a.textContent).sort()`); boxes != `["desk","documents"]` {
		t.Errorf("GATE-12 one hop around desk are %s; want desk and documents", boxes)
	}
	b.press(`.graph svg a[href*="agent=documents"]`, "#reach-title")
	b.says("GATE-12", "If documents were taken over")
	// Without the edge from documents to mail, desk reaches one agent less.
	b.opened(w.url, "/admin/graph?without=documents,mail", "graph-without")
	without := b.js(`[...document.querySelectorAll("section[aria-labelledby=without] tbody tr")].map(r => [...r.cells].map(c => c.innerText.trim()).join("|"))`)
	for _, want := range []string{
		"\"desk|3 operations of 2 agents \u2192 2 operations of 1 agent|1 operation of 1 agent \u2192 1 operation of 1 agent\"",
		"\"documents|1 operation of 1 agent \u2192 nothing|",
	} {
		if !strings.Contains(without, want) {
			t.Errorf("GATE-12 without the edge: %s; want %s in it", without, want)
		}
	}
	b.says("GATE-12", "Nothing was changed")
	dora := w.atPage("dora")
	for _, path := range []string{"/map", "/admin/graph"} {
		if status, page := dora.get(path); status != http.StatusForbidden || strings.Contains(page, "desk") {
			t.Errorf("GATE-12 %s for a person who is no operator: HTTP %d", path, status)
		}
	}
	carol := w.atPage("carol")
	if status, _ := carol.get("/map?agent=nobody"); status != http.StatusNotFound {
		t.Errorf("GATE-12 an agent that is not there: HTTP %d; want 404", status)
	}
	if status, page := carol.get("/admin/graph?without=desk"); status != http.StatusBadRequest || !strings.Contains(page, "want FROM,TO") {
		t.Errorf("GATE-12 half an edge: HTTP %d; want 400", status)
	}
}
