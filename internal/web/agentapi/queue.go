package agentapi

import (
	"bytes"
	"io"
	"net/http"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/shed"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// retryOverloaded is after how many seconds a call that was turned away may be sent again.
const retryOverloaded = 1

// enter waits for a place to authenticate and decide an execution, in the queue of the
// gateway's calls. The body is read before, so that a slow one takes no place. A call that
// is turned away did nothing, and its token is not used up.
func (a *API) enter(r *http.Request) (leave func(), err error) {
	if a.config.Queue.Full() {
		a.config.Queue.Refused()
		return nil, overloaded()
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, agentauth.Errorf(agentauth.CodeInvalidRequest, "the body cannot be read, or has more than %d bytes", a.config.BodyLimit)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	rank := shed.Known
	if r.Header.Get("Authorization") == "" {
		rank = shed.Unknown
	}
	leave, ok := a.config.Queue.Enter(r.Context(), rank)
	if !ok {
		return nil, overloaded()
	}
	return leave, nil
}

// placed executes a part of a batch, which waits for its own place.
func (a *API) placed(r *http.Request, s provider.Session, v powerbox.Value, came []byte) (provider.Executed, error) {
	leave, ok := a.config.Queue.Enter(r.Context(), shed.Known)
	if !ok {
		return provider.Executed{}, overloaded()
	}
	defer leave()
	return a.one(r, s, v, came, leave)
}

func overloaded() *agentauth.Error {
	e := agentauth.Errorf(agentauth.CodeUnavailable, "this server has more calls than it can decide in time, so it did nothing with this one; send it again after the time that Retry-After says")
	e.RetryAfter = retryOverloaded
	return e
}
