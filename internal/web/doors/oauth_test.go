package doors_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
)

// withOAuth lets the client inspector, which is the assistant, in by OAuth.
const withOAuth = `
oauth:
  agents: [notes, tools]
  clients: [{id: inspector, redirect_uris: ["http://127.0.0.1/callback"]}]
`

// tokenOf is an access token of the inspector for everything that an agent offers bob, which
// alice has approved.
func (w *town) tokenOf(t testing.TB, agent string) string {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	do := func(method, address string, form url.Values) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		a, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.Body.Close() })
		return a
	}
	do(http.MethodPost, w.url+"/login", url.Values{"user": {"bob"}})
	const verifier, callback = "a-verifier-of-the-client-that-is-long-enough-for-pkce", "http://127.0.0.1:4711/callback"
	challenge := sha256.Sum256([]byte(verifier))
	resource := w.url + "/agents/" + agent
	request := w.url + "/oauth/authorize?" + url.Values{
		"response_type": {"code"}, "client_id": {"inspector"}, "redirect_uri": {callback}, "resource": {resource},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}.Encode()
	page := do(http.MethodGet, request, nil)
	if page.StatusCode != http.StatusSeeOther {
		said, _ := io.ReadAll(page.Body) // for the message
		t.Fatalf("the authorization request: %d %s", page.StatusCode, said)
	}
	w.approve(t, page.Header.Get("Location"))
	back, err := url.Parse(do(http.MethodGet, request, nil).Header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	answer := do(http.MethodPost, w.url+"/oauth/token", url.Values{
		"grant_type": {"authorization_code"}, "client_id": {"inspector"}, "code": {back.Query().Get("code")}, "redirect_uri": {callback}, "code_verifier": {verifier},
	})
	var got struct {
		Token string `json:"access_token"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil || got.Token == "" {
		t.Fatalf("the token endpoint: %d, %v; the code came to %s", answer.StatusCode, err, back)
	}
	return got.Token
}
