package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/guard"
	"github.com/powerbox-project/powerbox/internal/sorting"
)

// Question is what a person is asked about one call.
type Question struct {
	ID      string    `json:"id"`
	Client  string    `json:"client"`
	Project string    `json:"project"`
	Agent   string    `json:"agent,omitempty"` // type of the sub-agent
	Needs   []string  `json:"needs"`
	Asked   time.Time `json:"asked"`

	number  int // the first question has 1; a clock may give two the same time
	session *session
	agent   *agent
	needs   []guard.Need
	key     string
	once    bool // approved for one call
}

// maxQuestions bounds the open questions. The oldest is dropped, which is a no.
const maxQuestions = 64

// text says how the question is answered.
func (q *Question) text(client bool) string {
	text := "a person decides about " + strings.Join(q.Needs, ", ") + ". "
	if client {
		return text + "To remember the answer for this task: powerbox guard answer " + q.ID + " --allow task"
	}
	return text + "Ask the user to run: powerbox guard answer " + q.ID + " --allow once. Then repeat the same call"
}

// questionKey identifies a call: the same agent asks for the same.
func questionKey(s *session, a *agent, v guard.Verdict) string {
	parts := []string{s.Client, s.ID, a.ID}
	for _, n := range v.Asks {
		parts = append(parts, n.String())
	}
	return fileName(parts...)
}

// ask opens a question, or finds the one that is open for the same call.
func (d *Daemon) ask(s *session, a *agent, _ guard.Event, v guard.Verdict, now time.Time) *Question {
	key := questionKey(s, a, v)
	for _, q := range d.questions {
		if q.key == key && !q.once {
			return q
		}
	}
	d.asked++
	q := &Question{ID: strconv.Itoa(d.asked), number: d.asked, Client: s.Client, Project: s.Project, Agent: a.Type, Asked: now, session: s, agent: a, needs: v.Asks, key: key}
	for _, n := range v.Asks {
		if text := n.String(); !slices.Contains(q.Needs, text) {
			q.Needs = append(q.Needs, text)
		}
	}
	if len(d.questions) >= maxQuestions {
		oldest := q
		for _, other := range d.questions {
			if other.number < oldest.number {
				oldest = other
			}
		}
		delete(d.questions, oldest.ID)
	}
	d.questions[q.ID] = q
	return q
}

// once uses up an approval of this very call.
func (d *Daemon) once(s *session, a *agent, _ guard.Event, v guard.Verdict) bool {
	key := questionKey(s, a, v)
	for id, q := range d.questions {
		if q.key == key && q.once {
			delete(d.questions, id)
			return true
		}
	}
	return false
}

// Questions returns the open questions, the oldest first.
func (d *Daemon) Questions() []Question {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []Question
	for _, q := range d.questions {
		if !q.once {
			out = append(out, *q)
		}
	}
	sorting.Sort(out, func(a, b Question) int { return cmp.Compare(a.number, b.number) })
	return out
}

// Answer is what a person says to a question.
type Answer struct {
	ID    string `json:"id"`
	Allow string `json:"allow"` // "once", "task", or "no"
	// Under widens a remembered answer to a folder: paths of the question become everything
	// below it. It stays within what the grant says to ask about.
	Under string `json:"under,omitempty"`
}

// Say takes the answer to a question. An answer for the task holds for the agent that asked,
// until its lease ends.
func (d *Daemon) Say(a Answer) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	q, ok := d.questions[a.ID]
	if !ok || q.once {
		return fmt.Errorf("there is no open question %q. See powerbox guard questions", a.ID)
	}
	now := d.config.Now()
	r, err := d.record(q.session, q.agent, "approval."+a.Allow, now)
	if err != nil {
		return err
	}
	r.Decision = evidence.Allow
	if r.Details.Arguments, err = arguments(q.Project, q.needs); err != nil {
		return err
	}
	switch a.Allow {
	case "no":
		r.Decision = evidence.Deny
	case "once":
	case "task":
		authority, err := remembered(q, a.Under, now, Place(q.Project, d.config.Home))
		if err != nil {
			return err
		}
		if err := d.log.append(r); err != nil {
			return err
		}
		q.agent.approved = append(q.agent.approved, authority)
		delete(d.questions, a.ID)
		return nil
	default:
		return errors.New(`allow is "once", "task" or "no"`)
	}
	if err := d.log.append(r); err != nil {
		return err
	}
	if a.Allow == "no" {
		delete(d.questions, a.ID)
	}
	q.once = a.Allow == "once"
	return nil
}

func remembered(q *Question, under string, now time.Time, at placeResolver) (powerbox.Authority, error) {
	var clauses []powerbox.Clause
	seen := map[string][]powerbox.Constraint{}
	var order []string
	for _, n := range q.needs {
		if len(n.Arguments) != 1 {
			if len(q.needs) == 1 { // exact words
				c, err := n.Exactly()
				if err != nil {
					return powerbox.Authority{}, err
				}
				return powerbox.NewAuthority(window(now), 0, c)
			}
			return powerbox.Authority{}, errors.New("a call with exact words and more can be approved once, not for the task")
		}
		var c powerbox.Constraint = powerbox.ExactValue{Value: n.Arguments[0].Value}
		if under != "" && n.Arguments[0].Name == "path" {
			to, err := at.Resolve(q.Project, under)
			if err != nil {
				return powerbox.Authority{}, err
			}
			c = powerbox.PathUnder{Root: to}
		}
		key := n.Operation + "\n" + n.Arguments[0].Name
		if seen[key] == nil {
			order = append(order, key)
		}
		seen[key] = append(seen[key], c)
	}
	for _, key := range order {
		operation, argument, _ := strings.Cut(key, "\n")
		op, err := powerbox.ParseOperation(operation)
		if err != nil {
			return powerbox.Authority{}, err
		}
		shape, err := powerbox.NewShape(powerbox.RestNone, powerbox.Field{Name: argument, Constraint: powerbox.AnyOf{Constraints: seen[key]}, Required: true})
		if err != nil {
			return powerbox.Authority{}, err
		}
		clauses = append(clauses, powerbox.Clause{Pattern: powerbox.ExactPattern(op), Shape: shape})
	}
	return powerbox.NewAuthority(window(now), 0, clauses...)
}

type placeResolver interface {
	Resolve(dir, name string) (string, error)
}
