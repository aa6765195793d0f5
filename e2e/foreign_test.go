package e2e

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

// TestSEP16_ForeignIssuersOnlyWhenPinned presents a root token of another
// issuer: refused as it stands, accepted and recorded as foreign where the
// operator pinned that issuer's keys for this agent, and at no other agent.
func TestSEP16_ForeignIssuersOnlyWhenPinned(t *testing.T) {
	const issuer = "https://partner.example"
	partner, err := token.GenerateKey(token.Ed25519, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	jwks := token.JWKS(partner.Public()).String()
	pinned := start(t, options{
		agent: "    trust_roots: [{issuer: " + issuer + ", jwks_file: partner.json}]",
		files: map[string]string{"partner.json": jwks},
	})
	plain := start(t, options{})
	for _, w := range []*town{pinned, plain} {
		c := w.caller("")
		chain := []string{foreignRoot(t, partner, issuer, c.key.Public(), opSearch)}
		body := data("search_documents", nil)
		a := c.present("documents", body, proven{chain: chain, operation: opSearch})
		if w == plain {
			if a.reason() == "" || len(w.documents.got()) > 0 {
				t.Errorf("not pinned: %s", a.Raw)
			}
			continue
		}
		if a.Error != nil || len(w.documents.got()) != 1 {
			t.Fatalf("pinned: %s\n%s", a.Raw, w.log)
		}
		if record := string(w.operator("GET", "/v1/records/"+a.Header.Get("Powerbox-Decision"), nil)); !strings.Contains(record, "foreign_issuer") {
			t.Errorf("the record does not say that the issuer is foreign: %s", record)
		}
		refused := c.present("mail", data("send_mail", nil), proven{chain: chain, operation: "mail/mail:send/send"})
		if refused.reason() == "" {
			t.Errorf("accepted at an agent for which nothing is pinned: %s", refused.Raw)
		}
		// The claim is not verified, and yet the record has the claimed name.
		who := "unverified:key:" + c.key.Public().Thumbprint()
		if record := string(w.operator("GET", "/v1/records/"+refused.Header.Get("Powerbox-Decision"), nil)); !strings.Contains(record, who) {
			t.Errorf("the record does not have %s: %s", who, record)
		}
		// Its own issuer URL under the partner's key is no way in either.
		forged := []string{foreignRoot(t, partner, w.agentURL("documents"), c.key.Public(), opSearch)}
		if a := c.present("documents", body, proven{chain: forged, operation: opSearch}); a.reason() == "" {
			t.Errorf("a pinned issuer spoke for the agent itself: %s", a.Raw)
		}
	}
}

func foreignRoot(t *testing.T, signer token.Signer, issuer string, holder token.PublicKey, operations ...string) string {
	t.Helper()
	var tools []powerbox.Clause
	for _, name := range append(operations, "a2a.message", "mail/mail:send/send") {
		op, err := powerbox.ParseOperation(name)
		if err != nil {
			t.Fatal(err)
		}
		tools = append(tools, powerbox.Clause{Pattern: powerbox.ExactPattern(op), Shape: powerbox.AnyArguments()})
	}
	compact, err := token.Mint(signer, token.Root{
		ID: rand.Text(), Issuer: issuer, IssuedAt: time.Now(), Expires: time.Now().Add(time.Minute), Holder: holder, Tools: tools,
	})
	if err != nil {
		t.Fatal(err)
	}
	return compact
}
