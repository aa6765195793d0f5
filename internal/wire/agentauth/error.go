package agentauth

import (
	"fmt"
	"net/http"

	"github.com/powerbox-project/powerbox"
)

// Code is the error of an answer (section 5.13). Codes are stable.
type Code string

// The codes, those of the protocol and of its capabilities page.
const (
	CodeInvalidRequest     Code = "invalid_request"
	CodeUnknownOperator    Code = "unknown_constraint_operator"
	CodeUnsupportedMode    Code = "unsupported_mode"
	CodeUnsupportedKey     Code = "unsupported_algorithm"
	CodeInvalidCapability  Code = "invalid_capabilities"
	CodeInvalidJWT         Code = "invalid_jwt"
	CodeUnauthenticated    Code = "authentication_required"
	CodeUnauthorized       Code = "unauthorized"
	CodeNotGranted         Code = "capability_not_granted"
	CodeConstraint         Code = "constraint_violated"
	CodeLimit              Code = "limit_exceeded"
	CodeAgentRevoked       Code = "agent_revoked"
	CodeAgentExpired       Code = "agent_expired"
	CodeAgentPending       Code = "agent_pending"
	CodeAgentRejected      Code = "agent_rejected"
	CodeAgentClaimed       Code = "agent_claimed"
	CodeAbsoluteLifetime   Code = "absolute_lifetime_exceeded"
	CodeHostRevoked        Code = "host_revoked"
	CodeHostRejected       Code = "host_rejected"
	CodeHostPending        Code = "host_pending"
	CodeAgentNotFound      Code = "agent_not_found"
	CodeHostNotFound       Code = "host_not_found"
	CodeCapabilityNotFound Code = "capability_not_found"
	CodeNotFound           Code = "not_found"
	CodeMethod             Code = "method_not_allowed"
	CodeAgentExists        Code = "agent_exists"
	CodeAlreadyGranted     Code = "already_granted"
	CodeChanged            Code = "request_changed" // to people: the request differs from the one that they judged
	CodeRateLimited        Code = "rate_limited"
	CodeInvitation         Code = "enrollment_token_invalid"
	CodeInternal           Code = "internal_error"
	CodeUnavailable        Code = "unavailable"
	CodeUnrecorded         Code = "outcome_unrecorded"
)

// status is the HTTP status of each code; of all others it is 403.
var status = map[Code]int{
	CodeInvalidRequest: http.StatusBadRequest, CodeUnknownOperator: http.StatusBadRequest, CodeUnsupportedMode: http.StatusBadRequest,
	CodeUnsupportedKey: http.StatusBadRequest, CodeInvalidCapability: http.StatusBadRequest,
	CodeInvalidJWT: http.StatusUnauthorized, CodeUnauthenticated: http.StatusUnauthorized, CodeInvitation: http.StatusUnauthorized,
	CodeAgentNotFound: http.StatusNotFound, CodeHostNotFound: http.StatusNotFound, CodeCapabilityNotFound: http.StatusNotFound, CodeNotFound: http.StatusNotFound,
	CodeMethod:      http.StatusMethodNotAllowed,
	CodeAgentExists: http.StatusConflict, CodeAlreadyGranted: http.StatusConflict, CodeChanged: http.StatusConflict,
	CodeRateLimited: http.StatusTooManyRequests, CodeInternal: http.StatusInternalServerError, CodeUnavailable: http.StatusServiceUnavailable,
	CodeUnrecorded: http.StatusInternalServerError, // an executed call must not be repeated unasked, as 503 would invite to
}

// Error is an answer that says no. It is [powerbox.ErrDenied] where it is a
// refusal of authority.
type Error struct {
	Code             Code
	Message          string
	UnknownOperators []string    // with CodeUnknownOperator
	Invalid          []string    // with CodeInvalidCapability: the names
	Violations       []Violation // with CodeConstraint
	RetryAfter       int         // seconds, 0 for none
	Decision         string      // id of the evidence record, "" for none
}

// Violation is one argument that a grant does not admit (section 5.11). Only its
// own agent is told the constraint, which it was told with the grant.
type Violation struct {
	Field      string         `json:"field"`
	Constraint powerbox.Value `json:"constraint"`
	Actual     powerbox.Value `json:"actual"`
}

// Errorf returns an error of that code.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string { return e.Message }

// Is makes a refusal of authority a [powerbox.ErrDenied].
func (e *Error) Is(target error) bool {
	return target == powerbox.ErrDenied && (e.Status() == http.StatusForbidden || e.Status() == http.StatusUnauthorized)
}

// Status returns the HTTP status of e.
func (e *Error) Status() int {
	if s, ok := status[e.Code]; ok {
		return s
	}
	return http.StatusForbidden
}

// JSON returns the body of the answer.
func (e *Error) JSON() powerbox.Value {
	ms := []powerbox.Member{{Name: "error", Value: powerbox.String(string(e.Code))}, {Name: "message", Value: powerbox.String(e.Message)}}
	if len(e.UnknownOperators) > 0 {
		ms = append(ms, powerbox.Member{Name: "unknown_operators", Value: texts(e.UnknownOperators)})
	}
	if len(e.Invalid) > 0 {
		ms = append(ms, powerbox.Member{Name: "invalid_capabilities", Value: texts(e.Invalid)})
	}
	if len(e.Violations) > 0 {
		vs := make([]powerbox.Value, len(e.Violations))
		for i, v := range e.Violations {
			vs[i] = powerbox.Object(
				powerbox.Member{Name: "field", Value: powerbox.String(v.Field)},
				powerbox.Member{Name: "constraint", Value: v.Constraint}, powerbox.Member{Name: "actual", Value: v.Actual})
		}
		ms = append(ms, powerbox.Member{Name: "violations", Value: powerbox.List(vs...)})
	}
	if e.Decision != "" {
		ms = append(ms, powerbox.Member{Name: "decision_id", Value: powerbox.String(e.Decision)})
	}
	return powerbox.Object(ms...)
}

func texts(ss []string) powerbox.Value {
	vs := make([]powerbox.Value, len(ss))
	for i, s := range ss {
		vs[i] = powerbox.String(s)
	}
	return powerbox.List(vs...)
}
