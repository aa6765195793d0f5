// Package credential adds an operator's secret to the calls that go to an agent.
//
// The laws: a secret is added to a decided call alone, on its way out; nothing that was
// returned to this process by the agent holds it, whatever the agent does with it; no
// caller can send or replace it; no error and no log has it; an agent that does not take it
// is told apart from one that refuses the caller.
package credential

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/internal/config"
)

// Source has the secret.
type Source interface {
	// Secret returns the secret for calls for a person, by their name at the agent.
	// refused is one that the agent did not take, the zero Secret for none: the source then
	// gets another one, if it can.
	Secret(ctx context.Context, person string, refused config.Secret) (config.Secret, error)
}

// Why a call cannot be made with a secret.
var (
	ErrUnavailable = errors.New("the operator's credential for the agent cannot be had now")
	ErrRefused     = errors.New("the agent refuses the operator's credential, and not the caller's; its operator must replace it")
)

// ConsentError is the error for a person who has to connect an account first.
type ConsentError struct {
	URL string // where
}

// Error implements error.
func (e *ConsentError) Error() string {
	return "the agent needs the consent of the person behind the call: open " + e.URL
}

// Bounds of a secret and of getting it.
const (
	minSecret = 8 // a shorter one could not be told from other text in an answer
	maxSecret = 16 << 10
	getting   = 10 * time.Second
)

// Placed is a secret with its place in a request.
type Placed struct {
	Source Source
	Header string // canonical name, "" where the secret is in the query, or the agent has it
	Scheme string // before the secret in the header, such as Bearer; "" for none
	Query  string // name of the parameter, "" where the secret is in a header
}

// Transport returns the way to the agent for one call, with the secret added to it. Answers have
// asterisks wherever the agent echoes the secret.
func (p *Placed) Transport(next http.RoundTripper, person string) http.RoundTripper {
	return &transport{p, next, person}
}

type transport struct {
	*Placed
	next   http.RoundTripper
	person string
}

// RoundTrip implements [http.RoundTripper]. A request that the agent answers with 401 is
// sent once more, if there is another secret.
func (w *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := taken(r)
	if err != nil {
		return nil, err
	}
	secret, err := w.get(r.Context(), config.Secret{})
	if err != nil {
		return nil, err
	}
	response, err := w.send(r, body, secret)
	if err != nil || !refuses(response) {
		return response, err
	}
	discard(response)
	another, err := w.get(r.Context(), secret)
	if err != nil {
		return nil, err
	}
	if another == secret {
		return nil, ErrRefused
	}
	response, err = w.send(r, body, another)
	if err == nil && refuses(response) {
		discard(response)
		return nil, ErrRefused
	}
	return response, err
}

// get gets a secret that can be put into a request.
func (w *transport) get(ctx context.Context, refused config.Secret) (config.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, getting)
	defer cancel()
	secret, err := w.Source.Secret(ctx, w.person, refused)
	var consent *ConsentError
	switch text := secret.Reveal(); {
	case errors.As(err, &consent):
		return secret, err
	case err != nil:
		return secret, fmt.Errorf("%w: %w", ErrUnavailable, err)
	case len(text) < minSecret || len(text) > maxSecret || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }):
		return secret, fmt.Errorf("%w: it has not %d to %d visible ASCII characters", ErrUnavailable, minSecret, maxSecret)
	}
	return secret, nil
}

// taken reads the body of a request, which is in memory already.
func taken(r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	defer r.Body.Close()
	return io.ReadAll(r.Body)
}

// refuses reports whether an answer says that the credential is not good, in HTTP or in
// gRPC.
func refuses(r *http.Response) bool {
	return r.StatusCode == http.StatusUnauthorized || r.Header.Get("Grpc-Status") == "16"
}

// maxDiscarded is how much of an answer is read so that its connection can be used again.
const maxDiscarded = 64 << 10

func discard(r *http.Response) {
	_, _ = io.CopyN(io.Discard, r.Body, maxDiscarded)
	_ = r.Body.Close()
}

// send makes the request with a secret. Neither the response nor the error has it.
func (w *transport) send(r *http.Request, body []byte, secret config.Secret) (*http.Response, error) {
	out := r.Clone(r.Context())
	if out.Body = http.NoBody; body != nil {
		out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		out.Body, _ = out.GetBody() // never fails
	}
	w.put(out, secret.Reveal())
	hidden := formsOf(secret.Reveal())
	response, err := w.next.RoundTrip(out)
	if err != nil {
		return nil, hidden.inError(err)
	}
	response.Request = r
	if packed := response.Header.Get("Content-Encoding"); packed != "" && packed != "identity" {
		_ = response.Body.Close()
		return nil, fmt.Errorf("the agent packs its answers as %.32q, in which its credential could not be found", packed)
	}
	hidden.inHeader(response.Header)
	response.Body = hidden.reader(response.Body, func() { hidden.inHeader(response.Trailer) })
	return response, nil
}

// put puts the secret into a request, and takes away what a caller put in its place. A
// server may take an underscore in a name for a dash.
func (w *transport) put(r *http.Request, secret string) {
	if w.Query != "" {
		// Parameters are kept as they are written: calls were read from them.
		kept := []string{}
		for part := range strings.SplitSeq(r.URL.RawQuery, "&") {
			name, _, _ := strings.Cut(part, "=")
			if plain, err := url.QueryUnescape(name); part != "" && err == nil && !strings.EqualFold(plain, w.Query) {
				kept = append(kept, part)
			}
		}
		u := *r.URL
		u.RawQuery = strings.Join(append(kept, url.QueryEscape(w.Query)+"="+url.QueryEscape(secret)), "&")
		r.URL = &u
		return
	}
	if w.Header == "" {
		return // the agent has it already
	}
	for name := range r.Header {
		if strings.EqualFold(strings.ReplaceAll(name, "_", "-"), w.Header) {
			delete(r.Header, name)
		}
	}
	if strings.EqualFold(w.Header, "Authorization") {
		r.Header.Del("DPoP") // it belongs to a token that the caller showed
	}
	if w.Scheme != "" {
		secret = w.Scheme + " " + secret
	}
	r.Header[w.Header] = []string{secret}
}
