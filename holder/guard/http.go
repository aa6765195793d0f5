package guard

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/powerbox-project/powerbox"
)

// Handler asks the gate before next gets a request. attempt says what a request
// is; an error, or a request that it cannot tell, is refused with 403, and so is
// what the gate refuses, with its reasons as JSON. Where the gate does not answer
// it is 503.
func (g *Gate) Handler(attempt func(*http.Request) (Attempt, error), next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, err := attempt(r)
		if err != nil {
			refuse(w, http.StatusForbidden, Decision{Text: err.Error()})
			return
		}
		d, err := g.Check(r.Context(), a)
		if err != nil {
			status := http.StatusServiceUnavailable
			if errors.Is(err, powerbox.ErrDenied) {
				status = http.StatusForbidden
			} else {
				d = Decision{Text: "Whether it is allowed cannot be told now; try again in a moment.", Retryable: true}
			}
			refuse(w, status, d)
			return
		}
		seen := &seen{ResponseWriter: w, status: http.StatusOK}
		ended := errors.New("the handler did not return")
		defer func() { _ = g.Outcome(r.Context(), d, ended) }() // an outcome that is not reported is unknown, on record
		next.ServeHTTP(seen, r)
		if ended = nil; seen.status >= http.StatusBadRequest {
			ended = errors.New(http.StatusText(seen.status))
		}
	})
}

// seen notes how a request was answered.
type seen struct {
	http.ResponseWriter
	status int
}

func (s *seen) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// Unwrap lets [http.ResponseController] reach the wrapped writer.
func (s *seen) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Refuses writes the headers by which the caller learns that nothing was executed, and why.
// A holder signs a call again and repeats it once, where the gate began to remember proofs
// after the proof was made.
func (d Decision) Refuses(h http.Header) {
	h.Set("Powerbox-Outcome", "denied")
	h.Del("Powerbox-Reason")
	if len(d.Reasons) > 0 {
		h.Set("Powerbox-Reason", d.Reasons[0].Code)
	}
}

func refuse(w http.ResponseWriter, status int, d Decision) {
	d.Refuses(w.Header())
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{ // the client has gone: there is no caller to tell
		"status": status, "detail": d.Text, "decision": d.ID, "missing": d.Missing, "reasons": d.Reasons, "retryable": d.Retryable,
	})
}

// Transport asks the gate before a request goes out. It is an [http.RoundTripper].
type Transport struct {
	Gate *Gate // required
	// Attempt says what a request is. Required; an error is returned and nothing
	// is sent.
	Attempt func(*http.Request) (Attempt, error)
	// Base sends allowed requests. Required.
	Base http.RoundTripper
}

// RoundTrip implements [http.RoundTripper]. A denial is a [*Refused].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	drop := func(err error) (*http.Response, error) {
		if r.Body != nil {
			_ = r.Body.Close() // it is not read
		}
		return nil, err
	}
	a, err := t.Attempt(r)
	if err != nil {
		return drop(err)
	}
	d, err := t.Gate.Check(r.Context(), a)
	if err != nil {
		return drop(err)
	}
	answer, failed := t.Base.RoundTrip(r)
	told := failed
	if failed == nil && answer.StatusCode >= http.StatusBadRequest {
		told = errors.New(answer.Status)
	}
	_ = t.Gate.Outcome(r.Context(), d, told) // an outcome that is not reported is unknown, on record
	return answer, failed
}
