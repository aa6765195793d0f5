package e2e

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// visitor uses the pages as a browser without script does.
type visitor struct {
	t    *testing.T
	base string
	http *http.Client
	// header is sent with every request.
	header http.Header
}

// visitor logs a built-in user in.
func (b *pagesBank) visitor(user string) *visitor {
	b.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		b.t.Fatal(err)
	}
	v := &visitor{b.t, b.url, &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, http.Header{"Sec-Fetch-Site": {"same-origin"}}}
	if user != "" {
		if status, text := v.post("/login", url.Values{"user": {user}}); status != http.StatusSeeOther {
			b.t.Fatalf("login as %s: HTTP %d %s", user, status, text)
		}
	}
	return v
}

func (v *visitor) send(method, path string, form url.Values) (int, string) {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), method, v.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		v.t.Fatal(err)
	}
	r.Header = v.header.Clone()
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := v.http.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return response.StatusCode, response.Header.Get("Location") + string(body)
}

func (v *visitor) get(path string) (int, string) {
	v.t.Helper()
	return v.send(http.MethodGet, path, nil)
}

func (v *visitor) post(path string, form url.Values) (int, string) {
	v.t.Helper()
	return v.send(http.MethodPost, path, form)
}

// open finds a request by its code.
func (v *visitor) open(code string) string {
	v.t.Helper()
	status, at := v.post("/approve", url.Values{"code": {code}})
	if status != http.StatusSeeOther {
		v.t.Fatalf("code %s: HTTP %d %s", code, status, at)
	}
	return at
}

var (
	seenField  = regexp.MustCompile(`name="seen" value="([^"]+)"`)
	grantField = regexp.MustCompile(`name="grant" value="([^"]+)"`)
)

// approval is the form of a page, with everything ticked.
func (v *visitor) approval(path string) url.Values {
	v.t.Helper()
	status, text := v.get(path)
	seen := seenField.FindStringSubmatch(text)
	if status != http.StatusOK || seen == nil {
		v.t.Fatalf("%s: HTTP %d %s", path, status, text)
	}
	form := url.Values{"answer": {"approve"}, "seen": {seen[1]}}
	for _, g := range grantField.FindAllStringSubmatch(text, -1) {
		form.Add("grant", g[1])
	}
	return form
}

// TestATK47_PagesOfOthers has another site frame the page, post an approval, and
// post one with the person's cookie: the page is not framed, and nothing is
// approved.
func TestATK47_PagesOfOthers(t *testing.T) {
	asGiven(t)
	b := startBank(t)
	agent := b.host().register(map[string]any{"name": "Helper", "capabilities": []any{"check_balance"}})
	alice := b.visitor("alice")
	at := alice.open(agent.code)
	form := alice.approval(at)

	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/frame":
			_, _ = io.WriteString(w, `<iframe src="`+b.url+at+`"></iframe>`)
		case "/post":
			fields := ""
			for name, values := range form {
				for _, value := range values {
					fields += `<input type=hidden name="` + name + `" value="` + value + `">`
				}
			}
			_, _ = io.WriteString(w, `<form method=post action="`+b.url+at+`">`+fields+`<button>Win a prize</button></form>`)
		}
	}))
	t.Cleanup(evil.Close)
	w := openBrowser(t)
	w.login(b.url, "alice", at)
	w.says("ATK-47", "New computer")
	w.do(chromedp.Navigate(evil.URL + "/frame"))
	tree, err := chromedp.Call(w.ctx, page.GetFrameTree, cdp.Empty{})
	if err != nil || len(tree.FrameTree.ChildFrames) != 1 {
		t.Fatalf("the frame: %v %+v", err, tree)
	}
	if got := tree.FrameTree.ChildFrames[0].Frame.UnreachableURL; !strings.HasPrefix(got, b.url+"/") {
		t.Errorf("ATK-47 the page was framed by another site (unreachable: %q)", got)
	}
	w.do(chromedp.Navigate(evil.URL + "/post"))
	w.do(chromedp.Click(chromedp.CSS("button")))
	w.do(chromedp.WaitNotPresent(chromedp.CSS("form button")))
	if state, _, _ := agent.status(); state != "pending" {
		t.Fatalf("ATK-47 another site's post made the agent %s; want pending", state)
	}
	// Even where the cookie comes along.
	for name, header := range map[string]http.Header{
		"another site":   {"Sec-Fetch-Site": {"cross-site"}},
		"another port":   {"Sec-Fetch-Site": {"same-site"}},
		"an old browser": {"Origin": {"https://evil.example"}},
	} {
		alice.header = header
		if status, _ := alice.post(at, form); status != http.StatusForbidden && status != http.StatusMisdirectedRequest {
			t.Errorf("ATK-47 a post from %s: HTTP %d; want it refused", name, status)
		}
	}
	if state, _, _ := agent.status(); state != "pending" {
		t.Fatalf("ATK-47 another site's post made the agent %s; want pending", state)
	}
	alice.header = http.Header{"Sec-Fetch-Site": {"same-origin"}}
	if status, text := alice.post(at, form); status != http.StatusSeeOther {
		t.Errorf("ATK-47 the person's own post: HTTP %d %s", status, text)
	}
}

// TestATK47_HeadersOfPages reads what every page says of itself to browsers,
// refusals among them.
func TestATK47_HeadersOfPages(t *testing.T) {
	asGiven(t)
	b := startBank(t)
	for _, path := range []string{"/approve", "/login", "/approve/apr_none", "/console/console.js", "/hosts", "/activity", "/passkeys", "/nowhere-of-ours"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if path == "/nowhere-of-ours" {
			continue // it is no page of the console
		}
		policy := response.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("ATK-47 %s: its policy %q has no %s", path, policy, want)
			}
		}
		for name, want := range map[string]string{"Cache-Control": "no-store", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin", "X-Content-Type-Options": "nosniff"} {
			if got := response.Header.Get(name); got != want {
				t.Errorf("ATK-47 %s: %s is %q; want %q", path, name, got, want)
			}
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/login", strings.NewReader("user=alice"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	for _, c := range response.Cookies() {
		if c.Name == "powerbox-session" && (!c.HttpOnly || c.SameSite != http.SameSiteStrictMode || len(c.Value) < 43) {
			t.Errorf("ATK-47 the session's cookie is %s", c)
		}
	}
	if len(response.Cookies()) == 0 {
		t.Error("the login set no cookie")
	}
}

// TestATK47_AgentsHaveNoSession presents what agents have where people answer.
func TestATK47_AgentsHaveNoSession(t *testing.T) {
	asGiven(t)
	b := startBank(t)
	agent := b.host().register(map[string]any{"name": "Helper", "capabilities": []any{"check_balance"}})
	at := b.visitor("alice").open(agent.code)
	for name, header := range map[string]http.Header{
		"no session":              {},
		"the agent's token":       {"Authorization": {"Bearer " + agent.token(b.url)}},
		"the host's token":        {"Authorization": {"Bearer " + agent.host.token(nil)}},
		"a token as cookie":       {"Cookie": {"powerbox-session=" + agent.token(b.url)}},
		"a person's bearer token": {"Authorization": {"Bearer session-of-alice"}},
		"the program's dev user":  {"Powerbox-Dev-User": {"alice"}},
	} {
		nobody := b.visitor("")
		nobody.header = header
		if status, where := nobody.get(at); status != http.StatusSeeOther || !strings.HasPrefix(where, "/login") {
			t.Errorf("ATK-47 %s reads the request: HTTP %d", name, status)
		}
		if status, where := nobody.post(at, url.Values{"answer": {"approve"}, "seen": {"x"}, "grant": {"x"}}); status != http.StatusSeeOther || !strings.HasPrefix(where, "/login") {
			t.Errorf("ATK-47 %s answers: HTTP %d", name, status)
		}
	}
	if state, _, _ := agent.status(); state != "pending" {
		t.Errorf("ATK-47 the agent is %s; want pending", state)
	}
}

// TestATK46_AnswersThatDoNotHold replays an answer, answers a request that has
// changed since it was shown, another party's, with more than was asked, and with
// an invented form.
func TestATK46_AnswersThatDoNotHold(t *testing.T) {
	asGiven(t)
	b := startBank(t)
	host := b.host()
	agent := host.register(map[string]any{"name": "Helper", "capabilities": []any{"check_balance", limited("list_accounts", nil)}})
	alice, bob := b.visitor("alice"), b.visitor("bob")
	at := alice.open(agent.code)

	stale := alice.approval(at)
	// The host says another name of itself, on a second agent's behalf.
	host.register(map[string]any{"name": "Second", "host_name": "Bank of Alice", "capabilities": []any{"check_balance"}})
	if status, text := alice.post(at, stale); status != http.StatusConflict || !strings.Contains(text, "changed since") {
		t.Errorf("ATK-49 a request that has changed since: HTTP %d %s; want 409", status, text)
	}
	form := alice.approval(at)
	for name, change := range map[string]func(url.Values){
		"without what was seen":   func(f url.Values) { f.Del("seen") },
		"with another's digest":   func(f url.Values) { f.Set("seen", stale.Get("seen")) },
		"with an end in the past": func(f url.Values) { f.Set("until", "2020-01-01T00:00:00Z") },
		"with a forged assertion": func(f url.Values) { f.Set("assertion", `{"id":"x","type":"public-key","rawId":"x","response":{}}`) },
		"with nothing ticked":     func(f url.Values) { f.Del("grant") },
		"with no answer":          func(f url.Values) { f.Del("answer") },
		"with an approver's name": func(f url.Values) { f.Set("answer", "approved by alice") },
	} {
		changed := url.Values{}
		for k, v := range form {
			changed[k] = append([]string(nil), v...)
		}
		change(changed)
		if status, text := alice.post(at, changed); status < 400 || status >= 500 {
			t.Errorf("ATK-46 an answer %s: HTTP %d %s; want it refused", name, status, text)
		}
	}
	if state, _, _ := agent.status(); state != "pending" {
		t.Fatalf("ATK-46 the agent is %s; want pending", state)
	}
	if status, text := alice.post(at, form); status != http.StatusSeeOther {
		t.Fatalf("ATK-46 the answer itself: HTTP %d %s", status, text)
	}
	if status, text := alice.post(at, form); status != http.StatusConflict {
		t.Errorf("ATK-46 the same answer again: HTTP %d %s; want 409", status, text)
	}
	// The host is Alice's now: what it asks for is hers to answer.
	if _, answer := agent.ask("more", "ticker"); agent.code == "" {
		t.Fatalf("no code: %v", answer)
	}
	if status, _ := bob.post("/approve", url.Values{"code": {agent.code}}); status != http.StatusNotFound {
		t.Errorf("AAP-A2 another person's code: HTTP %d; want 404", status)
	}
	next := alice.open(agent.code)
	if status, _ := bob.get(next); status != http.StatusNotFound {
		t.Errorf("AAP-A2 another person's request: HTTP %d; want 404", status)
	}
	if status, _ := bob.post(next, alice.approval(next)); status != http.StatusNotFound {
		t.Errorf("ATK-46 another person's answer: HTTP %d; want 404", status)
	}
}

// TestATK50_CodesAreNotGuessed tries codes until there is no more trying, even
// for the right one.
func TestATK50_CodesAreNotGuessed(t *testing.T) {
	asGiven(t)
	b := startBank(t)
	agent := b.host().register(map[string]any{"name": "Helper", "capabilities": []any{"check_balance"}})
	bob := b.visitor("bob")
	for n := range 10 {
		if status, _ := bob.post("/approve", url.Values{"code": {"0000-000" + string("0123456789"[n])}}); status != http.StatusNotFound {
			t.Fatalf("ATK-50 guess %d: HTTP %d; want 404", n, status)
		}
	}
	if status, _ := bob.post("/approve", url.Values{"code": {agent.code}}); status != http.StatusTooManyRequests {
		t.Errorf("ATK-50 after ten guesses: HTTP %d; want 429", status)
	}
	// A link with a code in it opens nothing and spends no guess.
	alice := b.visitor("alice")
	for range 12 {
		if status, text := alice.get("/approve?code=1111-1111"); status != http.StatusOK || !strings.Contains(text, "Continue only if you started this agent yourself") {
			t.Fatalf("ATK-50 a link: HTTP %d %s", status, text)
		}
	}
	typed := strings.ToLower(strings.ReplaceAll(agent.code, "-", " "))
	if at := alice.open(typed); !strings.HasPrefix(at, "/approve/apr_") {
		t.Errorf("AAP-A2 the code as people type it: %s", at)
	}
}

// TestATK49_WordsOfAgents shows names and reasons that try to be something else.
func TestATK49_WordsOfAgents(t *testing.T) {
	asGiven(t)
	b := startBank(t)
	agent := b.host().register(map[string]any{
		"name": "B\u0430nk \u202eofficial", "host_name": "Bank Security <img src=x onerror=alert(1)>",
		"reason":       "</blockquote><button>Approve</button>\u202eevil **bold** [link](https://evil.example)\n\nSYSTEM: already approved" + strings.Repeat(" please", 200),
		"capabilities": []any{"check_balance"},
	})
	w := openBrowser(t)
	w.login(b.url, "alice", "/approve/"+b.approvalID("alice", agent.code))
	w.says("ATK-49", "mixes letters of several scripts", "its own words")
	t.Run("AAP-A8", func(t *testing.T) { w.clean(t) })
	w.shot("question-words")
}

// clean wants nothing in the page that an agent's words can have brought there.
func (b *browser) clean(t *testing.T) {
	t.Helper()
	for what, query := range map[string]string{
		"elements":   `document.querySelectorAll("blockquote *, dd img, main script").length`,
		"links":      `document.querySelectorAll("a[href*=evil]").length`,
		"directions": `/[\u202a-\u202e\u2066-\u2069]/.test(document.body.innerText) ? 1 : 0`,
		"length":     `document.querySelector("blockquote").innerText.length > 520 ? 1 : 0`,
	} {
		if got := b.js(query); got != "0" {
			t.Errorf("AAP-A8 the agent's words brought %s into the page", what)
		}
	}
}

// TestATK48_Fatigue asks again and again: requests of one agent are one matter,
// earlier refusals are shown, and after the third refusal no person is asked.
func TestATK48_Fatigue(t *testing.T) {
	asGiven(t)
	b := startBank(t)
	agent := b.host().register(map[string]any{"name": "Pusher", "capabilities": []any{"check_balance"}})
	alice := b.visitor("alice")
	at := alice.open(agent.code)
	if status, text := alice.post(at, alice.approval(at)); status != http.StatusSeeOther {
		t.Fatalf("HTTP %d %s", status, text)
	}
	w := openBrowser(t)
	w.login(b.url, "alice", "/approve")
	w.says("ATK-48", "Nothing waits for you.")
	// The page updates without a reload.
	if status, answer := agent.ask("please", "list_accounts"); status >= 300 {
		t.Fatalf("HTTP %d %v", status, answer)
	}
	w.do(chromedp.WaitVisible(chromedp.CSS("#waiting article")))
	first := agent.code
	if status, answer := agent.ask("please", "ticker"); status >= 300 {
		t.Fatalf("HTTP %d %v", status, answer)
	}
	w.do(chromedp.WaitVisible(chromedp.CSS("#waiting article li:nth-child(2)")))
	w.says("ATK-48", "2 requests", "List all accounts", "Follow the exchange rate")
	w.shot("waiting")
	w.do(chromedp.Navigate(b.url + alice.open(first)))
	w.says("ATK-48", "Known computer", "1 more open request", "What it has already", "See the balance of one account")
	w.press("button.deny", "#did-title")
	for n := range 2 {
		if status, answer := agent.ask("pretty please", "list_accounts"); status >= 300 {
			t.Fatalf("ATK-48 request %d: HTTP %d %v", n+2, status, answer)
		}
		if n == 1 {
			w.do(chromedp.Navigate(b.url + alice.open(agent.code)))
			w.says("ATK-48", "Refused 2 times before.", "refused something 2 times")
			w.shot("question-again")
		}
		if status, text := alice.post(alice.open(agent.code), url.Values{"answer": {"deny"}}); status != http.StatusSeeOther {
			t.Fatalf("deny: HTTP %d %s", status, text)
		}
	}
	if status, answer := agent.ask("pretty please", "list_accounts"); status != http.StatusTooManyRequests || answer["error"] != "rate_limited" {
		t.Errorf("ATK-48 after three refusals: HTTP %d %v; want 429", status, answer)
	}
	if status, answer := agent.ask("something else", "statement"); status >= 300 {
		t.Errorf("ATK-48 what was not refused: HTTP %d %v", status, answer)
	}
}

// TestATK50_CodesAreNotGuessedTogether has several people at one address try codes:
// after thirty no one at that address can try again. The page says where a host
// registered from, and where the request came from.
func TestATK50_CodesAreNotGuessedTogether(t *testing.T) {
	asGiven(t)
	b := startBank(t, "--users", "alice,bob,carol,dora")
	agent := b.host().register(map[string]any{"name": "Helper", "capabilities": []any{"check_balance"}})
	alice := b.visitor("alice")
	at := alice.open(agent.code)
	if status, page := alice.get(at); status != http.StatusOK || !strings.Contains(page, "registered from 127.0.0.1") || !strings.Contains(page, "the same address as yours") {
		t.Errorf("ATK-50 the page does not say where it came from: HTTP %d\n%s", status, page)
	}
	for _, who := range []string{"bob", "carol", "dora"} {
		v := b.visitor(who)
		for n := range 10 {
			if status, _ := v.post("/approve", url.Values{"code": {"0000-000" + string("0123456789"[n])}}); status != http.StatusNotFound {
				t.Fatalf("ATK-50 guess %d of %s: HTTP %d; want 404", n, who, status)
			}
		}
	}
	if status, _ := alice.post("/approve", url.Values{"code": {agent.code}}); status != http.StatusTooManyRequests {
		t.Errorf("ATK-50 after thirty guesses at one address: HTTP %d; want 429", status)
	}
}
