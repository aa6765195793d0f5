package operations

import (
	"context"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/web/lang"
)

// The bounds of what the advisor reads.
const (
	advisorDays  = 30
	advisorMost  = 365
	advisorLimit = 20_000 // records
	// advisorPages is in how many pages of the log each question is looked for. Each is a scan.
	advisorPages = 1
)

// advisorPage compares granted with used authority, at one agent.
type advisorPage struct {
	Agents []string
	Agent  string
	Days   int
	Uses   []audit.HeldUse
	Unused int
	Read   int  // records that were read
	Cut    bool // more were not read
	Narrow string

	Held     []heldUse // capabilities in force, those without use first
	MoreHeld bool
	Signs    bool

	MayStop, MaySteer bool // the visitor, at the agent
}

// counted counts the records that are read, and ends at a limit of records and of pages. It
// keeps the use of every capability that it meets, so that the log is read once for all.
type counted struct {
	API
	until time.Time
	page  *advisorPage
	used  map[string]*used // by capability
}

// Each implements [audit.Source].
func (c counted) Each(ctx context.Context, q audit.Query) iter.Seq2[evidence.Record, error] {
	return func(yield func(evidence.Record, error) bool) {
		left := advisorPages
		for r, err := range (logWindow{c.API, c.until, &left, &c.page.Cut}).Each(ctx, q) {
			if err == nil && c.page.Read >= advisorLimit {
				c.page.Cut = true
				return
			}
			c.page.Read++
			if err == nil && q.Agent != "" {
				c.note(r)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// used is what records say of one capability.
type used struct {
	calls  map[string]int // by operation
	last   *time.Time
	kept   *time.Time // when an operator last kept it
	keptBy string
}

// note takes over a record, the newest first.
func (c counted) note(r evidence.Record) {
	id := r.Details.Capability
	if id == "" || r.Details.OutcomeOf != "" {
		return
	}
	u := c.used[id]
	if u == nil {
		u = &used{calls: map[string]int{}}
		c.used[id] = u
	}
	if action.OperatorKeep.Is(r.ActionType) && u.kept == nil {
		u.kept, u.keptBy = &r.Time, r.Details.Requester
	}
	for _, op := range r.Details.Exercised {
		u.calls[op]++
		if u.last == nil {
			u.last = &r.Time
		}
	}
}

func (p *Pages) advisor(v *Visit) (Answer, error) {
	page := advisorPage{Agent: v.URL.Query().Get("agent"), Days: advisorDays, Signs: v.Signs}
	var err error
	if page.Agents, err = v.API.someAgents(v.Context()); err != nil {
		return Answer{}, err
	}
	if days := v.URL.Query().Get("days"); days != "" {
		n, err := strconv.Atoi(days)
		if err != nil || n < 1 || n > advisorMost {
			return Answer{}, &Refused{http.StatusBadRequest, v.T("days must be a number from 1 to %s", lang.Number(advisorMost))}
		}
		page.Days = n
	}
	if page.Agent == "" && len(page.Agents) > 0 {
		page.Agent = page.Agents[0]
	}
	if page.Agent == "" {
		return Answer{Page: "advisor", Title: v.T("Advisor"), Body: page}, nil
	}
	q := audit.Query{Since: p.config.Now().Add(-time.Duration(page.Days) * 24 * time.Hour)}
	read := counted{v.API, p.config.Now(), &page, map[string]*used{}}
	u, err := audit.UsageOf(v.Context(), read, page.Agent, q)
	if err != nil {
		return Answer{}, err
	}
	page.Uses = u.Uses
	for _, h := range u.Uses {
		if h.Unused {
			page.Unused++
		}
	}
	page.Narrow = u.Narrowed().Grants().YAML()
	err = page.recertify(p, v, read.used)
	return Answer{Page: "advisor", Title: v.T("Advisor"), Body: page}, err
}
