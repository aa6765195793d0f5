package verify

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

// questions reads parts of a vector with exact numbers.
type questions struct{ err error }

func (q *questions) value(raw json.RawMessage) powerbox.Value {
	v, err := powerbox.ParseValue(raw)
	q.err = errors.Join(q.err, err)
	return v
}

func (q *questions) constraint(raw json.RawMessage) powerbox.Constraint {
	c, err := powerbox.ParseConstraint(q.value(raw))
	q.err = errors.Join(q.err, err)
	return c
}

func answerAdmits(v struct{ Constraint, Value json.RawMessage }) (any, error) {
	var q questions
	c, value := q.constraint(v.Constraint), q.value(v.Value)
	if q.err != nil {
		return nil, q.err
	}
	return map[string]bool{"admits": c.Admits(value)}, nil
}

func answerCovers(v struct{ Parent, Child json.RawMessage }) (any, error) {
	var q questions
	parent, child := q.constraint(v.Parent), q.constraint(v.Child)
	if q.err != nil {
		return nil, q.err
	}
	return map[string]bool{"covers": powerbox.ConstraintCovers(parent, child)}, nil
}

func answerMeet(v struct{ A, B json.RawMessage }) (any, error) {
	var q questions
	a, b := q.constraint(v.A), q.constraint(v.B)
	if q.err != nil {
		return nil, q.err
	}
	return map[string]json.RawMessage{"meet": powerbox.MeetConstraints(a, b).JSON().AppendJSON(nil)}, nil
}

func answerScope(v struct{ Scope, Operation string }) (any, error) {
	pattern, err := powerbox.ParseScope(v.Scope)
	if err != nil {
		return map[string]bool{"parses": false}, nil //nolint:nilerr // that is the answer
	}
	operation, err := powerbox.ParseOperation(v.Operation)
	return map[string]bool{"parses": true, "matches": pattern.Matches(operation)}, err
}

func answerDecide(v struct {
	Authority, Arguments json.RawMessage
	Operation            string
	At                   int64
},
) (any, error) {
	var q questions
	authority, err := powerbox.ParseAuthority(q.value(v.Authority))
	operation, errOperation := powerbox.ParseOperation(v.Operation)
	attempt, errAttempt := powerbox.Invocation(operation, q.value(v.Arguments))
	if err := errors.Join(q.err, err, errOperation, errAttempt); err != nil {
		return nil, err
	}
	type reason struct {
		Code           powerbox.Code `json:"code"`
		Operation      string        `json:"operation"`
		Argument       string        `json:"argument"`
		ConstraintType string        `json:"constraint_type"`
	}
	d := powerbox.Decide(attempt, authority, time.Unix(v.At, 0))
	reasons := []reason{}
	for _, r := range d.Reasons {
		reasons = append(reasons, reason{r.Code, r.Operation, r.Argument, r.ConstraintType})
	}
	return map[string]any{"allowed": d.Allowed, "reasons": reasons}, nil
}

func answerToken(v struct {
	Proof, Operation, Arguments, Audience, Issuer string
	Anchors, Chain                                json.RawMessage
	At                                            int64
	Revoked                                       []string
	Point                                         token.Point
	Draft01                                       bool `json:"draft_01"`
	Strict                                        bool
},
) (any, error) {
	if v.Audience != "" {
		v.Point.Identity, v.Point.RequireAudience = append(v.Point.Identity, v.Audience), true
	}
	result := token.Check(token.CheckRequest{
		Anchors: v.Anchors, Chain: v.Chain, Proof: []byte(v.Proof), Operation: v.Operation, Arguments: []byte(v.Arguments),
		At: time.Unix(v.At, 0), Issuer: v.Issuer, Point: v.Point, Revoked: v.Revoked, Draft01: v.Draft01, Strict: v.Strict,
	})
	decision, codes := "deny", []powerbox.Code{}
	if result.Allowed {
		decision = "allow"
	}
	for _, reason := range result.Reasons {
		codes = append(codes, reason.Code)
	}
	return map[string]any{"decision": decision, "codes": codes}, nil
}
