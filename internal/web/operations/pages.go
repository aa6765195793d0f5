package operations

import (
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/internal/missing"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/web/lang"
)

//go:embed pages/*.html
var files embed.FS

// Templates are the templates of the pages. Each defines one that is named after its file;
// the console's frame is around it.
func Templates() fs.FS { return files }

// Functions are the functions that the templates use.
func Functions(l *lang.Language) template.FuncMap {
	return template.FuncMap{
		"said":      l.Said,
		"loginSays": func(by any) string { return loginSays(l, people.Login(fmt.Sprint(by))) },
		"short":     short, "shortKey": shortKey, "number": number,
		"others":     func(n int) string { return others(l, n) },
		"operations": func(operations, agents int) string { return reaches(l, operations, agents) },
		"gated": func(operations, agents int) string {
			if operations == 0 {
				return l.T("nothing without a capability")
			}
			return reaches(l, operations, agents)
		},
	}
}

// Config has the parts that the pages need. Every field is required.
type Config struct {
	// V1 returns the operators' interface of this process for a person.
	V1  func(person string, rights people.Rights) http.Handler
	Now func() time.Time
}

// Pages are the pages for operators.
type Pages struct{ config Config }

// New returns the pages.
func New(c Config) (*Pages, error) {
	if err := missing.Fields("operations", c, "V1", "Now"); err != nil {
		return nil, err
	}
	return &Pages{c}, nil
}

// Visit is one request of an operator.
type Visit struct {
	*http.Request
	*lang.Language
	Person  string
	Rights  people.Rights
	Waiting int  // requests that wait for the person
	Fresh   bool // the person has logged in just now
	// Signs reports whether changes are signed with a passkey; otherwise a fresh login is
	// enough for those that only take away.
	Signs bool
	API   API
	// Still reports whether the person is logged in until now, with the same rights: an
	// answer that lasts asks again.
	Still func() bool
}

// Answer is the answer to a visit: a page, another place, or something written by Write.
type Answer struct {
	Page   string // name of the template
	Title  string
	Body   any
	Script string // a file of the console's assets, beside console.js; "" for none

	Redirect string
	Write    func(w http.ResponseWriter) error
}

// Route is one page, or one change.
type Route struct {
	Pattern string // as for [http.ServeMux]
	// Needs is what the visitor must have at some agent, and with Whole at every agent. The
	// operators' interface decides about each agent.
	Needs people.Permission
	Whole bool
	Serve func(*Visit) (Answer, error)
	// Effect says what the route does. A passkey signs the form of a change, whose
	// challenge is at the same path with /challenge behind it.
	Effect Effect
}

// Effect is what a route does.
type Effect int

// The effects. At a host that can have no passkeys, a fresh login is enough to take
// something away; nothing is given there. An agent may drive the browser of an operator.
const (
	Reads Effect = iota // for GET alone: a POST says its effect
	Asks                // a POST that changes nothing, and has what no address may have
	TakesAway
	Gives
	// Ruled is for posts of people about their own things, such as answers and logins.
	// Each has a rule of its own; the console names it.
	Ruled
)

// Changes reports whether a passkey, or else a fresh login, is asked for.
func (e Effect) Changes() bool { return e == TakesAway || e == Gives }

// Check refuses a route whose effect is not that of its method.
func (e Effect) Check(pattern string) error {
	if get := strings.HasPrefix(pattern, http.MethodGet+" "); get != (e == Reads) {
		return fmt.Errorf("operations: route %q has the effect %d; a GET reads, and any other method says what it does", pattern, e)
	}
	return nil
}

// Link is an entry of the menu.
type Link struct{ Path, Text string }

// Path is the place of the pages.
const Path = "/admin"

// Links are the entries of the menu that a person's roles permit.
func Links(rights people.Rights, l *lang.Language) []Link {
	all := []struct {
		Link
		needs people.Permission
		whole bool
	}{
		{Link{Path, l.T("Home")}, people.See, false},
		{Link{livePath, l.T("Live")}, people.Evidence, false},
		{Link{Path + "/agents", l.T("Agents")}, people.See, false},
		{Link{Path + "/capabilities", l.T("Capabilities")}, people.See, false},
		{Link{Path + "/graph", l.T("Graph")}, people.See, false},
		{Link{evidencePath, l.T("Evidence")}, people.Evidence, false},
		{Link{Path + "/try", l.T("Try it")}, people.See, false},
		{Link{Path + "/policy", l.T("Policy")}, people.See, true},
		{Link{Path + "/advisor", l.T("Advisor")}, people.See, false},
		{Link{Path + "/settings", l.T("Gateways and keys")}, people.See, false},
	}
	var out []Link
	for _, l := range all {
		if permits(rights, l.needs, l.whole) {
			out = append(out, l.Link)
		}
	}
	return out
}

func permits(rights people.Rights, needs people.Permission, whole bool) bool {
	if whole {
		return rights.May(needs)
	}
	return rights.Somewhere(needs)
}

// Permits reports whether a person's roles permit the route at some agent, or with Whole at
// every one.
func (r Route) Permits(rights people.Rights) bool { return permits(rights, r.Needs, r.Whole) }

// Routes are the pages and the changes.
func (p *Pages) Routes() []Route {
	return append([]Route{
		{Pattern: "GET " + Path, Serve: p.home, Needs: people.See},
		{Pattern: "GET " + Path + "/try", Serve: p.tryForm, Needs: people.See},
		{Pattern: "POST " + Path + "/try", Serve: p.tryAsk, Needs: people.See, Effect: Asks},
		{Pattern: "GET " + Path + "/policy", Serve: p.policy, Needs: people.See, Whole: true},
		{Pattern: "POST " + Path + "/policy", Serve: p.policyTry, Needs: people.See, Whole: true, Effect: Asks},
		{Pattern: "GET " + Path + "/advisor", Serve: p.advisor, Needs: people.See},
		{Pattern: "GET " + Path + "/settings", Serve: p.settings, Needs: people.See},
		{Pattern: "GET " + livePath, Serve: p.live, Needs: people.Evidence},
		{Pattern: "GET " + livePath + "/events", Serve: p.liveEvents, Needs: people.Evidence},
		{Pattern: "GET " + Path + "/agents", Serve: p.agents, Needs: people.See},
		{Pattern: "GET " + Path + "/agents/{id}", Serve: p.agent, Needs: people.See},
		{Pattern: "GET " + Path + "/agents/{id}/freeze", Serve: p.previewStop(false), Needs: people.Stop},
		{Pattern: "POST " + Path + "/agents/{id}/freeze", Serve: p.stop("/v1/freezes"), Needs: people.Stop, Effect: TakesAway},
		{Pattern: "GET " + Path + "/agents/{id}/thaw", Serve: p.previewStop(true), Needs: people.Steer},
		{Pattern: "POST " + Path + "/agents/{id}/thaw", Serve: p.stop("/v1/thaws"), Needs: people.Steer, Effect: Gives},
		{Pattern: "GET " + Path + "/agents/{id}/mode", Serve: p.previewMode, Needs: people.Steer},
		{Pattern: "POST " + Path + "/agents/{id}/mode", Serve: p.setMode, Needs: people.Steer, Effect: Gives},
		{Pattern: "GET " + Path + "/capabilities", Serve: p.capabilities, Needs: people.See},
		{Pattern: "GET " + Path + "/capabilities/{id}", Serve: p.capability, Needs: people.See},
		{Pattern: "GET " + Path + "/graph", Serve: p.graph, Needs: people.See},
		{Pattern: "GET " + Path + "/revoke", Serve: p.previewRevoke, Needs: people.Stop},
		{Pattern: "POST " + Path + "/revoke", Serve: p.revoke, Needs: people.Stop, Effect: TakesAway},
		{Pattern: "GET " + Path + "/revoke/{sequence}", Serve: p.revoked, Needs: people.See},
	}, slices.Concat(p.evidenceRoutes(), p.giveRoutes(), p.narrowRoutes())...)
}

// Visit begins a visit.
func (p *Pages) Visit(r *http.Request, person string, rights people.Rights, l *lang.Language) *Visit {
	return &Visit{Request: r, Language: l, Person: person, Rights: rights, API: API{p.config.V1(person, rights)}}
}

// short shortens an id for a table; its title has the whole.
func short(id string) string {
	const begin, end = 6, 4
	if len(id) <= begin+end+1 {
		return id
	}
	return id[:begin] + "\u2026" + id[len(id)-end:]
}

// shortKey shortens the thumbprint in the name of a caller that has no other.
func shortKey(name string) string {
	if at := strings.LastIndex(name, "key:"); at >= 0 {
		at += len("key:")
		return name[:at] + short(name[at:])
	}
	return name
}

// ago words a duration that has passed.
func ago(l *lang.Language, d time.Duration) string {
	switch {
	case d < time.Minute:
		return strconv.Itoa(max(0, int(d.Seconds()))) + " s"
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + " h"
	}
	return l.T("%s days", number(int(d.Hours()/24)))
}

// number writes a number with thin spaces between its thousands.
func number(n any) string {
	var text string
	switch n := n.(type) {
	case int:
		text = strconv.Itoa(n)
	case int64:
		text = strconv.FormatInt(n, 10)
	default:
		return ""
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "\u2009" + text[i:]
	}
	return text
}

// others words how many more there are than the first.
func others(l *lang.Language, n int) string { return l.N(n-1, "%s other", "%s others") }

// reaches words how much an agent can reach.
func reaches(l *lang.Language, operations, agents int) string {
	if operations == 0 {
		return l.T("nothing")
	}
	return l.T("%s of %s", l.N(operations, "%s operation", "%s operations"), l.N(agents, "%s agent", "%s agents"))
}
