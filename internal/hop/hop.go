// Package hop sends a request on over another connection, for the gateway and
// for attach. What goes on is one body of known bytes and one answer: nothing
// that the two ends of a connection say to each other crosses it.
package hop

import (
	"bytes"
	"context"
	"io"
	"net/http"
)

// Onward has a request carry a body and nothing behind it, once. Its headers may
// be changed; they are those that go on.
//
//   - The length is told, whatever the request came with, and trailers are left
//     out: nobody has looked at them (ATK-31, ATK-32).
//   - An expectation was met here, where the body was read (RFC 9110, section
//     10.1.1).
//   - A key of idempotency goes on and does nothing in net/http, which would send
//     a request with one again when a connection ends without an answer: one
//     decision is one request (ATK-22, ATK-42). What was never written is still
//     written to another connection, and so is what can be repeated by its method.
func Onward(r *http.Request, body []byte) {
	r.ContentLength, r.TransferEncoding, r.Trailer = int64(len(body)), nil, nil
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	if len(body) == 0 {
		r.Body = http.NoBody
	}
	h := r.Header
	h.Del("Expect")
	for _, key := range [...][2]string{{"Idempotency-Key", "idempotency-key"}, {"X-Idempotency-Key", "x-idempotency-key"}} {
		// net/http looks for the name as Go writes it, and to everybody else the
		// other one is the same.
		if values, ok := h[key[0]]; ok {
			delete(h, key[0])
			h[key[1]] = values
		}
	}
}

// Final has the answers of another transport be the last word. httputil's proxy
// would copy those before it (100, 103) to the caller, with the headers that they
// come with, and take with them what was already written there: that the
// connection ends, and which record the answer belongs to (ATK-31, EXT-30). It
// learns of them by the context that it gives the request, in whose place is the
// one of before.
func Final(ctx context.Context, next http.RoundTripper) http.RoundTripper {
	return final{ctx, next}
}

type final struct {
	before context.Context
	next   http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (f final) RoundTrip(r *http.Request) (*http.Response, error) {
	return f.next.RoundTrip(r.WithContext(f.before))
}
