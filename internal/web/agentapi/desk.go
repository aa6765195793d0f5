package agentapi

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// atDesk reports whether a call is about a question of policy or configuration, and not
// about a request of Agent Auth.
func (p *People) atDesk(r *http.Request) bool {
	return p.Desk != nil && strings.HasPrefix(r.PathValue("code"), "ask_")
}

// onDesk adds the two queues of a person: the person's own requests, and those that the
// person reviews.
func (p *People) onDesk(r *http.Request, who provider.Person, all map[string]any) error {
	if p.Desk == nil {
		return nil
	}
	own, review, err := p.Desk.Questions(r.Context(), who)
	list := func(qs []approval.Question) []any {
		out := make([]any, 0, len(qs))
		for _, q := range qs {
			out = append(out, deskQuestion(q, time.Time{}))
		}
		return out
	}
	if err != nil {
		return err
	}
	all["confirmations"], all["reviews"] = list(own), list(review)
	given, err := p.Desk.Approvals(r.Context(), who)
	approved := make([]any, 0, len(given))
	for _, a := range given {
		one := deskQuestion(a.Question, p.Desk.Now())
		one["revocable"] = a.Live
		if !a.Until.IsZero() {
			one["until"] = stamp(a.Until)
		}
		approved = append(approved, one)
	}
	all["you_approved"] = approved
	return err
}

// deskQuestion is a question as a person sees it.
func deskQuestion(q approval.Question, now time.Time) map[string]any {
	matters := make([]map[string]any, 0, len(q.Matters))
	for _, m := range q.Matters {
		operations := make([]map[string]any, 0, len(m.Operations))
		for _, op := range m.Operations {
			operations = append(operations, map[string]any{"operation": op.Name, "writes": op.Write})
		}
		one := map[string]any{"grant": m.Grant, "description": m.Says, "operations": operations}
		if !m.Until.IsZero() {
			one["until"] = stamp(m.Until)
		}
		if len(m.Resources) > 0 {
			resources := make([]map[string]string, 0, len(m.Resources))
			for _, r := range m.Resources {
				resources = append(resources, map[string]string{"id": r.ID, "name": r.Name})
			}
			one["resources"] = resources
		}
		if len(m.Arguments) > 0 {
			arguments := map[string]string{}
			for _, a := range m.Arguments {
				arguments[a.Name] = a.Value
			}
			one["arguments"] = arguments
		}
		matters = append(matters, one)
	}
	answers := make([]map[string]any, 0, len(q.Answers))
	for _, g := range q.Answers {
		answers = append(answers, map[string]any{"by": g.By, "approve": g.Approve, "at": stamp(g.At)})
	}
	state := q.State
	if !now.IsZero() {
		state = q.At(now)
	}
	out := map[string]any{
		"id": q.ID, "kind": q.Kind, "status": state, "agent": q.Agent, "asked_by": q.Requester, "holder": q.Holder, "for": q.Principal, "matters": matters,
		"answers": answers, "expires_at": stamp(q.Expires), "in_its_own_words": map[string]string{"reason": q.Purpose},
	}
	if c := q.Client; c != nil {
		out["client"] = map[string]string{"id": c.ID, "name": c.Name, "returns_to": c.Returns}
	}
	if q.TakenBack != "" {
		out["revoked_by"] = q.TakenBack
	}
	return out
}

// takeBack revokes an approval that the caller gave, or that was given in their name.
func (p *People) takeBack(r *http.Request, who provider.Person) (any, error) {
	if !p.atDesk(r) {
		return nil, agentauth.Errorf(agentauth.CodeNotFound, "there is no approval of that id (ask_...); a grant of Agent Auth is revoked with powerbox grant revoke, or POST /v1/host-agents/{agent}/grants/revoke")
	}
	q, err := p.Desk.Revoke(r.Context(), who, r.PathValue("code"))
	if err != nil {
		return nil, err
	}
	return deskQuestion(q, p.Desk.Now()), nil
}

func (p *People) deskQuestion(r *http.Request, who provider.Person) (any, error) {
	q, err := p.Desk.Question(r.Context(), who, r.PathValue("code"))
	if err != nil {
		return nil, err
	}
	return deskQuestion(q, p.Desk.Now()), nil
}

// deskAnswer reads a person's word: with neither operations nor resources
// everything is approved, and names that are there are all that is left.
func (p *People) deskAnswer(r *http.Request, who provider.Person, v powerbox.Value) (any, error) {
	q, err := p.Desk.Question(r.Context(), who, r.PathValue("code"))
	if err != nil {
		return nil, err
	}
	deny, _ := v.Get("deny")
	denied, _ := deny.Truth()
	a := approval.Answer{Approve: !denied}
	if a.Reason, err = text(v, "reason"); err != nil {
		return nil, err
	}
	until, err := text(v, "until")
	if err == nil && until != "" {
		a.Chosen.Until, err = time.Parse(time.RFC3339, until)
	}
	if err != nil || until != "" && a.Chosen.Until.IsZero() { // the zero time would be no limit
		return nil, agentauth.Errorf(agentauth.CodeInvalidRequest, "until is no time; want 2006-01-02T15:04:05Z")
	}
	operations, err := named(v, "operations")
	if err != nil {
		return nil, err
	}
	resources, err := named(v, "resources")
	if err != nil {
		return nil, err
	}
	if a.Approve {
		if a.Chosen, err = chosen(q, a.Chosen, operations, resources); err != nil {
			return nil, err
		}
	}
	q, err = p.Desk.Answer(r.Context(), who, q.ID, a)
	if err != nil {
		return nil, err
	}
	return deskQuestion(q, p.Desk.Now()), nil
}

// named reads a list of names, nil where there is none.
func named(v powerbox.Value, member string) ([]string, error) {
	list, given := v.Get(member)
	if !given || list.Kind() == powerbox.KindNull {
		return nil, nil
	}
	elements, ok := list.Elements()
	out := []string{}
	for _, e := range elements {
		name, isText := e.Text()
		ok = ok && isText
		out = append(out, name)
	}
	if !ok {
		return nil, agentauth.Errorf(agentauth.CodeInvalidRequest, "%s is not an array of strings", member)
	}
	return out, nil
}

// chosen sorts names by the grants that have them.
func chosen(q approval.Question, out issuer.Chosen, operations, resources []string) (issuer.Chosen, error) {
	known := map[string]bool{}
	for _, m := range q.Matters {
		if operations != nil {
			if out.Operations == nil {
				out.Operations = map[string][]string{}
			}
			left := []string{}
			for _, op := range m.Operations {
				if slices.Contains(operations, op.Name) || slices.Contains(operations, m.Grant+"/"+op.Name) {
					left = append(left, op.Name)
				}
				known[op.Name], known[m.Grant+"/"+op.Name] = true, true
			}
			out.Operations[m.Grant] = left
		}
		if resources != nil && len(m.Resources) > 0 {
			if out.Resources == nil {
				out.Resources = map[string][]string{}
			}
			left := []string{}
			for _, r := range m.Resources {
				if slices.Contains(resources, r.ID) || slices.Contains(resources, r.Name) {
					left = append(left, r.ID)
				}
				known[r.ID], known[r.Name] = true, true
			}
			out.Resources[m.Grant] = left
		}
	}
	for _, name := range slices.Concat(operations, resources) {
		if !known[name] {
			return out, agentauth.Errorf(agentauth.CodeInvalidRequest, "%q is not asked for in this request", name)
		}
	}
	return out, nil
}
