package powerbox

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Code names the reason of a denial. Codes are stable: callers may act on
// them.
type Code string

// The codes of [Decide] and [Authority.Excess].
const (
	CodeNotYetValid        Code = "not_yet_valid"
	CodeExpired            Code = "expired"
	CodeOperation          Code = "operation_not_granted"
	CodeArgumentMissing    Code = "argument_missing"
	CodeArgumentUnknown    Code = "argument_unknown"
	CodeArgumentConstraint Code = "argument_constraint"
	CodeRequirementUnknown Code = "requirement_unknown"
	CodeDepth              Code = "delegation_depth"
)

// Reason says why an attempt was denied. It names the operation, the argument
// and the type of the constraint, never a permitted value.
type Reason struct {
	Code           Code
	Operation      string // empty where the reason is not about one
	Argument       string // empty where the reason is not about one
	ConstraintType string
}

// String returns the reason as a sentence without its full stop.
func (r Reason) String() string {
	switch r.Code {
	case CodeNotYetValid:
		return "the authority is not valid yet"
	case CodeExpired:
		return "the authority has expired"
	case CodeOperation:
		return fmt.Sprintf("operation %q is not granted", r.Operation)
	case CodeArgumentMissing:
		return fmt.Sprintf("operation %q: argument %q is required (%s)", r.Operation, r.Argument, r.ConstraintType)
	case CodeArgumentUnknown:
		return fmt.Sprintf("operation %q: argument %q is not permitted", r.Operation, r.Argument)
	case CodeArgumentConstraint:
		return fmt.Sprintf("operation %q: argument %q does not satisfy its %s constraint", r.Operation, r.Argument, r.ConstraintType)
	case CodeRequirementUnknown:
		return "what the attempt requires is not configured"
	case CodeDepth:
		return "the authority may not be passed on that often"
	}
	return string(r.Code)
}

// ErrDenied is the root of every denial. A caller that gets one should not
// try again with the same authority.
var ErrDenied = errors.New("denied")

// Attempt is one action that is tried: an invocation of one operation with its
// arguments, or the admission of a message that names no operation.
type Attempt struct {
	operation Operation
	arguments Value
	required  []Operation
	admission bool
}

// Invocation returns the attempt to invoke op with args, which must be an
// object.
func Invocation(op Operation, args Value) (Attempt, error) {
	if op.IsZero() {
		return Attempt{}, errors.New("invocation names no operation")
	}
	if args.kind != KindObject {
		return Attempt{}, fmt.Errorf("arguments of %q are %s; want an object", op, aKind(args.kind))
	}
	return Attempt{operation: op, arguments: args}, nil
}

// Admission returns the attempt to start or continue with a task by free text.
// It asks whether the required operations are held, without regard to their
// arguments, and it grants nothing: every later effect is an invocation of its
// own. An admission that requires nothing is denied.
func Admission(required ...Operation) Attempt {
	return Attempt{required: slices.Clone(required), admission: true}
}

// IsAdmission reports whether a is an admission.
func (a Attempt) IsAdmission() bool { return a.admission }

// Operation returns the operation of an invocation.
func (a Attempt) Operation() Operation { return a.operation }

// Arguments returns the arguments of an invocation.
func (a Attempt) Arguments() Value { return a.arguments }

// Required returns the operations that the attempt needs: one for an
// invocation.
func (a Attempt) Required() []Operation {
	if a.admission {
		return a.required
	}
	return []Operation{a.operation}
}

// Decision is the answer to an attempt.
type Decision struct {
	Allowed bool
	Reasons []Reason // every reason of a denial, in a fixed order; none when allowed
}

// Err returns nil when d allows, and otherwise an error that is [ErrDenied]
// and lists the reasons.
func (d Decision) Err() error {
	if d.Allowed {
		return nil
	}
	texts := make([]string, len(d.Reasons))
	for i, r := range d.Reasons {
		texts[i] = r.String()
	}
	return fmt.Errorf("%w: %s", ErrDenied, strings.Join(texts, "; "))
}

// Missing returns the operations that were required and are not granted,
// sorted, without repeats (GATE-3).
func (d Decision) Missing() []string {
	var names []string
	for _, r := range d.Reasons {
		if r.Code == CodeOperation {
			names = append(names, r.Operation)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Violation is the text of GATE-3 for a set of operations that are missing.
func Violation(missing []string) string {
	return "Capability scope violation: {" + strings.Join(slices.Compact(slices.Sorted(slices.Values(missing))), ", ") + "}"
}

// Decide answers an attempt under an authority at a time. It is pure and
// total, denies by default and evaluates everything, so that its reasons are
// complete. It is the one function that decides, for every protocol.
func Decide(attempt Attempt, authority Authority, now time.Time) Decision {
	var reasons []Reason
	if now.Before(authority.from) {
		reasons = append(reasons, Reason{Code: CodeNotYetValid})
	}
	if !now.Before(authority.until) {
		reasons = append(reasons, Reason{Code: CodeExpired})
	}
	required := attempt.Required()
	if len(required) == 0 {
		reasons = append(reasons, Reason{Code: CodeRequirementUnknown})
	}
	for _, op := range required {
		shape, ok := authority.Shape(op)
		switch {
		case op.IsZero():
			reasons = append(reasons, Reason{Code: CodeRequirementUnknown})
		case !ok:
			reasons = append(reasons, Reason{Code: CodeOperation, Operation: op.name})
		case !attempt.admission:
			reasons = append(reasons, shape.prohibits(op, attempt.arguments)...)
		}
	}
	return Decision{Allowed: len(reasons) == 0, Reasons: reasons}
}
