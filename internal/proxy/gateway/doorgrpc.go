package gateway

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// IsGRPC reports whether the call came over gRPC. The status of its answer stands in
// trailers, which a proxy shows after it has taken the messages back.
func (f *Forward) IsGRPC() bool { return f.made.binding == a2a.GRPC }

// Headers looks at the headers of an answer over gRPC. [Forward.Messages] and
// [Forward.Ended] have to follow. Where the caller must not have the answer, refused is
// what it gets, here and in both of them.
func (f *Forward) Headers(r *http.Response) (refused *Advice) {
	r.Request, r.ContentLength = f.made.request, -1
	stripOurs(r.Header)
	contain(r)
	if err := f.made.contained(r); err != nil {
		return f.withheld(err)
	}
	f.gateway.activate(r.Header, f.made.decoded)
	r.Header.Del("Content-Length")
	return nil
}

// withheld is Unanswered for an answer of the agent.
func (f *Forward) withheld(err error) *Advice {
	a := f.Unanswered(err, true)
	return &a
}

// Messages looks at the messages of an answer, and returns the body that continues.
func (f *Forward) Messages(r *http.Response, body []byte) (out []byte, refused *Advice) {
	x, g := f.made, f.gateway
	r.Body, r.Trailer = io.NopCloser(bytes.NewReader(body)), http.Header{}
	switch {
	case x.call.Streaming:
		return g.shown(r, x, body)
	case len(body) > maxAnswer:
		return nil, f.withheld(errors.New("the answer is larger than 16 MiB"))
	case len(body) == 0:
		return nil, nil
	}
	body, err := g.grpcLearn(r, x, body)
	if err != nil {
		return nil, f.withheld(err)
	}
	return body, nil
}

// shown reads the messages of a stream, and leaves it before its end.
func (g *Gateway) shown(r *http.Response, x *forwardable, body []byte) ([]byte, *Advice) {
	s := g.stream(r, x.decided)
	r.Body = s
	out := make([]byte, len(body))
	if _, err := io.ReadFull(s, out); err != nil {
		_ = s.Close() // the body is in memory
		return nil, cutShort(r)
	}
	return out, nil
}

// Ended records the outcome of an answer by its trailers, and leaves in r.Trailer those
// that the caller gets.
func (f *Forward) Ended(r *http.Response, trailer http.Header) (refused *Advice) {
	r.Trailer = trailer
	if s, ok := r.Body.(*stream); ok {
		_, _ = s.Read(make([]byte, 1)) // it is at its end, or cut here
		_ = s.Close()                  // the body is in memory
		if s.over {
			return cutShort(r)
		}
		return nil
	}
	if _, err := f.gateway.grpcEnded(r, f.made); err != nil {
		return f.withheld(err)
	}
	return nil
}

// cutShort answers with the status that a stream was ended with.
func cutShort(r *http.Response) *Advice {
	h := r.Trailer.Clone()
	h.Set("Content-Type", typeGRPC)
	return &Advice{Status: http.StatusOK, Header: h}
}
