package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func within(name string, constraints map[string]any) map[string]any {
	return map[string]any{"name": name, "constraints": constraints}
}

func args(kv ...any) map[string]any {
	out := map[string]any{}
	for i := 0; i < len(kv); i += 2 {
		out[kv[i].(string)] = kv[i+1]
	}
	return out
}

// AAP-R1 to R8, R10, R11, H13, M4, A1: registration.
func TestAAPR1_Registration(t *testing.T) {
	b := newBank(t, bankOptions{})
	host := newOKP(t)
	m, r := b.register(host, map[string]any{"name": "Helper", "host_name": "laptop", "reason": "to help", "capabilities": []any{"check_balance", "list_accounts"}})
	b.want("AAP-R1", r, http.StatusOK, "")
	// AAP-R2, AAP-R4, AAP-H13, AAP-M4: an unknown host is trusted with nothing.
	if r.text("status") != "pending" || r.text("name") != "Helper" || r.text("mode") != "delegated" || r.text("host_id") == "" {
		t.Errorf("AAP-R2: %s", r.Raw)
	}
	if g := grantsOf(r); g["check_balance"] != "pending" || g["list_accounts"] != "pending" {
		t.Errorf("AAP-R5: %v", g)
	}
	for _, g := range r.Body["agent_capability_grants"].([]any) {
		if len(g.(map[string]any)) != 2 { // AAP-R5
			t.Errorf("a pending grant says more than name and status: %v", g)
		}
	}
	approval, _ := r.Body["approval"].(map[string]any) // AAP-A1
	if approval["method"] != "device_authorization" || approval["expires_in"].(float64) < 1 || approval["interval"] != float64(1) ||
		approval["verification_uri"] != b.url+"/approve" || approval["verification_uri_complete"] != b.url+"/approve?code="+m.code {
		t.Errorf("AAP-A1: %v", approval)
	}
	b.want("before the approval", m.execute("check_balance", args("account_id", "a")), http.StatusForbidden, "host_pending")
	// AAP-R6: the same key again is the same agent, with a code that can be used.
	again := b.ask(http.MethodPost, "/agent/register", b.host(host, fact{"agent_public_key": m.key.jwk}), map[string]any{"name": "Helper"})
	if again.text("agent_id") != m.id || codeOf(again) == m.code {
		t.Errorf("AAP-R6: %s", again.Raw)
	}
	b.want("AAP-A12 the older code", b.approve("alice", m.code, map[string]any{}), http.StatusNotFound, "not_found")
	done := b.want("AAP-A12 the fresh code", b.approve("alice", codeOf(again), map[string]any{"only": []string{"check_balance"}}), http.StatusOK, "")
	// AAP-R8: a part.
	if g := grantsOf(done); done.text("status") != "active" || g["check_balance"] != "active" || g["list_accounts"] != "denied" {
		t.Errorf("AAP-R8: %s", done.Raw)
	}
	for _, g := range m.state().Body["agent_capability_grants"].([]any) {
		one := g.(map[string]any)
		if one["status"] == "active" && (one["description"] == nil || one["input"] == nil || one["granted_by"] != "user:alice") { // AAP-R5, AAP-S2
			t.Errorf("AAP-R5: %v", one)
		}
	}
	b.want("AAP-R6 active", b.ask(http.MethodPost, "/agent/register", b.host(host, fact{"agent_public_key": m.key.jwk}), map[string]any{"name": "x"}), http.StatusConflict, "agent_exists")
	// AAP-R3: nothing asked for is nothing granted, at once at a linked host.
	_, none := b.register(host, map[string]any{})
	if none.text("status") != "active" || len(grantsOf(none)) != 0 {
		t.Errorf("AAP-R3: %s", none.Raw)
	}
	// AAP-R4, AAP-R12, AAP-P3: defaults alone at once; with anything else, all of it waits.
	_, defaults := b.register(host, map[string]any{"capabilities": []any{"check_balance"}})
	if defaults.text("status") != "active" || grantsOf(defaults)["check_balance"] != "active" {
		t.Errorf("AAP-R4: %s", defaults.Raw)
	}
	_, mixed := b.register(host, map[string]any{"capabilities": []any{"check_balance", "list_accounts"}})
	if mixed.text("status") != "pending" || grantsOf(mixed)["check_balance"] != "pending" {
		t.Errorf("AAP-R4: %s", mixed.Raw)
	}
	// AAP-R7, AAP-R10, AAP-R11
	_, bad := b.register(newOKP(t), map[string]any{"capabilities": []any{"check_balance", "nothing", "internal_audit"}})
	b.want("AAP-R7, AAP-R10, AAP-R11", bad, http.StatusBadRequest, "invalid_capabilities")
	if list, _ := bad.Body["invalid_capabilities"].([]any); len(list) != 2 {
		t.Errorf("AAP-R7 the list: %s", bad.Raw)
	}
	_, mode := b.register(newOKP(t), map[string]any{"mode": "free"})
	b.want("AAP-D8", mode, http.StatusBadRequest, "unsupported_mode")
	_, name := b.register(newOKP(t), map[string]any{"name": " <br> "})
	b.want("AAP-R1 name", name, http.StatusBadRequest, "invalid_request")
	ec := b.ask(http.MethodPost, "/agent/register", b.host(newOKP(t), fact{"agent_public_key": map[string]any{"kty": "EC", "crv": "P-256", "x": "a", "y": "b"}}), map[string]any{"name": "x"})
	b.want("AAP-D6", ec, http.StatusBadRequest, "unsupported_algorithm")
	same := newOKP(t)
	b.want("a key for both", b.ask(http.MethodPost, "/agent/register", b.host(same, fact{"agent_public_key": same.jwk}), map[string]any{"name": "x"}), http.StatusBadRequest, "invalid_request")
	// AAP-A5, AAP-M1: what a person denies whole is rejected for good.
	denied, _ := b.register(newOKP(t), map[string]any{"capabilities": []any{"check_balance"}})
	b.want("deny", b.approve("bob", denied.code, map[string]any{"deny": true, "reason": "not now"}), http.StatusOK, "")
	b.want("AAP-A5", denied.execute("check_balance", args("account_id", "a")), http.StatusForbidden, "host_revoked")
	denied.becomes("rejected")
}

// AAP-G1 to G7, P6, P7, E6: constraints are decided by the algebra.
func TestAAPG1_Constraints(t *testing.T) {
	b := newBank(t, bankOptions{})
	m := b.active("alice", within("transfer_money", args("amount", args("min", 1, "max", 1000), "currency", args("in", []string{"USD", "EUR"}), "to", args("not_in", []string{"acc_9"}))))
	try := func(kv ...any) reply { return m.execute("transfer_money", args(kv...)) }
	b.want("within", try("amount", 1000, "currency", "USD", "to", "acc_1"), http.StatusOK, "")
	b.want("AAP-G2 not_in alone may be missing", try("amount", 1, "currency", "EUR"), http.StatusOK, "")
	for name, r := range map[string]reply{
		"AAP-G1 beyond max":       try("amount", 1000.01, "currency", "USD"),
		"AAP-G1 below min":        try("amount", 0.5, "currency", "USD"),
		"AAP-G1 not in":           try("amount", 5, "currency", "GBP"),
		"AAP-G1 not_in":           try("amount", 5, "currency", "USD", "to", "acc_9"),
		"AAP-G2 missing":          try("amount", 5),
		"ATK-39 digits beyond 53": m.execute("transfer_money", json.RawMessage(`{"amount":1000.00000000000000000001,"currency":"USD"}`)),
		"AAP-G2 another spelling": try("amount", 5, "currency", "usd"),
		"AAP-G2 no coercion":      try("amount", "5", "currency", "USD"),
		"AAP-G2 an array":         try("amount", []int{5}, "currency", "USD"),
	} {
		b.want(name, r, http.StatusForbidden, "constraint_violated")
		if v, _ := r.Body["violations"].([]any); len(v) != 1 { // AAP-E6
			t.Errorf("%s: %s", name, r.Raw)
		}
	}
	if n := b.did("transfer_money"); n != 2 {
		t.Errorf("the service was asked %d times; want 2", n)
	}
	// AAP-P6, AAP-G3: the tightest of agent and server wins, and the effective set is told.
	wide := b.active("alice", within("transfer_money", args("amount", args("max", 999999, "min", 5))))
	b.want("AAP-G3 the server's bound", wide.execute("transfer_money", args("amount", 10001)), http.StatusForbidden, "constraint_violated")
	for _, g := range wide.state().Body["agent_capability_grants"].([]any) {
		c, _ := json.Marshal(g.(map[string]any)["constraints"])
		if string(c) != `{"amount":{"max":10000,"min":5}}` {
			t.Errorf("AAP-G3 the effective set is %s", c)
		}
	}
	// AAP-G4, AAP-P7 at registration and request, and malformed constraints.
	for name, constraints := range map[string]any{
		"AAP-P7 the page's own": args("amount", args("maximum", 5)), "AAP-P7 const": args("amount", args("const", 5)), "AAP-G6 eq": args("amount", args("eq", 5)),
	} {
		_, r := b.register(newOKP(t), map[string]any{"capabilities": []any{map[string]any{"name": "transfer_money", "constraints": constraints}}})
		b.want(name, r, http.StatusBadRequest, "unknown_constraint_operator")
		if u, _ := r.Body["unknown_operators"].([]any); len(u) != 1 {
			t.Errorf("AAP-G4 %s: %s", name, r.Raw)
		}
		b.want(name, m.request(map[string]any{"name": "transfer_money", "constraints": constraints}), http.StatusBadRequest, "unknown_constraint_operator")
	}
	for name, constraints := range map[string]any{
		"AAP-G1 no operator": args("amount", args()), "AAP-G1 null": args("amount", nil), "AAP-G1 a bound that is text": args("amount", args("max", "5")),
		"AAP-G1 a null bound": args("amount", args("max", nil)), "AAP-G1 in without values": args("amount", args("in", []int{})),
		"AAP-G3 contradictory": args("amount", args("min", 5, "max", 4)), "AAP-G3 beyond the server": args("amount", args("min", 20000)),
		"AAP-G1 a field that is none": args("amuont", args("max", 5)), "a list": []int{1}, "a text": "x",
	} {
		_, r := b.register(newOKP(t), map[string]any{"capabilities": []any{map[string]any{"name": "transfer_money", "constraints": constraints}}})
		b.want(name, r, http.StatusBadRequest, "invalid_request")
	}
	// AAP-G1 exact values, AAP-G5 none, AAP-G7 several grants: one that admits suffices.
	several := b.active("alice", within("transfer_money", args("to", "acc_1", "amount", args("max", 10))), within("transfer_money", args("to", "acc_2", "amount", args("max", 500))))
	b.want("AAP-G7 the first", several.execute("transfer_money", args("to", "acc_1", "amount", 10)), http.StatusOK, "")
	b.want("AAP-G7 the second", several.execute("transfer_money", args("to", "acc_2", "amount", 500)), http.StatusOK, "")
	b.want("AAP-G7 never joined", several.execute("transfer_money", args("to", "acc_1", "amount", 500)), http.StatusForbidden, "constraint_violated")
	free := b.active("alice", "list_accounts")
	b.want("AAP-G5", free.execute("list_accounts", args("anything", 1)), http.StatusOK, "")
}

// AAP-G6: the switch for eq.
func TestAAPG6_EqAsAnExactValue(t *testing.T) {
	b := newBank(t, bankOptions{conf: "      eq_operator: true"})
	m := b.active("alice", within("transfer_money", args("amount", args("eq", 5))))
	b.want("AAP-G6", m.execute("transfer_money", args("amount", 5)), http.StatusOK, "")
	b.want("AAP-G6 others", m.execute("transfer_money", args("amount", 6)), http.StatusForbidden, "constraint_violated")
	_, r := b.register(newOKP(t), map[string]any{"capabilities": []any{within("transfer_money", args("amount", args("eq", 5, "max", 6)))}})
	b.want("AAP-P7 exact and operators", r, http.StatusBadRequest, "invalid_request")
}

// AAP-Q1 to Q5, P2, P4, R12, K8, ATK-1: more is always a person's to give.
func TestAAPQ1_Escalation(t *testing.T) {
	b := newBank(t, bankOptions{})
	m := b.active("alice", "check_balance")
	r := b.want("AAP-Q1", m.request("list_accounts", within("transfer_money", args("amount", args("max", 10)))), http.StatusOK, "")
	// AAP-Q2, AAP-P4: pending, for the client to wait, though the host is trusted; the agent continues.
	if r.text("status") != "pending" || len(grantsOf(r)) != 2 || codeOf(r) == "" || r.text("agent_id") != m.id {
		t.Errorf("AAP-Q2: %s", r.Raw)
	}
	if s := m.state(); s.text("status") != "active" {
		t.Errorf("AAP-Q2 the agent is %s", s.text("status"))
	}
	b.want("AAP-P4 before", m.execute("list_accounts", nil), http.StatusForbidden, "capability_not_granted")
	linked := b.active("alice", "list_accounts")
	even := b.want("AAP-Q5 even a default", linked.request("check_balance"), http.StatusOK, "")
	if even.text("status") != "pending" || grantsOf(linked.state())["check_balance"] != "pending" {
		t.Errorf("AAP-Q5 a default that is asked for later: %s", linked.state().Raw)
	}
	b.want("AAP-Q5 before", linked.execute("check_balance", args("account_id", "a")), http.StatusForbidden, "capability_not_granted")
	b.want("AAP-P4 another person", b.approve("bob", codeOf(r), map[string]any{}), http.StatusNotFound, "not_found")
	// A person can narrow a request, and cannot widen it (AAP-G3).
	done := b.want("narrow", b.approve("alice", codeOf(r), map[string]any{"only": []string{"transfer_money"}, "constraints": args("transfer_money", args("amount", args("max", 99999), "to", "acc_1"))}), http.StatusOK, "")
	if g := grantsOf(done); g["list_accounts"] != "denied" || g["transfer_money"] != "active" {
		t.Errorf("AAP-P2: %v", g)
	}
	b.want("AAP-G3 not wider", m.execute("transfer_money", args("amount", 11, "to", "acc_1")), http.StatusForbidden, "constraint_violated")
	b.want("narrower", m.execute("transfer_money", args("amount", 10, "to", "acc_2")), http.StatusForbidden, "constraint_violated")
	b.want("within", m.execute("transfer_money", args("amount", 10, "to", "acc_1")), http.StatusOK, "")
	b.want("answered once (ATK-46)", b.approve("alice", codeOf(r), map[string]any{}), http.StatusNotFound, "not_found")
	// AAP-Q3, AAP-Q4
	b.want("AAP-Q3", m.request("check_balance"), http.StatusConflict, "already_granted")
	b.want("AAP-Q3 narrower", m.request(within("transfer_money", args("amount", args("max", 5), "to", "acc_1"))), http.StatusConflict, "already_granted")
	b.want("AAP-Q4 wider", m.request(within("transfer_money", args("amount", args("max", 50), "to", "acc_1"))), http.StatusOK, "")
	b.want("AAP-Q1 nothing", m.request(), http.StatusBadRequest, "invalid_request")
	b.want("AAP-R10", m.request("internal_audit"), http.StatusBadRequest, "invalid_capabilities")
	// AAP-K8, AAP-P2: one grant alone; the agent and its others stay.
	b.want("AAP-K8 another's", b.as("bob", http.MethodPost, "/v1/host-agents/"+m.id+"/grants/revoke", args("capability", "transfer_money")), http.StatusNotFound, "agent_not_found")
	b.want("AAP-K8 revoke", b.as("alice", http.MethodPost, "/v1/host-agents/"+m.id+"/grants/revoke", args("capability", "transfer_money")), http.StatusOK, "")
	b.want("AAP-K8", m.execute("transfer_money", args("amount", 10, "to", "acc_1")), http.StatusForbidden, "capability_not_granted")
	b.want("AAP-K8 the others", m.execute("check_balance", args("account_id", "a")), http.StatusOK, "")
	b.want("AAP-K8 idempotent", b.as("alice", http.MethodPost, "/v1/host-agents/"+m.id+"/grants/revoke", args("capability", "transfer_money")), http.StatusOK, "")
	b.want("AAP-K8 add", b.as("alice", http.MethodPost, "/v1/host-agents/"+m.id+"/grants", args("capability", "list_accounts")), http.StatusOK, "")
	b.want("AAP-K8 added", m.execute("list_accounts", nil), http.StatusOK, "")
}

// AAP-E1, E2, E6, E8, E9, C9, Z4, P10, and the records of it (EXT-28, EXT-32).
func TestAAPE1_Execution(t *testing.T) {
	b := newBank(t, bankOptions{})
	m := b.active("alice", "check_balance", "statement")
	r := b.want("AAP-E2", m.execute("check_balance", args("account_id", "a")), http.StatusOK, "")
	if len(r.Body) != 1 || r.Body["data"].(map[string]any)["did"] != "check_balance" {
		t.Errorf("AAP-E2: %s", r.Raw)
	}
	d := b.record(r.Header.Get("Powerbox-Decision")) // AAP-Z4
	if d.Decision != "ALLOW" || d.AgentID != "bank" || d.Intent.Operation != "bank/agent-auth/check_balance" || d.Powerbox.Requester != "agent-auth:"+m.id || d.Powerbox.Capability == "" {
		t.Errorf("AAP-Z4 the record is %+v", d)
	}
	outcome := b.records("outcome_of=" + d.ID)
	if len(outcome) != 1 || outcome[0].Status != "ACHIEVED" {
		t.Errorf("EXT-28 outcomes: %+v", outcome)
	}
	r = b.want("AAP-C9, AAP-E8", m.execute("check_balance", args("account", "a")), http.StatusBadRequest, "invalid_request")
	if outcome := b.records("outcome_of=" + r.text("decision_id")); len(outcome) != 1 || outcome[0].Status != "FAILED" {
		t.Errorf("AAP-C9 the outcome of a call with wrong arguments: %+v", outcome)
	}
	// ATK-78: who may not make the call learns nothing of its schema, and is on record.
	for _, wrong := range []any{args("account", "a"), "text", []any{1}, args("n", json.Number("9007199254740993"))} {
		r = b.want(fmt.Sprint("ATK-78 ", wrong), m.execute("list_accounts", wrong), http.StatusForbidden, "capability_not_granted")
		if d := b.record(r.text("decision_id")); d.Decision != "DENY" {
			t.Errorf("ATK-78 %v is on record as %+v", wrong, d)
		}
	}
	b.want("ATK-39", m.execute("check_balance", args("account_id", "a", "n", json.Number("9007199254740993"))), http.StatusBadRequest, "invalid_request")
	b.want("AAP-E1", b.ask(http.MethodPost, "/capability/execute", m.token(b.url+"/capability/execute"), args("arguments", args())), http.StatusBadRequest, "invalid_request")
	b.want("AAP-E8 none", m.execute("nothing", nil), http.StatusNotFound, "capability_not_found")
	b.want("AAP-P10 elsewhere", m.execute("statement", nil), http.StatusBadRequest, "invalid_request")
	// AAP-E9: asking to execute grants nothing, and leaves nothing but a record.
	r = b.want("AAP-E8", m.execute("list_accounts", nil), http.StatusForbidden, "capability_not_granted")
	if d := b.record(r.text("decision_id")); d.Decision != "DENY" {
		t.Errorf("the denial is recorded as %+v", d)
	}
	if g := grantsOf(m.state()); g["list_accounts"] != "" {
		t.Errorf("AAP-E9: %v", g)
	}
	if b.did("list_accounts")+b.did("statement") != 0 {
		t.Error("the service was asked for what was refused")
	}
	// AAP-E11
	batch := b.ask(http.MethodPost, "/capability/batch-execute", m.token(b.url+"/capability/execute"), args("requests", []any{
		args("id", "one", "capability", "check_balance", "arguments", args("account_id", "a")), args("capability", "list_accounts"),
	}))
	list, _ := batch.Body["responses"].([]any)
	if len(list) != 2 || list[0].(map[string]any)["status"] != "completed" || list[0].(map[string]any)["id"] != "one" || list[1].(map[string]any)["status"] != "failed" {
		t.Errorf("AAP-E11: %s", batch.Raw)
	}
	before := b.did("check_balance")
	b.want("AAP-E11 an id that is none", b.ask(http.MethodPost, "/capability/batch-execute", m.token(b.url+"/capability/execute"), args("requests", []any{
		args("id", "one", "capability", "check_balance", "arguments", args("account_id", "a")), args("id", 2, "capability", "check_balance"),
	})), http.StatusBadRequest, "invalid_request")
	if n := b.did("check_balance") - before; n != 0 {
		t.Errorf("AAP-E11: of a batch that was refused the service was asked for %d parts", n)
	}
	many := make([]any, 51)
	for i := range many {
		many[i] = args("capability", "check_balance", "arguments", args("account_id", "a"))
	}
	b.want("AAP-E11 too many", b.ask(http.MethodPost, "/capability/batch-execute", m.token(b.url+"/capability/execute"), args("requests", many)), http.StatusBadRequest, "invalid_request")
	b.want("AAP-E11 none", b.ask(http.MethodPost, "/capability/batch-execute", m.token(b.url+"/capability/execute"), args("requests", []any{})), http.StatusBadRequest, "invalid_request")
}

// AAP-E3, E4, J7: what continues is asked about with tokens, by its own agent.
func TestAAPE3_Jobs(t *testing.T) {
	b := newBank(t, bankOptions{})
	m, other := b.active("alice", "slow_job"), b.active("alice", "slow_job")
	at := b.url + "/capability/execute"
	r := m.execute("slow_job", nil)
	if r.Status != http.StatusAccepted || len(r.Body) != 2 || r.text("status") != "pending" || !strings.HasPrefix(r.text("status_url"), b.url+"/") {
		t.Fatalf("AAP-E3: %d %s", r.Status, r.Raw)
	}
	url, decision := r.text("status_url"), r.Header.Get("Powerbox-Decision")
	b.want("AAP-E4 without a token", b.ask(http.MethodGet, url, "", nil), http.StatusUnauthorized, "authentication_required")
	b.want("AAP-E4 another agent", b.ask(http.MethodGet, url, other.token(at), nil), http.StatusNotFound, "not_found")
	token := m.token(at)
	if p := b.ask(http.MethodGet, url, token, nil); p.Status != http.StatusOK || p.text("status") != "pending" || len(p.Body) != 1 {
		t.Errorf("AAP-E3 pending: %s", p.Raw)
	}
	p := b.ask(http.MethodGet, url, token, nil) // AAP-E4: the protocol's client shows one token again
	if p.text("status") != "completed" || p.Body["result"].(map[string]any)["pages"] != float64(4) || len(p.Body) != 2 {
		t.Errorf("AAP-E3 completed: %s", p.Raw)
	}
	b.ask(http.MethodGet, url, token, nil)
	if out := b.records("outcome_of=" + decision); len(out) != 1 || out[0].Status != "ACHIEVED" {
		t.Errorf("the outcome is recorded as %+v", out)
	}
	b.want("revoke", b.as("alice", http.MethodPost, "/v1/host-agents/"+m.id+"/grants/revoke", args("capability", "slow_job")), http.StatusOK, "")
	b.want("AAP-E4, ATK-23 taken back", b.ask(http.MethodGet, url, m.token(at), nil), http.StatusForbidden, "capability_not_granted")
}

// AAP-E5, ATK-24, ATK-33, ATK-34: streams are the protocol's own events, end with
// done, and are cut when what they were opened under is taken back.
func TestAAPE5_Streams(t *testing.T) {
	b := newBank(t, bankOptions{})
	close(b.wait)
	m := b.active("alice", "ticker")
	r := m.execute("ticker", nil)
	if r.Header.Get("Content-Type") != "text/event-stream" || r.Raw != "event: data\ndata: {\"price\":1}\n\nevent: data\ndata: \"two\"\n\nevent: done\ndata: \n\n" {
		t.Errorf("AAP-E5: %q", r.Raw)
	}
	b.wait = make(chan struct{})
	cut := make(chan reply)
	go func() { cut <- m.execute("ticker", nil) }()
	await(func() bool { return b.did("ticker") >= 2 })
	b.want("AAP-K1", b.ask(http.MethodPost, "/agent/revoke", b.host(m.host), args("agent_id", m.id)), http.StatusOK, "")
	r = <-cut
	if !strings.Contains(r.Raw, "event: error\ndata: {\"error\":\"capability_not_granted\"") || !strings.HasSuffix(r.Raw, "event: done\ndata: \n\n") {
		t.Errorf("ATK-24: %q", r.Raw)
	}
	if out := b.records("outcome_of=" + r.Header.Get("Powerbox-Decision")); len(out) != 1 || out[0].Status != "PARTIAL" {
		t.Errorf("the outcome is recorded as %+v", out)
	}
}

// AAP-I1 to I6: what a service at a location is told.
func TestAAPI1_Introspection(t *testing.T) {
	b := newBank(t, bankOptions{conf: "      introspection_token: service-secret-token"})
	m := b.active("alice", "check_balance", "statement", within("transfer_money", args("amount", args("max", 5))))
	ask := func(token string, more ...any) reply {
		body := args(more...)
		body["token"] = token
		return b.ask(http.MethodPost, "/agent/introspect", "service-secret-token", body)
	}
	b.want("AAP-I3", b.ask(http.MethodPost, "/agent/introspect", "another", args("token", "x")), http.StatusUnauthorized, "authentication_required")
	at := "https://statements.example/run"
	token := m.token(at)
	for range 2 { // AAP-I5
		r := ask(token)
		if r.Body["active"] != true || r.text("agent_id") != m.id || r.text("user_id") != "user:alice" || r.text("mode") != "delegated" || r.text("aud") != at || len(grantsOf(r)) != 3 || r.text("expires_at") == "" {
			t.Errorf("AAP-I1, AAP-I4: %s", r.Raw)
		}
		for _, g := range r.Body["agent_capability_grants"].([]any) {
			if len(g.(map[string]any)) != 2 { // AAP-I6
				t.Errorf("AAP-I1: %v", g)
			}
		}
	}
	if r := ask(m.token(at, fact{"capabilities": []string{"statement"}})); len(grantsOf(r)) != 1 {
		t.Errorf("AAP-I1 narrowed by the token: %s", r.Raw)
	}
	// AAP-I6: ours.
	for n, want := range map[int]bool{5: true, 6: false} {
		if r := ask(m.token(b.url+"/capability/execute"), "capability", "transfer_money", "arguments", args("amount", n)); r.Body["allowed"] != want {
			t.Errorf("AAP-I6 %d: %s", n, r.Raw)
		}
	}
	// AAP-I4: a token for one location is good for nothing that is executed at another.
	if r := ask(token, "capability", "statement"); r.Body["allowed"] != true {
		t.Errorf("AAP-I4 where it is executed: %s", r.Raw)
	}
	for name, elsewhere := range map[string]reply{
		"at the provider": ask(token, "capability", "transfer_money", "arguments", args("amount", 5)),
		"at the location": ask(m.token(b.url+"/capability/execute"), "capability", "statement"), "by the issuer": ask(m.token(b.url), "capability", "statement"),
	} {
		if elsewhere.Body["active"] != true || elsewhere.Body["allowed"] != false {
			t.Errorf("AAP-I4 %s: %s", name, elsewhere.Raw)
		}
	}
	if r := ask(m.token(b.url+"/capability/execute"), "capability", "list_accounts"); r.Body["allowed"] != false {
		t.Errorf("AAP-I6 not granted: %s", r.Raw)
	}
	for name, bad := range map[string]string{
		"none": "x", "another audience": m.token("https://elsewhere.example"), "AAP-I2 another key": newOKP(t).sign("agent+jwt", fact{"iss": m.host.thumb, "sub": m.id, "aud": at}),
	} {
		if r := ask(bad); r.Status != http.StatusOK || r.Body["active"] != false || len(r.Body) != 1 {
			t.Errorf("AAP-I1 %s: %d %s", name, r.Status, r.Raw)
		}
	}
	b.want("revoke", b.ask(http.MethodPost, "/host/revoke", b.host(m.host), nil), http.StatusOK, "")
	if r := ask(m.token(at)); r.Body["active"] != false || len(r.Body) != 1 {
		t.Errorf("AAP-I2 revoked: %s", r.Raw)
	}
}

// ATK-42, AAP-E8: budgets also limit simultaneous callers. A call that certainly
// did not happen gives its amount back, once.
func TestATK42_Budgets(t *testing.T) {
	b := newBank(t, bankOptions{capabilities: "        - {name: buy, description: Buys, sensitivity: read, uses: 5}\n" +
		"        - {name: pay, description: Pays, sensitivity: read, sum: {amount: 100}}"})
	m := b.active("alice", "buy", "pay")
	codes := make(chan string, 40)
	for range 40 {
		go func() { codes <- m.execute("buy", nil).text("error") }()
	}
	count := map[string]int{}
	for range 40 {
		count[<-codes]++
	}
	if count[""] != 5 || count["limit_exceeded"] != 35 || b.did("buy") != 5 {
		t.Errorf("of 40 at once: %v, the service was asked %d times; want 5 done", count, b.did("buy"))
	}
	for _, c := range []struct {
		amount any
		code   string
	}{{60.5, ""}, {39.6, "limit_exceeded"}, {39.5, ""}, {0.01, "limit_exceeded"}, {-50, "invalid_request"}, {"5", "invalid_request"}, {nil, "invalid_request"}, {0, ""}} {
		if r := m.execute("pay", args("amount", c.amount)); r.text("error") != c.code {
			t.Errorf("pay %v: %s; want %q", c.amount, r.Raw, c.code)
		}
	}
	// What the service says no to gives back its amount, and no more.
	n := b.active("alice", "pay")
	b.refuse("pay", true)
	for range 3 {
		b.want("refused by the service", n.execute("pay", args("amount", 100)), http.StatusBadRequest, "invalid_request")
	}
	b.refuse("pay", false)
	b.want("given back", n.execute("pay", args("amount", 100)), http.StatusOK, "")
	b.want("once", n.execute("pay", args("amount", 1)), http.StatusForbidden, "limit_exceeded")
	// After a restart nothing is forgotten.
	b.again(func() {})
	r := b.want("after a restart", n.execute("pay", args("amount", 1)), http.StatusForbidden, "limit_exceeded")
	if d := b.record(r.text("decision_id")); d.Decision != "DENY" {
		t.Errorf("the denial is recorded as %+v", d)
	}
}
