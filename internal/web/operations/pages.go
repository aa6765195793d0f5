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
)

//go:embed pages/*.html
var files embed.FS

// Templates are the templates of the pages. Each defines one that is named after its file;
// the console's frame is around it.
func Templates() fs.FS { return files }

// Functions are the functions that the templates use.
func Functions() template.FuncMap {
	return template.FuncMap{"short": short, "ago": ago, "number": number, "others": others, "operations": reaches}
}

// Config has the parts that the pages need. Every field is required.
type Config struct {
	// V1 returns the operators' interface of this process for a person.
	V1  func(person string) http.Handler
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
	Person  string
	Waiting int  // requests that wait for the person
	Fresh   bool // the person has logged in just now
	// Signs reports whether changes are signed with a passkey; otherwise a fresh login is
	// enough for those that only take away.
	Signs bool
	API   API
	// Still reports whether the person is logged in, and an operator, until now: an answer
	// that lasts asks again.
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
	Serve   func(*Visit) (Answer, error)
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
	// Ruled is for posts of people about what is their own, such as answers and logins.
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

// Links are the entries of the menu.
func Links() []Link {
	return []Link{
		{Path, "Home"},
		{livePath, "Live"},
		{Path + "/agents", "Agents"},
		{Path + "/capabilities", "Capabilities"},
		{Path + "/graph", "Graph"},
		{evidencePath, "Evidence"},
		{Path + "/try", "Try it"},
		{Path + "/policy", "Policy"},
		{Path + "/advisor", "Advisor"},
		{Path + "/settings", "Gateways and keys"},
	}
}

// Routes are the pages and the changes.
func (p *Pages) Routes() []Route {
	return append([]Route{
		{Pattern: "GET " + Path, Serve: p.home},
		{Pattern: "GET " + Path + "/try", Serve: p.tryForm},
		{Pattern: "POST " + Path + "/try", Serve: p.tryAsk, Effect: Asks},
		{Pattern: "GET " + Path + "/policy", Serve: p.policy},
		{Pattern: "POST " + Path + "/policy", Serve: p.policyTry, Effect: Asks},
		{Pattern: "GET " + Path + "/advisor", Serve: p.advisor},
		{Pattern: "GET " + Path + "/settings", Serve: p.settings},
		{Pattern: "GET " + livePath, Serve: p.live},
		{Pattern: "GET " + livePath + "/events", Serve: p.liveEvents},
		{Pattern: "GET " + Path + "/agents", Serve: p.agents},
		{Pattern: "GET " + Path + "/agents/{id}", Serve: p.agent},
		{Pattern: "GET " + Path + "/agents/{id}/freeze", Serve: p.previewStop(false)},
		{Pattern: "POST " + Path + "/agents/{id}/freeze", Serve: p.stop("/v1/freezes"), Effect: TakesAway},
		{Pattern: "GET " + Path + "/agents/{id}/thaw", Serve: p.previewStop(true)},
		{Pattern: "POST " + Path + "/agents/{id}/thaw", Serve: p.stop("/v1/thaws"), Effect: Gives},
		{Pattern: "GET " + Path + "/agents/{id}/mode", Serve: p.previewMode},
		{Pattern: "POST " + Path + "/agents/{id}/mode", Serve: p.setMode, Effect: Gives},
		{Pattern: "GET " + Path + "/capabilities", Serve: p.capabilities},
		{Pattern: "GET " + Path + "/capabilities/{id}", Serve: p.capability},
		{Pattern: "GET " + Path + "/graph", Serve: p.graph},
		{Pattern: "GET " + Path + "/revoke", Serve: p.previewRevoke},
		{Pattern: "POST " + Path + "/revoke", Serve: p.revoke, Effect: TakesAway},
		{Pattern: "GET " + Path + "/revoke/{sequence}", Serve: p.revoked},
	}, slices.Concat(p.evidenceRoutes(), p.giveRoutes(), p.narrowRoutes())...)
}

// Visit begins a visit.
func (p *Pages) Visit(r *http.Request, person string) *Visit {
	return &Visit{Request: r, Person: person, API: API{p.config.V1(person)}}
}

// short shortens an id for a table; its title has the whole.
func short(id string) string {
	const begin, end = 6, 4
	if len(id) <= begin+end+1 {
		return id
	}
	return id[:begin] + "\u2026" + id[len(id)-end:]
}

// ago words a duration that has passed.
func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return strconv.Itoa(max(0, int(d.Seconds()))) + " s"
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + " h"
	}
	return strconv.Itoa(int(d.Hours()/24)) + " days"
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
func others(n int) string { return plural(n-1, "other") }

// reaches words how much an agent can reach.
func reaches(operations, agents int) string {
	if operations == 0 {
		return "nothing"
	}
	return plural(operations, "operation") + " of " + plural(agents, "agent")
}
