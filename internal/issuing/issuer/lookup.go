package issuer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
)

// ErrSource is the error of a source that cannot answer now.
var ErrSource = errors.New("the source of the resources cannot answer")

// Source has the resources of a collection that no catalogue lists. What it returns only
// proposes: policy rules on every resource, as on those of a catalogue.
type Source interface {
	// Page returns a page of the resources that the principal may use. The error wraps
	// [ErrSource] and was logged.
	Page(ctx context.Context, q catalogue.Question) (catalogue.Page, error)
}

// Live is a collection with its source.
type Live struct {
	catalogue.Collection
	Source  Source
	Actions map[string]string // what the source calls an operation
	Action  string            // what it calls the others
	Limit   int               // most resources of one capability
	Scan    int               // most pages of the source for one answer
	// Hold does the work of a whole request and returns at a time that does not depend on
	// the work (SEP-5). It returns false, without the work, while too many requests wait, of
	// all callers or of this one.
	Hold func(caller string, work func()) bool
}

// live returns the live collection that a query selects from, nil for none.
func (a *Agent) live(collection string) *Live {
	for n := range a.Live {
		if a.Live[n].Name == collection {
			return &a.Live[n]
		}
	}
	return nil
}

// resource returns the resource behind a handle: of the catalogue, or of a live
// collection as it was at issue. It returns nil if the agent has it no longer.
func (a *Agent) resource(h Handle) *catalogue.Item {
	if h.Collection == "" {
		n := slices.IndexFunc(a.Resources, func(item catalogue.Item) bool { return item.ID == h.Resource })
		if n < 0 {
			return nil
		}
		return &a.Resources[n]
	}
	live := a.live(h.Collection)
	if live == nil {
		return nil
	}
	item := catalogue.Item{Agent: a.ID, Collection: h.Collection, ID: h.Resource, Name: h.Name, Attributes: map[string]powerbox.Value{}}
	for name, raw := range h.Attributes {
		v, err := powerbox.ParseValue(raw)
		if err != nil {
			return nil
		}
		item.Attributes[name] = v
	}
	if live.Admit(item) != nil {
		return nil // the operator declares the collection otherwise now
	}
	return &item
}

// handle seals a resource under a root capability.
func (i *Issuer) handle(a *Agent, root string, item catalogue.Item) Handle {
	h := Handle{Handle: i.config.Sealer.Seal(a.ID, root, item.ID), Name: item.Name, Resource: item.ID}
	if a.live(item.Collection) == nil {
		return h
	}
	if h.Collection = item.Collection; h.Name == "" {
		// The source has no names. The end of the handle is known to the caller anyway.
		h.Name = item.Collection + " " + h.Handle[max(0, len(h.Handle)-nameTail):]
	}
	for name, v := range item.Attributes {
		if h.Attributes == nil {
			h.Attributes = map[string]json.RawMessage{}
		}
		h.Attributes[name] = v.AppendJSON(nil)
	}
	return h
}

// nameTail is how much of a handle names a resource without a name.
const nameTail = 8

// place is where the answer to a query continues, for one action of a source.
type place struct {
	Page string `json:"p,omitempty"` // cursor of the source
	Skip int    `json:"s,omitempty"` // items of that page that the caller is past
}

// longest is how long a request with a lookup takes at most.
const longest = time.Minute

// held answers a request that looks resources up. Policy, token, record and refusal are
// within the time that [Live.Hold] hides. A caller that leaves ends nothing: the answer
// would tell how far the work was.
func (i *Issuer) held(ctx context.Context, live *Live, record evidence.Record, agentID string, caller identity.Caller, req Request) (issued []Capability, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), longest)
	defer cancel()
	if !live.Hold(cmp.Or(caller.Principal, caller.Holder.ID), func() { issued, err = i.answered(ctx, record, agentID, caller, req) }) {
		return nil, i.denied(ctx, record, unavailable())
	}
	return issued, err
}

func unavailable() *Refusal {
	return refuse(CodeResourcesUnavailable, "the resources cannot be looked up now; send the same request again later")
}

// looksUp returns the live collection that a request selects from, nil for none.
func (i *Issuer) looksUp(agentID string, req Request) *Live {
	agent, ok := i.all()[agentID]
	if !ok || req.Query == nil {
		return nil
	}
	return agent.live(req.Query.Collection())
}

// selectLive looks up the resources of a live collection.
func (i *Issuer) selectLive(ctx context.Context, agent *Agent, grant Grant, caller identity.Caller, live *Live, wanted []string, req Request, p *permitted) *Refusal {
	if err := req.Query.Fits(live.Collection); err != nil {
		return refuseWords(CodeQueryInvalid, req.QueryText, "the resourceQuery is invalid", "%v", err)
	}
	selection := req.Query.Selection()
	places, ok := i.places(agent, grant, caller, live, wanted, *req.Query)
	if !ok {
		return refuse(CodeQueryInvalid, "resourceQuery: after is no cursor of this query and this user; leave it out to begin again")
	}
	l := lookup{i: i, agent: agent, grant: grant, caller: caller, live: live, query: *req.Query, permitted: p, next: map[string]place{}}
	if l.limit = req.Query.Limit(); l.limit == 0 || l.limit > live.Limit {
		l.limit = live.Limit
	}
	if err := l.all(ctx, wanted, places); err != nil {
		return unavailable()
	}
	slices.SortFunc(p.selected, func(a, b catalogue.Item) int { return strings.Compare(a.ID, b.ID) })
	if len(l.next) > 0 {
		position, err := json.Marshal(l.next)
		if err == nil {
			p.next = i.config.Sealer.SealCursor(agent.ID, grant.ID, caller.Principal, selection, string(position))
		}
	}
	return nil
}

// places returns where to begin, by action, and false for a cursor of another query.
func (i *Issuer) places(agent *Agent, grant Grant, caller identity.Caller, live *Live, wanted []string, q catalogue.Query) (map[string]place, bool) {
	out := map[string]place{}
	if q.After() == "" {
		for _, op := range wanted {
			out[live.actionOf(op)] = place{}
		}
		return out, true
	}
	position, ok := i.config.Sealer.OpenCursor(agent.ID, grant.ID, caller.Principal, q.Selection(), q.After())
	if !ok || json.Unmarshal([]byte(position), &out) != nil {
		return nil, false
	}
	return out, true
}

func (l *Live) actionOf(operation string) string {
	if a, ok := l.Actions[operation]; ok {
		return a
	}
	return l.Action
}

// lookup is one answer in the making.
type lookup struct {
	i      *Issuer
	agent  *Agent
	grant  Grant
	caller identity.Caller
	live   *Live
	query  catalogue.Query
	limit  int
	*permitted
	next map[string]place // by action: where more of what the caller may see begins
}

// all asks the source about every action of the wanted operations. The actions share the
// limit, so that no capability has more resources than that.
func (l *lookup) all(ctx context.Context, wanted []string, places map[string]place) error {
	operations := map[string][]string{}
	for _, op := range wanted {
		action := l.live.actionOf(op)
		operations[action] = append(operations[action], op)
	}
	for _, action := range slices.Sorted(maps.Keys(operations)) {
		if at, ok := places[action]; ok {
			if err := l.scan(ctx, action, operations[action], at, max(1, l.limit/len(operations))); err != nil {
				return err
			}
		}
	}
	return nil
}

// scan reads pages until it has enough resources and knows whether there are more. It
// reads a bounded number of pages: if policy hides nearly all that the source returns, the
// answer ends early, and it does not say so, since that would tell of hidden resources.
func (l *lookup) scan(ctx context.Context, action string, operations []string, at place, limit int) error {
	found := 0
	for range l.live.Scan {
		page, err := l.live.Source.Page(ctx, catalogue.Question{
			Principal: l.caller.Principal, Collection: l.live.Collection, Action: action, Query: l.query, After: at.Page,
		})
		if err != nil {
			return err
		}
		for n := min(at.Skip, len(page.Items)); n < len(page.Items); n++ {
			if !l.query.Matches(page.Items[n]) || !l.permits(operations, page.Items[n], found < limit) {
				continue
			}
			if found == limit {
				l.next[action] = place{at.Page, n}
				return nil
			}
			found++
		}
		if page.Next == "" {
			return nil
		}
		at = place{Page: page.Next}
	}
	l.i.config.Log.Warn("policy hides most resources of a live collection; let its source leave them out", "agent", l.agent.ID, "collection", l.live.Name)
	return nil
}

// permits asks the policy about every operation on a resource, and takes the resource if
// policy allows one and take says so.
func (l *lookup) permits(operations []string, item catalogue.Item, take bool) bool {
	allowed := false
	for _, op := range operations {
		r := l.i.config.Policy.Permits(l.caller, l.agent.ID, l.grant.ID, op, &item)
		if !r.Allow {
			continue
		}
		if allowed = true; take {
			l.rulings[op][item.ID] = r
		}
	}
	if allowed && take && !slices.ContainsFunc(l.selected, func(s catalogue.Item) bool { return s.ID == item.ID }) {
		l.selected = append(l.selected, item)
	}
	return allowed
}
