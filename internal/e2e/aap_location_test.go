package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/powerbox-project/powerbox/location"
)

// AAP-E12, AAP-P10: a service at a location of its own takes the tokens that are
// for it, within the grants, for as long as they are in force; the server does not
// execute what is there.
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
