package e2e

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// speakingForAll is an agent that speaks for everything at its origin, in the headers of an
// honest answer.
func speakingForAll(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	for _, line := range []string{
		"powerbox-session=forged; Path=/", "__Host-powerbox-session=forged; Path=/; Secure", "__Secure-Powerbox-Login=forged; Path=/", "=powerbox-session=forged", "theirs=1; Path=/agents/documents",
	} {
		h.Add("Set-Cookie", line)
	}
	for name, v := range map[string]string{
		"Service-Worker-Allowed": "/", "Clear-Site-Data": `"cookies"`, "Nel": `{"report_to":"x","max_age":9}`, "Report-To": `{"group":"x","max_age":9,"endpoints":[{"url":"https://evil.example"}]}`,
		"Strict-Transport-Security": "max-age=0", "Alt-Svc": `h2="evil.example:443"`,
	} {
		h.Set(name, v)
	}
}

// TestATK47_AgentsAndPagesAreApart sends a person's cookies to an agent, which is at
// the origin of the pages, and has it answer for that origin: it gets and sets none
// of ours, keeps its own, and its answer stays as honest agents have it.
func TestATK47_AgentsAndPagesAreApart(t *testing.T) {
	overTools(t, func(t *testing.T, on wire) {
		for _, mode := range []string{"require", "observe"} {
			w := start(t, options{on: on, mode: mode, agent: "    headers: [Cookie]\n"})
			w.documents.sees(speakingForAll)
			alice := w.caller(aliceToken)
			held := alice.reports()
			body := data("search_documents", map[string]any{})
			h := alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch})
			h["Cookie"] = []string{"a=1; powerbox-session=secret; b=2", "__Host-powerbox-login=secret", "__Host-Powerbox-Session=secret; c=3; powerbox-theme"}
			a := w.post(w.agentURL("documents"), body, h)
			allowed(t, a)
			got := w.documents.got()
			if len(got) != 1 {
				t.Fatalf("%d calls arrived", len(got))
			}
			if cookies := strings.ReplaceAll(strings.Join(got[0].header["Cookie"], ";"), " ", ""); cookies != "a=1;b=2;c=3" {
				t.Errorf("ATK-47 %s: the agent got Cookie: %s", mode, cookies)
			}
			if set := a.Header["Set-Cookie"]; !slices.Equal(set, []string{"theirs=1; Path=/agents/documents"}) {
				t.Errorf("ATK-47 %s: the answer sets %q", mode, set)
			}
			for _, name := range []string{"Service-Worker-Allowed", "Clear-Site-Data", "Nel", "Report-To", "Strict-Transport-Security", "Alt-Svc", "Content-Security-Policy", "X-Content-Type-Options"} {
				if v := a.Header.Get(name); v != "" {
					t.Errorf("ATK-47 %s: the answer has %s: %s", mode, name, v)
				}
			}
		}
	})
}

// TestATK47_PagesOfAgents has an agent answer with what a browser would show as a
// page, or could: it is shown without scripts and as its own origin.
func TestATK47_PagesOfAgents(t *testing.T) {
	w := start(t, options{mode: "observe"})
	const script = `<script>fetch("/approve")</script>`
	for _, c := range []struct {
		types []string
		apart bool
	}{
		{[]string{"text/html"}, true},
		{[]string{"image/svg+xml"}, true},
		{[]string{"text/javascript"}, true},
		{nil, true},
		{[]string{""}, true},
		{[]string{"application/json", "text/html"}, true},
		{[]string{"application/json, text/html"}, true},
		{[]string{"application/json; a=b, text/html"}, true},
		{[]string{"application/json"}, false},
		{[]string{"application/json; charset=utf-8"}, false},
		{[]string{"application/a2a+json"}, false},
		{[]string{"text/plain; charset=utf-8"}, false},
		{[]string{"text/plain", "text/html"}, true},
	} {
		w.documents.answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = c.types
			w.Header().Set("Content-Security-Policy", "script-src *")
			_, _ = io.WriteString(w, script)
		})
		for _, path := range []string{"/x", "", "/skills/search_documents/x"} {
			status, h, _, out := w.raw(http.DefaultClient, http.MethodGet, w.agentURL("documents")+path, http.Header{}, "")
			want, sniff := "script-src *", ""
			if c.apart {
				want, sniff = "sandbox; default-src 'none'", "nosniff"
			}
			if status != http.StatusOK || out != script || h.Get("Content-Security-Policy") != want || len(h["Content-Security-Policy"]) != 1 || h.Get("X-Content-Type-Options") != sniff {
				t.Errorf("ATK-47 %q at %q: HTTP %d %v %s; want the policy %q", c.types, path, status, h, out, want)
			}
		}
	}
}

// TestATK47_ALoginLeadsToNoAgent logs in by links that are to lead to an agent, from
// where the person's cookie would come along.
func TestATK47_ALoginLeadsToNoAgent(t *testing.T) {
	w := start(t, options{mode: "observe", policies: asking})
	for _, next := range []string{"/agents/documents/x", "/%61gents/documents/x", "/approve/../agents/documents/x"} {
		_, _, _, page := w.raw(http.DefaultClient, http.MethodGet, w.url+"/login?next="+url.QueryEscape(next), http.Header{"Sec-Fetch-Site": {"cross-site"}}, "")
		if strings.Contains(page, "gents/documents") || !strings.Contains(page, "/approve") {
			t.Errorf("ATK-47 next %s: %s", next, page)
		}
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		form := url.Values{"user": {"alice"}, "next": {next}}.Encode()
		if status, _, _, out := w.raw(&http.Client{Jar: jar}, http.MethodPost, w.url+"/login", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, form); status != http.StatusOK {
			t.Errorf("ATK-47 a login with next %s: HTTP %d %s", next, status, out)
		}
	}
	if got := w.documents.got(); len(got) > 0 {
		t.Errorf("ATK-47 a login led to an agent, which got %v", got)
	}
}
