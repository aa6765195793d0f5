package verify

import (
	"encoding/json"
	"errors"
	"fmt"
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

func answerAdmits(data []byte) ([]answered, error) {
	return each(data, func(v struct {
		Constraint, Value json.RawMessage
		Admits            bool
	},
	) (answered, error) {
		var q questions
		c, value := q.constraint(v.Constraint), q.value(v.Value)
		if q.err != nil {
			return answered{}, q.err
		}
		return answered{got: fmt.Sprint(c.Admits(value)), want: fmt.Sprint(v.Admits)}, nil
	})
}

func answerCovers(data []byte) ([]answered, error) {
	return each(data, func(v struct {
		Parent, Child json.RawMessage
		Covers        bool
	},
	) (answered, error) {
		var q questions
		parent, child := q.constraint(v.Parent), q.constraint(v.Child)
		if q.err != nil {
			return answered{}, q.err
		}
		return answered{got: fmt.Sprint(powerbox.ConstraintCovers(parent, child)), want: fmt.Sprint(v.Covers)}, nil
	})
}

func answerMeet(data []byte) ([]answered, error) {
	return each(data, func(v struct{ A, B, Meet json.RawMessage }) (answered, error) {
		var q questions
		a, b, want := q.constraint(v.A), q.constraint(v.B), q.value(v.Meet)
		if q.err != nil {
			return answered{}, q.err
		}
		return answered{got: powerbox.MeetConstraints(a, b).JSON().String(), want: want.String()}, nil
	})
}

func answerScope(data []byte) ([]answered, error) {
	return each(data, func(v struct {
		Scope, Operation string
		Parses, Matches  bool
	},
	) (answered, error) {
		pattern, err := powerbox.ParseScope(v.Scope)
		if err != nil || !v.Parses {
			return answered{got: fmt.Sprint(err == nil), want: fmt.Sprint(v.Parses)}, nil
		}
		operation, err := powerbox.ParseOperation(v.Operation)
		return answered{got: fmt.Sprint(pattern.Matches(operation)), want: fmt.Sprint(v.Matches)}, err
	})
}

func answerDecide(data []byte) ([]answered, error) {
	return each(data, func(v struct {
		Authority, Arguments, Reasons json.RawMessage
		Operation                     string
		At                            int64
		Allowed                       bool
	},
	) (answered, error) {
		var q questions
		authority, err := powerbox.ParseAuthority(q.value(v.Authority))
		operation, errOperation := powerbox.ParseOperation(v.Operation)
		attempt, errAttempt := powerbox.Invocation(operation, q.value(v.Arguments))
		want := q.value(v.Reasons)
		if err := errors.Join(q.err, err, errOperation, errAttempt); err != nil {
			return answered{}, err
		}
		d := powerbox.Decide(attempt, authority, time.Unix(v.At, 0))
		reasons := []powerbox.Value{}
		for _, r := range d.Reasons {
			reasons = append(reasons, powerbox.Object(
				powerbox.Member{Name: "code", Value: powerbox.String(string(r.Code))}, powerbox.Member{Name: "operation", Value: powerbox.String(r.Operation)},
				powerbox.Member{Name: "argument", Value: powerbox.String(r.Argument)}, powerbox.Member{Name: "constraint_type", Value: powerbox.String(r.ConstraintType)}))
		}
		return answered{got: fmt.Sprint(d.Allowed, powerbox.List(reasons...)), want: fmt.Sprint(v.Allowed, want)}, nil
	})
}

func answerToken(data []byte) ([]answered, error) {
	var v struct {
		Name, Proof, Operation, Arguments, Audience, Issuer, Decision string
		Anchors, Chain                                                json.RawMessage
		At                                                            int64
		Revoked                                                       []string
		Point                                                         token.Point
		Draft01                                                       bool `json:"draft_01"`
		Strict                                                        bool
		Codes                                                         []powerbox.Code
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, err
	}
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
	return []answered{{v.Name, fmt.Sprint(decision, codes), fmt.Sprint(v.Decision, v.Codes)}}, nil
}
