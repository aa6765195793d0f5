package gateway

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/token"
)

// serve returns the handler of one binding.
func (g *Gateway) serve(b a2a.Binding) func(http.ResponseWriter, *http.Request, *agent, string) {
	return func(w http.ResponseWriter, r *http.Request, a *agent, skill string) {
		x := &received{agent: a, request: r, binding: b, skill: skill, carries: carriesOf(w), notes: &notes{}}
		if a.MCP != nil {
			if b != a2a.JSONRPC || skill != "" {
				http.Error(w, "there is nothing here; this MCP server is reached at "+a.URL, http.StatusNotFound)
				return
			}
			x.binding = a2a.MCP
		}
		if b == a2a.HTTPJSON {
			x.path = pathBelow(r, skill)
		}
		g.observed(w, x)
	}
}

// handle takes a request through the stages.
func (g *Gateway) handle(w http.ResponseWriter, r *received) {
	if g.full(w, r) {
		return
	}
	i, known := g.identify(w, r)
	if !known {
		return
	}
	defer i.count.close(i.caller)
	x, decoded := g.decode(w, i)
	if !decoded {
		return
	}
	g.dispatch(w, x)
}

// identify finds out who calls and how often, before a byte of the body is decoded. A
// request that goes no further is answered here.
func (g *Gateway) identify(w http.ResponseWriter, r *received) (*identified, bool) {
	i := &identified{received: r}
	mode, err := g.config.Mode(r.request.Context(), r.ID)
	if err != nil {
		g.unavailable(w, i.unread(nil, false), "the mode of the agent cannot be told", err)
		return nil, false
	}
	i.mode, i.count = mode, g.count(r.request)
	if !i.count.mayVerify() {
		return nil, !g.turnedAway(w, g.glance(i), errRate)
	}
	caller, consumed, err := g.authenticate(r)
	_, scopes := scopeCredential(r.request.Header)
	i.caller, i.consumed, i.unproven = caller, consumed || scopes, err
	if !i.count.identified(caller, err) {
		return nil, !g.turnedAway(w, g.glance(i), errRate)
	}
	if err != nil && mode != gate.Observe {
		g.unauthenticated(w, g.glance(i), err)
		return nil, false
	}
	return i, true
}

// authenticate finds out who calls. It returns whether the Authorization header is ours.
func (g *Gateway) authenticate(r *received) (caller identity.Caller, consumed bool, err error) {
	n := 0
	for _, value := range r.request.Header.Values("Authorization") {
		n += len(value)
	}
	if n > maxCredential {
		return identity.Caller{}, false, fmt.Errorf("the Authorization header has %d bytes; want at most %d", n, maxCredential)
	}
	return g.config.Identity.Authenticate(r.addressed(), r.URL, g.config.Now())
}

// maxGlance is how much of a body is read for the id of a request that is refused before
// it is decoded. Each chunk of a body without a length can be one byte, and costs work.
const (
	maxGlance        = 16 << 10
	maxUnsizedGlance = 2 << 10
)

// glance looks for the id of a request that is refused before it is decoded, so that
// clients know which request is refused. It checks nothing.
func (g *Gateway) glance(i *identified) *decoded {
	if !bindingOf(i.binding).hasID() {
		return i.unread(nil, false)
	}
	most := int64(maxGlance)
	if i.request.ContentLength < 0 {
		most = maxUnsizedGlance
	}
	body, err := io.ReadAll(io.LimitReader(i.request.Body, most))
	if err != nil {
		return i.unread(nil, false)
	}
	i.request.Body = unread(i.request.Body, body) // a revocation is read once more
	return g.of(i, body)
}

// unauthenticated answers a caller of whom it cannot be told who it is.
func (g *Gateway) unauthenticated(w http.ResponseWriter, x stage, err error) {
	if errors.Is(err, identity.ErrUnavailable) {
		g.unavailable(w, x, "who calls cannot be told now", err)
		return
	}
	g.deny(w, x, a2a.Denial{Code: a2a.CodeUnauthenticated, Reason: unauthenticated(err), Message: err.Error()})
}

// The cost limit of a body depends on the proven identity of its sender: bytes, and values in
// them. An invalid capability or credential counts for nothing. Their
// work is bounded at about 2 ms of CPU.
const (
	maxCredential  = 32 << 10 // bytes of the Authorization header
	knownNodes     = 32 << 10
	vouchedBytes   = 1 << 20
	vouchedNodes   = 16 << 10
	anonymousBytes = 128 << 10
	anonymousNodes = 1 << 10
	unsizedBytes   = 16 << 10 // of a body that comes in chunks, each of which costs
)

// bounds are those of the body of a request, up to what the operator allows.
func (g *Gateway) bounds(i *identified) powerbox.Limits {
	limits := powerbox.Limits{Bytes: g.config.BodyLimit, Depth: maxDepth, Nodes: knownNodes}
	switch {
	case i.caller.Holder.ID != "" || i.caller.Principal != "" || i.mode == gate.Observe:
	case g.vouched(i):
		limits.Bytes, limits.Nodes = min(limits.Bytes, vouchedBytes), vouchedNodes
	default:
		limits.Bytes, limits.Nodes = min(limits.Bytes, anonymousBytes), anonymousNodes
		if i.request.ContentLength < 0 && i.binding != a2a.GRPC {
			limits.Bytes = min(limits.Bytes, unsizedBytes)
		}
	}
	return limits
}

// vouched reports whether the chain in the header of an unknown caller is one
// that the agent's issuers stand behind.
func (g *Gateway) vouched(i *identified) bool {
	values := i.request.Header.Values(HeaderCapability)
	if len(values) == 0 {
		return false
	}
	target := gate.Target{ID: i.ID, URL: i.URL, Foreign: i.Foreign, Anchors: i.Keys()}
	return g.config.Vouches(&target, token.SplitChain(strings.Join(values, ",")), g.config.Now())
}

// unauthenticated is the reason of a caller who is not known. Clients sign again where
// the proof was made before this process began.
func unauthenticated(err error) string {
	if why := (*identity.Error)(nil); errors.As(err, &why) && why.Code == identity.CodeProofBefore {
		return gate.CodeProofBefore
	}
	return "unauthenticated"
}
