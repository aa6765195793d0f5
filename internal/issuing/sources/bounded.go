package sources

import (
	"errors"
	"io"
	"net/http"
)

// bounded ends the reading of answers that are too large.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if err == nil {
		answer.Body = &atMost{answer.Body, maxAnswer}
	}
	return answer, err
}

type atMost struct {
	io.ReadCloser
	left int64
}

// Read implements [io.Reader].
func (a *atMost) Read(p []byte) (int, error) {
	if a.left <= 0 {
		return 0, errors.New("the answer of the source is too large")
	}
	n, err := a.ReadCloser.Read(p[:min(int64(len(p)), a.left)])
	a.left -= int64(n)
	return n, err
}
