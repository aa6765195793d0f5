package console

import (
	"cmp"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/web/lang"
)

// approvedPage has the approvals of a person, of requests by every way.
type approvedPage struct {
	Desk   []approvedEntry
	Agents []approvedAgent
}

// approvedEntry is one approval of a request for capabilities, or of a held call.
type approvedEntry struct {
	ID, Says, By, For string
	Risky, Live       bool
	Became            string // in words
	Until             time.Time
}

// approvedAgent is an Agent Auth agent with the grants that are in force.
type approvedAgent struct {
	ID, Name, Host string
	Grants         []grantView
}

// became describes the state of an approval.
func became(l *lang.Language, a approval.Approval) string {
	switch {
	case a.Question.State == issuer.StatePending:
		return l.T("waits for another person")
	case a.Question.Kind == approval.ForCall && a.Call.State == approval.CallApproved:
		return l.T("about to be done")
	case a.Question.Kind == approval.ForCall && a.Call.State == approval.CallMade:
		return l.T("done, once")
	case a.Question.Kind == approval.ForCall && a.Call.State == approval.CallBeingMade:
		return l.T("being done")
	case a.Question.Kind == approval.ForCall:
		return l.T("not done")
	case !a.Live:
		return l.T("over")
	case len(a.Question.Issued) == 0:
		return l.T("not used yet")
	}
	return l.T("in force")
}

// approved lists the approvals of a person, with a way to take each of them back.
func (k *Console) approved(v *visit) error {
	who, err := k.person(v)
	if err != nil {
		return err
	}
	var page approvedPage
	if k.config.Desk != nil {
		given, err := k.config.Approvals.Approvals(v.r.Context(), who)
		if err != nil {
			return err
		}
		for _, a := range given {
			q := a.Question
			page.Desk = append(page.Desk, approvedEntry{q.ID, inShort(v.Language, q), cmp.Or(q.Requester, q.Holder), q.Principal, q.Writes(), a.Live, became(v.Language, a), a.Until})
		}
	}
	hosts, err := k.overview(v)
	for _, h := range hosts {
		for _, a := range h.Agents {
			if one := (approvedAgent{ID: a.Agent.ID, Name: a.Agent.Name, Host: h.Host.Name, Grants: inForce(a.Grants)}); len(one.Grants) > 0 {
				page.Agents = append(page.Agents, one)
			}
		}
	}
	if err != nil {
		return err
	}
	return k.show(v, "approved", page)
}

// inForce are the grants in force.
func inForce(all []grantView) (out []grantView) {
	for _, g := range all {
		if g.InForce {
			out = append(out, g)
		}
	}
	return out
}

// takeBack revokes an approval.
func (k *Console) takeBack(v *visit) error {
	who, err := k.person(v)
	if err != nil {
		return err
	}
	if _, err := k.config.Approvals.Revoke(v.r.Context(), who, v.r.PathValue("id")); err != nil {
		return err
	}
	return v.see("/approved")
}
