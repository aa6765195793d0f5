package guard

import (
	"slices"
	"time"

	"github.com/powerbox-project/powerbox"
)

// Answer is how a call is decided.
type Answer uint8

// The answers, the best first.
const (
	Allow Answer = iota
	Ask          // a person decides
	Deny
)

// String returns the name of the answer.
func (a Answer) String() string { return [...]string{"allow", "ask", "deny"}[a] }

// CodeProtected is of an attempt on what no session may touch, and CodeAsk of one that waits
// for a person.
const (
	CodeProtected = "path_protected"
	CodeAsk       = "approval_required"
)

// Reason is one ground of a decision.
type Reason struct {
	Code string
	Need Need   // the zero Need where the call cannot be judged
	Text string // one sentence
}

// Verdict is the decision of a call.
type Verdict struct {
	Answer  Answer
	Needs   []Need   // everything that the call needs, in the way in which it was allowed
	Asks    []Need   // of these, what a person is asked about
	Reasons []Reason // of a denial
}

// Lease is under what a call is decided.
type Lease struct {
	Authority powerbox.Authority
	// Approved has what people approved for this holder and task. It lifts questions alone.
	Approved []powerbox.Authority
	Frame    Frame
	// Read are the sources of untrusted data that the session has read, Reads those that this
	// call reads, and Untrusted what follows from that.
	Read, Reads []string
	Untrusted   Untrusted
}

// Decide decides the steps of a call at a time. A call is as good as its worst step.
func (l Lease) Decide(steps []Step, now time.Time) Verdict {
	var v Verdict
	for _, s := range steps {
		l.step(&v, s, now)
	}
	return v
}

// Unjudged is the verdict on a call that [Attempts] cannot judge.
func Unjudged(err error) Verdict {
	return Verdict{Answer: Deny, Reasons: []Reason{{Code: codeOf(err), Text: err.Error()}}}
}

func (l Lease) step(v *Verdict, s Step, now time.Time) {
	l.all(v, s.Always, now)
	var table, exact Verdict
	if s.Unclear != nil {
		table = Unjudged(s.Unclear)
	} else {
		l.all(&table, s.Table, now)
	}
	best := table
	if s.Exact != nil && table.Answer != Allow {
		l.all(&exact, []Need{*s.Exact}, now)
		if exact.Answer < table.Answer {
			best = exact
		}
	}
	v.add(best)
}

func (v *Verdict) add(w Verdict) {
	v.Answer = max(v.Answer, w.Answer)
	v.Needs = append(v.Needs, w.Needs...)
	v.Asks = append(v.Asks, w.Asks...)
	v.Reasons = append(v.Reasons, w.Reasons...)
}

// all decides needs of which every one must be met.
func (l Lease) all(v *Verdict, needs []Need, now time.Time) {
	for _, n := range needs {
		v.add(l.one(n, now))
	}
}

func (l Lease) one(n Need, now time.Time) Verdict {
	v := Verdict{Needs: []Need{n}}
	if !l.touchable(n) {
		v.Answer = Deny
		v.Reasons = []Reason{{Code: CodeProtected, Need: n, Text: "no session may do this: " + n.String() + " would change or reveal what guards it, or name programs that other commands run"}}
		return v
	}
	approved := func(a powerbox.Authority) bool { return n.decide("", a, now).Allowed }
	d := n.decide("", l.Authority, now)
	if d.Allowed {
		return l.after(v, n, approved)
	}
	if n.decide(AskPrefix, l.Authority, now).Allowed {
		if !slices.ContainsFunc(l.Approved, approved) {
			v.Answer, v.Asks = Ask, []Need{n}
		}
		return l.after(v, n, approved)
	}
	v.Answer = Deny
	code := string(powerbox.CodeOperation)
	if len(d.Reasons) > 0 {
		code = string(d.Reasons[0].Code)
	}
	v.Reasons = []Reason{{Code: code, Need: n, Text: "the grant does not have " + n.String()}}
	return v
}

func (l Lease) touchable(n Need) bool {
	if len(n.Arguments) == 0 {
		return true
	}
	name, _ := n.Arguments[0].Value.Text()
	switch n.Operation {
	case OpRead:
		return l.Frame.Readable(name)
	case OpEdit:
		return l.Frame.Writable(name)
	case OpDelete:
		return l.Frame.Removable(name)
	}
	return true
}

// decide asks the one function that decides.
func (n Need) decide(prefix string, a powerbox.Authority, now time.Time) powerbox.Decision {
	op, err := powerbox.ParseOperation(prefix + n.Operation)
	if err != nil {
		return powerbox.Decision{}
	}
	attempt, err := powerbox.Invocation(op, powerbox.Object(n.Arguments...))
	if err != nil {
		return powerbox.Decision{}
	}
	return powerbox.Decide(attempt, a, now)
}
