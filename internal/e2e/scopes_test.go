package e2e

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
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

const scopeSend = "mail.send.send"

var letter = map[string]any{"to": "x"}

func TestEXT5_ScopeTokenInMetadataAndHeader(t *testing.T) {
	w := start(t, options{})
	alice := w.caller(aliceToken)
	c := alice.scoped("mail", "mail:send", nil)
	var said struct {
		Issuer, Subject, Algorithm, Signature string
		Scopes                                []string
		Issued                                time.Time `json:"issued_at"`
		Expires                               time.Time `json:"expires_at"`
	}
	if err := json.Unmarshal([]byte(c.Token), &said); err != nil {
		t.Fatal(err)
	}
	if said.Issuer != w.agentURL("mail") || said.Subject != alice.did() || said.Algorithm != "Ed25519" || len(said.Scopes) != 1 || said.Scopes[0] != scopeSend ||
		said.Issued.IsZero() || !said.Expires.Equal(c.Expires) {
		t.Errorf("the token says %+v", said)
	}
	if a := alice.sends("mail", under(t, data("send_mail", letter), c.Token)); a.Error != nil {
		t.Errorf("in metadata: %s", a.Raw)
	}
	key := &caller{w, alice.key, ""}
	if a := key.inHeader("mail", data("send_mail", letter), c.Token); a.Error != nil {
		t.Errorf("in the header: %s", a.Raw)
	}
	got := w.mail.got()
	if len(got) != 2 {
		t.Fatalf("%d calls reached the agent", len(got))
	}
	if v := got[1].header.Get("Authorization"); v != "" {
		t.Errorf("the agent behind got Authorization %q", v)
	}
	_ = http.StatusOK
}
