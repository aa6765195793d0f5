package e2e

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

// tokenConfiguration is an agent whose skills are also capabilities of Agent Auth,
// with tokens for grants.
const tokenConfiguration = `listen: 127.0.0.1:%s
issuer: {url: "%s"}
identity: {dev: [{name: alice, token: %s}]}
agents:
  - id: documents
    upstream: "%s"
    mode: require
    agent_auth:
      requests: 0
      unknown_hosts: 0
      questions: 0
      %s
      capabilities:
        - {name: search_documents, description: Search documents, sensitivity: read,
           input: {type: object, required: [query], properties: {query: {type: string}, year: {type: integer}}}}
        - {name: delete_document, description: Delete a document, sensitivity: write, uses: 3}
skills:
  documents:
    - {skill: search_documents, grant: agent-auth, operation: search_documents, effect: read}
    - {skill: delete_document, grant: agent-auth, operation: delete_document}
limits: {denials: 0}
`

func newTokenTown(t *testing.T, tokens string) *bank {
	t.Helper()
	port := freePort(t)
	w := &town{t: t, dir: t.TempDir(), url: "http://127.0.0.1:" + port, documents: newStock(t, "search_documents", "delete_document")}
	w.write("powerbox.yaml", fmt.Sprintf(tokenConfiguration, port, w.url, aliceToken, w.documents.url, tokens))
	w.boot()
	return &bank{town: w}
}

const opGranted = "documents/agent-auth/search_documents"

// issue asks for tokens as an agent of the protocol.
func (m *member) issue(body map[string]any, more ...map[string]any) reply {
	m.b.t.Helper()
	return m.b.ask(http.MethodPost, "/agent/issue-token", m.token(m.b.url, more...), body)
}

func chainOf(t *testing.T, r reply) (chain []string, id, revocation string) {
	t.Helper()
	var out struct {
		Capabilities []granted `json:"capabilities"`
	}
	if err := json.Unmarshal([]byte(r.Raw), &out); err != nil || len(out.Capabilities) != 1 || out.Capabilities[0].Token == "" {
		t.Fatalf("no token: %d %s %v", r.Status, r.Raw, err)
	}
	c := out.Capabilities[0]
	return []string{c.Token}, c.ID, c.RevocationID
}

// caller is the agent as a caller at the gateway, with its key.
func (m *member) caller() *caller {
	m.b.t.Helper()
	jwk, err := json.Marshal(map[string]any{"kty": "OKP", "crv": "Ed25519", "x": m.key.jwk["x"], "d": seedOf(m.key.key)})
	if err != nil {
		m.b.t.Fatal(err)
	}
	key, err := token.ParsePrivateKey(jwk)
	if err != nil {
		m.b.t.Fatal(err)
	}
	return &caller{w: m.b.town, key: key}
}

// TestAAPM3_AGrantIsAGrant has an agent of the Agent Auth Protocol get a token for
// what a person granted it, narrow it and pass it on offline, and present it at the
// gateway: one record kind, one decision, and one chain of evidence, which ends
// with the grant.
func TestAAPM3_AGrantIsAGrant(t *testing.T) {
	asGiven(t)
	b := newTokenTown(t, "tokens: true\n      poll_interval: 1s")
	m := b.active("alice", fact{"name": "search_documents", "constraints": fact{"query": fact{"in": []string{"q1", "q2"}}}})
	chain, id, _ := chainOf(t, m.issue(fact{"capabilities": []string{"search_documents"}}))
	agent := m.caller()
	search := func(c *caller, chain []string, query string) answer {
		arguments := fact{"query": query}
		return c.present("documents", data("search_documents", arguments), proven{chain: chain, operation: opGranted, arguments: arguments})
	}
	first := search(agent, chain, "q1")
	if first.Error != nil {
		t.Fatalf("AAP-M3 the agent's own token: %s\n%s", first.Raw, b.log)
	}
	if a := search(agent, chain, "q3"); a.reason() != "argument_constraint" {
		t.Errorf("AAP-G6 outside the grant's constraint: %s", a.Raw)
	}
	// Passed on offline, for one of the two.
	reader := b.caller("")
	passed := agent.derive("documents", chain, exactly(t, reader.key.Public(), opGranted, "query", "q2"))
	if a := search(reader, passed, "q2"); a.Error != nil {
		t.Errorf("AAP-M3 what was passed on: %s", a.Raw)
	}
	if a := search(reader, passed, "q1"); a.reason() != "argument_constraint" {
		t.Errorf("AAP-M3 what was not passed on: %s", a.Raw)
	}
	if a := search(reader, chain, "q1"); a.Error == nil {
		t.Errorf("AAP-M3 the agent's token under another key: %s", a.Raw)
	}
	if n := len(b.documents.got()); n != 2 {
		t.Errorf("AAP-M3 %d calls reached the agent; want 2", n)
	}
	// One chain: the records of one agent have the grant, the issued tokens and their use.
	actions := map[string]int{}
	for _, r := range b.records("agent=documents&limit=100") {
		actions[r.Action+" "+r.Decision]++
	}
	for _, want := range []string{"approval.answer ALLOW", "capability.attenuate ALLOW", "a2a.SendMessage ALLOW"} {
		if actions[want] == 0 {
			t.Errorf("AAP-Z4 no record of %s: %v", want, actions)
		}
	}
	if out := b.run("trace", first.Header.Get("Powerbox-Decision")); !strings.Contains(out, id) || !strings.Contains(out, "agent-auth") {
		t.Errorf("AAP-Z4 the trace does not lead to the grant:\n%s", out)
	}
	// Revoking the one grant ends the tokens issued for it, at once and down the chain.
	b.want("revoke", b.as("alice", http.MethodPost, "/v1/host-agents/"+m.id+"/grants/revoke", fact{"capability": "search_documents"}), http.StatusOK, "")
	for name, a := range map[string]answer{"the agent": search(agent, chain, "q1"), "the reader": search(reader, passed, "q2")} {
		if a.reason() != "revoked" {
			t.Errorf("AAP-K8 %s after the grant was revoked: %s", name, a.Raw)
		}
	}
}

// TestAAPM3_TokensAreRefused asks for tokens that must be refused: for a
// capability that is not granted, outside the token's own restriction, with a
// budget, after the key was replaced, and from a provider that issues none.
func TestAAPM3_TokensAreRefused(t *testing.T) {
	b := newTokenTown(t, "tokens: true\n      poll_interval: 1s")
	m := b.active("alice", "search_documents", "delete_document")
	other := b.active("alice", "delete_document")
	b.want("not granted", other.issue(fact{"capabilities": []string{"search_documents"}}), http.StatusForbidden, "capability_not_granted")
	b.want("outside the restriction", m.issue(fact{"capabilities": []string{"search_documents"}}, fact{"capabilities": []string{"delete_document"}}), http.StatusForbidden, "capability_not_granted")
	b.want("a budget", m.issue(fact{"capabilities": []string{"delete_document"}}), http.StatusBadRequest, "invalid_request")
	b.want("nothing", m.issue(fact{"capabilities": []string{}}), http.StatusBadRequest, "invalid_request")
	b.want("no time", m.issue(fact{"capabilities": []string{"search_documents"}, "expires_in": 0}), http.StatusBadRequest, "invalid_request")
	chain, _, _ := chainOf(t, m.issue(fact{"capabilities": []string{"search_documents"}, "expires_in": 60}))
	agent, arguments := m.caller(), fact{"query": "q1"}
	use := func() answer {
		return agent.present("documents", data("search_documents", arguments), proven{chain: chain, operation: opGranted, arguments: arguments})
	}
	if a := use(); a.Error != nil {
		t.Fatalf("AAP-M3 %s", a.Raw)
	}
	fresh := newOKP(t)
	b.want("rotate", b.ask(http.MethodPost, "/agent/rotate-key", b.host(m.host), fact{"agent_id": m.id, "public_key": fresh.jwk}), http.StatusOK, "")
	if a := use(); a.reason() != "revoked" {
		t.Errorf("AAP-K2 the token of a key that was replaced: %s", a.Raw)
	}
	m.key = fresh
	if again, _, _ := chainOf(t, m.issue(fact{"capabilities": []string{"search_documents"}})); len(again) != 1 {
		t.Error("AAP-K2 the new key has no token")
	}

	none := newBank(t, bankOptions{})
	plain := none.active("alice", "list_accounts")
	none.want("without the extension", plain.issue(fact{"capabilities": []string{"list_accounts"}}), http.StatusNotFound, "not_found")
	if r := none.ask(http.MethodGet, "/.well-known/agent-configuration", "", nil); strings.Contains(r.Raw, "issue_token") {
		t.Errorf("AAP-D9 the discovery document offers what is off: %s", r.Raw)
	}
}

// TestAAPM3_TokensByCommands does the same with the program alone: connect, ask for
// the token, pass it on offline, call.
func TestAAPM3_TokensByCommands(t *testing.T) {
	asGiven(t)
	b := newTokenTown(t, "tokens: true\n      poll_interval: 1s")
	h := newAgentHost(t)
	waiting, _ := h.must(6, "agent", "connect", b.url, "--name", "Searcher", "--capability", "search_documents", "--no-wait", "--output", "json")
	h.answer("approve", b.url, waiting)
	id := waiting["agent_id"].(string)
	h.must(0, "agent", "status", id, "--wait")
	held, passed := filepath.Join(h.dir, "held.json"), filepath.Join(h.dir, "passed.json")
	h.must(0, "request", id, "--via", "agent-auth", "--grant", "search_documents", "--purpose", "Look", "--out", held)
	b.must("keys", "new", "reader.jwk")
	b.write("reader.pub", b.must("keys", "public", "reader.jwk"))
	h.must(0, "narrow", "--capability", held, "--agent", id, "--delegate", filepath.Join(b.dir, "reader.pub"), "--expires", "5m", "--out", passed)
	data, err := os.ReadFile(passed)
	if err != nil {
		t.Fatal(err)
	}
	b.write("passed.json", string(data))
	if out := b.must("call", b.agentURL("documents"), "--capability", "passed.json", "--key", "reader.jwk", "--skill", "search_documents", "--arguments", `{"query": "q1"}`); !strings.Contains(out, "echo") {
		t.Errorf("AAP-M3 the reader's call: %s", out)
	}
	h.must(0, "agent", "disconnect", id)
	if out, code := b.cli("call", b.agentURL("documents"), "--capability", "passed.json", "--key", "reader.jwk", "--skill", "search_documents", "--arguments", `{"query": "q1"}`); code != 3 || !strings.Contains(out, "revoked") {
		t.Errorf("AAP-K1 after the agent was disconnected: exit %d\n%s", code, out)
	}
}

func seedOf(key ed25519.PrivateKey) string { return base64.RawURLEncoding.EncodeToString(key.Seed()) }

// exactly narrows a token to one operation with one argument, for another holder.
func exactly(t *testing.T, to token.PublicKey, operation, argument, is string) token.Narrowing {
	t.Helper()
	clause := func(name string, shape powerbox.Shape) powerbox.Clause {
		op, err := powerbox.ParseOperation(name)
		if err != nil {
			t.Fatal(err)
		}
		return powerbox.Clause{Pattern: powerbox.ExactPattern(op), Shape: shape}
	}
	shape, err := powerbox.NewShape(powerbox.RestNone, powerbox.Field{Name: argument, Constraint: powerbox.ExactValue{Value: powerbox.String(is)}, Required: true})
	if err != nil {
		t.Fatal(err)
	}
	return token.Narrowing{Tools: []powerbox.Clause{clause(operation, shape), clause(opMessage, powerbox.AnyArguments())}, Holder: to}
}
