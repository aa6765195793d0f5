package api

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/people/peopletest"
)

// may is what each role may do, written a second time.
var may = map[string]string{
	"":              "",
	"viewer":        "see evidence",
	"approver":      "approve",
	"auditor":       "evidence contents",
	"operator":      "see evidence contents stop steer",
	"administrator": "see evidence contents stop steer administer",
}

// served is the interface with its table and guard, and with operations that do nothing.
func served(a *Admin) http.Handler {
	mux := http.NewServeMux()
	for _, r := range a.table() {
		r.serve = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
		mux.HandleFunc(r.pattern, a.guarded(r))
	}
	return a.authenticated(mux)
}

// person is a session that the tests make up: who, and whether the login is of just now.
func person(r *http.Request) (people.Person, error) {
	name, stale := strings.CutSuffix(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), " stale")
	return peopletest.Person(people.Claim{Principal: name, Fresh: !stale, Login: people.BySession}), nil
}

// town has a person for each role, at every agent and at documents alone.
func town() *Admin {
	var given []people.Given
	for role := range may {
		if role != "" {
			given = append(given, people.Given{Role: role, Who: []string{"user:" + role}, Everywhere: true},
				people.Given{Role: role, Who: []string{"user:" + role + "-of-documents"}, Agents: []string{"documents"}})
		}
	}
	return &Admin{Log: slog.New(slog.DiscardHandler), Operators: Operators{
		Token: strings.Repeat("t", 32), Person: person,
		Rights: func(who people.Person) people.Rights { return people.RightsOf(given, who.Principal, nil) },
	}}
}

var braced = regexp.MustCompile(`\{\w+\}`)

// asked calls a route of the table, at an agent where it names one.
func asked(t *testing.T, h http.Handler, pattern, agent, bearer string) (status int, says string) {
	t.Helper()
	method, path, _ := strings.Cut(strings.ReplaceAll(pattern, "{agent}", agent), " ")
	r := httptest.NewRequestWithContext(t.Context(), method, braced.ReplaceAllString(path, "1"), http.NoBody)
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body, _ := io.ReadAll(w.Result().Body)
	return w.Code, string(body)
}

// TestEveryRouteAsksForItsPermission calls every route of the table with every role: at
// every agent, at one agent, with an old login, without a role, and without a session.
func TestEveryRouteAsksForItsPermission(t *testing.T) {
	a := town()
	if err := a.Check(); err != nil {
		t.Fatal(err)
	}
	h, routes := served(a), a.table()
	if len(routes) < 45 {
		t.Fatalf("%d routes", len(routes))
	}
	const done, forbidden, unknown = http.StatusNoContent, http.StatusForbidden, http.StatusNotFound
	for _, r := range routes {
		check := func(who, agent string, want int) {
			t.Helper()
			if got, says := asked(t, h, r.pattern, agent, who); got != want {
				t.Errorf("%s at %s by %q: HTTP %d %s; want %d", r.pattern, agent, who, got, says, want)
			}
		}
		check("", "documents", http.StatusUnauthorized)
		check(strings.Repeat("t", 32), "documents", done)
		for role, list := range may {
			permitted := r.needs == people.LoggedIn
			for _, name := range r.needs.Names() {
				permitted = permitted || strings.Contains(list, name)
			}
			want := forbidden
			if permitted {
				want = done
			}
			check("user:"+role, "documents", want)
			gives := r.needs == people.Steer || r.needs == people.Administer
			if gives && permitted {
				want = forbidden
			}
			check("user:"+role+" stale", "documents", want)
			here, there := forbidden, forbidden
			if permitted && (role != "" || r.needs == people.LoggedIn) {
				here, there = done, done
				if r.keeps == whole {
					here, there = forbidden, forbidden
				}
				if r.keeps == ofAgent {
					there = unknown
				}
			}
			check("user:"+role+"-of-documents", "documents", here)
			check("user:"+role+"-of-documents", "mail", there)
		}
	}
}

// TestARefusalSaysWhatIsMissing reads the messages of refusals.
func TestARefusalSaysWhatIsMissing(t *testing.T) {
	a := town()
	h := served(a)
	for name, c := range map[string]struct{ pattern, agent, who, want string }{
		"a viewer freezes":          {"POST /v1/freezes", "", "user:viewer", "this needs the permission stop, of the roles operator, administrator; user:viewer has viewer"},
		"a person without a role":   {"GET /v1/agents", "", "user:nobody", "user:nobody has no role"},
		"one agent, and the server": {"POST /v1/config/reload", "", "user:administrator-of-documents", "at every agent, and not at some"},
		"another agent":             {"GET /v1/agents/{agent}", "mail", "user:viewer-of-documents", `no agent \"mail\" is protected here`},
		"an agent that is not":      {"GET /v1/agents/{agent}", "nothing", "user:viewer-of-documents", `no agent \"nothing\" is protected here`},
		"an old login":              {"POST /v1/thaws", "", "user:operator stale", "run powerbox login again"},
		"no session":                {"GET /v1/agents", "", "", "the operator's token"},
	} {
		if _, says := asked(t, h, c.pattern, c.agent, c.who); !strings.Contains(says, c.want) {
			t.Errorf("%s: %s; want %q", name, says, c.want)
		}
	}
	a.Operators.Token = ""
	if status, says := asked(t, h, "GET /v1/agents", "", strings.Repeat("t", 32)); status == http.StatusNoContent {
		t.Errorf("the token that is switched off: HTTP %d %s", status, says)
	}
	a.Operators.Login.ClientID = "powerbox-login"
	if status, says := asked(t, h, "GET /v1/agents", "", ""); status != http.StatusUnauthorized || !strings.Contains(says, "powerbox login") || !strings.Contains(says, "switched off") {
		t.Errorf("without the token: HTTP %d %s", status, says)
	}
}

// TestABrowsersPageIsNoProgram sends what a browser adds to the request of another site.
func TestABrowsersPageIsNoProgram(t *testing.T) {
	h := served(town())
	for header, value := range map[string]string{"Origin": "https://elsewhere.example", "Sec-Fetch-Site": "cross-site"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/agents", http.NoBody)
		r.Header.Set("Authorization", "Bearer user:viewer")
		r.Header.Set(header, value)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusForbidden {
			t.Errorf("ATK-47 with %s: HTTP %d", header, w.Code)
		}
	}
}

// TestARouteWithoutAPermissionDoesNotStart leaves out what a route must say.
func TestARouteWithoutAPermissionDoesNotStart(t *testing.T) {
	for name, r := range map[string]route{
		"no permission":                   {pattern: "GET /v1/x", keeps: whole},
		"no scope":                        {pattern: "GET /v1/x", needs: people.See},
		"an agent in the path, and whole": {pattern: "GET /v1/x/{agent}", needs: people.See, keeps: whole},
		"of an agent, and no agent":       {pattern: "GET /v1/x", needs: people.See, keeps: ofAgent},
	} {
		if err := complete([]route{r}); err == nil {
			t.Errorf("a route with %s is served", name)
		}
		if by := (caller{name: "user:x", rights: people.AllRights()}); r.needs == 0 && by.may(r, "") == nil {
			t.Errorf("a route with %s is for everyone", name)
		}
	}
}

// TestTheSummaryIsOfOnesOwnAgents counts the calls of two agents for readers of one.
func TestTheSummaryIsOfOnesOwnAgents(t *testing.T) {
	m := minuteCount{}
	for agent, n := range map[string]int{"documents": 1, "mail": 10} {
		one := m.of(agent)
		one.Allowed, one.Denied, one.took, one.reasons["scope"] = n, n, []int64{int64(n)}, n
		one.Callers = []string{"caller-of-" + agent}
	}
	for _, c := range []struct {
		sees    string
		allowed int
	}{{"documents", 1}, {"mail", 10}, {"documents mail", 11}, {"", 0}} {
		sum := summary{agents: map[string]AgentActivity{}, reasons: map[string]int{}}
		sum.add(m, func(agent string) bool { return strings.Contains(c.sees, agent) })
		text := fmt.Sprintf("%+v", sum)
		if sum.minute.Allowed != c.allowed || sum.minute.Denied != c.allowed || sum.reasons["scope"] != c.allowed || len(sum.took) != len(strings.Fields(c.sees)) ||
			strings.Contains(text, "caller-of-mail") != strings.Contains(c.sees, "mail") {
			t.Errorf("a reader of %q gets %s", c.sees, text)
		}
	}
}

// oneRecord is a store of one record.
type oneRecord struct {
	issuer.Store
	issuer.Reader
	record evidence.Sealed
}

func (s oneRecord) View(_ context.Context, read func(issuer.Reader) error) error { return read(s) }
func (s oneRecord) Record(string) (evidence.Sealed, error)                       { return s.record, nil }

// TestRecordsOfOthersAreUnknown reads a record about mail as people of mail, of documents, and
// of no agent.
func TestRecordsOfOthersAreUnknown(t *testing.T) {
	log := &logOf{}
	log.add(t, evidence.Genesis(evidence.ChainID{1}), evidence.Record{Decision: evidence.Allow, AgentID: "mail", Time: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)})
	a := &Admin{Log: slog.New(slog.DiscardHandler), Store: oneRecord{record: (*log)[0]}}
	for agent, want := range map[string]int{"mail": http.StatusOK, "documents": http.StatusNotFound, "": http.StatusNotFound} {
		rights := people.RightsOf([]people.Given{{Role: "auditor", Who: []string{"user:x"}, Agents: []string{agent}}}, "user:x", nil)
		h := a.As("user:x", rights)
		for _, path := range []string{"/v1/records/r0", "/v1/records/r0/body", "/v1/evidence/proof/r0"} {
			if want == http.StatusOK && path != "/v1/records/r0" {
				continue
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
			if w.Code != want {
				t.Errorf("%s, about mail, by an auditor of %q: HTTP %d %s; want %d", path, agent, w.Code, w.Body, want)
			}
		}
	}
}
