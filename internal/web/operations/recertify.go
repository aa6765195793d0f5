package operations

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/sorting"
	"github.com/powerbox-project/powerbox/internal/web/api"
)

// heldUse is a capability in force, and its use in the advisor's days.
type heldUse struct {
	capabilityRow
	Uses   []usedOperation
	Unused int // operations
	Last   *time.Time
	Kept   *time.Time // when an operator last kept it
	KeptBy string
	Short  bool   // there are more records than were looked at
	Narrow string // the page that narrows it to its use, "" where there is nothing to narrow
}

// usedOperation is an operation of a capability with its calls.
type usedOperation struct {
	Name  string
	Calls int
}

// recertified is how many capabilities a page of the advisor looks at.
const recertified = 50

// Stale reports whether nothing was used, and no operator kept it, in the time.
func (h heldUse) Stale() bool { return h.Last == nil && h.Kept == nil && !h.Short }

// useOf joins a capability with its use. A nil use is none.
func (p *Pages) useOf(v *Visit, c api.CapabilityStatus, of *used, short bool) heldUse {
	out := heldUse{capabilityRow: p.capabilityRow(v.Language, c), Short: short}
	if of == nil {
		of = &used{}
	}
	out.Last, out.Kept, out.KeptBy = of.last, of.kept, of.keptBy
	keep := url.Values{}
	for _, name := range c.Operations {
		calls := of.calls[c.Agent+"/"+c.Grant+"/"+name]
		out.Uses = append(out.Uses, usedOperation{name, calls})
		if calls == 0 {
			out.Unused++
		} else {
			keep.Add("keep", name)
		}
	}
	if n := len(keep["keep"]); n > 0 && n < len(c.Operations) && len(c.Ancestors) == 0 && c.Uses == 0 && !c.Legacy && !out.Short {
		out.Narrow = narrowPath(c.ID) + "?" + keep.Encode()
	}
	return out
}

// recertify adds the capabilities in force at an agent with their use.
func (page *advisorPage) recertify(p *Pages, v *Visit, of map[string]*used) error {
	found, next, err := v.API.capabilities(v.Context(), url.Values{"agent": {page.Agent}}, recertified)
	if err != nil {
		return err
	}
	page.MoreHeld = next != ""
	page.MayStop, page.MaySteer = v.Rights.MayAt(people.Stop, page.Agent), v.Rights.MayAt(people.Steer, page.Agent)
	for _, c := range found {
		page.Held = append(page.Held, p.useOf(v, c, of[c.ID], page.Cut))
	}
	sorting.Stable(page.Held, func(a, b heldUse) int {
		switch {
		case a.Stale() == b.Stale():
			return 0
		case a.Stale():
			return -1
		}
		return 1
	})
	return nil
}

func narrowPath(id string) string { return Path + "/capabilities/" + url.PathEscape(id) + "/narrow" }

// narrowPage is the difference between a capability and a narrower one.
type narrowPage struct {
	api.Narrowed
	ID      string
	Who     string
	Action  string
	Rows    []keptOperation
	Gone    int // operations that go
	Ends    int // capabilities that end
	Ready   bool
	Problem string
	Signs   bool
	Fresh   bool
}

// keptOperation is an operation that stays or goes.
type keptOperation struct {
	Name  string
	Stays bool
}

func (p *Pages) narrowRoutes() []Route {
	return []Route{
		{Pattern: "GET " + Path + "/capabilities/{id}/narrow", Serve: p.previewNarrow, Needs: people.Steer},
		{Pattern: "POST " + Path + "/capabilities/{id}/narrow", Serve: p.narrow, Needs: people.Steer, Effect: Gives},
		{Pattern: "POST " + Path + "/capabilities/{id}/keep", Serve: p.keep, Needs: people.Steer, Effect: Gives},
	}
}

// previewNarrow shows what stays and what goes.
func (p *Pages) previewNarrow(v *Visit) (Answer, error) {
	return p.narrowAnswer(v, v.URL.Query()["keep"], nil)
}

func (p *Pages) narrowAnswer(v *Visit, keep []string, failed *Refused) (Answer, error) {
	id := v.PathValue("id")
	page := narrowPage{ID: id, Action: narrowPath(id), Signs: v.Signs, Fresh: v.Fresh}
	var c api.CapabilityStatus
	if err := v.API.Get(v.Context(), "/v1/capabilities/"+url.PathEscape(id), &c); err != nil {
		return Answer{}, err
	}
	page.Who = who(c.Requester, c.Holder)
	for _, name := range c.Operations {
		stays := slices.Contains(keep, name)
		page.Rows = append(page.Rows, keptOperation{name, stays})
		if !stays {
			page.Gone++
		}
	}
	if failed == nil {
		err := v.API.Do(v.Context(), http.MethodPost, "/v1/capabilities/"+url.PathEscape(id)+"/narrow", map[string]any{"operations": keep, "dry_run": true}, &page.Narrowed)
		if errors.As(err, &failed); failed == nil && err != nil {
			return Answer{}, err
		}
	}
	if failed != nil && failed.Status >= http.StatusInternalServerError {
		return Answer{}, failed
	}
	if failed != nil {
		page.Problem = v.Language.Said(failed.Message)
		return Answer{Page: "narrow", Title: v.T("Narrow"), Body: page}, nil
	}
	dying, err := v.API.victims(v.Context(), map[string]string{"target": id})
	page.Ready, page.Ends = true, dying.Count
	return Answer{Page: "narrow", Title: v.T("Narrow"), Body: page}, err
}

// narrow replaces the wider capability with the narrower one.
func (p *Pages) narrow(v *Visit) (Answer, error) {
	id, keep := v.PathValue("id"), v.PostForm["keep"]
	var made api.Narrowed
	err := v.API.Do(v.Context(), http.MethodPost, "/v1/capabilities/"+url.PathEscape(id)+"/narrow", map[string]any{"operations": keep}, &made)
	var no *Refused
	switch {
	case errors.As(err, &no):
		return p.narrowAnswer(v, keep, no)
	case err != nil:
		return Answer{}, err
	}
	return Answer{Redirect: Path + "/capabilities/" + url.PathEscape(made.New.ID)}, nil
}

// keep has on record that a capability stays.
func (p *Pages) keep(v *Visit) (Answer, error) {
	var c api.CapabilityStatus
	err := v.API.Do(v.Context(), http.MethodPost, "/v1/capabilities/"+url.PathEscape(v.PathValue("id"))+"/keep", map[string]string{"reason": v.PostFormValue("reason")}, &c)
	return Answer{Redirect: Path + "/advisor?agent=" + url.QueryEscape(c.Agent)}, err
}
