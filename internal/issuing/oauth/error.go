package oauth

import (
	"fmt"
	"net/http"
)

// Error is a refusal as OAuth words one (RFC 6749, section 5.2).
type Error struct {
	Code    string
	Message string
	Page    string // on which a person can end the refusal, "" for none
}

func (e *Error) Error() string { return e.Message }

// The codes.
const (
	InvalidRequest = "invalid_request"
	InvalidClient  = "invalid_client"
	InvalidGrant   = "invalid_grant"
	InvalidScope   = "invalid_scope"
	InvalidTarget  = "invalid_target" // RFC 8707
	InvalidDetails = "invalid_authorization_details"
	AccessDenied   = "access_denied"
	// InvalidMetadata and InvalidRedirect answer clients that register themselves (RFC 7591).
	InvalidMetadata = "invalid_client_metadata"
	InvalidRedirect = "invalid_redirect_uri"
	// InteractionRequired says that a person has to answer on a page first.
	InteractionRequired = "interaction_required"
	Unauthorized        = "unauthorized_client"
	UnsupportedGrant    = "unsupported_grant_type"
	UnsupportedType     = "unsupported_response_type"
	ServerError         = "server_error"
	Unavailable         = "temporarily_unavailable"
	SlowDown            = "slow_down"
)

// Status is the status of HTTP that says the same.
func (e *Error) Status() int {
	switch e.Code {
	case InvalidClient:
		return http.StatusUnauthorized
	case ServerError:
		return http.StatusInternalServerError
	case Unavailable:
		return http.StatusServiceUnavailable
	case SlowDown:
		return http.StatusTooManyRequests
	}
	return http.StatusBadRequest
}

// Errorf returns a refusal.
func Errorf(code, format string, args ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
