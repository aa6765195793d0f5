package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/powerbox-project/powerbox/internal/identity/oidctest"
)

// rolesOfDocuments are people who have each role at the agent documents alone.
var rolesOfDocuments = []string{"viewer", "approver", "auditor", "operator", "administrator"}

// tenants is a town whose agents are two tenants', with a person for each role at documents.
type tenants struct {
	*town
	tokens map[string]string // of the people, by role
	alice  *caller
}

func twoTenants(t *testing.T) *tenants {
	t.Helper()
	l := newLogin(t)
	roles := "operators:\n  login: {issuer: \"https://login.example.org\", client_id: powerbox-login}\n  roles:\n"
	p := &tenants{tokens: map[string]string{}}
	now, users := time.Now(), ""
	for _, role := range rolesOfDocuments {
		roles += fmt.Sprintf("    - {role: %s, who: [\"user:%s\"], tenants: [ours]}\n", role, role)
		users += fmt.Sprintf("    - {name: %s, token: %s-session-token}\n", role, role)
		p.tokens[role] = oidctest.Sign(t, jose.ES256, l.key, map[jose.HeaderKey]any{"kid": "one"}, map[string]any{
			"iss": "https://login.example.org", "aud": "powerbox-login", "sub": role, "iat": now.Unix(), "auth_time": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		})
	}
	p.town = start(t, options{
		agent:   "    tenant: ours\n",
		dev:     users,
		files:   map[string]string{"keys.json": l.jwks(t)},
		callers: "  providers: [{issuer: \"https://login.example.org\", jwks_file: keys.json}]\n  callers: [{agent: mailer, client: mailer-app}, {agent: reader, client: reader-app}]\n",
		extra:   roles + "scopes:\n  mailer: {mail: [mail:send/send]}\n  reader: {documents: [documents:read/search]}\n",
	})
	p.client, p.alice = http.DefaultClient, p.caller(aliceToken)
	return p
}

// works makes data at the agent documents: a capability, calls, a denial.
func (p *tenants) works() (capability, record string) {
	p.t.Helper()
	held := p.alice.reports()
	p.searchesUnder(held)
	p.alice.call("documents", "SendMessage", map[string]any{})
	return held.ID, p.newest("documents")
}

func (p *tenants) searchesUnder(held granted) {
	arguments := map[string]any{"query": "figures"}
	p.alice.present("documents", data("search_documents", arguments), proven{chain: []string{held.Token}, operation: opSearch, arguments: arguments})
}

// others makes data at the agent mail, and returns an id of each kind.
func (p *tenants) others() map[string]string {
	p.t.Helper()
	eve := p.caller(aliceToken)
	ask := map[string]any{"grants": []string{"mail:send"}, "purpose": "Tell Bob about the figures"}
	held := eve.request("mail", ask)[0]
	eve.mailsUnder(held, "bob@example.org")
	eve.call("mail", "SendMessage", map[string]any{})
	other := eve.request("mail", ask)[0]
	p.admin("POST", "/v1/freezes", map[string]any{"target": "agent:mail", "reason": "a test"})
	p.admin("POST", "/v1/freezes", map[string]any{"target": other.ID, "reason": "a test"})
	p.admin("PUT", "/v1/agents/mail/mode", map[string]any{"mode": "observe"})
	third := p.admin("POST", "/v1/revocations", map[string]any{"target": other.ID})
	p.admin("POST", "/v1/gateway-tokens", map[string]any{"agent": "mail", "ttl": 60})
	p.enrolled("mail")
	p.admin("POST", "/v1/thaws", map[string]any{"target": "agent:mail", "reason": "a test"})
	return map[string]string{
		"agent": "mail", "caller": "mailer", "capability": held.ID, "revoked": other.ID,
		"record": p.newest("mail"), "holder": "key:" + eve.key.Public().Thumbprint(), "sequence": fmt.Sprint(third["sequence"]),
	}
}

// admin calls with the shared token, and returns the answer's members.
func (p *tenants) admin(method, path string, body any) (out map[string]any) {
	p.t.Helper()
	r, said := p.operates(method, path, body)
	if r.StatusCode >= http.StatusMultipleChoices {
		p.t.Fatalf("%s %s: %s %s", method, path, r.Status, said)
	}
	_ = json.Unmarshal([]byte(said), &out)
	return out
}

// newest is the id of the last record about an agent.
func (p *tenants) newest(agent string) string {
	p.t.Helper()
	_, said := p.operates(http.MethodGet, "/v1/records?limit=1&agent="+agent, nil)
	var all []struct {
		ID string `json:"record_id"`
	}
	if err := json.Unmarshal([]byte(said), &all); err != nil || len(all) != 1 {
		p.t.Fatalf("the last record of %s: %v %s", agent, err, said)
	}
	return all[0].ID
}

// answered is the status and the text of an answer.
func (p *tenants) answered(role, method, path, body string) (status int, said string) {
	p.t.Helper()
	text := p.said(role, method, path, body)
	if _, err := fmt.Sscanf(text, "HTTP %d", &status); err != nil {
		p.t.Fatal(err)
	}
	return status, text
}

// said is an answer, with its status and the headers that say something.
func (p *tenants) said(role, method, path, body string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+p.tokens[role])
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer answer.Body.Close()
	var text []byte
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
		buffer := make([]byte, 4096) // its head is one write
		n, _ := answer.Body.Read(buffer)
		text = buffer[:n]
	} else if text, err = io.ReadAll(answer.Body); err != nil {
		p.t.Fatalf("%s %s: %v", method, path, err)
	}
	return fmt.Sprintf("HTTP %d next=%q %s", answer.StatusCode, answer.Header.Get("Powerbox-Next"), text)
}

// operation is one operation as the server describes it.
type operation struct {
	method, path string
	query        []string // names of parameters
	everywhere   bool     // it is refused to people with roles at some agents
}

// operations are those of the server's own description.
func (p *tenants) operations() (all []operation) {
	p.t.Helper()
	_, said := p.operates(http.MethodGet, "/v1/openapi.json", nil)
	var doc struct {
		Paths map[string]map[string]struct {
			Description string
			Parameters  []struct{ Name, In string }
		}
	}
	if err := json.Unmarshal([]byte(said), &doc); err != nil {
		p.t.Fatal(err)
	}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			of := doc.Paths[path][method]
			one := operation{method: strings.ToUpper(method), path: path, everywhere: strings.Contains(of.Description, ", at every agent")}
			for _, q := range of.Parameters {
				if q.In == "query" {
					one.query = append(one.query, q.Name)
				}
			}
			all = append(all, one)
		}
	}
	if len(all) < 45 {
		p.t.Fatalf("%d operations", len(all))
	}
	return append(all, ofRegistry...)
}

// ofRegistry are the operations of the registry. Another document than openapi.json describes it.
var ofRegistry = []operation{
	{method: http.MethodGet, path: "/v1/registry/agents", query: []string{"text", "skill", "operation", "version", "binding", "feature", "model", "scope", "evidence", "compliance", "depth", "trust"}},
	{method: http.MethodGet, path: "/v1/registry/agents/{agent}"},
	{method: http.MethodGet, path: "/v1/registry/agents/{agent}/consent"},
	{method: http.MethodPost, path: "/v1/registry/agents/{agent}/consent"},
	{method: http.MethodPost, path: "/v1/registry/agents/{agent}/accept"},
	{method: http.MethodPost, path: "/v1/registry/agents/{agent}/refresh"},
	{method: http.MethodDelete, path: "/v1/registry/agents/{agent}"},
	{method: http.MethodGet, path: "/v1/approvals", query: []string{"agent", "before", "limit"}},
	{method: http.MethodGet, path: "/v1/approvals/{id}"},
}

// changing has bodies for each operation that takes one: X stands for an id of another's.
var changing = map[string][]string{
	"PUT /v1/agents/{agent}/mode":              {`{"mode": "observe"}`},
	"POST /v1/agents/{agent}/keys":             {`{}`},
	"POST /v1/revocations":                     {`{"target": "X", "dry_run": true}`, `{"issuer": "X", "dry_run": true}`, `{"holder": "X", "dry_run": true}`, `{"holder": "agent:X", "dry_run": true}`, `{"delegator": "agent:X", "dry_run": true}`, `{"delegator": "X", "dry_run": true}`, `{"principal": "X", "dry_run": true}`, `{"issuer": "documents", "holder": "X", "dry_run": true}`},
	"POST /v1/freezes":                         {`{"target": "X", "reason": "r"}`, `{"target": "agent:X", "reason": "r"}`},
	"POST /v1/thaws":                           {`{"target": "X", "reason": "r"}`, `{"target": "agent:X", "reason": "r"}`},
	"POST /v1/capabilities/{id}/status":        {``},
	"POST /v1/capabilities/{id}/narrow":        {`{"operations": ["send"], "dry_run": true}`},
	"POST /v1/capabilities/{id}/keep":          {`{"reason": "r"}`},
	"POST /v1/grants":                          {`{"record": "X", "dry_run": true}`},
	"POST /v1/registry/agents/{agent}/consent": {`{"card_digest": "X"}`},
	"POST /v1/registry/agents/{agent}/accept":  {`{"card_digest": "X"}`},
	"POST /v1/registry/agents/{agent}/refresh": {``},
	"DELETE /v1/registry/agents/{agent}":       {``},
	"POST /v1/can":                             {`{"caller": "X", "agent": "documents", "operation": "documents/documents:read/search"}`, `{"caller": "reader", "agent": "X", "operation": "documents/documents:read/search"}`},
	"POST /v1/try":                             {`{"caller": "X", "agent": "documents", "operation": "documents:read/search"}`, `{"caller": "reader", "agent": "X", "operation": "mail:send/send"}`, `{"capability": "X", "agent": "documents", "operation": "documents:read/search"}`},
}

var inBraces = regexp.MustCompile(`\{\w+\}`)

// asked are the requests of an operation, in which X stands for an id.
func (o operation) asked(t *testing.T) (all [][2]string) {
	t.Helper()
	path := inBraces.ReplaceAllString(o.path, "X")
	if o.method != http.MethodGet {
		bodies := changing[o.method+" "+o.path]
		if bodies == nil && !o.everywhere {
			t.Errorf("%s %s has no body in this test", o.method, o.path)
		}
		if o.everywhere {
			bodies = []string{`{}`}
		}
		for _, body := range bodies {
			all = append(all, [2]string{path, body})
		}
		return all
	}
	all = append(all, [2]string{path, ""})
	for _, name := range o.query {
		all = append(all, [2]string{path + "?" + name + "=X", ""})
	}
	return all
}

// unknownOf is an id of the same form that there is not.
func unknownOf(kind, id string) string {
	switch kind {
	case "agent", "caller":
		return "nosuchone"
	case "sequence":
		return "999999"
	}
	return id[:len(id)-6] + strings.Map(func(r rune) rune {
		if r == '0' {
			return '1'
		}
		return '0'
	}, id[len(id)-6:])
}

// passing are members of answers that change with the time alone, or that the whole server
// has in common by decision (ADR 153): the head of the log is public.
var passing = []*regexp.Regexp{
	regexp.MustCompile(`"minutes":\[[^\]]*\]`), regexp.MustCompile(`"since":"[^"]*"`), regexp.MustCompile(`"as_of":"[^"]*"`), regexp.MustCompile(`"head":\{[^}]*\}`),
	regexp.MustCompile(`(?s)c2sp\.org/tlog-proof.*`),
}

func lasting(text string) string {
	for _, one := range passing {
		text = one.ReplaceAllString(text, "")
	}
	return text
}

// shown asks everything that changes nothing, by each role, about one's own and in general.
func (p *tenants) shown(all []operation, own map[string]string) map[string]string {
	p.t.Helper()
	out := map[string]string{}
	for _, o := range all {
		for _, request := range o.asked(p.t) {
			if o.method != http.MethodGet && !strings.Contains(request[1], "dry_run") && o.path != "/v1/can" && o.path != "/v1/try" {
				continue
			}
			for _, kind := range slices.Sorted(maps.Keys(own)) {
				path, body := strings.ReplaceAll(request[0], "X", url.QueryEscape(own[kind])), strings.ReplaceAll(request[1], "X", own[kind])
				for _, role := range rolesOfDocuments {
					name := role + ": " + o.method + " " + path + " " + body
					if _, there := out[name]; !there {
						out[name] = lasting(p.said(role, o.method, path, body))
					}
				}
				if !strings.Contains(request[0]+request[1], "X") {
					break
				}
			}
		}
	}
	return out
}

// TestATK119_RolesAtSomeAgentsShowNothingOfOthers is a matrix of every operation that the
// server describes, and every role, held at one tenant's agent. An answer must be the same
// whether or not the other tenant has data, and an id of the other tenant's must be answered
// as one that there is not.
func TestATK119_RolesAtSomeAgentsShowNothingOfOthers(t *testing.T) {
	p := twoTenants(t)
	all := p.operations()
	compare := func(when string, before, after map[string]string) {
		t.Helper()
		for _, name := range slices.Sorted(maps.Keys(before)) {
			if before[name] != after[name] {
				t.Errorf("%s, the answer tells %s\n  %s\nbefore, and now\n  %s", when, name, before[name], after[name])
			}
		}
	}
	nothing := map[string]string{"agent": "documents", "caller": "reader", "sequence": "1"}
	empty := p.shown(all, nothing)
	theirs := p.others()
	compare("with data of the other tenant and none of one's own", empty, p.shown(all, nothing))

	capability, record := p.works()
	own := map[string]string{"agent": "documents", "caller": "reader", "capability": capability, "record": record, "holder": "key:" + p.alice.key.Public().Thumbprint()}
	before := p.shown(all, own)
	p.others()
	compare("with more data of the other tenant", before, p.shown(all, own))

	for _, o := range all {
		for _, request := range o.asked(t) {
			if !strings.Contains(request[0]+request[1], "X") {
				continue
			}
			for kind, id := range theirs {
				if (kind == "sequence") != strings.Contains(o.path, "{sequence}") {
					continue
				}
				for _, role := range rolesOfDocuments {
					answer := func(id string) string {
						said := p.said(role, o.method, strings.ReplaceAll(request[0], "X", url.QueryEscape(id)), strings.ReplaceAll(request[1], "X", id))
						if kind == "sequence" {
							return strings.ReplaceAll(lasting(said), `"sequence":`+id, `"sequence":X`)
						}
						return lasting(strings.ReplaceAll(said, id, "X"))
					}
					if got, want := answer(id), answer(unknownOf(kind, id)); got != want {
						t.Errorf("%s: %s %s %s: the %s of the other tenant is answered\n  %s\nand one that there is not\n  %s", role, o.method, request[0], request[1], kind, got, want)
					}
				}
			}
		}
	}
	p.walks()
	p.pages(theirs)
}

// walks reads the records by pages of one, as a viewer of documents: every record of that agent
// once, and no cursor with the id of another's.
func (p *tenants) walks() {
	p.t.Helper()
	get := func(token, path string) (ids []string, next string) {
		r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url+path, http.NoBody)
		if err != nil {
			p.t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			p.t.Fatal(err)
		}
		defer answer.Body.Close()
		var all []struct {
			ID string `json:"record_id"`
		}
		if err := json.NewDecoder(answer.Body).Decode(&all); err != nil {
			p.t.Fatalf("%s: HTTP %d %v", path, answer.StatusCode, err)
		}
		for _, one := range all {
			ids = append(ids, one.ID)
		}
		return ids, answer.Header.Get("Powerbox-Next")
	}
	want, _ := get(p.operatorToken(), "/v1/records?agent=documents")
	var got []string
	for next, n := "", 0; n <= len(want); n++ {
		path := "/v1/records?limit=1"
		if next != "" {
			path += "&before=" + next
		}
		var page []string
		page, next = get(p.tokens["viewer"], path)
		got = append(got, page...)
		if next == "" {
			break
		}
		if !strings.HasPrefix(next, "place_") {
			p.t.Errorf("a page of documents continues before %q", next)
		}
	}
	if !slices.Equal(got, want) {
		p.t.Errorf("by pages of one, a viewer of documents reads %q; want %q", got, want)
	}
}

// pages opens the pages of the console as people of each role, with ids of the other tenant's:
// no page names anything that belongs to them, and each answers as for an id that there is not.
func (p *tenants) pages(theirs map[string]string) {
	p.t.Helper()
	b := &pagesBank{t: p.t, url: p.url, log: p.log, dir: p.dir}
	changes := regexp.MustCompile(`[0-9]+|nonce="[^"]*"|value="[^"]*"`)
	names := []string{"mail"}
	for kind, id := range theirs {
		if kind != "sequence" {
			names = append(names, id)
		}
	}
	for _, role := range rolesOfDocuments {
		v := b.visitor(role)
		for _, path := range pagesOfOperators {
			if role == "approver" && path == "/admin/live/events" {
				continue
			}
			if !strings.Contains(path, "X") {
				_, text := v.get(path)
				for _, name := range names {
					if strings.Contains(strings.ReplaceAll(text, "e-mail", ""), name) {
						p.t.Errorf("%s: the page %s names %s of the other tenant\n%s", role, path, name, text)
					}
				}
				continue
			}
			for kind, id := range theirs {
				if (kind == "sequence") != strings.HasSuffix(path, "/revoke/X") {
					continue
				}
				answer := func(id string) string {
					status, text := v.get(strings.ReplaceAll(path, "X", url.QueryEscape(id)))
					text = strings.NewReplacer(strings.TrimPrefix(id, "key:"), "X", "\u2026"+id[max(0, len(id)-4):], "\u2026X").Replace(text)
					return fmt.Sprint("HTTP ", status, " ") + changes.ReplaceAllString(text, "0")
				}
				if got, want := answer(id), answer(unknownOf(kind, id)); got != want {
					p.t.Errorf("%s: the page %s with the %s of the other tenant differs from that with one that there is not, at\n%s\nand\n%s", role, path, kind, apartAt(got, want), apartAt(want, got))
				}
			}
		}
	}
}

// apartAt is where a text differs from another one.
func apartAt(text, other string) string {
	n := 0
	for n < min(len(text), len(other)) && text[n] == other[n] {
		n++
	}
	return text[max(0, n-100):min(len(text), n+200)]
}

// pagesOfOperators are pages of the console; X stands for an id.
var pagesOfOperators = []string{
	"/admin", "/admin/try", "/admin/advisor", "/admin/settings", "/admin/live", "/admin/agents", "/admin/capabilities", "/admin/graph", "/admin/evidence", "/agents", "/registry", "/map", "/approve", "/approved",
	"/admin/agents/X", "/admin/agents/X/freeze", "/admin/agents/X/thaw", "/admin/agents/X/mode", "/admin/capabilities/X", "/admin/capabilities?agent=X", "/admin/capabilities?before=X", "/admin/capabilities?holder=X", "/admin/graph?agent=X", "/admin/graph?from=X&to=documents",
	"/admin/revoke?target=X", "/admin/revoke?issuer=X", "/admin/revoke?holder=X", "/admin/revoke/X", "/admin/evidence?agent=X", "/admin/evidence?before=X", "/admin/evidence?capability=X", "/admin/evidence/X", "/admin/give/X", "/admin/narrow/X",
	"/registry/X", "/map?agent=X", "/approve/X", "/admin/advisor?agent=X",
}
