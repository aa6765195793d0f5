package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/powerbox-project/powerbox/internal/identity/oidctest"
)

// permitted is what each role may do, written a second time.
var permitted = map[string]string{
	"":              "",
	"viewer":        "see evidence",
	"approver":      "approve",
	"auditor":       "evidence contents",
	"operator":      "see evidence contents stop steer",
	"administrator": "see evidence contents stop steer administer",
}

// demand is what one operation takes: one of the permissions, or any login.
type demand struct {
	permission string // "login" for every person, "session" for those and for sessions of agents
	everywhere bool   // at every agent
	body       string // X stands for the id of the kind
	kind       string // of the id in the path or the body
}

// demands are all operations of /v1. An operation that the server describes and that is not
// here fails the test.
var demands = map[string]demand{
	"GET /v1/agents":                             {permission: "see"},
	"GET /v1/agents/{agent}":                     {permission: "see", kind: "agent"},
	"PUT /v1/agents/{agent}/mode":                {permission: "steer", kind: "agent", body: `{"mode":"observe"}`},
	"POST /v1/agents/{agent}/keys":               {permission: "administer", kind: "agent", body: `{"reason":"test"}`},
	"GET /v1/trust/{agent}":                      {permission: "see", kind: "agent"},
	"GET /v1/summary":                            {permission: "see evidence"},
	"POST /v1/config/reload":                     {permission: "administer", everywhere: true, body: `{}`},
	"GET /v1/webhooks":                           {permission: "see", everywhere: true},
	"POST /v1/webhooks/{id}":                     {permission: "steer", everywhere: true, body: `{}`, kind: "record"},
	"POST /v1/revocations":                       {permission: "stop", body: `{"target":"X"}`, kind: "capability"},
	"GET /v1/revocations/{sequence}/gateways":    {permission: "see", kind: "sequence"},
	"GET /v1/revoked":                            {permission: "see", everywhere: true},
	"GET /v1/freezes":                            {permission: "see"},
	"POST /v1/freezes":                           {permission: "stop", body: `{"target":"agent:X","reason":"test"}`, kind: "agent"},
	"POST /v1/thaws":                             {permission: "steer", body: `{"target":"agent:X","reason":"test"}`, kind: "agent"},
	"GET /v1/people":                             {permission: "see", everywhere: true},
	"GET /v1/sessions":                           {permission: "administer", everywhere: true},
	"POST /v1/people/{verb}":                     {permission: "administer", everywhere: true, body: `{"principal":"user:none","reason":"test"}`, kind: "verb"},
	"GET /v1/feed/key":                           {permission: "see", everywhere: true},
	"POST /v1/feed/extension":                    {permission: "steer", everywhere: true, body: `{"until":"UNTIL","reason":"test"}`},
	"POST /v1/gateway-tokens":                    {permission: "administer", everywhere: true, body: `{"agent":"X","ttl":60}`, kind: "agent"},
	"GET /v1/gateways":                           {permission: "see"},
	"DELETE /v1/gateways/{id}":                   {permission: "administer", everywhere: true, kind: "gateway"},
	"GET /v1/capabilities":                       {permission: "see"},
	"GET /v1/capabilities/{id}":                  {permission: "see evidence", kind: "capability"},
	"POST /v1/capabilities/{id}/status":          {permission: "steer", kind: "capability", body: `{}`},
	"POST /v1/capabilities/{id}/narrow":          {permission: "steer", kind: "capability", body: `{"operations":["search"]}`},
	"POST /v1/capabilities/{id}/keep":            {permission: "steer", kind: "capability", body: `{"reason":"test"}`},
	"POST /v1/grants":                            {permission: "steer", kind: "record", body: `{"record":"X"}`},
	"GET /v1/graph":                              {permission: "see"},
	"POST /v1/can":                               {permission: "see", kind: "agent", body: `{"caller":"reader","agent":"X","operation":"documents/documents:read/search"}`},
	"POST /v1/try":                               {permission: "see", kind: "agent", body: `{"caller":"reader","agent":"X","operation":"documents:read/search"}`},
	"GET /v1/records":                            {permission: "evidence"},
	"GET /v1/records/stream":                     {permission: "evidence"},
	"GET /v1/records/{id}":                       {permission: "evidence", kind: "record"},
	"GET /v1/records/{id}/body":                  {permission: "contents", kind: "record"},
	"GET /v1/records/{id}/arguments-key":         {permission: "contents", kind: "record"},
	"GET /v1/evidence/bundle":                    {permission: "evidence", everywhere: true},
	"GET /v1/evidence/proof/{id}":                {permission: "evidence", kind: "record"},
	"GET /v1/evidence/trust":                     {permission: "evidence see"},
	"GET /v1/evidence/witnesses":                 {permission: "see evidence"},
	"POST /v1/evidence/erasures":                 {permission: "administer", everywhere: true, kind: "record", body: `{"records":["X"]}`},
	"GET /v1/evidence/periods":                   {permission: "evidence", everywhere: true},
	"POST /v1/evidence/periods":                  {permission: "administer", everywhere: true, body: `{}`},
	"GET /v1/evidence/periods/{period}/bundle":   {permission: "evidence", everywhere: true, kind: "period"},
	"POST /v1/evidence/periods/{period}/archive": {permission: "administer", everywhere: true, kind: "period", body: `{"root":"AAAA"}`},
	"GET /v1/policies":                           {permission: "see", everywhere: true},
	"GET /v1/policies/tests":                     {permission: "see", everywhere: true},
	"POST /v1/policies/replay":                   {permission: "see", everywhere: true, body: `{"policies":"permit(principal, action, resource);"}`},
	"GET /v1/whoami":                             {permission: "login"},
	"GET /v1/openapi.json":                       {permission: "login"},
	"GET /v1/registry/agents":                    {permission: "session"},
	"GET /v1/registry/agents/{id}":               {permission: "session", kind: "agent"},
	"POST /v1/registry/agents":                   {permission: "administer", everywhere: true, body: `{"id":"added","url":"http://127.0.0.1:9/card.json"}`},
	"POST /v1/registry/agents/{id}/refresh":      {permission: "steer", everywhere: true, kind: "agent", body: `{}`},
	"POST /v1/registry/agents/{id}/accept":       {permission: "steer", everywhere: true, kind: "agent", body: `{"card_digest":"x"}`},
	"GET /v1/registry/agents/{id}/consent":       {permission: "see", kind: "agent"},
	"POST /v1/registry/agents/{id}/consent":      {permission: "steer", kind: "agent", body: `{"card_digest":"x"}`},
	"DELETE /v1/registry/agents/{id}":            {permission: "administer", everywhere: true, kind: "agent"},
}

// account is one that sends requests.
type account struct {
	name string
	// may is what it may do, and where: "" for none, "*" for every agent, or the id of one.
	may, where string
	person     bool // it is a person who operates
	session    bool // it is a user's session for agents, which may search the registry
	sign       func(r *http.Request, body []byte)
}

func (a account) permits(d demand) bool {
	switch d.permission {
	case "login":
		return a.person
	case "session":
		return a.person || a.session
	}
	if d.everywhere && a.where != "*" {
		return false
	}
	return slices.ContainsFunc(strings.Fields(d.permission), func(one string) bool { return slices.Contains(strings.Fields(a.may), one) })
}

func bearing(token string) func(*http.Request, []byte) {
	return func(r *http.Request, _ []byte) { r.Header.Set("Authorization", "Bearer "+token) }
}

// accounts is a town with an account of each kind.
type accounts struct {
	*town
	login     login
	all       []account
	ids, none map[string]string // by kind: one that there is, and one that there is not
}

// idToken is what a person gets by logging in at a client.
func (p *accounts) idToken(user, client string, at time.Time) string {
	p.t.Helper()
	return oidctest.Sign(p.t, jose.ES256, p.login.key, map[jose.HeaderKey]any{"kid": "one"}, map[string]any{
		"iss": "https://login.example.org", "aud": client, "sub": user, "iat": at.Unix(), "auth_time": at.Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	})
}

const accountsIdentity = `  providers: [{issuer: "https://login.example.org", audience: [https://agents.example.org], jwks_file: keys.json}]
  callers: [{agent: mailer, client: mailer-app}, {agent: reader, client: reader-app}]
  guards: [{name: helpdesk, token_file: guard.token, agents: [documents], users: true}]
`

const accountsProvider = `    agent_auth:
      capabilities: [{name: check_balance, description: See the balance, sensitivity: read}]
`

// everyAccount starts a town and makes its accounts: people by role, at every agent and at
// documents, people whose login does not count, and everything that is no person.
func everyAccount(t *testing.T) *accounts {
	t.Helper()
	p := &accounts{login: newLogin(t)}
	roles := "operators:\n  login: {issuer: \"https://login.example.org\", client_id: powerbox-login}\n  roles:\n" +
		"    - {role: administrator, who: [\"user:frozen\", \"user:removed\", \"user:leaver\"]}\n"
	for _, role := range slices.Sorted(maps.Keys(permitted)) {
		if role != "" {
			roles += fmt.Sprintf("    - {role: %[1]s, who: [\"user:%[1]s\"]}\n    - {role: %[1]s, who: [\"user:%[1]s-here\"], agents: [documents]}\n", role)
		}
	}
	p.town = start(t, options{
		agent: accountsProvider, callers: accountsIdentity, extra: roles,
		issuer: "  feed: {relays: [{name: one, token_file: relay.token}]}\n",
		files:  map[string]string{"keys.json": p.login.jwks(t), "guard.token": guardToken + "\n", "relay.token": relayToken + "\n"},
	})
	p.client = http.DefaultClient
	now := time.Now()
	for _, role := range slices.Sorted(maps.Keys(permitted)) {
		name := "user:" + role
		if role == "" {
			role = "nobody"
		}
		p.all = append(p.all,
			account{name: name + " everywhere", may: permitted[strings.TrimPrefix(name, "user:")], where: "*", person: true, sign: bearing(p.idToken(role, "powerbox-login", now))},
			account{name: name + " at documents", may: permitted[strings.TrimPrefix(name, "user:")], where: "documents", person: true, sign: bearing(p.idToken(role+"-here", "powerbox-login", now))},
			account{name: name + " by a token for another client", sign: bearing(p.idToken(role, "other-client", now))},
			account{name: name + " by an old login", sign: bearing(p.idToken(role, "powerbox-login", now.Add(-9*time.Hour)))},
			account{name: name + " by an application's token", session: true, sign: bearing(p.login.token(t, role, "mailer-app"))},
		)
	}
	for user, verb := range map[string]string{"frozen": "freeze", "removed": "remove", "leaver": "logout"} {
		session := p.idToken(user, "powerbox-login", now)
		p.must("person", verb, "user:"+user, "--reason", "a test")
		p.all = append(p.all, account{name: "an administrator after person " + verb, sign: bearing(session)})
	}
	p.others()
	return p
}

// others are accounts of programs, and the ids that requests name.
func (p *accounts) others() {
	t := p.t
	alice := p.caller(aliceToken)
	held := alice.reports()
	arguments := map[string]any{"query": "figures"}
	a := alice.present("documents", data("search_documents", arguments), proven{chain: []string{held.Token}, operation: opSearch, arguments: arguments})
	gateway := p.gatewayOf("mail")
	host := newOKP(t)
	hostToken := host.sign("host+jwt", map[string]any{"iss": host.thumb, "aud": p.url, "host_public_key": host.jwk})
	agentToken := host.sign("agent+jwt", map[string]any{"iss": host.thumb, "sub": "agt_0", "aud": p.url})
	p.all = append(p.all,
		account{name: "anonymous", sign: func(*http.Request, []byte) {}},
		account{name: "a wrong token", sign: bearing(strings.Repeat("x", 43))},
		account{name: "a user's session for agents", session: true, sign: bearing(aliceToken)},
		account{name: "a capability", sign: func(r *http.Request, b []byte) {
			bearing(held.Token)(r, b)
			r.Header.Set("Powerbox-Capability", held.Token)
		}},
		account{name: "a host", sign: bearing(hostToken)},
		account{name: "an agent of a host", sign: bearing(agentToken)},
		account{name: "a guard", sign: bearing(guardToken)},
		account{name: "a relay", sign: bearing(relayToken)},
		account{name: "a gateway", sign: func(r *http.Request, body []byte) {
			if err := gateway.client.Sign(r, body); err != nil {
				t.Fatal(err)
			}
		}},
	)
	record := a.Header.Get("Powerbox-Decision-Id")
	if record == "" {
		record = p.newestOf("documents")
	}
	var gateways []struct{ ID string }
	_, said := p.operates(http.MethodGet, "/v1/gateways", nil)
	if err := json.Unmarshal([]byte(said), &gateways); err != nil || len(gateways) != 1 {
		t.Fatalf("gateways: %v %s", err, said)
	}
	p.ids = map[string]string{"agent": "documents", "capability": held.ID, "record": record, "gateway": gateways[0].ID, "sequence": "1", "verb": "logout", "period": "1"}
	p.none = map[string]string{"verb": "thaw", "period": "77", "gateway": "gw_none"}
	for _, kind := range []string{"agent", "capability", "record", "sequence"} {
		p.none[kind] = unknownOf(kind, p.ids[kind])
	}
}

// newestOf is the id of the last record about an agent.
func (p *accounts) newestOf(agent string) string {
	return (&tenants{town: p.town}).newest(agent)
}

// send sends the request of an operation as an account.
func (p *accounts) send(as account, operation string, d demand, id string) (status int, said string) {
	p.t.Helper()
	method, path, _ := strings.Cut(operation, " ")
	path = inBraces.ReplaceAllString(path, url.PathEscape(id))
	body := []byte(strings.NewReplacer("X", id, "UNTIL", time.Now().Add(time.Minute).UTC().Format(time.RFC3339)).Replace(d.body))
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, bytes.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	as.sign(r, body)
	answer, err := http.DefaultTransport.RoundTrip(r) // follows no redirect
	if err != nil {
		p.t.Fatalf("%s as %s: %v", operation, as.name, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusSeeOther {
		return answer.StatusCode, answer.Header.Get("Location")
	}
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
		return answer.StatusCode, ""
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		p.t.Fatalf("%s as %s: %v", operation, as.name, err)
	}
	return answer.StatusCode, string(text)
}

// described are the operations of the server's two descriptions.
func (p *accounts) described() (all []string) {
	p.t.Helper()
	for _, path := range []string{"/v1/openapi.json", "/v1/registry/openapi.json"} {
		_, said := p.operates(http.MethodGet, path, nil)
		var doc struct{ Paths map[string]map[string]any }
		if err := json.Unmarshal([]byte(said), &doc); err != nil {
			p.t.Fatal(err)
		}
		for path, methods := range doc.Paths {
			for method := range methods {
				if method == "parameters" {
					continue
				}
				all = append(all, strings.ToUpper(method)+" "+path)
			}
		}
	}
	slices.Sort(all)
	return all
}

// kept is everything that operations change, as the shared token reads it.
func (p *accounts) kept() string {
	p.t.Helper()
	var out strings.Builder
	for _, path := range []string{"/checkpoint", "/v1/agents", "/v1/freezes", "/v1/people", "/v1/gateways", "/v1/capabilities", "/v1/evidence/periods", "/v1/registry/agents"} {
		_, said := p.operates(http.MethodGet, path, nil)
		if path == "/checkpoint" {
			said = strings.Join(strings.Split(said, "\n")[:3], "\n") // a signature can be another
		}
		out.WriteString(path + "\n" + lasting(said) + "\n")
	}
	return out.String()
}

// unnamed is a text without an id, if that is long enough to be one.
func unnamed(text, id string) string {
	if len(id) < 7 {
		return text
	}
	return strings.ReplaceAll(text, id, "X")
}

// TestATK161_EveryOperationForEveryAccount asks every operation of /v1 that the server describes
// with every kind of account. An account that may not use it is refused with 401, 403 or 404,
// nothing changes, and the refusal is the same for an id that there is and one that there is not.
func TestATK161_EveryOperationForEveryAccount(t *testing.T) {
	p := everyAccount(t)
	operations := p.described()
	for _, operation := range operations {
		if _, there := demands[operation]; !there {
			t.Errorf("ATK-161 %s is in no row of this test", operation)
		}
	}
	if len(operations) != len(demands) {
		t.Errorf("ATK-161 %d operations are described, and %d are in this test", len(operations), len(demands))
	}
	before := p.kept()
	refused := 0
	for _, operation := range operations {
		d := demands[operation]
		for _, as := range p.all {
			if as.permits(d) {
				continue
			}
			refused++
			status, said := p.send(as, operation, d, p.ids[d.kind])
			if status != http.StatusUnauthorized && status != http.StatusForbidden && status != http.StatusNotFound {
				t.Errorf("ATK-161 %s as %s: HTTP %d %s; want a refusal", operation, as.name, status, said)
			}
			if d.kind == "" {
				continue
			}
			other, text := p.send(as, operation, d, p.none[d.kind])
			if status != other || unnamed(said, p.ids[d.kind]) != unnamed(text, p.none[d.kind]) {
				t.Errorf("ATK-161 %s as %s: the refusal tells whether there is a %s: HTTP %d %s and HTTP %d %s", operation, as.name, d.kind, status, said, other, text)
			}
		}
		if now := p.kept(); now != before {
			t.Errorf("ATK-161 %s was refused, and changed something:\n%s\nand\n%s", operation, apartAt(now, before), apartAt(before, now))
			before = now
		}
	}
	if refused < 1000 {
		t.Errorf("ATK-161 only %d requests were refused", refused)
	}
	for _, operation := range operations { // each request is one that a role permits
		d := demands[operation]
		for _, as := range p.all {
			if !as.permits(d) || strings.Contains(d.permission, "administer") && as.where != "*" {
				continue
			}
			if status, said := p.send(as, operation, d, p.ids[d.kind]); status == http.StatusUnauthorized || status == http.StatusForbidden {
				t.Errorf("ATK-161 %s as %s: HTTP %d %s; want it permitted", operation, as.name, status, said)
			}
		}
	}
}

// doors are the entrances beside the described operations, with those who may use them.
var doors = []struct{ operation, body, who string }{
	{"GET /v1/feed?after=0", "", "a gateway|a relay|see"},
	{"GET /v1/feed/snapshot", "", "a gateway|a relay|see"},
	{"POST /v1/records/ship", `{}`, "a gateway"},
	{"POST /v1/gateway/setup", `{}`, "a gateway"},
	{"POST /v1/gateway/status", `{}`, "a gateway"},
	{"POST /v1/gateway/capability", `{"id":"X"}`, "a gateway"},
	{"POST /v1/gateway/veto", `{}`, "a gateway"},
	{"POST /v1/gateway/tasks", `{}`, "a gateway"},
	{"POST /v1/gateway/pseudonym", `{"principal":"user:alice"}`, "a gateway"},
	{"POST /v1/gateway/proof", `{}`, "a gateway"},
	{"POST /v1/gateway/issue", `{}`, "a gateway"},
	{"POST /v1/gateway/held", `{}`, "a gateway"},
	{"POST /v1/gateway/budget", `{}`, "a gateway"},
	{"POST /v1/gateway/card", `{}`, "a gateway"},
	{"POST /v1/gateway/scopes", `{}`, "a gateway"},
	{"POST /v1/gateway/link", `{}`, "a gateway"},
	{"POST /v1/gateway/policy", `{}`, "a gateway"},
	{"POST /v1/gateway/receipt", `{"record":"X"}`, "a gateway"},
	{"POST /v1/gateway/data", `{}`, "a gateway"},
	{"POST /access/v1/evaluation", `{}`, "a guard"},
	{"POST /access/v1/evaluations", `{}`, "a guard"},
	{"GET /v1/approvals", "", ""},
	{"GET /v1/approvals/apr_X", "", ""},
	{"POST /v1/approvals/apr_X", `{}`, ""},
	{"GET /v1/activity", "", ""},
	{"GET /v1/hosts", "", ""},
	{"POST /v1/hosts", `{"name":"x"}`, ""},
	{"POST /v1/hosts/hst_X/revoke", `{}`, ""},
	{"POST /v1/users/user:alice/forget", `{}`, ""},
	{"POST /v1/host-agents/agt_X/revoke", `{}`, ""},
	{"GET /agent/status?agent_id=X", "", ""},
	{"POST /agent/request-capability", `{"capabilities":["check_balance"]}`, ""},
	{"POST /agent/revoke", `{"agent_id":"X"}`, ""},
	{"POST /host/revoke", `{}`, ""},
	{"POST /capability/execute", `{"capability":"check_balance"}`, ""},
	{"GET /admin", "", ""},
	{"GET /admin/evidence", "", ""},
	{"GET /admin/live/events", "", ""},
	{"GET /people", "", ""},
	{"GET /approve/events", "", ""},
	{"POST /admin/agents/documents/freeze", "reason=test", ""},
	{"POST /people/freeze", "person=user:alice&reason=test", ""},
	{"POST /admin/revoke", "target=X", ""},
	{"GET /metrics", "", ""},
	{"GET /debug/pprof/", "", ""},
	{"GET /debug/vars", "", ""},
}

// TestATK161_EveryDoorForEveryAccount knocks at the entrances beside the described operations,
// of gateways, programs, hosts and pages, with every kind of account.
func TestATK161_EveryDoorForEveryAccount(t *testing.T) {
	p := everyAccount(t)
	before := p.kept()
	for _, door := range doors {
		var may []account
		for _, as := range p.all {
			if slices.ContainsFunc(strings.Split(door.who, "|"), func(one string) bool {
				return as.name == one || as.where == "*" && slices.Contains(strings.Fields(as.may), one)
			}) {
				may = append(may, as)
				continue
			}
			switch status, said := p.send(as, door.operation, demand{body: door.body}, p.ids["record"]); status {
			case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
			case http.StatusSeeOther: // to the page for logins
				if !strings.HasPrefix(said, "/login?") {
					t.Errorf("ATK-161 %s as %s leads to %s", door.operation, as.name, said)
				}
			default:
				t.Errorf("ATK-161 %s as %s: HTTP %d %.300s; want a refusal", door.operation, as.name, status, said)
			}
		}
		if now := p.kept(); now != before {
			t.Errorf("ATK-161 %s was refused, and changed something:\n%s\nand\n%s", door.operation, apartAt(now, before), apartAt(before, now))
		}
		for _, as := range may {
			if status, said := p.send(as, door.operation, demand{body: door.body}, p.ids["record"]); status == http.StatusUnauthorized || status == http.StatusForbidden {
				t.Errorf("ATK-161 %s as %s: HTTP %d %.300s; want it permitted", door.operation, as.name, status, said)
			}
		}
		before = p.kept()
	}
}
