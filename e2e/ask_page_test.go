package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// atPage is someone at the pages, as a browser without scripts would be.
type atPage struct {
	w    *town
	http *http.Client
}

// atPage logs a built-in user in.
func (w *town) atPage(name string) *atPage {
	w.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	v := &atPage{w, &http.Client{Jar: jar}}
	if status, body := v.post("/login", url.Values{"user": {name}, "next": {"/approve"}}); status != http.StatusOK {
		w.t.Fatalf("login of %s: HTTP %d\n%s", name, status, body)
	}
	return v
}

func (v *atPage) get(path string) (int, string) {
	v.w.t.Helper()
	r, err := v.http.Get(v.w.url + path)
	return v.read(r, err)
}

func (v *atPage) post(path string, form url.Values) (int, string) {
	v.w.t.Helper()
	r, err := v.http.PostForm(v.w.url+path, form)
	return v.read(r, err)
}

func (v *atPage) read(r *http.Response, err error) (int, string) {
	v.w.t.Helper()
	if err != nil {
		v.w.t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		v.w.t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

var seenInForm = regexp.MustCompile(`name="seen" value="([^"]+)"`)

// page opens a question and returns what it shows, and what an answer must say
// that it has seen.
func (v *atPage) page(id string) (page, seen string) {
	v.w.t.Helper()
	status, page := v.get("/approve/" + id)
	m := seenInForm.FindStringSubmatch(page)
	if status != http.StatusOK || m == nil {
		v.w.t.Fatalf("the page of %s: HTTP %d\n%s", id, status, page)
	}
	return page, m[1]
}

// TestSEP9_ThePageOfARequest shows a person the request, and takes the
// narrower answer that the person posts: the waiting call gets that.
func TestSEP9_ThePageOfARequest(t *testing.T) {
	w := start(t, options{policies: asking})
	alice := w.caller(aliceToken)
	id := pendingIn(t, alice.asksForReports())
	v := w.atPage("alice")
	if _, home := v.get("/approve"); !strings.Contains(home, "My confirmations") || !strings.Contains(home, "/approve/"+id) {
		t.Errorf("SEP-9 the list of what waits does not have it:\n%s", home)
	}
	page, seen := v.page(id)
	for _, want := range []string{">Summarize quarterly reports</blockquote>", "own words", "Read documents", "Q1 Financial Summary", "Q1 Sales Report", "only reads", "user:alice", "an agent that the operator has no name for", "data-focus"} {
		if !strings.Contains(page, want) {
			t.Errorf("SEP-9 the page does not say %q", want)
		}
	}
	for _, never := range []string{"/vault/", `name="op.0" value="retrieve" id="op-0-0" checked`, "<b>quarterly"} {
		if strings.Contains(page, never) {
			t.Errorf("SEP-9 ATK-49 the page says %q", never)
		}
	}
	for name, form := range map[string]url.Values{
		"nothing ticked":      {"answer": {"approve"}, "seen": {seen}, "on.0": {"0", "1"}},
		"without what was":    {"answer": {"approve"}, "op.0": {"retrieve"}, "on.0": {"0"}},
		"another page":        {"answer": {"approve"}, "seen": {"other"}, "op.0": {"retrieve"}, "on.0": {"0"}},
		"more than was asked": {"answer": {"approve"}, "seen": {seen}, "op.0": {"retrieve", "delete"}, "on.0": {"0"}},
		"a resource more":     {"answer": {"approve"}, "seen": {seen}, "op.0": {"retrieve"}, "on.0": {"2"}},
		"a later end":         {"answer": {"approve"}, "seen": {seen}, "op.0": {"retrieve"}, "on.0": {"0"}, "until": {"2100-01-01T00:00:00Z"}},
	} {
		if status, _ := v.post("/approve/"+id, form); status < 400 {
			t.Errorf("ATK-46 %s: HTTP %d; want a refusal", name, status)
		}
	}
	if again := pendingIn(t, alice.asksForReports()); again != id {
		t.Errorf("SEP-27 after refused answers: %s", again)
	}
	status, after := v.post("/approve/"+id, url.Values{"answer": {"approve"}, "seen": {seen}, "op.0": {"retrieve"}, "on.0": {"1"}})
	if status != http.StatusOK || !strings.Contains(after, "Approved") || !strings.Contains(after, "left out") {
		t.Errorf("SEP-27 the answer: HTTP %d\n%s", status, after)
	}
	got := capabilities(t, alice.asksForReports())
	if len(got) != 1 || strings.Join(got[0].Operations, " ") != "retrieve" || len(got[0].ResourceHandles) != 1 {
		t.Errorf("SEP-27 the waiting call got %+v", got)
	}
	if status, _ := v.post("/approve/"+id, url.Values{"answer": {"approve"}, "seen": {seen}, "op.0": {"retrieve", "search"}, "on.0": {"0", "1"}}); status < 400 {
		t.Errorf("ATK-46 an answer was given twice: HTTP %d", status)
	}
}

// TestATK47_APageIsNotPostedFromElsewhere posts an answer as another site's page
// would, and what writes without a passkey.
func TestATK47_APageIsNotPostedFromElsewhere(t *testing.T) {
	w, alice, held := mailing(t, options{})
	task := heldIn(t, alice.mailsUnder(held, "bob@example.org"))
	v := w.atPage("alice")
	page, seen := v.page(task.asked())
	for _, want := range []string{"wants at mail, now and once: ", "bob@example.org", "The figures", "changes something", "Tell Bob about the figures"} {
		if !strings.Contains(page, want) {
			t.Errorf("AAP-A9 the page of a call does not say %q", want)
		}
	}
	form := url.Values{"answer": {"approve"}, "seen": {seen}, "op.0": {"send"}}
	r, err := http.NewRequest(http.MethodPost, w.url+"/approve/"+task.asked(), strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "https://evil.example")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if status, _ := v.read(v.http.Do(r)); status != http.StatusForbidden && status != http.StatusMisdirectedRequest {
		t.Errorf("ATK-47 posted from another site: HTTP %d; want 403 or 421", status)
	}
	if status, _ := v.post("/approve/"+task.asked(), form); status != http.StatusForbidden {
		t.Errorf("AAP-A7 what writes, without a passkey: HTTP %d; want 403", status)
	}
	if status, _ := w.atPage("bob").get("/approve/" + task.asked()); status != http.StatusNotFound {
		t.Errorf("ATK-47 somebody else opens the page: HTTP %d; want 404", status)
	}
	if status, _ := v.post("/approve/"+task.asked(), url.Values{"answer": {"deny"}, "reason": {"I did not ask for that"}}); status != http.StatusOK {
		t.Errorf("AAP-A5 denying: HTTP %d", status)
	}
	if done := w.polled(alice, held, "mail", task.ID); done.State != "FAILED" || !strings.Contains(done.Text, "I did not ask for that") {
		t.Errorf("AAP-A5 after the denial: %+v", done)
	}
	if n := len(w.mail.got()); n != 0 {
		t.Errorf("ATK-47 %d calls reached the agent", n)
	}
}

// TestATK37_MarksOnThePage has arguments that read as something else than they
// are: the page marks them.
func TestATK37_MarksOnThePage(t *testing.T) {
	w, alice, held := mailing(t, options{})
	for to, want := range map[string]string{
		"b\u043eb@example.org":          "mixes letters of several scripts",
		"gro.elpmaxe@bob\u202e.example": `\u202e`,
	} {
		task := heldIn(t, alice.mailsUnder(held, to))
		page, _ := w.atPage("alice").page(task.asked())
		if !strings.Contains(page, want) || strings.Contains(page, "\u202e") {
			t.Errorf("ATK-37 the page for %q does not mark it with %q", to, want)
		}
	}
}

// TestSEP3_ThePageMarksALegacyGrant asks a person for a grant of reduced security.
func TestSEP3_ThePageMarksALegacyGrant(t *testing.T) {
	w := start(t, options{policies: `@approval("human") permit(principal == User::"user:alice", action in Action::"documents/documents:admin", resource == Agent::"documents");`})
	id := pendingIn(t, w.caller(aliceToken).call("documents", "a2a/capabilities/request", map[string]any{"grants": []string{"documents:admin"}, "purpose": "Archive"}))
	if page, _ := w.atPage("alice").page(id); !strings.Contains(page, "reduced security") {
		t.Errorf("SEP-3 the page does not mark a legacy grant:\n%s", page)
	}
}

// cookies are those of the visitor, as a header.
func (v *atPage) cookies() string {
	v.w.t.Helper()
	u, err := url.Parse(v.w.url)
	if err != nil {
		v.w.t.Fatal(err)
	}
	var out []string
	for _, c := range v.http.Jar.Cookies(u) {
		out = append(out, c.Name+"="+c.Value)
	}
	return strings.Join(out, "; ")
}

// TestATK31_SmugglingAtThePages hides an approval, with the person's own cookie, in
// the body of another post to the pages: it is not taken for a request.
func TestATK31_SmugglingAtThePages(t *testing.T) {
	w := start(t, options{policies: asking})
	alice := w.caller(aliceToken)
	id := pendingIn(t, alice.asksForReports())
	v := w.atPage("alice")
	_, seen := v.page(id)
	host := strings.TrimPrefix(w.url, "http://")
	request := func(body, headers string) string {
		return "POST /approve/" + id + " HTTP/1.1\r\nHost: " + host + "\r\nCookie: " + v.cookies() + "\r\nContent-Type: application/x-www-form-urlencoded\r\n" + headers + "\r\n\r\n" + body
	}
	form := url.Values{"answer": {"approve"}, "seen": {seen}, "op.0": {"retrieve"}, "on.0": {"0"}}.Encode()
	hidden := request(form, fmt.Sprintf("Content-Length: %d", len(form)))
	const harmless = "answer=neither"
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(harmless), harmless)
	for name, text := range map[string]string{
		"length and chunks":        request(chunked+hidden, fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked", len(chunked)+len(hidden))),
		"two lengths":              request(harmless+hidden, fmt.Sprintf("Content-Length: %d\r\nContent-Length: %d", len(harmless), len(harmless)+len(hidden))),
		"a list of lengths":        request(harmless+hidden, fmt.Sprintf("Content-Length: %d, %d", len(harmless), len(harmless)+1)),
		"a signed length":          request(harmless+hidden, fmt.Sprintf("Content-Length: +%d", len(harmless))),
		"chunks by another name":   request(chunked+hidden, "Transfer-Encoding: xchunked"),
		"chunks twice":             request(chunked+hidden, "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity"),
		"chunks with a space":      request(chunked+hidden, "Transfer-Encoding : chunked"),
		"a folded header":          request(harmless+hidden, "X: y\r\n Content-Length: 4"),
		"a chunk of another size":  request(endless+"\r\n"+harmless+"\r\n0\r\n\r\n"+hidden, "Transfer-Encoding: chunked"),
		"a length that is all":     request(harmless+hidden, fmt.Sprintf("Content-Length: %d", len(harmless)+len(hidden))),
		"a line feed in a chunk":   request(fmt.Sprintf("%x\n%s\r\n0\r\n\r\n", len(harmless), harmless)+hidden, "Transfer-Encoding: chunked"),
		"chunks in HTTP/1.0":       strings.Replace(request(harmless+hidden, fmt.Sprintf("Connection: keep-alive\r\nTransfer-Encoding: chunked\r\nContent-Length: %d", len(harmless))), "HTTP/1.1", "HTTP/1.0", 1),
		"a get with a hidden body": strings.Replace(request(hidden, fmt.Sprintf("Content-Length: %d", len(hidden))), "POST", "GET", 1),
	} {
		out, closed := smuggle(t, host, text)
		whole := name == "a length that is all" || name == "a get with a hidden body" || name == "a folded header"
		if !closed && !whole {
			t.Errorf("ATK-31 %s: the connection stays open\n%s", name, out)
		}
		if again := w.waiting("alice", "confirmations"); len(again) != 1 {
			t.Fatalf("ATK-31 %s: the hidden approval was taken\n%s", name, out)
		}
	}
	// The approval alone is accepted.
	if status, _ := v.post("/approve/"+id, url.Values{"answer": {"approve"}, "seen": {seen}, "op.0": {"retrieve"}, "on.0": {"0"}}); status != http.StatusOK {
		t.Errorf("ATK-31 the approval by itself: HTTP %d", status)
	}
}

// TestATK16_ThePagesUnderOtherNames asks for the pages under names that only lead to
// this machine, as another party's page whose name was rebound would.
func TestATK16_ThePagesUnderOtherNames(t *testing.T) {
	w := start(t, options{policies: asking})
	alice := w.caller(aliceToken)
	id := pendingIn(t, alice.asksForReports())
	v := w.atPage("alice")
	_, seen := v.page(id)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	form := url.Values{"answer": {"approve"}, "seen": {seen}, "op.0": {"retrieve"}, "on.0": {"0"}}.Encode()
	for _, host := range []string{"attacker.example", "attacker.example:" + port, "127.0.0.1.attacker.example:" + port, "127.0.0.1:1"} {
		for _, path := range []string{"/approve", "/approve/" + id, "/login", "/passkeys", "/hosts", "/v1/approvals"} {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				r, err := http.NewRequest(method, w.url+path, strings.NewReader(form))
				if err != nil {
					t.Fatal(err)
				}
				r.Host = host
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				r.Header.Set("Cookie", v.cookies())
				r.Header.Set("Powerbox-Dev-User", "alice")
				if status, _ := v.read(http.DefaultClient.Do(r)); status != http.StatusMisdirectedRequest {
					t.Errorf("ATK-16 %s %s as %s: HTTP %d; want 421", method, path, host, status)
				}
			}
		}
	}
	if again := w.waiting("alice", "confirmations"); len(again) != 1 {
		t.Error("ATK-16 an answer under another name was taken")
	}
}
