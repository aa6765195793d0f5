package operations

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/web/api"
	"github.com/powerbox-project/powerbox/internal/web/lang"
)

// capabilitiesPage is a page of the capabilities in force.
type capabilitiesPage struct {
	Agent, Holder, Principal string // that are searched for
	Agents                   []string
	Rows                     []capabilityRow
	Next                     string // the URL of the next page, "" after the last
	Later                    bool   // it is not the first page
}

// capabilityRow is a capability in a table.
type capabilityRow struct {
	api.CapabilityStatus
	Who  string
	From string // the capability that it was narrowed from, "" for none
	Left string // how long it lives
}

// pageRows is how many capabilities, or agents, a page has.
const pageRows = 50

func (p *Pages) capabilities(v *Visit) (Answer, error) {
	asked, query := v.URL.Query(), url.Values{}
	for _, name := range []string{"agent", "holder", "principal", "before"} {
		if value := strings.TrimSpace(asked.Get(name)); value != "" {
			query.Set(name, value)
		}
	}
	page := capabilitiesPage{Agent: query.Get("agent"), Holder: query.Get("holder"), Principal: query.Get("principal"), Later: query.Has("before")}
	found, next, err := v.API.capabilities(v.Context(), query, pageRows)
	if err != nil {
		return Answer{}, err
	}
	for _, c := range found {
		page.Rows = append(page.Rows, p.capabilityRow(v.Language, c))
	}
	if next != "" {
		query.Del("limit")
		query.Set("before", next)
		page.Next = "/admin/capabilities?" + query.Encode()
	}
	page.Agents, err = v.API.someAgents(v.Context())
	return Answer{Page: "capabilities", Title: v.T("Capabilities"), Body: page}, err
}

func (p *Pages) capabilityRow(l *lang.Language, c api.CapabilityStatus) capabilityRow {
	row := capabilityRow{CapabilityStatus: c, Who: who(c.Requester, c.Holder), Left: ago(l, c.Expires.Sub(p.config.Now()))}
	if n := len(c.Ancestors); n > 0 {
		row.From = c.Ancestors[n-1]
	}
	return row
}

// capabilityPage is one capability.
type capabilityPage struct {
	capabilityRow
	Allows   []allowed
	Around   []string // A2A's own operations, with any arguments
	Depth    int
	Chain    []capabilityRow // from the root to the parent
	Tree     []*held         // capabilities that were narrowed from it
	Count    int             // of those that are shown
	More     bool            // there are more
	Used     *time.Time      // the last call under it, of the records that were looked at
	UsedFor  string
	Looked   bool // all records of it were looked at
	MayStop  bool // the visitor may revoke it
	MaySteer bool // the visitor may narrow it
}

// allowed is one clause of an authority in words.
type allowed struct {
	Operation string
	Limits    []limit
	Others    string // what other arguments there can be
}

// limit is what one argument is held to.
type limit struct{ Argument, Says string }

func (p *Pages) capability(v *Visit) (Answer, error) {
	ctx := v.Context()
	var c api.CapabilityStatus
	if err := v.API.Get(ctx, "/v1/capabilities/"+url.PathEscape(v.PathValue("id")), &c); err != nil {
		return Answer{}, err
	}
	page := capabilityPage{capabilityRow: p.capabilityRow(v.Language, c), MayStop: v.Rights.MayAt(people.Stop, c.Agent), MaySteer: v.Rights.MayAt(people.Steer, c.Agent)}
	all, depth, err := inWords(v.Language, c.Authority)
	if err != nil {
		return Answer{}, err
	}
	page.Depth = depth
	for _, one := range all {
		if strings.HasPrefix(one.Operation, "a2a.") && len(one.Limits) == 0 {
			page.Around = append(page.Around, one.Operation)
		} else {
			page.Allows = append(page.Allows, one)
		}
	}
	for _, id := range c.Ancestors {
		var one api.CapabilityStatus
		if err := v.API.Get(ctx, "/v1/capabilities/"+url.PathEscape(id), &one); err != nil {
			return Answer{}, err
		}
		page.Chain = append(page.Chain, p.capabilityRow(v.Language, one))
	}
	below, next, err := v.API.capabilities(ctx, url.Values{"below": {c.ID}}, treeLimit)
	if err != nil {
		return Answer{}, err
	}
	page.Tree, page.Count, page.More = trees(below), len(below), next != ""
	for _, one := range page.Tree {
		one.Orphan = false // its parent is this one, or has ended
	}
	records, next, err := v.API.Records(ctx, url.Values{"capability": {c.ID}, "limit": {"100"}})
	if err != nil {
		return Answer{}, err
	}
	page.Looked = next == ""
	for _, s := range records {
		if r := s.Record(); audit.IsCall(r) {
			page.Used, page.UsedFor = &r.Time, audit.SubjectOf(r)
			break
		}
	}
	return Answer{Page: "capability", Title: short(c.ID), Body: page}, nil
}

// inWords says what an authority allows.
func inWords(l *lang.Language, raw json.RawMessage) ([]allowed, int, error) {
	value, err := powerbox.ParseValue(raw)
	if err != nil {
		return nil, 0, err
	}
	a, err := powerbox.ParseAuthority(value)
	if err != nil {
		return nil, 0, err
	}
	var out []allowed
	for _, clause := range a.Clauses() {
		one := allowed{Operation: clause.Pattern.String(), Others: l.T("no other arguments")}
		if clause.Shape.Rest() == powerbox.RestAny {
			one.Others = l.T("any other arguments")
		}
		for _, f := range clause.Shape.Fields() {
			says := admits(l, f.Constraint)
			if !f.Required {
				says = l.T("%s, or left out", says)
			}
			one.Limits = append(one.Limits, limit{f.Name, says})
		}
		if len(one.Limits) == 0 {
			one.Others = map[bool]string{true: l.T("any arguments"), false: l.T("no arguments")}[clause.Shape.Rest() == powerbox.RestAny]
		}
		out = append(out, one)
	}
	return out, a.Depth(), nil
}

// admits says what a constraint admits.
func admits(l *lang.Language, c powerbox.Constraint) string {
	switch c := c.(type) {
	case powerbox.ExactValue:
		return l.T("exactly %s", c.Value)
	case powerbox.OneOf:
		if n := len(c.Values); n > 0 && !slices.ContainsFunc(c.Values, func(v powerbox.Value) bool { return !isHandle(v) }) {
			return l.N(n, "the handle of %s resource", "the handle of one of %s resources")
		}
		return l.T("one of %s", values(l, c.Values))
	case powerbox.NotOneOf:
		return l.T("none of %s", values(l, c.Excluded))
	case powerbox.Contains:
		return l.T("a list with %s", values(l, c.Required))
	case powerbox.Subset:
		return l.T("a list of only %s", values(l, c.Allowed))
	case powerbox.Wildcard:
		return l.T("any value")
	case powerbox.Range:
		return between(l, c)
	case powerbox.All:
		return several(l, c.Constraints, l.T("and"))
	case powerbox.AnyOf:
		return several(l, c.Constraints, l.T("or"))
	default: // the extensions' own form says it best
		return c.JSON().String()
	}
}

// isHandle reports whether a value is a resource's handle: the resources are named in
// its place.
func isHandle(v powerbox.Value) bool {
	text, ok := v.Text()
	return ok && strings.HasPrefix(text, "rh_")
}

func between(l *lang.Language, c powerbox.Range) string {
	var parts []string
	if c.Min != nil {
		parts = append(parts, l.T(map[bool]string{true: lang.Mark("more than %s"), false: lang.Mark("at least %s")}[c.MinExclusive], c.Min))
	}
	if c.Max != nil {
		parts = append(parts, l.T(map[bool]string{true: lang.Mark("less than %s"), false: lang.Mark("at most %s")}[c.MaxExclusive], c.Max))
	}
	if len(parts) == 0 {
		return l.T("any number")
	}
	return strings.Join(parts, " "+l.T("and")+" ")
}

func several(l *lang.Language, all []powerbox.Constraint, joint string) string {
	parts := make([]string, len(all))
	for i, c := range all {
		parts[i] = admits(l, c)
	}
	return strings.Join(parts, " "+joint+" ")
}

// valueLimit is how many values of a list are shown.
const valueLimit = 12

func values(l *lang.Language, all []powerbox.Value) string {
	var parts []string
	for _, v := range all[:min(len(all), valueLimit)] {
		parts = append(parts, v.String())
	}
	text := strings.Join(parts, ", ")
	if n := len(all) - valueLimit; n > 0 {
		text = l.N(n, "%[2]s and %[1]s more value", "%[2]s and %[1]s more values", text)
	}
	return text
}
