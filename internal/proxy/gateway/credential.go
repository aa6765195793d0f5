package gateway

import (
	"errors"
	"net/http"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/credential"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// The reasons for which the operator's credential keeps a call from its agent. The call was
// decided, and nothing of it says anything about the caller.
const (
	codeCredential        = "credential_unavailable" //nolint:gosec // a reason
	codeCredentialRefused = "credential_refused"     //nolint:gosec // a reason
	codeConsent           = "consent_required"
)

// errUnnamedCredential keeps the credential from hosts that the agent's card names and the
// operator does not, and from a way without TLS where the operator named one with it.
var errUnnamedCredential = errors.New("the agent's card names a host that no operator named, or no TLS, so its credential is not sent there; its operator can list the host in agents[].upstream_hosts")

// refusing is a way that nothing goes.
type refusing struct{ err error }

// RoundTrip implements [http.RoundTripper].
func (r refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, r.err }

// isCredential reports whether a call was not answered because of the credential.
func isCredential(err error) bool {
	var consent *credential.ConsentError
	return errors.As(err, &consent) || errors.Is(err, credential.ErrUnavailable) || errors.Is(err, credential.ErrRefused) || errors.Is(err, errUnnamedCredential)
}

// withoutCredential answers a call that was not made for want of a credential.
func (g *Gateway) withoutCredential(w http.ResponseWriter, x *decided, err error) {
	d := a2a.Denial{Code: a2a.CodeInternal, Reason: codeCredential, Message: credential.ErrUnavailable.Error(), Retryable: true, Away: true, DecisionID: x.verdict.Record.ID, At: g.config.Now()}
	var consent *credential.ConsentError
	switch {
	case errors.As(err, &consent):
		d.Code, d.Reason, d.Message, d.ApprovalURL = a2a.CodeUnauthorized, codeConsent, consent.Error(), consent.URL
		d.Away = false
	case errors.Is(err, credential.ErrRefused):
		d.Reason, d.Message, d.Retryable = codeCredentialRefused, credential.ErrRefused.Error(), false
	case errors.Is(err, errUnnamedCredential):
		d.Message, d.Retryable = errUnnamedCredential.Error(), false
	}
	if consent == nil {
		g.config.Log.ErrorContext(x.request.Context(), "the operator's credential for an agent failed", "agent", x.ID, "error", err)
	}
	g.concludeDenied(w, x, notTheAgent(evidence.Failed), d)
}
