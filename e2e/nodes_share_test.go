package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// on has callers reach one node until the next call of on.
func (n *nodes) on(node int) { n.client, n.grpc = n.at(node), n.each[node].grpc }

// TestNodesAnswerForEachOther goes through a request, an approval and a call, each step
// at another node of one database, and tries to use again at the other node what the
// first node has used up.
func TestNodesAnswerForEachOther(t *testing.T) {
	asGiven(t)
	n := startNodes(t, 2, options{mail: ", approval: true"})
	w := n.town
	alice := w.caller(aliceToken)
	t.Run("ATK-9 a proof is used up at every node", func(t *testing.T) {
		for node := range n.each {
			n.on(node)
			c := alice.reports()
			n.on(1 - node)
			body := data("search_documents", nil)
			honest := alice.proof("documents", body, proven{chain: []string{c.Token}, operation: opSearch})
			allowed(t, w.post(w.agentURL("documents"), body, honest))
			for other := range n.each {
				n.on(other)
				if a := w.post(w.agentURL("documents"), body, honest); a.reason() != "proof_replayed" {
					t.Errorf("at node %d: %q %s", other, a.reason(), a.Raw)
				}
			}
		}
	})
	t.Run("ATK-9 the proof of a session is used up at every node", func(t *testing.T) {
		n.on(0)
		url := w.agentURL("documents")
		h, ask := alice.headers(url), rpc("a2a/capabilities/request", map[string]any{"grants": []string{"documents:read"}, "purpose": "Summarize"})
		if a := w.post(url, ask, h); a.Error != nil {
			t.Fatalf("%s", a.Raw)
		}
		n.on(1)
		if a := w.post(url, ask, h); a.Error == nil || !strings.Contains(string(a.Raw), "used before") {
			t.Errorf("%d %s", a.Status, a.Raw)
		}
	})
	t.Run("SEP-20 what one node revokes the others refuse with the next call", func(t *testing.T) {
		n.revokesElsewhere(t, alice)
	})
	t.Run("SEP-18 what one node's mode is is that of all", func(t *testing.T) {
		n.on(1)
		for _, mode := range []string{"observe", "require"} {
			n.each[0].operator(http.MethodPut, "/v1/agents/documents/mode", map[string]any{"mode": mode})
			if a := alice.ambient("documents", data("search_documents", nil)); (a.Error == nil) != (mode == "observe") {
				t.Errorf("in %s: %s", mode, a.Raw)
			}
		}
	})
	t.Run("GATE-3 a call is held at one node and approved at the other", func(t *testing.T) {
		n.on(0)
		held := alice.request("mail", map[string]any{"grants": []string{"mail:send"}, "purpose": "Tell Bob about the figures"})[0]
		for i := range 4 {
			n.on(i % 2)
			task := heldIn(t, alice.mailsUnder(held, fmt.Sprintf("bob%d@example.org", i)))
			id := task.URL[strings.LastIndexByte(task.URL, '/')+1:]
			n.each[1-i%2].answers("alice", id, map[string]any{})
			n.on(i / 2)
			if done := w.polled(alice, held, "mail", task.ID); done.State != "COMPLETED" {
				t.Errorf("%+v", done)
			}
		}
		if got := len(w.mail.got()); got != 4 {
			t.Errorf("the agent got %d calls; want each once", got)
		}
	})
	t.Run("CARD-13 what stops with a card stops at every node", func(t *testing.T) {
		n.on(0)
		before := alice.reports()
		w.documents.card(more)
		n.each[1].stop()
		n.each[1].bootAt() // and fetches the card, which node 0 does not
		n.on(1)
		if a := alice.searches(before); a.reason() != "card_widened" {
			t.Fatalf("at node 1: %q %s", a.reason(), a.Raw)
		}
		n.on(0)
		if a := alice.searches(before); a.reason() != "card_widened" {
			t.Errorf("at node 0: %q %s", a.reason(), a.Raw)
		}
		after := alice.reports() // with the new card in view, of which node 0 was told
		allowed(t, alice.searches(after))
		digest, _ := n.each[0].consentOf("documents")
		n.each[0].operator(http.MethodPost, "/v1/registry/agents/documents/consent", map[string]any{"card_digest": digest})
		n.on(1)
		allowed(t, alice.searches(before))
		allowed(t, alice.searches(after))
	})
	t.Run("EXT-25 the log of both is one", func(t *testing.T) {
		var sizes []int
		for node := range n.each {
			_, report := n.verified(node)
			sizes = append(sizes, report.Records)
		}
		if sizes[0] < 60 || sizes[1] < sizes[0] {
			t.Errorf("%v records", sizes)
		}
	})
}

// revokesElsewhere revokes at one node what the other one has just allowed, by turns,
// and wants the next call there refused.
func (n *nodes) revokesElsewhere(t *testing.T, alice *caller) {
	t.Helper()
	for i := range 12 {
		n.on(i % 2)
		c := alice.reports()
		allowed(t, alice.searches(c))
		n.each[i%2].operator(http.MethodPost, "/v1/revocations", map[string]any{"target": c.ID})
		n.on(1 - i%2)
		if a := alice.searches(c); a.reason() != "revoked" {
			t.Errorf("%d: %q %s", i, a.reason(), a.Raw)
		}
	}
}

// TestEXT16_OverGRPCAtAnotherNode: what one node revokes, and the mode that it sets,
// hold at the listeners for gRPC of the others with the next call.
func TestEXT16_OverGRPCAtAnotherNode(t *testing.T) {
	asGiven(t)
	n := startNodes(t, 2, options{on: wire{overGRPC, "1.0"}})
	alice := n.caller(aliceToken)
	n.revokesElsewhere(t, alice)
	for i, mode := range []string{"observe", "require", "observe", "require"} {
		n.each[i%2].operator(http.MethodPut, "/v1/agents/documents/mode", map[string]any{"mode": mode})
		n.on(1 - i%2)
		if a := alice.ambient("documents", data("search_documents", nil)); (a.Error == nil) != (mode == "observe") {
			t.Errorf("in %s: %s", mode, a.Raw)
		}
	}
}

// TestATK9_AtGatewaysOfTwoNodes: a proof that one remote gateway used up is used up at
// another one, which asks another node.
func TestATK9_AtGatewaysOfTwoNodes(t *testing.T) {
	asGiven(t)
	w, all := startRemote(t, 2, options{database: databases.Database(t)})
	n := w.split(2)
	for i, r := range all {
		killed(t, r.process)
		r.w = n.each[i]
		r.state = filepath.Join(t.TempDir(), "state")
		r.enroll()
		r.boot()
	}
	alice := w.caller(aliceToken)
	for range 4 {
		c, body := alice.reports(), data("search_documents", nil)
		honest := alice.proof("documents", body, proven{chain: []string{c.Token}, operation: opSearch})
		allowed(t, w.post(w.agentURL("documents"), body, honest))
		for range all {
			if a := w.post(w.agentURL("documents"), body, honest); a.reason() != "proof_replayed" {
				t.Errorf("ATK-9 %q %s", a.reason(), a.Raw)
			}
		}
	}
}

// TestEXT16_AStreamIsCutByAnotherNode: a revocation at one node cuts at once the
// streams that another node serves under the capability.
func TestEXT16_AStreamIsCutByAnotherNode(t *testing.T) {
	asGiven(t)
	agent := newRawAgent(t)
	agent.quiet()
	n := startNodes(t, 2, options{upstream: agent.url})
	alice := n.caller(aliceToken)
	for node := range n.each {
		c, body := alice.reports(), streaming()
		stream := n.each[node].open("documents", body, alice.proof("documents", body, proven{chain: []string{c.Token}, operation: opSearch}))
		n.each[1-node].operator(http.MethodPost, "/v1/revocations", map[string]any{"target": c.ID})
		stream.cut("revoked")
	}
}

// TestNodesShareAgents: what one node of a provider took or changed holds at the other
// with the next request.
func TestNodesShareAgents(t *testing.T) {
	asGiven(t)
	b := newBank(t, bankOptions{database: databases.Database(t)})
	n := b.split(2)
	m := b.active("alice", "check_balance")
	execute := func(node int, token string) reply {
		return b.ask(http.MethodPost, n.each[node].url+"/capability/execute", token, map[string]any{"capability": "check_balance", "arguments": fact{"account_id": "a"}})
	}
	at := b.url + "/capability/execute"
	for node := range n.each {
		token := m.token(at)
		b.want("AAP-T5", execute(node, token), http.StatusOK, "")
		for other := range n.each {
			b.want("AAP-T4, AAP-T5 shown again", execute(other, token), http.StatusUnauthorized, "invalid_jwt")
		}
	}
	b.want("AAP-K1", b.ask(http.MethodPost, n.each[0].url+"/agent/revoke", b.host(m.host), fact{"agent_id": m.id}), http.StatusOK, "")
	b.want("AAP-K1, AAP-J11 revoked at the other node", execute(1, m.token(at)), http.StatusForbidden, "agent_revoked")
}

// ATK-43: keys that signed what a database had are no good at an empty one.
func TestATK43_UsedKeysAtAnEmptyDatabase(t *testing.T) {
	asGiven(t)
	w := start(t, options{database: databases.Database(t)})
	w.caller(aliceToken).reports()
	w.stop()
	file := filepath.Join(w.dir, "powerbox.yaml")
	configured, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before := w.database
	w.database = databases.Database(t)
	w.write("powerbox.yaml", strings.ReplaceAll(string(configured), before, w.database))
	w.migrate()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, "serve", "--dev", "-c", file).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "have been used and the store has no records") {
		t.Errorf("%v\n%s", err, out)
	}
}
