package console

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/issuing/registry"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/people/peopletest"
	"github.com/powerbox-project/powerbox/internal/web/operations"
)

// The parts of a console of which nothing may be called: a call of a nil interface ends the
// test.
type (
	peopleOf    People
	passkeysOf  Passkeys
	questionsOf Questions
	activityOf  Activity
	approvalsOf Approvals
	noQuestions struct{ questionsOf }
	noStates    struct{ States }
	noDigests   struct{ Digests }
	noOffers    struct{ Offers }
	noHosts     struct{ Hosts }
	noAgents    struct{ Agents }
	noActivity  struct{ activityOf }
	noApprovals struct{ approvalsOf }
	anyone      struct{ peopleOf }
	oneKey      struct{ passkeysOf }
	noDesk      struct{ Desk }
)

func (anyone) Recognize(_ context.Context, c people.Claim) (provider.Person, error) {
	return peopletest.Person(c), nil
}
func (anyone) Administrator(provider.Person) bool { return true }
func (anyone) SetPersonAs(_ context.Context, _ provider.Person, principal string, _ people.State, _ string) error {
	changed = append(changed, principal)
	return nil
}

func (anyone) LogOutAs(_ context.Context, _ provider.Person, principal, _ string) error {
	changed = append(changed, principal)
	return nil
}

func (oneKey) Passkeys(context.Context, string) ([]provider.Passkey, error) { return nil, nil }

func (noQuestions) Questions(context.Context, provider.Person) ([]provider.Question, error) {
	return nil, nil
}

func (noDesk) Questions(context.Context, approval.Person) (own, review []approval.Question, err error) {
	return nil, nil, nil
}

// changed are the changes that reached the parts behind the pages.
var changed []string

// routedConsole is a console at a URL whose operator has logged in some time ago.
func routedConsole(t *testing.T, at string, age time.Duration) (*Console, *http.Cookie) {
	t.Helper()
	changed = nil
	return consoleBefore(t, at, age, func(w http.ResponseWriter, r *http.Request) {
		changed = append(changed, r.Method+" "+r.URL.Path)
		http.Error(w, "{}", http.StatusTeapot)
	})
}

// consoleBefore is a console before an interface for operators.
func consoleBefore(t *testing.T, at string, age time.Duration, v1 http.HandlerFunc) (*Console, *http.Cookie) {
	t.Helper()
	now := time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)
	pages, err := operations.New(operations.Config{Now: func() time.Time { return now }, V1: func(string, people.Rights) http.Handler { return v1 }})
	if err != nil {
		t.Fatal(err)
	}
	k, err := New(Config{
		Provider: Provider{
			Questions: noQuestions{}, States: noStates{}, Digests: noDigests{}, Offers: noOffers{}, Hosts: noHosts{}, Agents: noAgents{}, Activity: noActivity{},
			Passkeys: oneKey{}, People: anyone{},
		},
		Desk: noDesk{}, Approvals: noApprovals{}, Operations: pages, Rights: func(provider.Person) people.Rights { return people.AllRights() }, URL: at, Name: "test",
		Directory: &Directory{Viewer: func(provider.Person) registry.Viewer { return registry.Viewer{Operator: true} }},
		Fresh:     5 * time.Minute, Session: time.Hour, Seal: testSeal(t), Now: func() time.Time { return now }, Random: rand.Reader,
		Log: slog.New(slog.DiscardHandler), Done: make(chan struct{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	cookie, err := k.sessions.start(peopletest.Person(people.Claim{Principal: "user:carol"}), "")
	if err != nil {
		t.Fatal(err)
	}
	k.sessions.of(cookie).began = now.Add(-age)
	return k, &http.Cookie{Name: k.cookieName(sessionCookie), Value: cookie}
}

// allRoutes are those of a console, with those for operators.
func (k *Console) allRoutes() []route {
	all := k.peopleRoutes()
	for _, r := range k.config.Operations.Routes() {
		all = append(all, route{pattern: r.Pattern, effect: r.Effect})
	}
	return all
}

var placeholder = regexp.MustCompile(`\{[a-z]+\}`)

// TestEveryChangeIsHeldToTheRule posts to every route that changes something, without a
// passkey's signature: nothing changes, but an end of authority after a fresh login at a host
// that can have no passkeys.
func TestEveryChangeIsHeldToTheRule(t *testing.T) {
	for name, c := range map[string]struct {
		url   string
		age   time.Duration
		takes bool // whether something may be taken away
	}{
		"with passkeys, fresh":    {"http://localhost:8700", 0, false},
		"with passkeys, stale":    {"http://localhost:8700", 30 * time.Minute, false},
		"without passkeys, fresh": {"http://127.0.0.1:8700", 0, true},
		"without passkeys, stale": {"http://127.0.0.1:8700", 30 * time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			k, cookie := routedConsole(t, c.url, c.age)
			walked := 0
			for _, one := range k.allRoutes() {
				method, path, _ := strings.Cut(one.pattern, " ")
				if !one.effect.Changes() {
					continue
				}
				walked++
				changed = nil
				form := url.Values{"person": {"user:bob"}, "reason": {"r"}, "target": {"cap_1"}, "expires": {"2027-01-15T13:00:00Z"}, "assertion": {"{}"}}
				r := httptest.NewRequest(method, c.url+placeholder.ReplaceAllString(path, "x"), strings.NewReader(form.Encode()))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				r.AddCookie(cookie)
				w := httptest.NewRecorder()
				k.ServeHTTP(w, r)
				if may := c.takes && one.effect == operations.TakesAway; may != (len(changed) > 0) || !may && w.Code != http.StatusForbidden {
					t.Errorf("%s: HTTP %d, changed %v; want a change: %t", one.pattern, w.Code, changed, may)
				}
			}
			if walked < 8 {
				t.Errorf("only %d routes change something", walked)
			}
		})
	}
}

// TestChangesAreForThoseWhoMay: a person who is no operator and no administrator changes
// nothing, with a fresh login either.
func TestChangesAreForThoseWhoMay(t *testing.T) {
	k, cookie := routedConsole(t, "http://127.0.0.1:8700", 0)
	k.config.Directory.Viewer = func(provider.Person) registry.Viewer { return registry.Viewer{} }
	k.config.Rights = func(provider.Person) people.Rights { return people.Rights{} }
	k.config.People = noAdministrator{}
	for _, one := range k.allRoutes() {
		method, path, _ := strings.Cut(one.pattern, " ")
		if !one.effect.Changes() {
			continue
		}
		changed = nil
		r := httptest.NewRequest(method, "http://127.0.0.1:8700"+placeholder.ReplaceAllString(path, "x"), strings.NewReader("person=user:bob&reason=r&target=cap_1"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.AddCookie(cookie)
		w := httptest.NewRecorder()
		if k.ServeHTTP(w, r); w.Code != http.StatusForbidden || len(changed) > 0 || !strings.Contains(w.Body.String(), "administrator") {
			t.Errorf("%s: HTTP %d, changed %v; want 403, and who may", one.pattern, w.Code, changed)
		}
	}
}

type noAdministrator struct{ anyone }

func (noAdministrator) Administrator(provider.Person) bool { return false }

// TestEveryPostSaysWhatItDoes lists the posts that ask for neither passkey nor fresh login
// themselves. A new one must be added here, with its rule, or have an effect.
func TestEveryPostSaysWhatItDoes(t *testing.T) {
	k, _ := routedConsole(t, "http://localhost:8700", 0)
	got := map[string][]string{}
	for _, one := range k.allRoutes() {
		switch {
		case strings.HasPrefix(one.pattern, "GET "), one.effect.Changes():
		case one.effect == operations.Asks:
			got["asks"] = append(got["asks"], strings.TrimPrefix(one.pattern, "POST "))
		default:
			got[string(one.rule)] = append(got[string(one.rule)], strings.TrimPrefix(one.pattern, "POST "))
		}
	}
	for _, paths := range got {
		slices.Sort(paths)
	}
	want := map[string][]string{
		"asks":           {"/admin/give/{id}/preview", "/admin/policy", "/admin/try", "/approve"},
		string(signsIn):  {"/first", "/login", "/login/passkey", "/logout"},
		string(signsKey): {"/passkeys", "/passkeys/remove"},
		string(answers):  {"/approve/{id}", "/host-agents/{agent}/grants", "/hosts/{host}/link"},
		string(endsOwn): {
			"/approve/{id}/revoke", "/host-agents/{agent}/forget", "/host-agents/{agent}/grants/{grant}", "/host-agents/{agent}/revoke", "/hosts/{host}/revoke", "/hosts/{host}/unlink", "/sessions/end", "/sessions/end-all",
		},
		string(challenge): {
			"/approve/{id}/challenge", "/host-agents/{agent}/challenge", "/hosts/{host}/link/challenge", "/login/passkey/challenge", "/passkeys/challenge",
			"/passkeys/confirm/challenge", "/passkeys/remove/challenge",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRouteWithoutEffectIsRefused: a page that changes something and does not say so cannot
// be served.
func TestRouteWithoutEffectIsRefused(t *testing.T) {
	may := func(*visit) (provider.Person, error) { return provider.Person{}, nil }
	for name, c := range map[string]struct {
		one  route
		good bool
	}{
		"a page":                      {route{pattern: "GET /x"}, true},
		"a post without an effect":    {route{pattern: "POST /x"}, false},
		"a put without an effect":     {route{pattern: "PUT /x"}, false},
		"any method":                  {route{pattern: "/x"}, false},
		"a page that changes":         {route{pattern: "GET /x", effect: operations.Gives, may: may}, false},
		"a change of nobody":          {route{pattern: "POST /x", effect: operations.Gives}, false},
		"a change":                    {route{pattern: "POST /x", effect: operations.TakesAway, may: may}, true},
		"a post without its rule":     {route{pattern: "POST /x", effect: operations.Ruled}, false},
		"a rule beside an effect":     {route{pattern: "POST /x", effect: operations.Asks, rule: answers}, false},
		"a post that changes nothing": {route{pattern: "POST /x", effect: operations.Asks}, true},
	} {
		if err := c.one.check(); (err == nil) != c.good {
			t.Errorf("%s: %v; want good: %t", name, err, c.good)
		}
	}
}
