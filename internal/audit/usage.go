package audit

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/plain"
	"github.com/powerbox-project/powerbox/internal/sorting"
)

// Usage has the held and the used capabilities of holders, over a period.
type Usage struct {
	Agent string    `json:"agent"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"`
	Uses  []HeldUse `json:"uses"`
	calls []Use     // the calls that were let through, for --narrow
}

// HeldUse has the right of one holder to one operation of one agent, and its uses.
type HeldUse struct {
	Holder    string `json:"holder"` // configured name or holder id
	Agent     string `json:"agent"`
	Operation string `json:"operation"` // grant/operation, or a scope
	Granted   bool   `json:"granted"`   // by a capability or a scope that records name
	Exercised int    `json:"exercised"` // how often
	Unused    bool   `json:"unused"`    // granted, and not exercised
	Last      string `json:"last,omitempty"`
}

// possession gathers the rights and uses in records.
type possession map[[3]string]*HeldUse

func (p possession) of(holder, agent, operation string) *HeldUse {
	key := [3]string{holder, agent, operation}
	if p[key] == nil {
		p[key] = &HeldUse{Holder: holder, Agent: agent, Operation: operation}
	}
	return p[key]
}

// add notes the rights and the uses in one record. A2A's own operations on a task come
// with every authority and are left out. Outcomes repeat their decision.
func (p possession) add(r evidence.Record) {
	d := r.Details
	if d.OutcomeOf != "" {
		return
	}
	granted := d.Granted
	if len(granted) == 0 && d.Gate != nil {
		granted = d.Gate.Allowed // a scope that stands without any capability
	}
	for _, name := range granted {
		if !reserved(name) {
			p.of(d.Requester, r.AgentID, localName(r, name)).Granted = true
		}
	}
	exercised := d.Exercised
	if IsFreeText(r) && len(exercised) > 0 {
		exercised = []string{FreeTextCall}
	}
	for _, name := range exercised {
		if reserved(name) {
			continue
		}
		h := p.of(d.Requester, r.AgentID, localName(r, name))
		h.Exercised++
		h.Last = max(h.Last, plain.Time(r.Time))
	}
}

// reserved reports an operation of A2A itself.
func reserved(name string) bool { return strings.HasPrefix(name, "a2a.") }

// localName is an operation as scopes name it: without its agent.
func localName(r evidence.Record, name string) string { return strings.TrimPrefix(name, r.AgentID+"/") }

// covered reports whether a used operation falls under a grant of its holder, where that
// is a scope for many operations.
func (p possession) covered(by *HeldUse) bool {
	pattern, ok := scopePattern(by.Operation)
	if !ok {
		return false
	}
	for _, h := range p {
		if h.Holder != by.Holder || h.Agent != by.Agent || h.Exercised == 0 {
			continue
		}
		if op, err := powerbox.ParseOperation(h.Operation); err == nil && pattern.Matches(op) {
			return true
		}
	}
	return false
}

// scopePattern reads the text that [powerbox.Pattern.String] writes for a scope.
func scopePattern(name string) (powerbox.Pattern, bool) {
	kind := powerbox.Subtree
	scope, ok := strings.CutSuffix(name, ".**")
	if !ok {
		kind = powerbox.Below
		scope, ok = strings.CutSuffix(name, ".*")
	}
	pattern, err := powerbox.NewPattern(kind, scope)
	return pattern, ok && err == nil
}

// UsageOf reads the records of the requests to an agent, and of its own requests. It
// keeps counts and no records.
func UsageOf(ctx context.Context, from Source, agent string, q Query) (Usage, error) {
	held, let := possession{}, Summary{}
	q.AnyOrder = true
	asked, asking := q, q
	asked.Agent, asking.Requester = agent, agent
	for _, q := range []Query{asked, asking} {
		for r, err := range from.Each(ctx, q) {
			if err != nil {
				return Usage{}, err
			}
			if q.Requester != "" && r.AgentID == agent {
				continue // it was among the others
			}
			held.add(r)
			if len(r.Details.Exercised) > 0 {
				let.Add(r)
			}
		}
	}
	out := Usage{Agent: agent, Since: q.Since, Until: q.Until, Uses: []HeldUse{}, calls: let.List()}
	for _, h := range held {
		h.Unused = h.Granted && h.Exercised == 0 && !held.covered(h)
		out.Uses = append(out.Uses, *h)
	}
	sorting.Sort(out.Uses, func(a, b HeldUse) int {
		return cmp.Or(strings.Compare(a.Holder, b.Holder), strings.Compare(a.Agent, b.Agent), strings.Compare(a.Operation, b.Operation))
	})
	return out, nil
}

// Narrowed is the report of the used operations alone, from which scopes are made.
func (u Usage) Narrowed() Report { return Report{Since: u.Since, Uses: u.calls} }
