package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/internal/identity/oidctest"
)

// scopedIdentity names one application, known by the client id in the tokens
// of the company's login server, and what it may do without a capability.
const scopedIdentity = `identity:
  providers:
    - {issuer: https://login.example.org, audience: [https://agents.example.org], jwks_file: keys.json}
  callers:
    - {agent: reporter, client: reporter-app}
scopes:
  reporter: {documents: [documents:read/search]}
`

// login is a login server, as far as those who believe its tokens see it.
type login struct{ key *ecdsa.PrivateKey }

func newLogin(t *testing.T) login {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return login{key}
}

func (l login) jwks(t *testing.T) string {
	t.Helper()
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: l.key.Public(), KeyID: "one", Use: "sig", Algorithm: "ES256"}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(set)
}

// token is an access token (RFC 9068) of a user for an application.
func (l login) token(t *testing.T, user, client string) string {
	t.Helper()
	return l.session(t, user, map[string]any{"client_id": client})
}

// session is an access token with more claims than every one has.
func (l login) session(t *testing.T, user string, more map[string]any) string {
	t.Helper()
	now := time.Now()
	all := map[string]any{
		"iss": "https://login.example.org", "aud": "https://agents.example.org", "sub": user, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}
	maps.Copy(all, more)
	return oidctest.Sign(t, jose.ES256, l.key, map[jose.HeaderKey]any{"kid": "one", "typ": "at+jwt"}, all)
}

// scoped starts powerbox in mode scoped in front of a stock agent.
func scoped(t *testing.T, l login, agent *stock) *town {
	t.Helper()
	w := &town{t: t, dir: t.TempDir(), documents: agent}
	w.write("keys.json", l.jwks(t))
	w.serve("scoped", scopedIdentity)
	return w
}

// failure is an error as the JavaScript client prints it.
type failure struct {
	Error *struct {
		Code int `json:"code"`
		Data []struct {
			Metadata map[string]string `json:"metadata"`
		} `json:"data"`
		Message string `json:"message"`
	} `json:"error"`
}

func failed(t *testing.T, line string) (code int, metadata map[string]string) {
	t.Helper()
	var f failure
	if err := json.Unmarshal([]byte(line), &f); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	if f.Error == nil || len(f.Error.Data) == 0 {
		t.Fatalf("got %s; want an error that says why", line)
	}
	return f.Error.Code, f.Error.Data[0].Metadata
}

// TestSEP18_StockClientInScoped gives the same client with the same token three
// URLs: the agent's own, and through the gateway those of two skills. One of
// the skills is in its scope.
func TestSEP18_StockClientInScoped(t *testing.T) {
	asGiven(t)
	l := newLogin(t)
	agent := newStepwise(t, unhindered())
	w := scoped(t, l, agent)
	bearer := l.token(t, "alice", "reporter-app")
	heard := `"parts":[{"text":"heard: hello"}]`
	if got := javascript(t, agent.url+cardPath, bearer, []string{"send", "hello"}); !strings.Contains(got[0], heard) {
		t.Fatalf("directly: %s", got)
	}
	direct := len(agent.got())

	allowed := javascript(t, w.agentURL("documents")+"/skills/search_documents"+cardPath, bearer,
		[]string{"send", "hello"}, []string{"stream", "work"}, []string{"get", "$task"}, []string{"list"}, []string{"card"})
	if len(allowed) != len(worked)+4 || !strings.Contains(allowed[0], heard) || !strings.Contains(allowed[6], "COMPLETED") {
		t.Fatalf("the allowed skill: %s\n%s", allowed, w.log)
	}
	card := cardOf(t, allowed[8])
	if len(card.Skills) != 1 || card.Skills[0].ID != "search_documents" {
		t.Errorf("the card of a skill has %+v", card.Skills)
	}
	reached := agent.got()[direct:]
	if len(reached) != 4 {
		t.Fatalf("%d requests reached the agent; want 4", len(reached))
	}
	for _, r := range reached {
		if r.header.Get("Authorization") != "" || r.header.Get("Powerbox-Context") == "" {
			t.Errorf("ATK-35: the agent received %v", r.header)
		}
	}

	refused := javascript(t, w.agentURL("documents")+"/skills/delete_document"+cardPath, bearer, []string{"send", "hello"}, []string{"stream", "hello"})
	code, why := failed(t, refused[0])
	if code != -31403 || why["code"] != "outside_caller_scope" {
		t.Errorf("the refused skill: %s", refused[0])
	}
	if len(refused) != 2 || !strings.Contains(refused[1], "-31403") || !strings.Contains(refused[1], "outside_caller_scope") {
		t.Errorf("the refused skill, streaming: %q", refused[1:])
	}
	if n := len(agent.got()); n != direct+4 {
		t.Errorf("a refused call reached the agent: %s", agent.got()[n-1].body)
	}

	r := w.record(why["decision"])
	got := []string{r.Decision, r.Powerbox.Requester, r.Powerbox.Gate.Origin, r.Powerbox.Gate.Target, r.Intent.Operation, r.Powerbox.Mode}
	if diff := cmp.Diff([]string{"DENY", "reporter", "reporter", "documents", "documents/documents:write/delete", "scoped"}, got); diff != "" {
		t.Errorf("the record: %s", diff)
	}
	if strings.Contains(w.log.String()+string(w.operator(http.MethodGet, "/v1/records", nil)), bearer) {
		t.Error("the token is in a record or the log")
	}
}

// TestSEP18_CommandLineInScoped is the same for the a2a command.
func TestSEP18_CommandLineInScoped(t *testing.T) {
	asGiven(t)
	l := newLogin(t)
	agent := newStepwise(t, unhindered())
	w := scoped(t, l, agent)
	bearer := "Bearer " + l.token(t, "alice", "reporter-app")
	skills := w.agentURL("documents") + "/skills/"
	printed := golang(t, commandLine(t), skills,
		[]string{"send", "--auth", bearer, "$urlsearch_documents", "hello"},
		[]string{"send", "--auth", bearer, "$urldelete_document", "hello"},
		[]string{"send", "--auth", bearer, "--stream", "$urldelete_document", "hello"})
	if !strings.Contains(printed[0], "heard: hello") {
		t.Errorf("the allowed skill: %s", printed[0])
	}
	for _, p := range printed[1:] {
		if !strings.Contains(p, "scope does not allow it") {
			t.Errorf("the refused skill: %s", p)
		}
	}
	if n := len(agent.got()); n != 1 {
		t.Errorf("%d requests reached the agent; want 1", n)
	}
}

// TestSEP18_StockClientIsHeldToWhoItIs tries the other ways of the same client
// to the skill that is refused, and those of other clients to the one that is
// allowed.
func TestSEP18_StockClientIsHeldToWhoItIs(t *testing.T) {
	asGiven(t)
	l := newLogin(t)
	agent := newStepwise(t, unhindered())
	w := scoped(t, l, agent)
	alice, bob := l.token(t, "alice", "reporter-app"), l.token(t, "bob", "reporter-app")
	search, whole := w.agentURL("documents")+"/skills/search_documents"+cardPath, w.agentURL("documents")+cardPath
	open := javascript(t, search, alice, []string{"send", "open"})
	var task struct{ ID string }
	if err := json.Unmarshal([]byte(open[0]), &task); err != nil || task.ID == "" {
		t.Fatalf("%v: %s\n%s", err, open[0], w.log)
	}
	for _, c := range []struct {
		name, url, bearer string
		command           []string
		code              int
		reason            string
	}{
		{"another skill in the message than in the URL", search, alice, []string{"skill", "delete_document", "{}"}, -31403, "skill_ambiguous"},
		{"the refused skill at the agent's own URL", whole, alice, []string{"skill", "delete_document", "{}"}, -31403, "outside_caller_scope"},
		{"a skill that is not there", whole, alice, []string{"skill", "format_disk", "{}"}, -31403, "skill_unmapped"},
		{"another application", search, l.token(t, "alice", "other-app"), []string{"send", "hello"}, -31403, "outside_caller_scope"},
		{"no token", search, "", []string{"send", "hello"}, -31403, "outside_caller_scope"},
		{"a token of nobody we know", search, newLogin(t).token(t, "alice", "reporter-app"), []string{"send", "hello"}, -31401, "unauthenticated"},
		{"ATK-18 a task of another user", search, bob, []string{"get", task.ID}, -32001, ""},
		{"ATK-18 cancelling a task of another user", search, bob, []string{"cancel", task.ID}, -32001, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(agent.got())
			got := javascript(t, c.url, c.bearer, c.command)
			code, why := failed(t, got[0])
			if code != c.code || why["code"] != c.reason {
				t.Errorf("got %s; want %d %s", got[0], c.code, c.reason)
			}
			if len(agent.got()) != before {
				t.Error("the call reached the agent")
			}
		})
	}
	for name, command := range map[string][]string{
		"the allowed skill by its name, with arguments": {"skill", "search_documents", `{"query": "reports"}`},
		"the own task":                 {"get", task.ID},
		"the free text that is needed": {"send", "hello"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := javascript(t, whole, alice, command); strings.HasPrefix(got[0], `{"error"`) {
				t.Errorf("got %s", got[0])
			}
		})
	}
	if got := javascript(t, search, bob, []string{"list"}); strings.Contains(got[0], task.ID) {
		t.Errorf("another user's list has the task: %s", got[0])
	}
}
