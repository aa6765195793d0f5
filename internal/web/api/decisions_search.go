package api

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/sorting"
)

// SearchKnown lists the known names, for searches. Each list is in no order.
type SearchKnown struct {
	Users  func() []SearchUser
	Agents func() []string
	// Items are the ids of a collection's resources.
	Items func(agent, collection string) []string
	// Places seals where pages end.
	Places *catalogue.Sealer
}

// SearchUser is a user, without the prefix user:, and the known attributes.
type SearchUser struct {
	ID            string
	Groups, Roles []string
}

// maxResults bounds one page of a search, and maxTried how many candidates one page tries.
const (
	maxResults = 1000
	maxTried   = 20_000
)

// candidate is a question of a search: the entity that is looked for, and what it is called.
type candidate struct {
	name     string
	question powerbox.Value
	result   map[string]string
}

// searched is the answer to a search (section 8).
type searched struct {
	Results []map[string]string `json:"results"`
	Page    searchPage          `json:"page"`
}

type searchPage struct {
	Next  string `json:"next_token"`
	Count int    `json:"count"`
}

// searchSubject finds who may do something: the calling agents that the guard speaks for,
// and users for a guard that may ask about them.
func (d *Decisions) searchSubject(ctx context.Context, g *Guard, v powerbox.Value) (any, error) {
	subject, _ := v.Get("subject")
	kind, err := d.checked(v, "subject", "id", "type")
	if err != nil {
		return nil, err
	}
	var all []candidate
	add := func(id string, properties powerbox.Value) {
		one := with(subject, "id", powerbox.String(id))
		if _, given := one.Get("properties"); !given {
			one = with(one, "properties", properties)
		}
		all = append(all, candidate{id, with(v, "subject", one), map[string]string{"type": kind, "id": id}})
	}
	switch {
	case kind == TypeAgent:
		for _, id := range g.Agents {
			add(id, powerbox.Object())
		}
	case kind == TypeUser && g.Users:
		for _, u := range d.Known.Users() {
			add(u.ID, powerbox.Object(powerbox.Member{Name: "groups", Value: texts(u.Groups)}, powerbox.Member{Name: "roles", Value: texts(u.Roles)}))
		}
	}
	return d.search(ctx, g, v, all)
}

// searchResource finds at what a subject may do something: agents, or resources of a
// collection.
func (d *Decisions) searchResource(ctx context.Context, g *Guard, v powerbox.Value) (any, error) {
	resource, _ := v.Get("resource")
	kind, err := d.checked(v, "resource", "id", "type")
	if err != nil {
		return nil, err
	}
	var ids []string
	if kind == TypeAgent {
		ids = d.Known.Agents()
	} else if agent := d.Collections[kind]; agent != "" {
		ids = d.Known.Items(agent, kind)
	}
	var all []candidate
	for _, id := range ids {
		all = append(all, candidate{id, with(v, "resource", with(resource, "id", powerbox.String(id))), map[string]string{"type": kind, "id": id}})
	}
	return d.search(ctx, g, v, all)
}

// searchAction finds what a subject may do at a resource: skills of its agent.
func (d *Decisions) searchAction(ctx context.Context, g *Guard, v powerbox.Value) (any, error) {
	v = with(v, "action", powerbox.Object(powerbox.Member{Name: "name", Value: powerbox.String(ActionMessage)}))
	e, err := evaluationOf(v, powerbox.Object())
	if err != nil {
		return nil, status{http.StatusBadRequest, err.Error()}
	}
	id := e.Resource.ID
	if e.Resource.Type != TypeAgent {
		id = d.Collections[e.Resource.Type]
	}
	agent, known, err := d.Agent(ctx, id)
	if err != nil {
		return nil, err
	}
	var all []candidate
	if known {
		for name := range maps.Keys(agent.Skills) {
			named := powerbox.Object(powerbox.Member{Name: "name", Value: powerbox.String(name)})
			all = append(all, candidate{name, with(v, "action", named), map[string]string{"name": name}})
		}
	}
	return d.search(ctx, g, v, all)
}

// checked reads the type of the entity that is looked for, and wants the rest of the
// question to be whole.
func (d *Decisions) checked(v powerbox.Value, member, id, kind string) (string, error) {
	entity, _ := v.Get(member)
	if entity.Kind() != powerbox.KindObject {
		return "", status{http.StatusBadRequest, member + " is missing, or no object"}
	}
	e, err := evaluationOf(with(v, member, with(entity, id, powerbox.String("x"))), powerbox.Object())
	if err != nil {
		return "", status{http.StatusBadRequest, err.Error()}
	}
	if _, shown := e.Context.Get("capability"); shown || e.Subject.Type == TypeCapability {
		return "", status{http.StatusBadRequest, "a search cannot show a capability: its proof is for one call"}
	}
	return textOf(entity, kind), nil
}

// search returns the candidates that would be allowed, a page at a time. Nothing is done,
// so nothing is recorded. A candidate that is not allowed is answered as one that does not exist
// (ATK-133). So the token of a page names no candidate, and a next page has a result. It can be empty
// only if the page before ended because it had tried as many candidates as it may.
func (d *Decisions) search(ctx context.Context, g *Guard, v powerbox.Value, all []candidate) (any, error) {
	sorting.Sort(all, func(a, b candidate) int { return cmp.Compare(a.name, b.name) })
	all = slices.CompactFunc(all, func(a, b candidate) bool { return a.name == b.name })
	places := searchPlaces{d.Known.Places, g.Name, selectionOf(v)}
	after, limit, err := places.pageOf(v)
	if err != nil {
		return nil, status{http.StatusBadRequest, err.Error()}
	}
	out := searched{Results: []map[string]string{}}
	tried := 0
	for _, c := range all {
		if c.name <= after && after != "" {
			continue
		}
		if tried == maxTried {
			out.Page.Next = places.seal(after)
			break
		}
		tried++
		allowed, err := d.would(ctx, g, c)
		if err != nil {
			return nil, err
		}
		if allowed && len(out.Results) == limit {
			out.Page.Next = places.seal(after)
			break
		}
		after = c.name
		if allowed {
			out.Results = append(out.Results, c.result)
		}
	}
	out.Page.Count = len(out.Results)
	return out, ctx.Err()
}

// would reports whether a candidate would be allowed.
func (d *Decisions) would(ctx context.Context, g *Guard, c candidate) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	e, err := evaluationOf(c.question, powerbox.Object())
	if err != nil {
		return false, status{http.StatusBadRequest, err.Error()}
	}
	call, _, err := d.call(ctx, g, e)
	if err != nil {
		return false, err
	}
	return d.Gate.Would(ctx, call).Allowed, nil
}

// searchPlaces seals the places in the candidates of one search at which its pages end.
type searchPlaces struct {
	sealer    *catalogue.Sealer
	guard     string
	selection string
}

// searchPages are the tokens of pages, beside the cursors of agents, whose ids have no slash.
const searchPages = "/access/v1/search"

// selectionOf is a search without its page. A token is for one search.
func selectionOf(v powerbox.Value) string {
	members, _ := v.Members()
	kept := slices.DeleteFunc(slices.Clone(members), func(m powerbox.Member) bool { return m.Name == "page" })
	return string(powerbox.Object(kept...).AppendJSON(nil))
}

func (p searchPlaces) seal(after string) string {
	return p.sealer.SealCursor(searchPages, p.guard, "", p.selection, after)
}

var errNoToken = errors.New("page.token is none that this search returned")

// pageOf reads which page of a search is wanted.
func (p searchPlaces) pageOf(v powerbox.Value) (after string, limit int, err error) {
	page, given := v.Get("page")
	if !given {
		return "", maxResults, nil
	}
	if page.Kind() != powerbox.KindObject {
		return "", 0, errors.New("page is no object")
	}
	limit = maxResults
	if l, ok := page.Get("limit"); ok {
		n, err := strconv.Atoi(string(l.AppendJSON(nil)))
		if err != nil || n < 1 {
			return "", 0, errors.New("page.limit: want a whole number, 1 or more")
		}
		limit = min(n, maxResults)
	}
	t, ok := page.Get("token")
	token, isText := t.Text()
	switch {
	case !ok || t.Kind() == powerbox.KindNull || isText && token == "":
		return "", limit, nil
	case !isText:
		return "", 0, errNoToken
	}
	if after, ok = p.sealer.OpenCursor(searchPages, p.guard, "", p.selection, token); !ok {
		return "", 0, errNoToken
	}
	return after, limit, nil
}

// with is an object with a member in place of the one of that name.
func with(v powerbox.Value, name string, value powerbox.Value) powerbox.Value {
	members, _ := v.Members()
	kept := slices.DeleteFunc(slices.Clone(members), func(m powerbox.Member) bool { return m.Name == name })
	return powerbox.Object(append(kept, powerbox.Member{Name: name, Value: value})...)
}

func texts(all []string) powerbox.Value {
	out := make([]powerbox.Value, len(all))
	for i, s := range all {
		out[i] = powerbox.String(s)
	}
	return powerbox.List(out...)
}
