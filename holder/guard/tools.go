package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"

	"github.com/powerbox-project/powerbox"
)

// codeUnavailable and codeParams are the codes of refusals that no server answered.
const codeUnavailable, codeParams = "authorization_unavailable", "params"

// Tools are the tools of a framework: an adapter asks about every call before it runs.
// Its methods may be called by several goroutines.
type Tools struct {
	Gate *Gate // required
	// Target is the agent whose skills the tools are. Required. Names has the target and
	// the skill of tools whose skill is another.
	Target string
	Names  map[string]Skill
	// Agents are names of the framework's agents at the gate, if they are others.
	Agents map[string]string
	// Wait has a call that a person must approve wait, until its context ends. Asked, which
	// may be nil, is told of the question.
	Wait  bool
	Asked func(Pending)
	// Decided is told of each decision. Optional. tool is "" for a hand-off.
	Decided func(tool string, d Decision)
}

// Skill is a skill of an agent at the gate.
type Skill struct{ Agent, Skill string }

// Ask decides on a call of a tool by an agent. The error is a [*Refused], and the call
// must not run then. Numbers that a float64 cannot keep are refused, because frameworks
// read arguments into one.
func (t *Tools) Ask(ctx context.Context, agent, tool string, arguments json.RawMessage) (Decision, error) {
	to, ok := t.Names[tool]
	if !ok {
		to = Skill{t.Target, tool}
	}
	return t.Try(ctx, tool, Attempt{From: t.named(agent), To: to.Agent, Skill: to.Skill, Arguments: arguments})
}

// Try is Ask for an attempt in the words of the gate, which says more about it.
func (t *Tools) Try(ctx context.Context, tool string, a Attempt) (Decision, error) {
	if len(bytes.TrimSpace(a.Arguments)) == 0 {
		a.Arguments = json.RawMessage("{}")
	}
	if err := exact(a.Arguments); err != nil {
		return t.decided(tool, Decision{}, &Refused{Decision{Text: err.Error(), Reasons: []Reason{{Code: codeParams, Message: err.Error()}}}})
	}
	d, err := t.check(ctx, a)
	return t.decided(tool, d, err)
}

// HandOver decides on a hand-off of a task. The error is a [*Refused].
func (t *Tools) HandOver(ctx context.Context, agent, to string) error {
	d, err := t.check(ctx, Attempt{From: t.named(agent), To: t.named(to)})
	if d, err = t.decided("", d, err); err != nil {
		return err
	}
	t.Tell(ctx, d, nil)
	return nil
}

// HandOverNamed is HandOver for a tool whose member of that name has the agent.
func (t *Tools) HandOverNamed(ctx context.Context, agent, member string, arguments json.RawMessage) error {
	v, err := powerbox.ParseValue(arguments)
	if err == nil {
		err = v.CheckNames() // the framework may read another one of two names
	}
	if err != nil {
		err = &Refused{Decision{Text: "the arguments of the hand-off are not valid", Reasons: []Reason{{Code: codeParams}}}}
		_, err = t.decided("", Decision{}, err)
		return err
	}
	named, _ := v.Get(member)
	to, _ := named.Text()
	return t.HandOver(ctx, agent, to)
}

// Tell tells the gate what became of a call. An outcome that cannot be told stays unknown
// on record.
func (t *Tools) Tell(ctx context.Context, d Decision, failed error) {
	_ = t.Gate.Outcome(ctx, d, failed)
}

func (t *Tools) check(ctx context.Context, a Attempt) (Decision, error) {
	if t.Wait {
		return t.Gate.Wait(ctx, a, t.Asked)
	}
	return t.Gate.Check(ctx, a)
}

func (t *Tools) named(agent string) string {
	if name, ok := t.Agents[agent]; ok {
		return name
	}
	return agent
}

// decided tells the program of a decision, and makes every error a [*Refused].
func (t *Tools) decided(tool string, d Decision, err error) (Decision, error) {
	var refused *Refused
	if err != nil && !errors.As(err, &refused) {
		refused = &Refused{Decision{
			Retryable: true,
			Text:      "Whether it is allowed cannot be told now; nothing is done without an answer.",
			Reasons:   []Reason{{Code: codeUnavailable, Message: "the gate gave no valid answer"}},
		}}
	}
	if refused != nil {
		d, err = refused.Decision, refused
	}
	if t.Decided != nil {
		t.Decided(tool, d)
	}
	return d, err
}

// Refusal is what a model is told in place of a result.
type Refusal struct {
	Error     string   `json:"error"`
	Message   string   `json:"message"`
	Missing   []string `json:"missing,omitempty"`
	Decision  string   `json:"decision,omitempty"` // id of the record
	Retryable bool     `json:"retryable"`
	Pending   *Pending `json:"pending,omitempty"`
}

// RefusalOf words a refusal for a model; false for an error that is none.
func RefusalOf(err error) (Refusal, bool) {
	var refused *Refused
	if !errors.As(err, &refused) {
		return Refusal{}, false
	}
	d := refused.Decision
	out := Refusal{Error: refused.Code(), Message: refused.Error(), Missing: d.Missing, Decision: d.ID, Retryable: d.Retryable, Pending: d.Pending}
	if out.Error == "" {
		out.Error = "denied"
	}
	return out, true
}

// maxExact is the largest integer up to which a float64 keeps all.
const maxExact = 1<<53 - 1

// exact refuses numbers that are others as a float64: those without a finite value, and
// integers beyond maxExact.
func exact(raw json.RawMessage) error {
	if !json.Valid(raw) {
		return errors.New("the arguments are no JSON")
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	for {
		token, err := decoder.Token()
		if err != nil {
			return nil //nolint:nilerr // it is valid JSON, so this is its end
		}
		number, ok := token.(json.Number)
		if !ok {
			continue
		}
		if f, err := number.Float64(); err != nil || f == math.Trunc(f) && math.Abs(f) > maxExact {
			return errors.New("a number in the arguments is too large to be exact; send it as text")
		}
	}
}
