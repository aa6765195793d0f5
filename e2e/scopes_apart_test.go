package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/remote/link"
	"github.com/powerbox-project/powerbox/token"
)

// newScopeTownApart is a scope town whose documents agent has remote gateways.
func newScopeTownApart(t *testing.T, replicas int, o options) *scopeTown {
	t.Helper()
	w, _ := startRemote(t, replicas, o)
	s := &scopeTown{town: w}
	s.alice, s.bob = s.caller(aliceToken), s.caller("")
	s.key = &caller{s.town, s.alice.key, ""}
	s.held = s.alice.scoped("documents", "documents:read", map[string]any{"resourceQuery": quarter("2025-Q1")})
	s.until = s.held.Expires
	return s
}

// reasonSoon repeats a call until it is refused for a reason.
func (s *scopeTown) reasonSoon(what, want string, call func() answer) {
	s.t.Helper()
	var last answer
	eventually(s.t, atOnce, func() string { return what + ": " + string(last.Raw) }, func() bool {
		last = call()
		return last.reason() == want
	})
}

// TestEXT14_ANonceNamesOneLinkAtAllGateways presents two links of one nonce to different
// gateways: the first has it at all of them.
func TestEXT14_ANonceNamesOneLinkAtAllGateways(t *testing.T) {
	s := newScopeTownApart(t, 2, options{})
	first, second := s.toBob("n", scopeSearch), s.toBob("n", scopeSearch, scopeRetrieve)
	allowed(t, s.bob.sends("documents", s.search(first)))
	for range 2 { // both gateways
		if a := s.bob.sends("documents", s.search(second)); a.reason() != "nonce_reused" {
			t.Errorf("EXT-14 another link of that nonce: %s", a.Raw)
		}
		allowed(t, s.bob.sends("documents", s.search(first)))
	}
}

// TestEXT15_RevokedLinksAtARemoteGateway revokes a link and then the token.
func TestEXT15_RevokedLinksAtARemoteGateway(t *testing.T) {
	s := newScopeTownApart(t, 1, options{})
	first, other := s.toBob("1", scopeSearch), s.toBob("2", scopeSearch)
	allowed(t, s.bob.sends("documents", s.search(first)))
	s.operator(http.MethodPost, "/v1/revocations", map[string]any{"target": token.LinkRevocationID(s.alice.did(), s.bob.did(), "1")})
	s.reasonSoon("EXT-15 the link", "revoked", func() answer { return s.bob.sends("documents", s.search(first)) })
	allowed(t, s.bob.sends("documents", s.search(other)))
	s.run("revoke", s.held.ID)
	s.reasonSoon("EXT-15 the token", "revoked", func() answer { return s.key.sends("documents", s.search()) })
	if a := s.bob.sends("documents", s.search(other)); a.reason() != "revoked" {
		t.Errorf("EXT-15 a link of the revoked token: %s", a.Raw)
	}
}

// TestEXT5_TheServerIsAway has a remote gateway refuse scope tokens, links and roles that
// it would have to ask about, with a reason that says to try again.
func TestEXT5_TheServerIsAway(t *testing.T) {
	const users = "    - {name: carol, token: carol-session-token, roles: [reader]}\n"
	s := newScopeTownApart(t, 1, options{dev: users, agent: "    authorization: {model: ROLE, roles: {reader: [documents:read/search]}}"})
	unseen := s.alice.scoped("documents", "documents:read", map[string]any{"resourceQuery": quarter("2025-Q1")})
	link := s.toBob("seen", scopeSearch)
	allowed(t, s.bob.sends("documents", s.search(link)))
	allowed(t, s.callAs("carol-session-token", data("search_documents", map[string]any{})))
	killed(t, s.process)
	s.documents.forget()
	for what, call := range map[string]func() answer{
		"a token that it never saw": func() answer {
			return s.key.sends("documents", under(t, data("search_documents", map[string]any{"query": "x"}), unseen.Token))
		},
		"a link that it never saw": func() answer { return s.bob.sends("documents", s.search(s.toBob("unseen", scopeSearch))) },
		"a role":                   func() answer { return s.callAs("carol-session-token", data("search_documents", map[string]any{})) },
	} {
		if a := call(); a.reason() != "authorization_unavailable" {
			t.Errorf("EXT-5 %s while the server is away: %s", what, a.Raw)
		}
	}
	if n := len(s.documents.got()); n != 0 {
		t.Errorf("EXT-5 %d calls reached the agent", n)
	}
}

// TestEXT1_TheCardOfARemoteGateway says what that of the server's own gateway says.
func TestEXT1_TheCardOfARemoteGateway(t *testing.T) {
	s := newScopeTownApart(t, 1, options{agent: "    authorization: {max_delegation_depth: 2}"})
	p := s.params()
	if p["authorization_model"] != "CAPABILITY" || p["max_delegation_depth"] != 2.0 || p["revocation_endpoint"] != s.url+"/v1/status-lists/documents" {
		t.Errorf("EXT-1 %v", p)
	}
	carol, dora := s.caller(""), s.caller("")
	second := s.bob.link(carol.did(), []string{scopeSearch}, s.until, "2")
	allowed(t, carol.sends("documents", s.search(s.toBob("1", scopeSearch), second)))
	third := carol.link(dora.did(), []string{scopeSearch}, s.until.Truncate(time.Second), "3")
	if a := dora.sends("documents", s.search(s.toBob("1", scopeSearch), second, third)); a.reason() != "exceeds_max_depth" {
		t.Errorf("EXT-42 three links where two are the most: %s", a.Raw)
	}
}

// TestATK42_AGatewayAsksAboutScopesThatAreNotItsAgents has a gateway ask what a scope token
// of another agent was issued for, and name links that have no end.
func TestATK42_AGatewayAsksAboutScopesThatAreNotItsAgents(t *testing.T) {
	w, all := startRemote(t, 1, options{})
	alice := w.caller(aliceToken)
	one := w.falselyAs(all[0].state)
	hash := func(c granted) string {
		parsed, err := token.ParseScopeToken([]byte(c.Token))
		if err != nil {
			t.Fatal(err)
		}
		return parsed.Hash()
	}
	var issued link.ScopesIssued
	own, other := alice.scoped("documents", "documents:read", map[string]any{"resourceQuery": quarter("2025-Q1")}), alice.scoped("mail", "mail:send", nil)
	if code := one.tells(link.PathScopes, link.ScopesQuery{Hash: hash(own)}, &issued); code != http.StatusOK || issued.ID != own.ID {
		t.Errorf("ATK-42 its own: %d %+v", code, issued)
	}
	issued = link.ScopesIssued{}
	if code := one.tells(link.PathScopes, link.ScopesQuery{Hash: hash(other)}, &issued); code != http.StatusOK || issued.ID != "" || issued.Scopes != nil {
		t.Errorf("ATK-42 another agent's: %d %+v", code, issued)
	}
	for what, until := range map[string]time.Time{"has ended": time.Now().Add(-time.Minute), "has no end": time.Now().Add(24 * 365 * time.Hour)} {
		if code := one.tells(link.PathLink, link.NonceQuery{ID: "link_x", Link: "x", Until: until.Unix()}, &link.NonceAnswer{}); code != http.StatusBadRequest {
			t.Errorf("ATK-42 a link that %s takes a nonce: HTTP %d", what, code)
		}
	}
	if r := w.post(w.url+link.PathPolicy, []byte("{}"), nil); r.Status != http.StatusUnauthorized {
		t.Errorf("ATK-42 somebody who is no gateway asks what policy allows: %d %s", r.Status, r.Raw)
	}
}
