package e2e

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"
)

// AAP-D1 to D9, P9: what a client finds out before it has a key.
func TestAAPD1_Discovery(t *testing.T) {
	b := newBank(t, bankOptions{})
	r := b.ask(http.MethodGet, "/.well-known/agent-configuration", "", nil)
	// AAP-D2, AAP-D4, AAP-D6, AAP-D7
	for name, want := range map[string]string{
		"version": "1.0-draft", "provider_name": "bank", "description": "A bank", "issuer": b.url, "default_location": b.url + "/capability/execute",
	} {
		if r.text(name) != want {
			t.Errorf("%s is %q; want %q", name, r.text(name), want)
		}
	}
	for name, want := range map[string]string{"algorithms": "Ed25519", "modes": "delegated", "approval_methods": "device_authorization"} {
		list, _ := r.Body[name].([]any)
		if len(list) == 0 || list[0] != want {
			t.Errorf("%s is %v; want %s first", name, r.Body[name], want)
		}
	}
	if c := r.Header.Get("Cache-Control"); !strings.Contains(c, "max-age=3600") { // AAP-D5
		t.Errorf("Cache-Control is %q", c)
	}
	preflight := b.ask(http.MethodOptions, "/.well-known/agent-configuration", "", nil)
	if preflight.Status != http.StatusNoContent || preflight.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("AAP-D5 a page asks whether it may read: HTTP %d %v", preflight.Status, preflight.Header)
	}
	// AAP-D3, AAP-D9: every endpoint answers in the protocol's form.
	endpoints, _ := r.Body["endpoints"].(map[string]any)
	for _, name := range []string{
		"register", "capabilities", "describe_capability", "execute", "request_capability", "status", "reactivate", "revoke", "revoke_host", "rotate_key",
		"rotate_host_key", "introspect", "batch_execute",
	} {
		path, _ := endpoints[name].(string)
		if path == "" {
			t.Errorf("endpoint %s is missing", name)
			continue
		}
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if a := b.ask(method, path, "", nil); a.Body == nil || a.Status == http.StatusNotFound && name != "describe_capability" {
				t.Errorf("%s %s: %d %s", method, path, a.Status, a.Raw)
			}
		}
	}
	if keys := b.ask(http.MethodGet, r.text("jwks_uri"), "", nil); keys.Body["keys"] == nil {
		t.Errorf("jwks_uri: %s", keys.Raw)
	}
}

// AAP-F1, F2: whatever goes wrong is said in the protocol's form.
func TestAAPF1_ErrorsHaveOneForm(t *testing.T) {
	b := newBank(t, bankOptions{})
	b.want("an unknown path", b.ask(http.MethodGet, "/agent/nothing", "", nil), http.StatusNotFound, "not_found")
	b.want("a method", b.ask(http.MethodDelete, "/agent/register", "", nil), http.StatusMethodNotAllowed, "method_not_allowed")
	host := newOKP(t)
	for _, body := range []string{"{", "[]", `{"name":"a","name":"b"}`, `{"name":1}`, `{"name":"a"} x`} {
		r := b.ask(http.MethodPost, "/agent/register", b.host(host, fact{"agent_public_key": newOKP(t).jwk}), body)
		b.want("malformed "+body, r, http.StatusBadRequest, "invalid_request")
	}
	r := b.want("no token", b.ask(http.MethodPost, "/agent/register", "", map[string]any{}), http.StatusUnauthorized, "authentication_required")
	if c := r.Header.Get("WWW-Authenticate"); c != `AgentAuth discovery="`+b.url+`/.well-known/agent-configuration"` { // AAP-F2
		t.Errorf("WWW-Authenticate is %q", c)
	}
	m := b.active("alice", "check_balance")
	if r := m.execute("list_accounts", nil); r.Header.Get("WWW-Authenticate") != "" || r.Status != http.StatusForbidden {
		t.Errorf("a token that holds is challenged: %d %v", r.Status, r.Header)
	}
}

// AAP-H1 to H8, H11 to H14, T1 to T5, Z2, and ATK-11 to 14, 21: tokens of hosts.
func TestAAPH1_TokensOfHosts(t *testing.T) {
	b := newBank(t, bankOptions{})
	host, other := newOKP(t), newOKP(t)
	m, r := b.register(host, map[string]any{"capabilities": []any{"check_balance"}})
	b.want("register", r, http.StatusOK, "")
	b.want("approve", b.approve("alice", m.code, map[string]any{}), http.StatusOK, "")
	now := time.Now().Unix()
	ask := func(token string) reply { return b.ask(http.MethodGet, "/agent/status?agent_id="+m.id, token, nil) }
	for name, token := range map[string]string{
		"AAP-H1 an agent's type":     host.sign("agent+jwt", fact{"iss": host.thumb, "aud": b.url}),
		"AAP-H1 no type":             host.signAs(fact{"alg": "EdDSA"}, fact{"iss": host.thumb, "aud": b.url, "iat": now, "exp": now + 60, "jti": "a"}),
		"ATK-12 none":                host.signAs(fact{"alg": "none", "typ": "host+jwt"}, fact{"iss": host.thumb, "aud": b.url, "iat": now, "exp": now + 60, "jti": "b"}),
		"ATK-11 another algorithm":   host.signAs(fact{"alg": "HS256", "typ": "host+jwt"}, fact{"iss": host.thumb, "aud": b.url, "iat": now, "exp": now + 60, "jti": "c"}),
		"ATK-14 a key in the header": host.signAs(fact{"alg": "EdDSA", "typ": "host+jwt", "jwk": host.jwk}, fact{"iss": host.thumb, "aud": b.url, "iat": now, "exp": now + 60, "jti": "d"}),
		"AAP-H3 another's iss":       other.sign("host+jwt", fact{"iss": host.thumb, "aud": b.url, "host_public_key": other.jwk}),
		"AAP-H4 another audience":    b.host(host, fact{"aud": "https://other.example"}),
		"AAP-H4 several audiences":   b.host(host, fact{"aud": []string{b.url, "https://other.example"}}),
		"AAP-H2 no audience":         b.host(host, fact{"aud": nil}),
		"AAP-H2 no iss":              b.host(host, fact{"iss": nil}),
		"AAP-T1 no jti":              b.host(host, fact{"jti": nil}),
		"AAP-H6 expired":             b.host(host, fact{"iat": now - 200, "exp": now - 140}),
		"AAP-H6 ahead":               b.host(host, fact{"iat": now + 100, "exp": now + 160}),
		"AAP-H6 too long":            b.host(host, fact{"exp": now + 3600}),
		"AAP-H6 a second too long":   b.host(host, fact{"iat": now, "exp": now + 61}),
		"ATK-21 times as text":       b.host(host, fact{"exp": "9999999999"}),
		"ATK-21 times in the future": b.host(host, fact{"iat": float64(now) + 100.5, "exp": float64(now) + 130.5}),
		"ATK-21 no time":             b.host(host, fact{"exp": 1e300}),
		"no exp":                     b.host(host, fact{"exp": nil}),
		"AAP-H9 keys by URL":         b.host(host, fact{"host_public_key": nil, "host_jwks_url": "https://keys.example/set"}),
		"AAP-Z2 a longer audience":   b.host(host, fact{"aud": b.url + "/"}),
	} {
		b.want(name, ask(token), http.StatusUnauthorized, "invalid_jwt")
	}
	b.want("AAP-H2 as libraries write it", ask(b.host(host, fact{"aud": []string{b.url}, "iat": float64(now) + 0.5, "exp": now + 30})), http.StatusOK, "")
	if log := b.log.String(); !strings.Contains(log, "a token is refused for its times") || !strings.Contains(log, "ahead of this server's clock") {
		t.Errorf("AAP-H6 who is ahead is not in the log:\n%s", log)
	}
	good := b.host(host, fact{"agent_public_key": newOKP(t).jwk, "sub": "x", "host_name": "y"}) // AAP-H11, AAP-H14
	b.want("AAP-H11", ask(good), http.StatusOK, "")
	b.want("AAP-H7, AAP-T5 shown again", ask(good), http.StatusUnauthorized, "invalid_jwt")
	b.want("AAP-H7 shown elsewhere", b.ask(http.MethodPost, "/host/revoke", good, nil), http.StatusUnauthorized, "invalid_jwt")
	// A token that does not hold uses up no id (ATK-9): the same id signed rightly.
	id := fact{"jti": "burnt"}
	b.want("ATK-9", ask(other.sign("host+jwt", fact{"iss": host.thumb, "aud": b.url}, id)), http.StatusUnauthorized, "invalid_jwt")
	b.want("ATK-9, AAP-T3", ask(b.host(host, id)), http.StatusOK, "")
	// AAP-H9: exactly one way for the key of an unknown host.
	for name, more := range map[string]map[string]any{
		"neither": {"host_public_key": nil}, "both": {"host_jwks_url": "https://keys.example/set"},
	} {
		k := newOKP(t)
		r := b.ask(http.MethodPost, "/agent/register", b.host(k, fact{"agent_public_key": newOKP(t).jwk}, more), map[string]any{"name": "x"})
		b.want("AAP-H9 "+name, r, http.StatusUnauthorized, "invalid_jwt")
	}
	// AAP-H12
	b.want("AAP-H12", b.ask(http.MethodPost, "/agent/register", b.host(newOKP(t)), map[string]any{"name": "x"}), http.StatusBadRequest, "invalid_request")
	b.want("an unknown host", b.ask(http.MethodPost, "/host/revoke", b.host(newOKP(t)), nil), http.StatusNotFound, "host_not_found")
}

// AAP-J1 to J8, J10, T1, T5, Z2: tokens of agents.
func TestAAPJ1_TokensOfAgents(t *testing.T) {
	b := newBank(t, bankOptions{})
	m, n := b.active("alice", "check_balance", "list_accounts"), b.active("bob", "check_balance")
	now := time.Now().Unix()
	at := b.url + "/capability/execute"
	execute := func(token string) reply {
		return b.ask(http.MethodPost, "/capability/execute", token, map[string]any{"capability": "check_balance", "arguments": map[string]any{"account_id": "a"}})
	}
	for name, token := range map[string]string{
		"AAP-J1 a host's type":          m.key.sign("host+jwt", fact{"iss": m.host.thumb, "sub": m.id, "aud": at}),
		"AAP-J3 the issuer as audience": m.token(b.url),
		"AAP-J3 no audience":            m.token(at, fact{"aud": nil}),
		"AAP-J2 another's iss":          m.token(at, fact{"iss": n.host.thumb}),
		"AAP-J2 an iss that is none":    m.token(at, fact{"iss": "nobody"}),
		"AAP-J5 another agent":          m.token(at, fact{"sub": n.id}),
		"AAP-J5 no such agent":          m.token(at, fact{"sub": "agt_none"}),
		"AAP-J2 no sub":                 m.token(at, fact{"sub": nil}),
		"AAP-J6 another key":            n.key.sign("agent+jwt", fact{"iss": m.host.thumb, "sub": m.id, "aud": at}),
		"AAP-J6 the host's key":         m.host.sign("agent+jwt", fact{"iss": m.host.thumb, "sub": m.id, "aud": at}),
		"AAP-J6 expired":                m.token(at, fact{"iat": now - 200, "exp": now - 140}),
		"AAP-T1 no jti":                 m.token(at, fact{"jti": nil}),
	} {
		b.want(name, execute(token), http.StatusUnauthorized, "invalid_jwt")
	}
	batch := func(token string) reply {
		return b.ask(http.MethodPost, "/capability/batch-execute", token, args("requests", []any{args("capability", "check_balance", "arguments", args("account_id", "a"))}))
	}
	b.want("AAP-J3 the issuer as audience of a batch", batch(m.token(b.url)), http.StatusUnauthorized, "invalid_jwt")
	if b.did("check_balance") != 0 {
		t.Error("AAP-J3: the service was asked for what was refused")
	}
	b.want("AAP-J3 a batch", batch(m.token(at)), http.StatusOK, "")
	b.want("AAP-J2 without iss, as the protocol's client makes it", execute(m.token(at, fact{"iss": nil})), http.StatusOK, "")
	token := m.token(at)
	b.want("AAP-J6", execute(token), http.StatusOK, "")
	b.want("AAP-J6, AAP-J10, AAP-T5 shown again", execute(token), http.StatusUnauthorized, "invalid_jwt")
	// AAP-J7: operations of hosts reject tokens of agents.
	for _, path := range []string{"/agent/revoke", "/agent/reactivate", "/agent/rotate-key", "/host/rotate-key", "/host/revoke"} {
		b.want("AAP-J7 "+path, b.ask(http.MethodPost, path, m.token(b.url), map[string]any{"agent_id": m.id}), http.StatusUnauthorized, "invalid_jwt")
	}
	// Nor one of that type which its host has signed, and which would be good otherwise.
	mixed := m.host.sign("agent+jwt", fact{"iss": m.host.thumb, "sub": m.id, "aud": b.url, "host_public_key": m.host.jwk})
	for _, path := range []string{"/agent/revoke", "/agent/reactivate", "/agent/rotate-key", "/host/rotate-key", "/host/revoke"} {
		b.want("AAP-J7 the host's key at "+path, b.ask(http.MethodPost, path, mixed, map[string]any{"agent_id": m.id, "public_key": newOKP(t).jwk}), http.StatusUnauthorized, "invalid_jwt")
	}
	b.want("AAP-J7 status", b.ask(http.MethodGet, "/agent/status?agent_id="+m.id, m.token(b.url), nil), http.StatusUnauthorized, "invalid_jwt")
	// AAP-J8: a token can be for less than the agent has.
	b.want("AAP-J8", m.execute("check_balance", map[string]any{"account_id": "a"}, fact{"capabilities": []string{"check_balance"}}), http.StatusOK, "")
	b.want("AAP-J8 others", m.execute("list_accounts", nil, fact{"capabilities": []string{"check_balance"}}), http.StatusForbidden, "capability_not_granted")
	b.want("AAP-J8 none", m.execute("list_accounts", nil, fact{"capabilities": []string{}}), http.StatusForbidden, "capability_not_granted")
	b.want("AAP-J8 no wider", n.execute("list_accounts", nil, fact{"capabilities": []string{"list_accounts"}}), http.StatusForbidden, "capability_not_granted")
	if b.did("list_accounts") != 0 {
		t.Error("the service was asked for what was refused")
	}
}

// AAP-J2, J3: the switches.
func TestAAPJ2_StrictTokens(t *testing.T) {
	b := newBank(t, bankOptions{conf: "      require_issuer: true\n      issuer_audience: true"})
	m := b.active("alice", "check_balance")
	body := map[string]any{"capability": "check_balance", "arguments": map[string]any{"account_id": "a"}}
	b.want("AAP-J2 without iss", b.ask(http.MethodPost, "/capability/execute", m.token(b.url+"/capability/execute", fact{"iss": nil}), body), http.StatusUnauthorized, "invalid_jwt")
	b.want("AAP-J3 the issuer as audience", b.ask(http.MethodPost, "/capability/execute", m.token(b.url), body), http.StatusOK, "")
	b.want("AAP-J3 of a batch", b.ask(http.MethodPost, "/capability/batch-execute", m.token(b.url), args("requests", []any{body})), http.StatusOK, "")
}

// AAP-C1 to C8, C10, C11, P1, P8, P9, P11: the catalogue.
func TestAAPC1_Catalogue(t *testing.T) {
	b := newBank(t, bankOptions{})
	names := func(r reply) (out []string) {
		list, _ := r.Body["capabilities"].([]any)
		for _, c := range list {
			one, _ := c.(map[string]any)
			name, _ := one["name"].(string)
			if status, ok := one["grant_status"].(string); ok {
				name += " " + status
			}
			if len(one) > 3 || one["description"] == "" {
				t.Errorf("AAP-P8 a listing is light: %v", one)
			}
			out = append(out, name)
		}
		return out
	}
	r := b.ask(http.MethodGet, "/capability/list", "", nil)
	if got := strings.Join(names(r), ","); got != "check_balance,transfer_money" { // AAP-C2
		t.Errorf("strangers see %s", got)
	}
	if v, ok := r.Body["next_cursor"]; !ok || v != nil || r.Body["has_more"] != false { // AAP-P9
		t.Errorf("AAP-P9: %s", r.Raw)
	}
	if c := r.Header.Get("Cache-Control"); c != "public, max-age=300" { // AAP-C5
		t.Errorf("Cache-Control is %q", c)
	}
	m := b.active("alice", "check_balance")
	r = b.ask(http.MethodGet, "/capability/list", m.token(b.url), nil)
	got := strings.Join(names(r), ",")
	for _, want := range []string{"check_balance granted", "close_account not_granted", "statement not_granted"} {
		if !strings.Contains(got, want) {
			t.Errorf("AAP-C2 agents see %s; want %s", got, want)
		}
	}
	if c := r.Header.Get("Cache-Control"); c != "private, max-age=300" {
		t.Errorf("AAP-C5 Cache-Control is %q", c)
	}
	if got := names(b.ask(http.MethodGet, "/capability/list", b.host(m.host), nil)); len(got) != 8 {
		t.Errorf("AAP-C2 a host sees %v", got)
	}
	// AAP-C1, AAP-C4: pages.
	var all []string
	cursor := ""
	for {
		r := b.ask(http.MethodGet, "/capability/list?limit=3&cursor="+cursor, m.token(b.url), nil)
		all = append(all, names(r)...)
		if r.Body["has_more"] != true {
			break
		}
		cursor = r.text("next_cursor")
	}
	if len(all) != 8 {
		t.Errorf("AAP-C1 pages: %v", all)
	}
	if got := names(b.ask(http.MethodGet, "/capability/list?query=move+money", "", nil)); len(got) != 1 || got[0] != "transfer_money" {
		t.Errorf("AAP-C1 query: %v", got)
	}
	b.want("AAP-C4 a cursor that is none", b.ask(http.MethodGet, "/capability/list?cursor=%21", "", nil), http.StatusBadRequest, "invalid_request")
	b.want("AAP-C11", b.ask(http.MethodGet, "/capability/list", "no-token", nil), http.StatusUnauthorized, "invalid_jwt")
	b.want("AAP-C11 describe", b.ask(http.MethodGet, "/capability/describe?name=check_balance", "no-token", nil), http.StatusUnauthorized, "invalid_jwt")
	// AAP-C6, AAP-P1
	r = b.ask(http.MethodGet, "/capability/describe?name=check_balance", m.token(b.url), nil)
	if input, _ := r.Body["input"].(map[string]any); r.text("grant_status") != "granted" || input["type"] != "object" {
		t.Errorf("AAP-C6: %s", r.Raw)
	}
	if r := b.ask(http.MethodGet, "/capability/describe?name=statement", m.token(b.url), nil); r.text("location") != "https://statements.example/run" { // AAP-C10, AAP-P10
		t.Errorf("AAP-C10: %s", r.Raw)
	}
	b.want("AAP-C6 none", b.ask(http.MethodGet, "/capability/describe?name=nothing", m.token(b.url), nil), http.StatusNotFound, "capability_not_found")
	b.want("AAP-P8 not for strangers", b.ask(http.MethodGet, "/capability/describe?name=list_accounts", "", nil), http.StatusNotFound, "capability_not_found")
	// AAP-P11, AAP-C7: names are whole.
	b.want("AAP-P11", m.execute("check", nil), http.StatusNotFound, "capability_not_found")
	b.want("AAP-P11 case", m.execute("CHECK_BALANCE", nil), http.StatusNotFound, "capability_not_found")
}

// AAP-C3: a provider that shows nothing to strangers.
func TestAAPC3_PrivateCatalogue(t *testing.T) {
	b := newBank(t, bankOptions{conf: "      private: true"})
	r := b.want("AAP-C3", b.ask(http.MethodGet, "/capability/list", "", nil), http.StatusUnauthorized, "authentication_required")
	if !strings.HasPrefix(r.Header.Get("WWW-Authenticate"), "AgentAuth ") {
		t.Errorf("no challenge: %v", r.Header)
	}
	// A stranger's key is no authentication, nor is that of a host which waits.
	waits, _ := b.register(newOKP(t), args("capabilities", []any{"check_balance"}))
	for name, host := range map[string]okp{"nobody knows": newOKP(t), "waits": waits.host} {
		b.want("AAP-C3 a host that "+name, b.ask(http.MethodGet, "/capability/list", b.host(host), nil), http.StatusUnauthorized, "authentication_required")
		b.want("AAP-C3 a host that "+name+", one capability", b.ask(http.MethodGet, "/capability/describe?name=check_balance", b.host(host), nil), http.StatusUnauthorized, "authentication_required")
	}
	m := b.active("alice", "check_balance")
	b.want("AAP-C3 a host", b.ask(http.MethodGet, "/capability/list", b.host(m.host), nil), http.StatusOK, "")
	b.want("AAP-C3 an agent", b.ask(http.MethodGet, "/capability/list", m.token(b.url), nil), http.StatusOK, "")
}

// AAP-P12, C8, J5, M1: a capability that is gone is not executed, whatever was
// granted; an unknown name is another thing.
func TestAAPP12_RemovedCapabilities(t *testing.T) {
	b := newBank(t, bankOptions{capabilities: "        - {name: old_way, description: Goes away, sensitivity: read}"})
	m := b.active("alice", "check_balance", "old_way")
	b.want("while it is there", m.execute("old_way", nil), http.StatusOK, "")
	b.again(func() {
		text := b.file("powerbox.yaml")
		b.write("powerbox.yaml", strings.ReplaceAll(text, "        - {name: old_way, description: Goes away, sensitivity: read}", ""))
	})
	r := b.want("AAP-P12, AAP-C8", m.execute("old_way", nil), http.StatusForbidden, "capability_not_granted")
	if !strings.Contains(r.text("message"), "removed") {
		t.Errorf("AAP-C8 the message says %q", r.text("message"))
	}
	b.want("AAP-C8", m.execute("never_was", nil), http.StatusNotFound, "capability_not_found")
	b.want("the others stay", m.execute("check_balance", map[string]any{"account_id": "a"}), http.StatusOK, "")
	if b.did("old_way") != 1 {
		t.Error("the service was asked for a capability that is gone")
	}
}

// ATK-27, ATK-30 of this interface: one strict decoder reads the decided
// request, within a limit.
func TestATK27_BodiesOfAgentAuth(t *testing.T) {
	b := newBank(t, bankOptions{})
	m := b.active("alice", "check_balance")
	at := b.url + "/capability/execute"
	for _, body := range []string{
		`{"capability":"check_balance","capability":"list_accounts","arguments":{"account_id":"a"}}`,
		`{"capability":"check_balance","arguments":{"account_id":"a","account_id":"b"}}`,
		`{"capability":"check_balance","arguments":{"account_id":"a","Account_ID":"b"}}`,
		`{"capability":"check_balance","arguments":{"account_id":"a","filter":[{"path":"a","Path":"b"}]}}`,
		`{"capability":"check_balance","Capability":"list_accounts","arguments":{"account_id":"a"}}`,
		`[{"capability":"check_balance"}]`,
		`{"capability":"check_balance","arguments":{"account_id":"a"}}{"capability":"list_accounts"}`,
		`{"capability":"` + strings.Repeat("a", 5<<20) + `"}`,
	} {
		b.want(body[:min(len(body), 80)], b.ask(http.MethodPost, "/capability/execute", m.token(at), body), http.StatusBadRequest, "invalid_request")
	}
	many := fact{"requests": []fact{{"id": "1", "capability": "check_balance", "arguments": fact{"account_id": "a", "Account_ID": "b"}}}}
	b.want("in a batch", b.ask(http.MethodPost, "/capability/batch-execute", m.token(b.url+"/capability/batch-execute"), many), http.StatusBadRequest, "invalid_request")
	// Claims, too.
	payload := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"` + m.id + `","aud":"x","aud":"` + at + `","iat":1,"exp":2,"jti":"x"}`))
	head := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"EdDSA","typ":"agent+jwt"}`))
	b.want("claims twice", b.ask(http.MethodPost, "/capability/execute", head+"."+payload+".AAAA", "{}"), http.StatusUnauthorized, "invalid_jwt")
	if b.did("check_balance") != 0 {
		t.Error("something reached the service")
	}
}
