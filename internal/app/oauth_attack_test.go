package app_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestAttacksOnTheOAuthDoor tries the attacks of RFC 9700 at a whole server, a row each.
func TestAttacksOnTheOAuthDoor(t *testing.T) {
	for name, try := range map[string]func(*door){
		"redirect mismatch":             redirectMismatch,
		"open redirect":                 openRedirect,
		"mix-up":                        mixUp,
		"code injection":                codeInjection,
		"code replay":                   codeReplay,
		"code too old":                  codeTooOld,
		"PKCE downgrade":                pkceDowngrade,
		"another resource":              anotherResource,
		"refresh token reuse":           refreshReuse,
		"refresh token of another":      refreshOfAnother,
		"open registration":             openRegistration,
		"token in a query":              tokenInQuery,
		"forged token":                  forgedToken,
		"another person's approval":     anotherPerson,
		"wider than approved":           widerThanApproved,
		"token as a session":            tokenAsSession,
		"client without its secret":     clientWithoutSecret,
		"introspection by anybody":      introspectionByAnybody,
		"revocation by another client":  revocationByAnother,
		"repeated parameters":           repeatedParameters,
		"CSRF on consent":               csrfOnConsent,
		"clickjacking":                  clickjacking,
		"flood of authorization starts": floodOfStarts,
	} {
		t.Run(name, func(t *testing.T) { try(openDoor(t, "")) })
	}
}

// refusedHere wants an answer that sends the browser nowhere.
func (d *door) refusedHere(what string, got answer) {
	d.t.Helper()
	if got.status != http.StatusBadRequest && got.status != http.StatusUnauthorized || got.at != nil {
		d.t.Errorf("%s: %d, to %v; want a refusal that redirects nowhere", what, got.status, got.at)
	}
}

// refusedThere wants an error that a client is told by the browser.
func (d *door) refusedThere(what, code string, got answer) {
	d.t.Helper()
	if got.at == nil || got.at.Host != "127.0.0.1:4711" || got.at.Query().Get("error") != code || got.at.Query().Get("code") != "" {
		d.t.Errorf("%s: %d, to %v; want error=%s at the client", what, got.status, got.at, code)
	}
}

func (d *door) refused(what, code string, got tokens) {
	d.t.Helper()
	if got.Error != code || got.Access != "" {
		d.t.Errorf("%s: %+v; want error %s", what, got, code)
	}
}

func (d *door) dead(what, token string) {
	d.t.Helper()
	if got := d.call("notes", token, "read_note"); got.status != http.StatusUnauthorized || d.calls.Load() != 0 && strings.Contains(got.body, "did") {
		d.t.Errorf("%s: the token still gives %d %s", what, got.status, got.body)
	}
}

func redirectMismatch(d *door) {
	for _, uri := range []string{
		"", "https://evil.example.org/callback", "https://app.example.org/callback/", "https://app.example.org/callback?next=x", "https://app.example.org/callback#x",
		"https://app.example.org:8443/callback", "http://app.example.org/callback", "https://user@app.example.org/callback", "https://app.example.org/Callback",
		"https://app.example.org/callback/../callback", "https://app.example.org\\@evil.example.org/callback", "http://localhost:4711/callback", "http://127.0.0.1:4711/other",
		"http://127.0.0.1.evil.example.org/callback", "http://127.0.0.1:4711@evil.example.org/callback", "javascript:alert(1)", "data:text/html,x",
	} {
		d.refusedHere(uri, d.get(d.dev, d.request("redirect_uri", uri)))
	}
	for _, uri := range []string{"https://app.example.org/callback", "http://127.0.0.1:1/callback", "http://127.0.0.1/callback"} {
		d.asked(d.dev, d.request("redirect_uri", uri))
	}
}

func openRedirect(d *door) {
	d.refusedHere("an unknown client", d.get(d.dev, d.request("client_id", "unknown")))
	d.refusedHere("no client", d.get(d.dev, d.request("client_id", "")))
	d.refusedThere("another response type", "unsupported_response_type", d.get(d.dev, d.request("response_type", "token")))
	d.refusedThere("the implicit mode", "invalid_request", d.get(d.dev, d.request("response_mode", "fragment")))
	d.refusedThere("an unknown scope", "invalid_scope", d.get(d.dev, d.request("scope", "notes:all")))
	d.refusedThere("a request object", "request_not_supported", d.get(d.dev, d.request("request_uri", "https://evil.example.org/r")))
}

func mixUp(d *door) {
	if q := d.code(d.dev, d.request()); q.Get("iss") != d.url || q.Get("state") != "the state" {
		d.t.Errorf("the answer with a code has %v; want iss and state", q)
	}
	if q := d.get(d.dev, d.request("scope", "unknown")).at.Query(); q.Get("iss") != d.url || q.Get("state") != "the state" {
		d.t.Errorf("the answer with an error has %v; want iss and state", q)
	}
}

func codeInjection(d *door) {
	code := d.code(d.dev, d.request()).Get("code")
	d.refused("another client", "invalid_grant", d.redeem(code, "client_id", "neighbour"))
	d.refused("another verifier", "invalid_grant", d.redeem(code, "code_verifier", strings.Repeat("another", 8)))
	d.refused("another redirect", "invalid_grant", d.redeem(code, "redirect_uri", "https://app.example.org/callback"))
	d.refused("a changed code", "invalid_grant", d.redeem(code[:len(code)-4]+"AAAA"))
	if got := d.redeem(code); got.Access == "" {
		d.t.Errorf("the client itself: %+v", got)
	}
}

func codeReplay(d *door) {
	code := d.code(d.dev, d.request("scope", "notes:read offline_access")).Get("code")
	first := d.redeem(code)
	if !d.may(first.Access, "read_note") {
		d.t.Fatalf("the first exchange: %+v", first)
	}
	d.calls.Store(0)
	d.refused("the second exchange", "invalid_grant", d.redeem(code))
	d.dead("after the second exchange", first.Access)
	d.refused("the refresh token after that", "invalid_grant", d.token("grant_type", "refresh_token", "refresh_token", first.Refresh))
}

func codeTooOld(d *door) {
	code := d.code(d.dev, d.request()).Get("code")
	d.clock.Store(int64(2 * time.Minute))
	d.refused("a code of two minutes ago", "invalid_grant", d.redeem(code))
}

func pkceDowngrade(d *door) {
	d.refusedThere("no challenge", "invalid_request", d.get(d.dev, d.request("code_challenge", "")))
	d.refusedThere("no method", "invalid_request", d.get(d.dev, d.request("code_challenge_method", "")))
	d.refusedThere("plain", "invalid_request", d.get(d.dev, d.request("code_challenge", verifier, "code_challenge_method", "plain")))
	d.refusedThere("a short challenge", "invalid_request", d.get(d.dev, d.request("code_challenge", "abc")))
	code := d.code(d.dev, d.request()).Get("code")
	d.refused("no verifier", "invalid_grant", d.redeem(code, "code_verifier", ""))
	d.refused("the challenge as verifier", "invalid_grant", d.redeem(code, "code_verifier", challengeOf(verifier)))
}

func anotherResource(d *door) {
	d.refusedThere("no resource", "invalid_target", d.get(d.dev, d.request("resource", "")))
	d.refusedThere("a resource elsewhere", "invalid_target", d.get(d.dev, d.request("resource", "https://evil.example.org/mcp")))
	code := d.code(d.dev, d.request()).Get("code")
	d.refused("another resource at the exchange", "invalid_target", d.redeem(code, "resource", d.url+"/agents/other"))
	token := d.redeem(code).Access
	if got := d.call("other", token, "read_note"); got.status != http.StatusUnauthorized || !strings.Contains(got.header.Get("WWW-Authenticate"), "invalid_token") {
		d.t.Errorf("the token at another agent: %d %s", got.status, got.body)
	}
	if !d.may(token, "read_note") {
		d.t.Error("the token does not hold at its own agent")
	}
}

func refreshReuse(d *door) {
	first := d.granted("notes:read offline_access")
	second := d.token("grant_type", "refresh_token", "refresh_token", first.Refresh)
	if second.Access == "" || second.Refresh == "" || second.Refresh == first.Refresh || second.Scope != first.Scope || !d.may(second.Access, "read_note") {
		d.t.Fatalf("the refresh: %+v", second)
	}
	d.calls.Store(0)
	d.refused("the first refresh token again", "invalid_grant", d.token("grant_type", "refresh_token", "refresh_token", first.Refresh))
	d.dead("after the reuse", second.Access)
	d.refused("the second refresh token after that", "invalid_grant", d.token("grant_type", "refresh_token", "refresh_token", second.Refresh))
}

func refreshOfAnother(d *door) {
	got := d.granted("notes:read offline_access")
	d.refused("another client", "invalid_grant", d.token("grant_type", "refresh_token", "refresh_token", got.Refresh, "client_id", "neighbour"))
	d.refused("a wider scope", "invalid_scope", d.token("grant_type", "refresh_token", "refresh_token", got.Refresh, "scope", "notes:read notes:write"))
	d.refused("an access token", "invalid_grant", d.token("grant_type", "refresh_token", "refresh_token", got.Access))
	if again := d.token("grant_type", "refresh_token", "refresh_token", got.Refresh); again.Access == "" {
		d.t.Errorf("the client itself: %+v", again)
	}
}

func openRegistration(d *door) {
	for _, path := range []string{"/oauth/register", "/register"} {
		if got := d.post(http.DefaultClient, path, url.Values{"client_name": {"x"}}); got.status != http.StatusNotFound && got.status != http.StatusMethodNotAllowed {
			d.t.Errorf("%s: %d; want that there is no registration", path, got.status)
		}
	}
	if got := d.get(http.DefaultClient, d.url+"/.well-known/oauth-authorization-server"); strings.Contains(got.body, "registration") {
		d.t.Errorf("the metadata names a registration: %s", got.body)
	}
	if got := d.register(`{"redirect_uris":["http://127.0.0.1/cb"]}`); got.status != http.StatusNotFound {
		d.t.Errorf("a registration: %d %s; want 404", got.status, got.body)
	}
	d.refusedHere("a client with the id of a registration", d.get(d.dev, d.request("client_id", selfClient)))
	if got := d.token("client_id", selfClient, "grant_type", "refresh_token", "refresh_token", "pbr_x"); got.Error != "invalid_client" {
		d.t.Errorf("a token for the id of a registration: %+v; want invalid_client", got)
	}
	d.refusedHere("a client with a document", d.get(d.dev, d.request("client_id", "https://app.example.org/client.json")))
}

func tokenInQuery(d *door) {
	got := d.granted("notes:read")
	r, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, d.url+"/agents/notes?access_token="+got.Access, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if got := d.do(http.DefaultClient, r); got.status != http.StatusUnauthorized {
		d.t.Errorf("a token in the query: %d %s", got.status, got.body)
	}
	code := d.code(d.dev, d.request("state", "another")).Get("code")
	form := url.Values{"client_id": {"inspector"}, "grant_type": {"authorization_code"}, "redirect_uri": {"http://127.0.0.1:4711/callback"}, "code_verifier": {verifier}}
	if got := d.post(http.DefaultClient, "/oauth/token?code="+code, form); got.status != http.StatusBadRequest || !strings.Contains(got.body, "invalid_request") {
		d.t.Errorf("a code in the query: %d %s", got.status, got.body)
	}
}

func forgedToken(d *door) {
	token := d.granted("notes:read").Access
	parts := strings.Split(token, ".")
	for what, text := range map[string]string{
		"without a signature":            parts[0] + "." + parts[1] + ".",
		"with another's signature":       parts[0] + "." + parts[1] + "." + strings.Repeat("A", len(parts[2])),
		"of the algorithm none":          "eyJhbGciOiJub25lIiwidHlwIjoiYXQrand0In0." + parts[1] + ".",
		"a refresh token in its place":   "pbr_AAAA",
		"a capability's id in its place": "cap_0000000000000000000000000",
	} {
		d.dead(what, text)
	}
	d.clock.Store(int64(2 * time.Hour))
	d.dead("after its end", token)
}

func anotherPerson(d *door) {
	page := d.asked(d.dev, d.request())
	eve := d.browser("eve")
	if got := d.get(eve, page); got.status != http.StatusNotFound {
		d.t.Errorf("eve sees the question to dev: %d", got.status)
	}
	d.approve(d.dev, page)
	// The same URL in another person's browser is another request.
	if got := d.get(eve, d.request()); got.at == nil || !strings.HasPrefix(got.at.Path, "/approve/ask_") || got.at.String() == page {
		d.t.Errorf("eve opens the request that dev approved: %d %v", got.status, got.at)
	}
	if got := d.get(d.browser(""), d.request()); got.at == nil || got.at.Path != "/login" {
		d.t.Errorf("without a login: %d %v; want the login", got.status, got.at)
	}
}

func widerThanApproved(d *door) {
	code := d.code(d.dev, d.request("scope", "notes:read notes:write"), "delete", "search").Get("code")
	got := d.redeem(code, "scope", "notes:read notes:write")
	if got.Scope != "notes:read/read" || !d.may(got.Access, "read_note") || d.may(got.Access, "search_notes") || d.may(got.Access, "delete_note") {
		d.t.Errorf("the token of an approval that was narrowed: %+v", got)
	}
}

func tokenAsSession(d *door) {
	token := d.granted("notes:read").Access
	for what, header := range map[string][2]string{
		"a request for capabilities": {`{"jsonrpc":"2.0","id":1,"method":"a2a/capabilities/request","params":{"grants":["notes:read"],"purpose":"p"}}`, ""},
		"another capability beside":  {`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "cap_01m8c3q233hd6j1zz462qfe6ba"},
	} {
		r, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, d.url+"/agents/notes", strings.NewReader(header[0]))
		if err != nil {
			d.t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Authorization", "Bearer "+token)
		if header[1] != "" {
			r.Header.Set("Powerbox-Capability", header[1])
		}
		if got := d.do(http.DefaultClient, r); !strings.Contains(got.body, "token_is_capability") {
			d.t.Errorf("%s: %d %s", what, got.status, got.body)
		}
	}
	r, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, d.url+"/v1/approvals", nil)
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if got := d.do(http.DefaultClient, r); got.status != http.StatusUnauthorized {
		d.t.Errorf("the token as a person's session: %d %s", got.status, got.body)
	}
}

func clientWithoutSecret(d *door) {
	for _, secret := range []string{"", "another-secret"} {
		d.refused("the secret "+secret, "invalid_client", d.token("client_id", "backend", "client_secret", secret, "grant_type", "authorization_code", "code", "x"))
	}
	d.refused("with its secret", "invalid_grant", d.token("client_id", "backend", "client_secret", "a-secret-of-the-backend", "grant_type", "authorization_code", "code", "x"))
	d.refused("a public client with a secret", "invalid_client", d.token("client_secret", "x", "grant_type", "authorization_code", "code", "x"))
}

func introspectionByAnybody(d *door) {
	token := d.granted("notes:read").Access
	public := d.post(http.DefaultClient, "/oauth/introspect", url.Values{"client_id": {"inspector"}, "token": {token}})
	if public.status != http.StatusBadRequest || !strings.Contains(public.body, "unauthorized_client") {
		d.t.Errorf("a public client: %d %s", public.status, public.body)
	}
	ask := url.Values{"client_id": {"backend"}, "client_secret": {"a-secret-of-the-backend"}, "token": {token}}
	if got := d.post(http.DefaultClient, "/oauth/introspect", ask); !strings.Contains(got.body, `"active":true`) || !strings.Contains(got.body, `"scope":"notes:read"`) {
		d.t.Errorf("a client that may: %d %s", got.status, got.body)
	}
	d.revokeAll(d.dev)
	if got := d.post(http.DefaultClient, "/oauth/introspect", ask); strings.TrimSpace(got.body) != `{"active":false}` {
		d.t.Errorf("after the revocation: %d %s", got.status, got.body)
	}
}

func revocationByAnother(d *door) {
	token := d.granted("notes:read").Access
	if got := d.post(http.DefaultClient, "/oauth/revoke", url.Values{"client_id": {"neighbour"}, "token": {token}}); got.status != http.StatusOK || !d.may(token, "read_note") {
		d.t.Errorf("another client revoked the token: %d %s", got.status, got.body)
	}
}

func repeatedParameters(d *door) {
	d.refusedHere("two redirects", d.get(d.dev, d.request()+"&redirect_uri="+url.QueryEscape("https://evil.example.org/")))
	d.refusedHere("two scopes", d.get(d.dev, d.request()+"&scope=notes:write"))
	if got := d.post(http.DefaultClient, "/oauth/token", url.Values{"client_id": {"inspector", "neighbour"}, "grant_type": {"authorization_code"}}); !strings.Contains(got.body, "invalid_request") {
		d.t.Errorf("two clients: %d %s", got.status, got.body)
	}
}

func csrfOnConsent(d *door) {
	page := d.asked(d.dev, d.request())
	shown := d.get(d.dev, page)
	at, err := url.Parse(page)
	if err != nil {
		d.t.Fatal(err)
	}
	form := url.Values{"seen": {seenField.FindStringSubmatch(shown.body)[1]}, "answer": {"approve"}, "op.0": {"read", "search"}}
	r, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, d.url+at.Path, strings.NewReader(form.Encode()))
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	r.Header.Set("Origin", "https://evil.example.org")
	if got := d.do(d.dev, r); got.status < http.StatusBadRequest {
		d.t.Errorf("an approval from another site: %d %s", got.status, got.body)
	}
	// To open the request approves nothing.
	if got := d.get(d.dev, d.request()); got.at == nil || got.at.String() != page {
		d.t.Errorf("the request again: %d %v; want the same page", got.status, got.at)
	}
}

func clickjacking(d *door) {
	for what, got := range map[string]answer{"the page": d.get(d.dev, d.asked(d.dev, d.request())), "the endpoint": d.get(d.dev, d.request("client_id", "x"))} {
		if h := got.header; h.Get("X-Frame-Options") != "DENY" || !strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") || h.Get("Cache-Control") != "no-store" {
			d.t.Errorf("%s can be framed or kept: %v", what, h)
		}
	}
	if !strings.Contains(d.get(d.dev, d.asked(d.dev, d.request())).body, "http://127.0.0.1:4711") {
		d.t.Error("the page does not say to where the browser returns")
	}
}

func floodOfStarts(d *door) {
	limited := 0
	for range 130 {
		if got := d.get(d.dev, d.request("client_id", "unknown")); got.status == http.StatusTooManyRequests && got.header.Get("Retry-After") != "" {
			limited++
		}
	}
	if limited == 0 {
		d.t.Error("130 authorization requests in a moment were all read; want 429")
	}
}

// TestClientMetadataIsFetchedFromPublicAddressesOnly has the server asked to fetch documents that are
// not public (SSRF), where the operator admits documents of every host.
func TestClientMetadataIsFetchedFromPublicAddressesOnly(t *testing.T) {
	var connected atomic.Bool
	inside := httptest.NewUnstartedServer(http.NotFoundHandler())
	inside.Config.ConnState = func(_ net.Conn, s http.ConnState) { connected.Store(connected.Load() || s == http.StateNew) }
	inside.StartTLS() // its certificate is refused, but a connection tells already that it is there
	defer inside.Close()
	d := openDoor(t, "  client_metadata_hosts: ['*']\n")
	for _, id := range []string{inside.URL + "/client.json", "https://169.254.169.254/latest", "https://10.0.0.1/client.json", "https://[::1]/client.json"} {
		got := d.get(d.dev, d.request("client_id", id))
		if d.refusedHere(id, got); !strings.Contains(got.body, "could not be fetched") {
			t.Errorf("%s: %s; want that the address is refused", id, got.body)
		}
	}
	if connected.Load() {
		t.Error("the server connected to an address of this machine")
	}
	if got := d.get(http.DefaultClient, d.url+"/.well-known/oauth-authorization-server"); !strings.Contains(got.body, `"client_id_metadata_document_supported":true`) {
		t.Errorf("the metadata: %s", got.body)
	}
}

// TestATK116_TokenExchangeDoesNotProlongAccess: a public client has no secret, so a thief of its
// access token can exchange that. Each new token would be another hour for the thief.
func TestATK116_TokenExchangeDoesNotProlongAccess(t *testing.T) {
	d := openDoor(t, "  access_token: 20m\n")
	first := d.granted("notes:read")
	d.clock.Add(int64(time.Duration(first.Expires)*time.Second - time.Minute))
	exchange := func(subject string, change ...string) tokens {
		return d.token(append([]string{
			"grant_type", "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token", subject, "subject_token_type", "urn:ietf:params:oauth:token-type:access_token",
		}, change...)...)
	}
	own := exchange(first.Access)
	passed := exchange(first.Access, "client_id", "backend", "client_secret", "a-secret-of-the-backend")
	for whose, got := range map[string]tokens{"the client's own": own, "the next client's": passed} {
		if got.Expires != 60 || !d.may(got.Access, "read_note") {
			t.Errorf("%s token ends in %d s; want 60, as the one that was exchanged: %+v", whose, got.Expires, got)
		}
	}
	d.clock.Add(int64(time.Minute))
	d.refused("after the end of the first token", "invalid_grant", exchange(own.Access))
}

// TestTokenExchangeNarrows narrows a token for its own client, and for another one, whose
// token says who acts for whom. Nothing gets wider, and the first revocation ends all.
func TestTokenExchangeNarrows(t *testing.T) {
	d := openDoor(t, "")
	first := d.granted("notes:read")
	exchange := func(subject string, change ...string) tokens {
		return d.token(append([]string{
			"grant_type", "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token", subject, "subject_token_type", "urn:ietf:params:oauth:token-type:access_token", "scope", "notes:read/read",
		}, change...)...)
	}
	own := exchange(first.Access)
	if own.Scope != "notes:read/read" || own.Kind == "" || own.Refresh != "" || !d.may(own.Access, "read_note") || d.may(own.Access, "search_notes") {
		t.Errorf("the client's own narrower token: %+v", own)
	}
	backend := []string{"client_id", "backend", "client_secret", "a-secret-of-the-backend"}
	passed := exchange(first.Access, backend...)
	if passed.Access == "" || !d.may(passed.Access, "read_note") || d.may(passed.Access, "search_notes") {
		t.Errorf("the token of the next client: %+v", passed)
	}
	told := d.post(http.DefaultClient, "/oauth/introspect", url.Values{"client_id": {"backend"}, "client_secret": {"a-secret-of-the-backend"}, "token": {passed.Access}})
	if want := `"act":{"sub":"client:` + d.url + `#backend","act":{"sub":"client:` + d.url + `#inspector"}}`; !strings.Contains(told.body, want) {
		t.Errorf("who acts for whom: %s; want %s", told.body, want)
	}
	d.refused("wider again", "invalid_scope", exchange(own.Access, "scope", "notes:read/search"))
	d.refused("another grant", "invalid_scope", exchange(first.Access, "scope", "notes:write"))
	d.refused("passed on once more than allowed", "invalid_scope", exchange(passed.Access, "client_id", "third", "client_secret", "a-secret-of-the-third"))
	d.refused("by a client that may not", "unauthorized_client", exchange(first.Access, "client_id", "neighbour"))
	d.refused("for another resource", "invalid_target", exchange(first.Access, "resource", d.url+"/agents/other"))
	d.refused("of no token", "invalid_grant", exchange("x"))
	d.revokeAll(d.dev)
	d.calls.Store(0)
	d.dead("the client's own after the revocation", own.Access)
	d.dead("the next client's after the revocation", passed.Access)
	d.refused("after the revocation", "invalid_grant", exchange(first.Access))
}

// TestAuthorizationDetailsAskForATask asks for a capability for a task (RFC 9396).
func TestAuthorizationDetailsAskForATask(t *testing.T) {
	d := openDoor(t, "")
	end := noon.Add(10 * time.Minute).Format(time.RFC3339)
	ask := func(details string) string { return d.request("scope", "", "authorization_details", details) }
	request := ask(`[{"type":"urn:powerbox:task-capability","grant":"notes:read","operations":["search"],"purpose":"Prepare the budget meeting","expires":"` + end + `"}]`)
	if page := d.get(d.dev, d.asked(d.dev, request)); !strings.Contains(page.body, "Prepare the budget meeting") {
		t.Error("the page does not show the purpose of the task")
	}
	got := d.redeem(d.code(d.dev, request).Get("code"))
	if len(got.Details) != 1 || got.Details[0].Grant != "notes:read" || got.Details[0].Expires != end || got.Details[0].Capability == "" || got.Scope != "notes:read/search" || got.Expires > 600 {
		t.Errorf("the answer: %+v", got)
	}
	if !d.may(got.Access, "search_notes") || d.may(got.Access, "read_note") {
		t.Error("the token does not permit exactly what the details ask for")
	}
	for what, details := range map[string]string{
		"another type":          `[{"type":"payment_initiation","grant":"notes:read"}]`,
		"an unknown grant":      `[{"type":"urn:powerbox:task-capability","grant":"notes:all"}]`,
		"an unknown operation":  `[{"type":"urn:powerbox:task-capability","grant":"notes:read","operations":["delete"]}]`,
		"an unknown limit":      `[{"type":"urn:powerbox:task-capability","grant":"notes:read","limits":{"title":"budget"}}]`,
		"an end in the past":    `[{"type":"urn:powerbox:task-capability","grant":"notes:read","expires":"2020-01-01T00:00:00Z"}]`,
		"an end in the year 1":  `[{"type":"urn:powerbox:task-capability","grant":"notes:read","expires":"0001-01-01T00:00:00Z"}]`,
		"a name in other case":  `[{"type":"urn:powerbox:task-capability","grant":"notes:read","operations":["search"],"Operations":["read"]}]`,
		"an end that is none":   `[{"type":"urn:powerbox:task-capability","grant":"notes:read","expires":"soon"}]`,
		"two values of one key": `[{"type":"urn:powerbox:task-capability","grant":"notes:read","grant":"notes:write"}]`,
		"no list":               `{}`,
	} {
		d.refusedThere(what, "invalid_authorization_details", d.get(d.dev, ask(details)))
	}
}
