package e2e

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/token"
)

const (
	memberScopeToken = "urn:a2a:ext:authorization:v1/capability_token"
	memberLinks      = "urn:a2a:ext:authorization:v1/delegation_chain"
)

// scoped asks for a grant as a scope token.
func (c *caller) scoped(agent, grant string, more map[string]any) granted {
	c.w.t.Helper()
	params := map[string]any{"grants": []string{grant}, "purpose": "Summarize quarterly reports", "format": "scope_token"}
	for name, v := range more {
		params[name] = v
	}
	return c.request(agent, params)[0]
}

// did is what a caller is called in scope tokens.
func (c *caller) did() string { return c.key.Public().Party().DID() }

// link passes scopes on to another caller, offline, as they come: nothing here
// looks at whether they are held.
func (c *caller) link(to string, scopes []string, until time.Time, nonce string) json.RawMessage {
	c.w.t.Helper()
	link, err := token.SignLink(c.key, token.LinkClaims{
		Delegator: c.did(), Delegate: to, Scopes: scopes, IssuedAt: time.Now().Truncate(time.Second), ExpiresAt: until, Nonce: nonce,
	})
	if err != nil {
		c.w.t.Fatal(err)
	}
	return link
}

// under puts scope token and links into the metadata of a SendMessage body.
func under(t *testing.T, body []byte, scopeToken string, links ...json.RawMessage) []byte {
	t.Helper()
	var call map[string]any
	if err := json.Unmarshal(body, &call); err != nil {
		t.Fatal(err)
	}
	metadata := map[string]any{}
	if scopeToken != "" {
		metadata[memberScopeToken] = json.RawMessage(scopeToken)
	}
	if links != nil {
		metadata[memberLinks] = links
	}
	call["params"].(map[string]any)["metadata"] = metadata
	out, err := json.Marshal(call)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// sends makes a call as this caller, by its proof alone or with its session.
func (c *caller) sends(agent string, body []byte) answer {
	c.w.t.Helper()
	url := c.w.agentURL(agent)
	return c.w.post(url, body, c.headers(url))
}

// inHeader makes a call with a scope token, and links, in the Authorization
// header.
func (c *caller) inHeader(agent string, body []byte, scopeToken string, links ...json.RawMessage) answer {
	c.w.t.Helper()
	url := c.w.agentURL(agent)
	h := c.headers(url)
	credentials := base64.RawURLEncoding.EncodeToString([]byte(scopeToken))
	if links != nil {
		all, err := json.Marshal(links)
		if err != nil {
			c.w.t.Fatal(err)
		}
		credentials += "." + base64.RawURLEncoding.EncodeToString(all)
	}
	h["Authorization"] = []string{"A2A-Capability " + credentials}
	return c.w.post(url, body, h)
}

// scopeTown is a town with an agent's token for the reports of a quarter, and
// another agent that has a key and no session.
type scopeTown struct {
	*town
	alice, key, bob *caller // alice with her session, the same key without it, and the other agent
	held            granted
	until           time.Time
}

func newScopeTown(t *testing.T, o options) *scopeTown {
	t.Helper()
	s := &scopeTown{town: start(t, o)}
	s.alice, s.bob = s.caller(aliceToken), s.caller("")
	s.key = &caller{s.town, s.alice.key, ""}
	s.held = s.alice.scoped("documents", "documents:read", map[string]any{"resourceQuery": quarter("2025-Q1")})
	s.until = s.held.Expires
	return s
}

func (s *scopeTown) search(links ...json.RawMessage) []byte {
	return under(s.t, data("search_documents", map[string]any{"query": "x"}), s.held.Token, links...)
}

func (s *scopeTown) retrieve(handle string, links ...json.RawMessage) []byte {
	return under(s.t, data("retrieve_document", map[string]any{"resourceHandle": handle}), s.held.Token, links...)
}

// toBob passes scopes on to the other agent.
func (s *scopeTown) toBob(nonce string, scopes ...string) json.RawMessage {
	return s.alice.link(s.bob.did(), scopes, s.until, nonce)
}

func TestEXT5_ScopeTokenInMetadataAndHeader(t *testing.T) {
	everywhereAndApart(t, func(t *testing.T, on wire) {
		s := newScopeTown(t, options{on: on})
		var said struct {
			Issuer, Subject, Algorithm, Signature string
			Scopes                                []string
			Issued                                time.Time `json:"issued_at"`
			Expires                               time.Time `json:"expires_at"`
		}
		if err := json.Unmarshal([]byte(s.held.Token), &said); err != nil {
			t.Fatal(err)
		}
		if said.Issuer != s.agentURL("documents") || said.Subject != s.alice.did() || said.Algorithm != "Ed25519" || said.Signature == "" ||
			!slices.Equal(said.Scopes, []string{scopeRetrieve, scopeSearch}) || said.Issued.IsZero() || !said.Expires.Equal(s.held.Expires) {
			t.Errorf("the token says %+v", said)
		}
		bare := data("search_documents", map[string]any{"query": "x"})
		link := s.toBob("1", scopeSearch)
		allowed(t, s.alice.sends("documents", s.search()))
		allowed(t, s.key.sends("documents", s.search()))
		allowed(t, s.key.inHeader("documents", bare, s.held.Token))
		allowed(t, s.bob.sends("documents", s.search(link)))
		allowed(t, s.bob.inHeader("documents", bare, s.held.Token, link))
		allowed(t, s.bob.inHeader("documents", under(t, bare, "", link), s.held.Token))
		got := s.documents.got()
		if len(got) != 6 {
			t.Fatalf("%d calls reached the agent; want 6", len(got))
		}
		for n, r := range got {
			if v := r.header.Get("Authorization"); v != "" {
				t.Errorf("call %d: the agent behind got Authorization %q", n, v)
			}
		}
		context := s.sent()
		if context.Holder != "key:"+s.bob.key.Public().Thumbprint() || context.Basis != "capability" || len(context.Authority.Names()) != 4 {
			t.Errorf("the agent behind is told %+v", context)
		}
	})
}

// TestEXT7_RequesterAndExecutor presents a token by everybody but its subject,
// and for everything but its scopes. Each is refused with 403 or its equal, and
// the record tells requester and executor apart.
func TestEXT7_RequesterAndExecutor(t *testing.T) {
	everywhereAndApart(t, func(t *testing.T, on wire) {
		s := newScopeTown(t, options{on: on})
		bob := s.caller(bobToken)
		nobody := func(body []byte) answer { return s.post(s.agentURL("documents"), body, nil) }
		s.repel(
			t,
			attack{"ATK-1 another agent", "subject_not_caller", func() answer { return s.bob.sends("documents", s.search()) }},
			attack{"another agent with a session", "subject_not_caller", func() answer { return bob.sends("documents", s.search()) }},
			attack{"another agent, in the header", "subject_not_caller", func() answer {
				return s.bob.inHeader("documents", data("search_documents", map[string]any{}), s.held.Token)
			}},
			attack{"EXT-38 nobody that is authenticated", "subject_not_caller", func() answer { return nobody(s.search()) }},
			attack{"another operation", "operation_not_granted", func() answer {
				return s.alice.sends("documents", under(t, data("delete_document", map[string]any{"resourceHandle": "x"}), s.held.Token))
			}},
			attack{"another resource", "handle_not_granted", func() answer { return s.alice.sends("documents", s.retrieve("rh_other")) }},
			attack{"another agent's token", "capability_unknown", func() answer {
				return s.alice.sends("mail", under(t, data("send_mail", letter), s.held.Token))
			}},
			attack{"ATK-6 the token by a key of its subject", "capability_unknown", func() answer {
				forged, err := token.SignScopeToken(s.alice.key, token.ScopeClaims{
					Issuer: s.alice.did(), Subject: s.alice.did(), Scopes: []string{"documents"}, IssuedAt: time.Now(), ExpiresAt: s.until,
				})
				if err != nil {
					t.Fatal(err)
				}
				return s.alice.sends("documents", under(t, data("search_documents", map[string]any{}), string(forged)))
			}},
			attack{"changed", "capability_unknown", func() answer {
				wider := strings.Replace(s.held.Token, scopeSearch, "documents", 1)
				return s.alice.sends("documents", under(t, data("search_documents", map[string]any{}), wider))
			}},
			attack{"signature changed", "invalid_signature", func() answer {
				return s.alice.sends("documents", under(t, data("search_documents", map[string]any{}), spoilt(s.held.Token, "signature")))
			}},
			attack{"ATK-27 two subjects", "malformed", func() answer {
				two := strings.Replace(s.held.Token, `"subject":`, `"subject":"x","subject":`, 1)
				return s.key.inHeader("documents", data("search_documents", map[string]any{}), two)
			}},
			attack{"not base64url", "malformed", func() answer {
				h := s.key.headers(s.agentURL("documents"))
				h.Set("Authorization", "A2A-Capability ***")
				return s.post(s.agentURL("documents"), data("search_documents", map[string]any{}), h)
			}},
			attack{"links of no token", "malformed", func() answer {
				return s.bob.sends("documents", under(t, data("search_documents", map[string]any{}), "", s.toBob("x", scopeSearch)))
			}},
		)
		a := s.bob.sends("documents", s.search(s.toBob("1", scopeSearch)))
		allowed(t, a)
		if d := s.decided(a); d.AgentID != "documents" || d.Powerbox.Requester != "key:"+s.bob.key.Public().Thumbprint() || d.Powerbox.Gate.Target != "documents" {
			t.Errorf("requester and executor are %s and %s", d.Powerbox.Requester, d.AgentID)
		}
		denied := s.bob.sends("documents", s.search())
		if denied.Error.Code != -31403 || on.binding == overREST && !strings.Contains(string(denied.Raw), `"code":403`) {
			t.Errorf("the refusal is not one of authorization: %s", denied.Raw)
		}
	})
}

// spoilt changes one letter of a member's text.
func spoilt(statement, member string) string {
	at := strings.Index(statement, `"`+member+`":"`) + len(member) + 8
	other := "A"
	if statement[at] == 'A' {
		other = "B"
	}
	return statement[:at] + other + statement[at+1:]
}

// TestEXT9_ChainsThroughTheGateway breaks a chain in every way of EXT-9 and
// EXT-10. One fault in one link refuses all of it (EXT-12).
func TestEXT9_ChainsThroughTheGateway(t *testing.T) {
	everywhereAndApart(t, func(t *testing.T, on wire) {
		s := newScopeTown(t, options{on: on})
		carol := s.caller("")
		on2 := func(nonce string, scopes ...string) json.RawMessage {
			return s.bob.link(carol.did(), scopes, s.until, nonce)
		}
		try := func(c *caller, links ...json.RawMessage) func() answer {
			return func() answer { return c.sends("documents", s.search(links...)) }
		}
		signed := func(c token.LinkClaims) json.RawMessage {
			link, err := token.SignLink(s.alice.key, c)
			if err != nil {
				t.Fatal(err)
			}
			return link
		}
		now := time.Now().Truncate(time.Second)
		whole := token.LinkClaims{Delegator: s.alice.did(), Delegate: s.bob.did(), Scopes: []string{scopeSearch}, IssuedAt: now, ExpiresAt: s.until, Nonce: "w"}
		with := func(change func(c *token.LinkClaims)) json.RawMessage {
			c := whole
			change(&c)
			return signed(c)
		}
		var deep []json.RawMessage
		for n := range 4 {
			deep = append(deep, s.alice.link(s.alice.did(), []string{scopeSearch}, s.until, "deep"+strconv.Itoa(n)))
		}
		s.repel(
			t,
			attack{"exceeds_max_depth", "exceeds_max_depth", try(s.key, deep...)},
			attack{"invalid_signature", "invalid_signature", try(s.bob, json.RawMessage(spoilt(string(signed(whole)), "delegation_proof")))},
			attack{"ATK-7 unknown_key", "unknown_key", try(s.bob, with(func(c *token.LinkClaims) { c.Delegator = "reader" }))},
			attack{"scope_escalation", "scope_escalation", try(s.bob, s.toBob("e1", "documents"))},
			attack{"EXT-12 scope_escalation further on", "scope_escalation", try(carol, s.toBob("e2", scopeSearch), on2("e3", scopeRetrieve))},
			attack{"expired", "expired", try(s.bob, with(func(c *token.LinkClaims) { c.IssuedAt, c.ExpiresAt = now.Add(-time.Minute), now.Add(-time.Second) }))},
			attack{"temporal_exceeds_parent", "temporal_exceeds_parent", try(s.bob, with(func(c *token.LinkClaims) { c.ExpiresAt = s.until.Add(time.Second) }))},
			attack{"ATK-6 chain_discontinuity", "chain_discontinuity", try(carol, on2("d", scopeSearch))},
			attack{"ATK-6 reordered", "chain_discontinuity", try(s.bob, on2("d", scopeSearch), s.toBob("d2", scopeSearch))},
			attack{"EXT-10 not_yet_valid", "not_yet_valid", try(s.bob, with(func(c *token.LinkClaims) { c.IssuedAt = now.Add(time.Minute) }))},
			attack{"missing_nonce", "missing_nonce", try(s.bob, json.RawMessage(strings.Replace(string(signed(whole)), `"nonce":"w",`, "", 1)))},
			attack{"nonce_reused", "nonce_reused", try(s.key, s.alice.link(s.alice.did(), []string{scopeSearch}, s.until, "r"), s.alice.link(s.alice.did(), []string{scopeSearch}, s.until, "r"))},
			attack{"not the delegate", "delegate_not_caller", try(carol, s.toBob("c", scopeSearch))},
			attack{"the delegator itself", "delegate_not_caller", try(s.key, s.toBob("c", scopeSearch))},
			attack{"empty_chain", "empty_chain", func() answer { return s.key.sends("documents", s.search([]json.RawMessage{}...)) }},
			attack{"ATK-5 no scopes", "malformed", try(s.bob, json.RawMessage(strings.Replace(string(signed(whole)), `["`+scopeSearch+`"]`, "[]", 1)))},
			attack{"outside the link", "operation_not_granted", func() answer {
				return s.bob.sends("documents", s.retrieve(s.held.ResourceHandles[0].Handle, s.toBob("o", scopeSearch)))
			}},
		)
		allowed(t, carol.sends("documents", s.search(s.toBob("1", scopeSearch, scopeRetrieve), on2("1", scopeSearch))))
		allowed(t, s.bob.sends("documents", s.retrieve(s.held.ResourceHandles[0].Handle, s.toBob("2", scopeRetrieve))))
	})
}

// TestEXT14_ANonceNamesOneLink presents two links of one nonce. The first that is
// allowed has it, for its life and over a start of the server; a refusal takes
// none.
func TestEXT14_ANonceNamesOneLink(t *testing.T) {
	s := newScopeTown(t, options{})
	first, second := s.toBob("n", scopeSearch), s.toBob("n", scopeSearch, scopeRetrieve)
	if a := s.bob.sends("documents", under(t, data("delete_document", map[string]any{}), s.held.Token, second)); a.reason() == "" {
		t.Errorf("what the link does not have was allowed: %s", a.Raw)
	}
	carol := s.caller("")
	if a := carol.sends("documents", s.search(second)); a.reason() != "delegate_not_caller" {
		t.Errorf("another caller: %s", a.Raw)
	}
	allowed(t, s.bob.sends("documents", s.search(first)))
	allowed(t, s.bob.sends("documents", s.search(first)))
	if a := s.bob.sends("documents", s.search(second)); a.reason() != "nonce_reused" {
		t.Errorf("another link of that nonce: %s", a.Raw)
	}
	s.again(func() {})
	s.settle(s.alice)
	if a := s.bob.sends("documents", s.search(second)); a.reason() != "nonce_reused" {
		t.Errorf("after a start: %s", a.Raw)
	}
	allowed(t, s.bob.sends("documents", s.search(first)))
}

// TestEXT15_RevokedLinksAndTokens revokes a link in the middle by delegator,
// delegate and nonce, then the token: what comes after is dead each time.
func TestEXT15_RevokedLinksAndTokens(t *testing.T) {
	s := newScopeTown(t, options{})
	carol := s.caller("")
	first := s.toBob("1", scopeSearch)
	second := s.bob.link(carol.did(), []string{scopeSearch}, s.until, "2")
	allowed(t, carol.sends("documents", s.search(first, second)))
	s.operator(http.MethodPost, "/v1/revocations", map[string]any{"target": token.LinkRevocationID(s.alice.did(), s.bob.did(), "1")})
	for name, a := range map[string]answer{"the link": s.bob.sends("documents", s.search(first)), "the next": carol.sends("documents", s.search(first, second))} {
		if a.reason() != "revoked" {
			t.Errorf("%s: %s", name, a.Raw)
		}
	}
	third := s.toBob("3", scopeSearch)
	allowed(t, s.bob.sends("documents", s.search(third)))
	if a := s.alice.call("documents", "a2a/capabilities/revoke", map[string]any{"revocationId": s.held.RevocationID}); a.Error != nil {
		t.Fatalf("%s", a.Raw)
	}
	for name, a := range map[string]answer{"the token": s.alice.sends("documents", s.search()), "its link": s.bob.sends("documents", s.search(third))} {
		if a.reason() != "revoked" {
			t.Errorf("%s: %s", name, a.Raw)
		}
	}
}

// TestEXT15_BulkOfLinks ends everything that a delegator passed on by links, and
// everything of a later holder, with one event each. What the delegator holds
// itself stays.
func TestEXT15_BulkOfLinks(t *testing.T) {
	everywhere(t, func(t *testing.T, on wire) {
		s := newScopeTown(t, options{on: on})
		carol := s.caller("")
		first, other := s.toBob("1", scopeSearch), s.alice.link(carol.did(), []string{scopeSearch}, s.until, "o")
		second := s.bob.link(carol.did(), []string{scopeSearch}, s.until, "2")
		allowed(t, s.bob.sends("documents", s.search(first)))
		allowed(t, carol.sends("documents", s.search(first, second)))
		allowed(t, carol.sends("documents", s.search(other)))
		ended := func(what string, a answer) {
			t.Helper()
			if a.reason() != "revoked" {
				t.Errorf("EXT-15 %s: %s", what, a.Raw)
			}
		}
		s.run("revoke", "--delegated-by", "key:"+s.bob.key.Public().Thumbprint())
		ended("what bob passed on", carol.sends("documents", s.search(first, second)))
		allowed(t, s.bob.sends("documents", s.search(first)))
		allowed(t, carol.sends("documents", s.search(other)))
		s.run("revoke", "--delegated-by", "key:"+s.alice.key.Public().Thumbprint())
		ended("what alice passed on", s.bob.sends("documents", s.search(first)))
		ended("also to another", carol.sends("documents", s.search(other)))
		allowed(t, s.key.sends("documents", s.search()))
		s.run("revoke", "--held-by", "key:"+s.alice.key.Public().Thumbprint())
		ended("all of alice", s.key.sends("documents", s.search()))
	})
}

// TestEXT39_LongestLife shortens the longest accepted life: capabilities
// issued before with a longer life are refused.
func TestEXT39_LongestLife(t *testing.T) {
	s := newScopeTown(t, options{issuer: "  maximum_lifetime: 20m"})
	allowed(t, s.alice.sends("documents", s.search()))
	s.again(func() { s.rewrite("powerbox.yaml", "maximum_lifetime: 20m", "maximum_lifetime: 10m") })
	s.settle(s.alice)
	if a := s.alice.sends("documents", s.search()); a.reason() != "lifetime" {
		t.Errorf("%s", a.Raw)
	}
	if d := time.Until(s.alice.scoped("documents", "documents:read", nil).Expires); d > 10*time.Minute {
		t.Errorf("a new one lives %s", d)
	}
}

const (
	scopeRetrieve = "documents.read.retrieve"
	scopeSearch   = "documents.read.search"
)

var letter = map[string]any{"to": "x"}

// TestEXT5_TheHeaderGoesWithEveryMethod starts a task under a scope token and its
// link, and reads it: methods without metadata have the header alone. Another
// holder of a link to the same token does not see the task (ATK-18).
func TestEXT5_TheHeaderGoesWithEveryMethod(t *testing.T) {
	everywhereAndApart(t, func(t *testing.T, on wire) {
		s := newScopeTown(t, options{on: on, agent: "    enforces: context"})
		link := s.toBob("1", scopeRetrieve)
		begun := s.bob.inHeader("documents", text("SendMessage", "task open"), s.held.Token, link)
		var result struct{ Task struct{ ID string } }
		if err := json.Unmarshal(begun.Result, &result); err != nil || result.Task.ID == "" {
			t.Fatalf("%v %s", err, begun.Raw)
		}
		read := rpc("GetTask", map[string]any{"id": result.Task.ID})
		allowed(t, s.bob.inHeader("documents", read, s.held.Token, link))
		if a := s.bob.inHeader("documents", read, s.held.Token); a.reason() != "subject_not_caller" {
			t.Errorf("without the link: %s", a.Raw)
		}
		carol := s.caller("")
		other := s.alice.link(carol.did(), []string{scopeSearch}, s.until, "2")
		before := len(s.documents.got())
		if a := carol.inHeader("documents", read, s.held.Token, other); a.Error == nil || len(s.documents.got()) != before {
			t.Errorf("another holder's task: %s", a.Raw)
		}
	})
}
