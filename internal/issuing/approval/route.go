package approval

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// Rule says who answers what. The first rule that is about an operation on a
// resource counts; where none is, the user behind confirms it.
type Rule struct {
	Agent     string // "" for every agent
	Operation string // grant/operation; "" for every one
	Resource  string // id; "" for every one, and for what has none
	Need      Need
	Approvers bool          // also everyone with the role approver at the agent of the question
	Timeout   time.Duration // how long people have; 0 for the desk's
}

func (r Rule) about(agent, grant, operation, resource string) bool {
	return (r.Agent == "" || r.Agent == agent) && (r.Operation == "" || r.Operation == grant+"/"+operation) && (r.Resource == "" || r.Resource == resource)
}

// route finds who must answer a question: everybody whom a rule names for a part
// of it, so that nothing is approved in the shadow of what needs less. The
// shortest time-out counts.
func (d *Desk) route(agent string, matters []issuer.Matter) ([]Need, time.Duration) {
	var needs []Need
	timeout := d.config.Timeout
	add := func(n Need) {
		if n.People < 1 {
			n.People = 1
		}
		if !slices.ContainsFunc(needs, func(o Need) bool { return reflect.DeepEqual(o, n) }) {
			needs = append(needs, n)
		}
	}
	for _, m := range matters {
		resources := m.Resources
		if len(resources) == 0 {
			resources = []issuer.Resource{{}}
		}
		for _, op := range m.Operations {
			for _, one := range resources {
				i := slices.IndexFunc(d.config.Rules, func(r Rule) bool { return r.about(agent, m.Grant, op.Name, one.ID) })
				if i < 0 {
					add(Need{Self: true})
					continue
				}
				r := d.config.Rules[i]
				add(d.needOf(r, agent))
				if r.Timeout > 0 && r.Timeout < timeout {
					timeout = r.Timeout
				}
			}
		}
	}
	return needs, timeout
}

// needOf is whom a rule asks about an agent. Where no person has the role approver there,
// and the rule names no other person, the question cannot be answered, so that it is refused.
func (d *Desk) needOf(r Rule, agent string) Need {
	n := r.Need
	if r.Approvers && d.config.Approvers != nil {
		who, groups := d.config.Approvers(agent)
		n.Who, n.Groups = slices.Concat(n.Who, who), slices.Concat(n.Groups, groups)
	}
	return n
}

// routed is an open question with the people who may answer it by the rules and roles of now:
// some can have ended since it was asked (ATK-149). Earlier answers count for the new needs if
// these name their person. Who was in a group then is not known any more.
func (d *Desk) routed(q Question) Question {
	if q.State != issuer.StatePending {
		return q
	}
	needs, _ := d.route(q.Agent, q.Matters)
	if sameNeeds(q.Needs, needs) {
		return q
	}
	now := d.config.Now()
	q.Needs, q.Answers = needs, slices.Clone(q.Answers)
	for i := range q.Answers {
		q.Answers[i].Counts = q.counts(named(q.Answers[i].By), now)
	}
	return q
}

// question reads a question with the people who may answer it now.
func (d *Desk) question(r QuestionReader, id string) (Question, error) {
	q, err := r.Question(id)
	return d.routed(q), err
}

// pending reads the open questions with the people who may answer them now.
func (d *Desk) pending(r QuestionReader) ([]Question, error) {
	all, err := r.Questions(issuer.StatePending)
	for i := range all {
		all[i] = d.routed(all[i])
	}
	return all, err
}

// sameNeeds compares needs as they are stored: an empty list is as none.
func sameNeeds(a, b []Need) bool {
	one, err := json.Marshal(a)
	other, wrong := json.Marshal(b)
	return err == nil && wrong == nil && bytes.Equal(one, other)
}

// named is a person by name alone. It was admitted by no one, so it may only be compared.
func named(principal string) (who Person) {
	who.Principal = principal
	return who
}

// standing is a question whose answers count for nothing where their people were frozen or
// removed since (ATK-149).
func (d *Desk) standing(r issuer.AccountReader, q Question) (Question, error) {
	q.Answers = slices.Clone(q.Answers)
	for i, g := range q.Answers {
		a, err := r.Account(g.By)
		if err != nil && !errors.Is(err, issuer.ErrNotFound) {
			return q, err
		}
		if a.Stops() != nil || d.config.Issuer.FrozenPrincipal(g.By) {
			q.Answers[i].Counts = nil
		}
	}
	return q, nil
}

// may reports whether a person's answer counts for a need. A person cannot review
// requests in their own name.
func (n Need) may(q Question, who Person, now time.Time) bool {
	switch {
	case who.Principal == "":
		return false
	case n.Self:
		return who.Principal == q.Principal || n.delegate(q, who, now)
	case who.Principal == q.Principal:
		return false
	}
	return slices.Contains(n.Who, who.Principal) || slices.ContainsFunc(n.Groups, func(g string) bool { return slices.Contains(who.Groups, g) }) || n.delegate(q, who, now)
}

func (n Need) delegate(q Question, who Person, now time.Time) bool {
	return slices.Contains(n.Delegates, who.Principal) && !now.Before(q.Created.Add(n.After)) && who.Principal != q.Principal
}

// MayAnswer reports whether a person is one of those who are asked.
func (q Question) MayAnswer(who Person, now time.Time) bool {
	return slices.ContainsFunc(q.Needs, func(n Need) bool { return n.may(q, who, now) })
}

// Answered reports whether a person has answered already.
func (q Question) Answered(who Person) bool {
	return slices.ContainsFunc(q.Answers, func(g Given) bool { return g.By == who.Principal })
}

// WaitsFor reports whether a question waits for a person: it is open, the person is asked, and
// has given no answer that counts. After a change of rules or roles an earlier yes can count for
// nothing (ATK-149), and its person can give it again.
func (q Question) WaitsFor(who Person, now time.Time) bool {
	return q.Open(now) && q.MayAnswer(who, now) &&
		!slices.ContainsFunc(q.Answers, func(g Given) bool { return g.By == who.Principal && (!g.Approve || len(g.Counts) > 0) })
}

// counts are the needs that an answer of a person's counts for.
func (q Question) counts(who Person, now time.Time) []int {
	var out []int
	for i, n := range q.Needs {
		if n.may(q, who, now) {
			out = append(out, i)
		}
	}
	return out
}

// met reports whether every need has its people.
func (q Question) met() bool {
	for i, n := range q.Needs {
		people := 0
		for _, g := range q.Answers {
			if g.Approve && slices.Contains(g.Counts, i) {
				people++
			}
		}
		if people < n.People {
			return false
		}
	}
	return true
}

// answerable reports whether there is anybody who could answer.
func (q Question) answerable() bool {
	return !slices.ContainsFunc(q.Needs, func(n Need) bool {
		if n.Self {
			return q.Principal == "" && len(n.Delegates) == 0
		}
		others := slices.DeleteFunc(slices.Concat(n.Who, n.Delegates), func(p string) bool { return p == q.Principal })
		slices.Sort(others)
		return len(n.Groups) == 0 && len(slices.Compact(others)) < n.People
	})
}
