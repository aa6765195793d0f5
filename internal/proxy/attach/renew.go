package attach

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"github.com/powerbox-project/powerbox/holder"
)

// renewing repeats a call once with a new proof, where the gateway says that nothing was
// executed since it was started after the proof was made.
type renewing struct {
	base   http.RoundTripper
	client *holder.Client
	passed passed
}

// RoundTrip implements [http.RoundTripper].
func (t renewing) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.base.RoundTrip(r)
	if err != nil || t.passed.renew == nil || !t.client.SignAgain(r.Context(), answer) {
		return answer, err
	}
	again := r.Clone(r.Context())
	again.Body = http.NoBody
	if len(t.passed.body) > 0 {
		again.Body = io.NopCloser(bytes.NewReader(t.passed.body))
	}
	if err := t.passed.renew(again.Header); err != nil {
		return nil, err
	}
	return t.base.RoundTrip(again)
}

// signAgain puts a new proof on a call that was signed before.
func (a *Attach) signAgain(ctx context.Context, t *task, h http.Header, o *outgoing, held holder.Capability) error {
	if held.ID == "" && held.Chain == nil && held.ScopeToken == "" {
		return a.identify(ctx, t, h, o)
	}
	attempt, err := o.attempt()
	if err != nil {
		return err
	}
	return a.config.Client.Present(h, o.agent, held, attempt)
}
