// Package hop sends a request on over another connection, for the gateway and
// for attach. What continues is one body of known bytes and one answer: nothing
// that the two ends of a connection say to each other crosses it.
package hop

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
)

// Onward has a request carry a body and nothing behind it, once. Its headers may
// be changed; they are those that continue.
//
//   - The length is told, whatever the request came with, and trailers are left
//     out: they were not checked (ATK-31, ATK-32).
//   - An expectation was met here, where the body was read (RFC 9110, section
//     10.1.1).
//   - A key of idempotency continues and does nothing in net/http, which would send
//     a request with one again when a connection ends without an answer: one
//     decision is one request (ATK-22, ATK-42). An unwritten request is still
//     written to another connection, and so is what can be repeated by its method.
//   - Whose end could be seen in different places has the connection for itself from
//     there on: no other caller gets the bytes behind its answer (ATK-31). In HTTP/2, for what
//     goes by nothing else, frames say where it ends.
func Onward(r *http.Request, body []byte, http2 bool) {
	r.Close = !http2 && Alone(r, body)
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

// Alone reports whether a server that does not read requests as we do could take the
// body of this one, or a part of it, for a next request: it came in chunks or by
// HTTP/1.0, has a body where others look for none, a body that is no JSON, or a header
// that could be taken for the length. What JSON begins with is no method of HTTP.
func Alone(r *http.Request, body []byte) bool {
	if len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) || len(r.Trailer) > 0 || r.Header["Expect"] != nil {
		return true
	}
	text := bytes.TrimLeft(body, " \t\r\n")
	bare := r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch
	if len(body) > 0 && (!bare || len(text) == 0 || text[0] != '{' && text[0] != '[') {
		return true
	}
	for name := range r.Header {
		if len(name) == len("Content-Length") && name[7] == '_' || len(name) == len("Transfer-Encoding") && name[8] == '_' {
			return true
		}
	}
	return false
}

// Final has the answers of another transport be the last word. httputil's proxy
// would copy those before it (100, 103) to the caller, with the headers that they
// come with, and take with them the headers written there: that the
// connection ends, and which record the answer belongs to (ATK-31, EXT-30). It
// learns of them by the context that it gives the request, in whose place is the
// one of before.
//
// A connection that was used before is settled before the request goes out on it.
// Taken, where it is not nil, is called for every connection that the request is given,
// more than once where one was found closed.
func Final(ctx context.Context, next http.RoundTripper, taken func()) http.RoundTripper {
	return final{ctx, next, taken}
}

type final struct {
	before context.Context
	next   http.RoundTripper
	taken  func()
}

// RoundTrip implements [http.RoundTripper].
func (f final) RoundTrip(r *http.Request) (*http.Response, error) {
	return f.next.RoundTrip(r.WithContext(httptrace.WithClientTrace(f.before, &httptrace.ClientTrace{GotConn: f.got})))
}

func (f final) got(c httptrace.GotConnInfo) {
	if f.taken != nil {
		f.taken()
	}
	if c.Reused {
		settle(f.before, c.Conn)
	}
}
