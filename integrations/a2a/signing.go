package powerboxa2a

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/token"
)

// signing puts capability and proof on the bytes of a call, which stay as they
// are. It is the last one to see them, so that what other interceptors added is
// found here.
type signing struct {
	peer *Peer
	rpc  bool
}

var errNoInterceptor = errors.New("powerbox: the call did not come through the interceptor of Peer.Options, which belongs to this transport")

// RoundTrip implements [http.RoundTripper]. A redirect to another agent is
// refused: a proof must not be taken elsewhere.
func (s *signing) RoundTrip(r *http.Request) (*http.Response, error) {
	base := s.peer.out.Client.HTTP.Transport
	if base == nil {
		base = http.DefaultTransport
	}
	signed, err := s.signed(r)
	if err != nil {
		return nil, err
	}
	answer, err := base.RoundTrip(signed)
	if err != nil || !s.peer.out.Client.SignAgain(r.Context(), answer) {
		return answer, err
	}
	again := r.Clone(r.Context())
	if r.Body != nil {
		if again.Body, err = signed.GetBody(); err != nil {
			return nil, err
		}
	}
	if signed, err = s.signed(again); err != nil {
		return nil, err
	}
	return base.RoundTrip(signed)
}

// signed returns a request with the same bytes and our headers. The body of r
// is closed, as a RoundTripper must.
func (s *signing) signed(r *http.Request) (*http.Request, error) {
	body, err := bodyOf(r)
	if err != nil {
		return nil, err
	}
	o, ok := r.Context().Value(outgoingKey{}).(*outgoing)
	if !ok || o.peer != s.peer {
		return nil, errNoInterceptor
	}
	if err := o.unchanged(body); err != nil {
		return nil, err
	}
	out := r.Clone(r.Context())
	if r.Body != nil {
		out.Body = io.NopCloser(bytes.NewReader(body))
		out.ContentLength = int64(len(body))
		out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	stripHeader(r.Context(), out.Header)
	if !s.peer.Agent.Negotiates {
		return out, nil
	}
	u := *r.URL
	u.Fragment = ""
	if s.rpc {
		u.RawQuery = "" // no part of a JSON-RPC call
	}
	if err := s.forPeer(u.String()); err != nil {
		return nil, err
	}
	return out, o.present(r.Context(), out.Header, r.Method, u.String(), body)
}

func bodyOf(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	defer func() { _ = r.Body.Close() }() // it was read; nothing is lost
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = fmt.Errorf("powerbox: the body is larger than %d bytes", maxBody)
	}
	return body, err
}

func stripHeader(ctx context.Context, h http.Header) {
	maps.DeleteFunc(h, func(name string, values []string) bool {
		return isOurHeader(name) || len(values) == 1 && cameIn(ctx, name, values[0])
	})
}

// forPeer refuses a target that is not the peer's: for JSON-RPC its one URL, for
// HTTP+JSON whatever is below its public one.
func (s *signing) forPeer(target string) error {
	issuer := base(s.peer.Agent.Issuer)
	rest, ok := strings.CutPrefix(target, issuer)
	ok = ok && (rest == "" || rest[0] == '/' || rest[0] == '?')
	if !ok || s.rpc && base(target) != base(s.peer.Agent.URL) {
		return fmt.Errorf("powerbox: the call goes to %s, which is not %s; nothing is signed for it", target, s.peer.Agent.URL)
	}
	return nil
}

// present puts on the headers of a call the capability and its proof, or, where
// none is held, who calls.
func (o *outgoing) present(ctx context.Context, h http.Header, method, url string, signed []byte) error {
	client, agent := o.peer.out.Client, o.peer.Agent
	if len(o.held.Chain) > 0 {
		return client.Present(h, agent, o.held, holder.Attempt{
			Operation: o.call.Operation, Arguments: o.call.Arguments, Method: method, URL: url, Digest: token.DigestOf(signed),
		})
	}
	if h.Get("Authorization") != "" {
		return nil // the caller has its own session
	}
	if !o.peer.out.lends(ctx) {
		keyAlone := *client
		keyAlone.Session = nil
		client = &keyAlone
	}
	target, _, _ := strings.Cut(url, "?")
	return client.Identify(ctx, h, agent, method, target)
}

// unchanged refuses a call into which something was put under the extension's
// names after the interceptor had seen it.
func (o *outgoing) unchanged(body []byte) error {
	if len(body) == 0 {
		return nil
	}
	v, err := powerbox.DecodeValue(body, powerbox.Limits{Bytes: maxBody, Depth: 64})
	if err != nil {
		return fmt.Errorf("powerbox: the call cannot be signed: %w", err)
	}
	if params, ok := v.Get("params"); ok {
		v = params
	}
	metadata, _ := v.Get("metadata")
	found, _ := metadata.Get(holder.ExtensionURI)
	message, _ := v.Get("message")
	ofMessage, _ := message.Get("metadata")
	mine, _ := metadata.Members()
	others, _ := ofMessage.Members()
	if slices.ContainsFunc(mine, func(m powerbox.Member) bool { return isOurMember(m.Name) && m.Name != holder.ExtensionURI }) ||
		slices.ContainsFunc(others, func(m powerbox.Member) bool { return isOurMember(m.Name) }) {
		return errAdded
	}
	if !found.Equal(o.metadata) {
		return errAdded
	}
	return nil
}

var errAdded = fmt.Errorf("powerbox: metadata under %s were changed after Powerbox's interceptor; give Peer.Options after all other options", holder.ExtensionURI)
