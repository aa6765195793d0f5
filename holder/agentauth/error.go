package agentauth

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/powerbox-project/powerbox"
)

// Error is the refusal of a provider (section 5.13). It is [powerbox.ErrDenied]
// where authority is missing.
type Error struct {
	Status     int    // of HTTP; 0 for the error of a job or a stream
	Code       string // stable; "" where the provider gave none
	Message    string
	RetryAfter time.Duration // 0 for none
	Decision   string        // id of the provider's record, "" for none
	Invalid    []string      // with invalid_capabilities: the names
	Unknown    []string      // with unknown_constraint_operator: the operators
	Available  []string      // with invalid_capabilities: the names that there are, where they can be listed
	Violations []Violation   // with constraint_violated
}

// Violation is one argument that a grant does not admit (section 5.11).
type Violation struct {
	Field      string `json:"field"`
	Constraint any    `json:"constraint"`
	Actual     any    `json:"actual"`
}

// Error returns message and code, and what helps to fix the call.
func (e *Error) Error() string {
	s := e.Message
	if s == "" {
		s = http.StatusText(e.Status)
	}
	if e.Code != "" {
		s += " (" + e.Code + ")"
	}
	if len(e.Available) > 0 {
		s += fmt.Sprintf("; there are %q", e.Available)
	}
	return s
}

// Is makes a refusal of authority a [powerbox.ErrDenied].
func (e *Error) Is(target error) bool {
	return target == powerbox.ErrDenied && (e.Status == http.StatusForbidden || e.Status == http.StatusUnauthorized)
}

// Denied says that a person said no, now or before. It is final: ask again only
// when a person says so ([Asking.Again]).
type Denied struct {
	Agent   string // "" if it was denied before and no person was asked
	Reason  string // the person's; "" for none
	Earlier time.Time
}

// Error says who denied what.
func (d *Denied) Error() string {
	s := "a person denied the request"
	if !d.Earlier.IsZero() {
		s = "a person denied the same request on " + d.Earlier.UTC().Format(time.RFC3339) + "; it is not made again unless a person says so"
	}
	if d.Reason != "" {
		s += fmt.Sprintf(": %q", d.Reason)
	}
	return s
}

// Unwrap returns [powerbox.ErrDenied].
func (*Denied) Unwrap() error { return powerbox.ErrDenied }

// Pending says that a person has not answered yet. Show Approval, and ask for the
// status later, or ask again where it has ended.
type Pending struct {
	Agent    string
	Approval *Approval
	Ended    bool // the time to approve is over
}

// Error says what a person must do.
func (p *Pending) Error() string {
	switch {
	case p.Ended:
		return "no person approved in time; agent " + p.Agent + " stays pending, and asking again gives a new code"
	case p.Approval == nil:
		return "agent " + p.Agent + " waits for approval"
	}
	return "agent " + p.Agent + " waits for approval: " + p.Approval.String()
}

// Errors of what a provider, or someone in its place, says.
var (
	// ErrVersion: the provider speaks another major version. Nothing helps but
	// another client.
	ErrVersion = errors.New("the provider speaks a version of the protocol that is not known here")
	// ErrIssuer: a document names another issuer than the place it came from. Do
	// not continue.
	ErrIssuer = errors.New("the document is of another issuer")
	// ErrAddress: the provider names a URL that nothing is sent to.
	ErrAddress = errors.New("the provider names a URL that nothing is sent to")
	// ErrWider: the arguments are beyond what the agent asked for, though the
	// provider would let them pass.
	ErrWider = errors.New("beyond what the agent asked for")
	// ErrUnknown: the store has no such agent or provider.
	ErrUnknown = errors.New("not in the store")
)

// problem is an error on the wire.
type problem struct {
	Code       string      `json:"error"`
	Message    string      `json:"message"`
	Decision   string      `json:"decision_id"`
	Invalid    []string    `json:"invalid_capabilities"`
	Unknown    []string    `json:"unknown_operators"`
	Violations []Violation `json:"violations"`
}

// refusal reads the body of an answer that says no; what has another form is one,
// too.
func refusal(status int, body []byte) *Error {
	var p problem
	if jsonv2.Unmarshal(body, &p) != nil {
		p = problem{}
	}
	return &Error{
		Status: status, Code: p.Code, Message: p.Message, Decision: p.Decision, Invalid: p.Invalid, Unknown: p.Unknown, Violations: p.Violations,
	}
}

// has reports whether err is a provider's error of one of the codes.
func has(err error, codes ...string) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	for _, c := range codes {
		if e.Code == c {
			return true
		}
	}
	return false
}
