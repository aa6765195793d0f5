package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/powerbox-project/powerbox/location"
)

// AAP-E12, AAP-P10: a service at a location of its own takes its own tokens,
// within the grants, as long as they are in force. The server does not execute
// capabilities at that location.
func TestAAPE12_ServicesAtALocation(t *testing.T) {
	var front http.Handler
	var done []location.Call
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { front.ServeHTTP(w, r) }))
	t.Cleanup(service.Close)
	at := service.URL + "/remote"
	b := newBank(t, bankOptions{
		conf:         "      introspection_token: a-service-that-is-known",
		capabilities: fmt.Sprintf("        - {name: remote, description: Elsewhere, sensitivity: read, location: %q}", at),
	})
	var err error
	front, err = location.Verifier{
		Location: at, Capabilities: []string{"remote"}, Introspection: b.url + "/agent/introspect", Secret: "a-service-that-is-known",
	}.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call, _ := location.FromContext(r.Context())
		done = append(done, call)
		fmt.Fprint(w, `{"data":{}}`)
	}))
	if err != nil {
		t.Fatal(err)
	}
	m := b.active("alice", fact{"name": "remote", "constraints": fact{"month": fact{"max": 6}}}, "check_balance")
	try := func(token string, body any) reply { return b.ask(http.MethodPost, at, token, body) }
	ask := func(month int) fact { return fact{"capability": "remote", "arguments": fact{"month": month}} }
	b.want("AAP-E12", try(m.token(at), ask(6)), http.StatusOK, "")
	if len(done) != 1 || done[0].Agent != m.id || done[0].User != "user:alice" {
		t.Errorf("AAP-E12: %+v", done)
	}
	b.want("AAP-E12 beyond the grant", try(m.token(at), ask(7)), http.StatusForbidden, "capability_not_granted")
	b.want("AAP-P10 for the server", try(m.token(b.url+"/capability/execute"), ask(1)), http.StatusUnauthorized, "invalid_jwt")
	b.want("AAP-P10 for the issuer", try(m.token(b.url), ask(1)), http.StatusUnauthorized, "invalid_jwt")
	b.want("AAP-E12 another capability", try(m.token(at), fact{"capability": "check_balance"}), http.StatusNotFound, "capability_not_found")
	b.want("AAP-J8", try(m.token(at, fact{"capabilities": []string{"check_balance"}}), ask(1)), http.StatusForbidden, "capability_not_granted")
	b.want("AAP-E12 a host's token", try(b.host(m.host, fact{"aud": at}), ask(1)), http.StatusUnauthorized, "invalid_jwt")
	b.want("AAP-P10 at the server", m.execute("remote", fact{"month": 1}), http.StatusBadRequest, "invalid_request")
	b.want("revoke", b.ask(http.MethodPost, "/agent/revoke", b.host(m.host), fact{"agent_id": m.id}), http.StatusOK, "")
	b.want("AAP-E12 revoked", try(m.token(at), ask(1)), http.StatusUnauthorized, "invalid_jwt")
	if len(done) != 1 {
		t.Errorf("AAP-E12: %d were done; want 1", len(done))
	}
}

// TestAAPJ9_AtALocation shows a service at a location of its own bound tokens: with a
// proof for the very request they are good there, once, and where the provider wants
// proofs no other is. Our client binds its tokens where it is told to.
func TestAAPJ9_AtALocation(t *testing.T) {
	var front http.Handler
	done := 0
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { front.ServeHTTP(w, r) }))
	t.Cleanup(service.Close)
	at := service.URL + "/remote"
	b := newBank(t, bankOptions{
		conf: "      introspection_token: a-service-that-is-known",
		capabilities: fmt.Sprintf("        - {name: remote, description: Elsewhere, sensitivity: read, location: %q}\n"+
			"        - {name: safe, description: Elsewhere and bound, sensitivity: read, location: %q, require_proof: true}", at, at),
	})
	var err error
	front, err = location.Verifier{
		Location: at, Capabilities: []string{"remote", "safe"}, Introspection: b.url + "/agent/introspect", Secret: "a-service-that-is-known",
	}.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		done++
		fmt.Fprint(w, `{"data":{}}`)
	}))
	if err != nil {
		t.Fatal(err)
	}
	m, key, other := b.active("alice", "remote", "safe"), newProof(t), newProof(t)
	send := func(scheme, compact string, capability string, proofs ...string) reply {
		header := []string{"Authorization", scheme + " " + compact}
		for _, p := range proofs {
			header = append(header, "DPoP", p)
		}
		return b.ask(http.MethodPost, at, "", fact{"capability": capability}, header...)
	}
	bound := func() string { return m.token(at, key.cnf()) }
	for _, capability := range []string{"remote", "safe"} {
		c := bound()
		proof := key.prove(http.MethodPost, at, c)
		b.want("AAP-J9 "+capability, send("DPoP", c, capability, proof), http.StatusOK, "")
		b.want("AAP-J9 the proof again", send("DPoP", c, capability, proof), http.StatusUnauthorized, "invalid_jwt")
		b.want("AAP-J9 another proof", send("DPoP", c, capability, key.prove(http.MethodPost, at, c)), http.StatusOK, "")
	}
	for what, try := range map[string]func(c string) reply{
		"no proof":      func(c string) reply { return send("DPoP", c, "safe") },
		"as a bearer":   func(c string) reply { return send("Bearer", c, "safe") },
		"another key":   func(c string) reply { return send("DPoP", c, "safe", other.prove(http.MethodPost, at, c)) },
		"another URL":   func(c string) reply { return send("DPoP", c, "safe", key.prove(http.MethodPost, service.URL+"/", c)) },
		"another token": func(c string) reply { return send("DPoP", c, "safe", key.prove(http.MethodPost, at, bound())) },
		"another method": func(c string) reply {
			return send("DPoP", c, "safe", key.prove(http.MethodGet, at, c))
		},
		"for the provider": func(string) reply {
			c := m.token(b.url+"/capability/execute", key.cnf())
			return send("DPoP", c, "safe", key.prove(http.MethodPost, at, c))
		},
	} {
		b.want("AAP-J9 "+what, try(bound()), http.StatusUnauthorized, "invalid_jwt")
	}
	// Anything that is not bound is good where no proof is wanted, and there alone.
	b.want("AAP-J9 not bound", send("Bearer", m.token(at), "remote"), http.StatusOK, "")
	b.want("AAP-J9 not bound", send("Bearer", m.token(at), "safe"), http.StatusForbidden, "capability_not_granted")
	if done != 5 {
		t.Errorf("AAP-J9 %d were done; want 5", done)
	}
	// A proof for one service, shown by another.
	c := bound()
	stolen := fact{"dpop": key.prove(http.MethodPost, at+"/other", c), "method": http.MethodPost, "url": at + "/other"}
	if r := b.ask(http.MethodPost, "/agent/introspect", "a-service-that-is-known", fact{"token": c, "proof": stolen}); r.Body["active"] != false {
		t.Errorf("AAP-J9 a proof for another service than the token: %s", r.Raw)
	}
	h := newAgentHost(t)
	waiting, _ := h.must(6, "agent", "connect", b.url, "--name", "n", "--capability", "remote,safe", "--no-wait", "--output", "json")
	h.answer("approve", b.url, waiting)
	id := waiting["agent_id"].(string)
	h.must(0, "agent", "status", id, "--wait")
	h.must(0, "agent", "execute", id, "remote")
	h.must(0, "agent", "execute", id, "safe")
	if done != 7 {
		t.Errorf("AAP-J9 by our client %d were done; want 7", done)
	}
}
