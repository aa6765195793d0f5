package gateway

import (
	"errors"
	"io"
	"net/http"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/a2a"
	"github.com/powerbox-project/powerbox/internal/identity"
)

// serve returns the handler of one binding.
func (g *Gateway) serve(b a2a.Binding) func(http.ResponseWriter, *http.Request, *agent, string) {
	return func(w http.ResponseWriter, r *http.Request, a *agent, skill string) {
		x := &received{agent: a, request: r, binding: b, skill: skill, notes: &notes{}}
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
	i, known := g.identify(w, r)
	if !known {
		return
	}
	x, leave, decoded := g.decode(w, i)
	if !decoded {
		return
	}
	defer leave()
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
	caller, consumed, err := g.config.Identity.Authenticate(r.addressed(), r.URL, g.config.Now())
	_, scopes := scopeCredential(r.request.Header)
	i.mode, i.caller, i.consumed, i.unproven = mode, caller, consumed || scopes, err
	if !g.limiter.allow(g, limited(caller, r.request.RemoteAddr)) {
		w.Header().Set("Retry-After", "1")
		g.deny(w, g.glance(i), a2a.Denial{Reason: "rate_limited", Message: "this caller makes more calls than the operator allows", Retryable: true})
		return nil, false
	}
	if err != nil && mode != gate.Observe {
		g.unauthenticated(w, g.glance(i), err)
		return nil, false
	}
	return i, true
}

// maxGlance is how much of a body is read for the id of a request that is refused before
// it is decoded.
const maxGlance = 16 << 10

// glance looks for the id of a request that is refused before it is decoded, so that
// clients know what is refused. It checks nothing.
func (g *Gateway) glance(i *identified) *decoded {
	if i.binding != a2a.JSONRPC && i.binding != a2a.MCP {
		return i.unread(nil, false)
	}
	body, err := io.ReadAll(io.LimitReader(i.request.Body, maxGlance))
	if err != nil {
		return i.unread(nil, false)
	}
	id, method := a2a.Glance(body)
	return i.unread(id, method.Streams())
}

// unauthenticated answers a caller of whom it cannot be told who it is.
func (g *Gateway) unauthenticated(w http.ResponseWriter, x stage, err error) {
	if errors.Is(err, identity.ErrUnavailable) {
		g.unavailable(w, x, "who calls cannot be told now", err)
		return
	}
	g.deny(w, x, a2a.Denial{Code: a2a.CodeUnauthenticated, Reason: "unauthenticated", Message: err.Error()})
}

// What a body may cost depends on what is known of who sends it: bytes, and values in
// them. A capability or a credential that nobody has checked yet counts for little.
const (
	knownNodes     = 32 << 10
	unprovenBytes  = 1 << 20
	unprovenNodes  = 16 << 10
	anonymousBytes = 128 << 10
	anonymousNodes = 8 << 10
)

// bounds are those of the body of a request, up to what the operator allows.
func (i *identified) bounds(most int) powerbox.Limits {
	h, limits := i.request.Header, powerbox.Limits{Bytes: most, Depth: maxDepth, Nodes: knownNodes}
	switch {
	case i.caller.Holder.ID != "" || i.caller.Principal != "" || i.mode == gate.Observe:
	case h.Get("Authorization") != "" || h.Get(HeaderCapability) != "" || h.Get(HeaderProof) != "":
		limits.Bytes, limits.Nodes = min(most, unprovenBytes), unprovenNodes
	default:
		limits.Bytes, limits.Nodes = min(most, anonymousBytes), anonymousNodes
	}
	return limits
}
