package e2e

import (
	"crypto/rand"
	"net/http"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/token"
)

// holderOfProof is a key that tokens are bound to.
type holderOfProof struct {
	t   *testing.T
	key *token.PrivateKey
}

func newProof(t *testing.T) holderOfProof {
	t.Helper()
	key, err := token.GenerateKey(token.ES256, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return holderOfProof{t, key}
}

// cnf is the claim of a token that is bound to it.
func (h holderOfProof) cnf() fact { return fact{"cnf": fact{"jkt": h.key.Public().Thumbprint()}} }

func (h holderOfProof) prove(method, url, compact string) string {
	h.t.Helper()
	proof, err := token.SignDPoP(h.key, token.DPoPRequest{Method: method, URL: url, AccessToken: compact, Now: time.Now()}, rand.Text())
	if err != nil {
		h.t.Fatal(err)
	}
	return proof
}

// shown makes a call with a token under a scheme, and with proofs.
func (b *bank) shown(path, scheme, compact string, body any, proofs ...string) reply {
	b.t.Helper()
	header := []string{"Authorization", scheme + " " + compact}
	if len(proofs) > 0 {
		header = append(header, "DPoP", proofs[0])
	}
	return b.ask(http.MethodPost, path, "", body, header...)
}

// TestAAPJ9_ProofOfPossession: a token that is bound is good with a proof for the very
// request alone, and where policy asks for one no other is taken (RFC 9449).
func TestAAPJ9_ProofOfPossession(t *testing.T) {
	b := newBank(t, bankOptions{capabilities: "        - {name: vault, description: Open the vault, sensitivity: read, require_proof: true}\n"})
	m := b.active("alice", "check_balance", "vault")
	at, key, other := b.url+"/capability/execute", newProof(t), newProof(t)
	call := args("capability", "check_balance", "arguments", args("account_id", "a"))
	bound := func() string { return m.token(at, key.cnf()) }
	good := bound()
	proof := key.prove(http.MethodPost, at, good)
	b.want("AAP-J9", b.shown("/capability/execute", "DPoP", good, call, proof), http.StatusOK, "")

	for what, send := range map[string]func() reply{
		"no proof":    func() reply { return b.shown("/capability/execute", "DPoP", bound(), call) },
		"as a bearer": func() reply { return b.shown("/capability/execute", "Bearer", bound(), call) },
		"as one with a proof": func() reply {
			c := bound()
			return b.shown("/capability/execute", "Bearer", c, call, key.prove("POST", at, c))
		},
		"another key": func() reply {
			c := bound()
			return b.shown("/capability/execute", "DPoP", c, call, other.prove("POST", at, c))
		},
		"another token": func() reply {
			return b.shown("/capability/execute", "DPoP", bound(), call, key.prove("POST", at, bound()))
		},
		"another method": func() reply {
			c := bound()
			return b.shown("/capability/execute", "DPoP", c, call, key.prove("GET", at, c))
		},
		"another URL": func() reply {
			c := bound()
			return b.shown("/capability/execute", "DPoP", c, call, key.prove("POST", b.url+"/agent/register", c))
		},
		"one that is not": func() reply {
			c := m.token(at)
			return b.shown("/capability/execute", "DPoP", c, call, key.prove("POST", at, c))
		},
		"a binding of another": func() reply {
			return b.shown("/capability/execute", "Bearer", m.token(at, fact{"cnf": fact{"jwk": key.key.Public().JWK()}}), call)
		},
		"a certificate": func() reply {
			return b.shown("/capability/execute", "Bearer", m.token(at, fact{"cnf": fact{"x5t#S256": "AAAA"}}), call)
		},
	} {
		b.want("AAP-J9 "+what, send(), http.StatusUnauthorized, "invalid_jwt")
	}
	// A proof is used once, also with a token that is shown again.
	again := bound()
	twice := key.prove(http.MethodPost, at, again)
	b.want("a proof", b.shown("/capability/execute", "DPoP", again, call, twice), http.StatusOK, "")
	b.want("AAP-J9 twice", b.shown("/capability/execute", "DPoP", again, call, twice), http.StatusUnauthorized, "invalid_jwt")

	// One capability can ask for it; the denial is on record.
	denied := b.want("AAP-J9 of a capability", m.execute("vault", nil), http.StatusForbidden, "unauthorized")
	if denied.text("decision_id") == "" {
		t.Errorf("no record of %s", denied.Raw)
	}
	c := bound()
	b.want("AAP-J9 of a capability", b.shown("/capability/execute", "DPoP", c, args("capability", "vault"), key.prove("POST", at, c)), http.StatusOK, "")

	// A service at a location is told what the token is bound to.
	told := b.ask(http.MethodPost, "/agent/introspect", "", args("token", bound()))
	if cnf, _ := told.Body["cnf"].(fact); cnf["jkt"] != key.key.Public().Thumbprint() {
		t.Errorf("%s", told.Raw)
	}
}

// TestAAPJ9_Required: no token that is not bound is taken, and our client knows.
func TestAAPJ9_Required(t *testing.T) {
	b := newBank(t, bankOptions{conf: "      require_proof: true"})
	m := b.active("alice", "check_balance")
	b.want("AAP-J9", m.execute("check_balance", args("account_id", "a")), http.StatusUnauthorized, "invalid_jwt")
	if r := b.ask(http.MethodPost, "/agent/introspect", "", args("token", m.token(b.url))); r.Body["active"] != false {
		t.Errorf("%s", r.Raw)
	}
	b.want("AAP-C11", b.ask(http.MethodGet, "/capability/list", m.token(b.url), nil), http.StatusUnauthorized, "invalid_jwt")
	h := newAgentHost(t)
	waiting, _ := h.must(6, "agent", "connect", b.url, "--name", "n", "--capability", "check_balance,slow_job", "--no-wait", "--output", "json")
	h.answer("approve", b.url, waiting)
	id := waiting["agent_id"].(string)
	h.must(0, "agent", "status", id, "--wait")
	h.must(0, "agent", "execute", id, "check_balance", "--arguments", `{"account_id": "a"}`)
	h.must(0, "agent", "execute", id, "slow_job")
	h.must(0, "agent", "capabilities", "list", b.url, "--agent", id)
}
