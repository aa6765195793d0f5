package gateway

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// pathBelow returns the path below the agent's URL, or below that of its skill,
// as it was sent: an encoded slash is not one.
func pathBelow(r *http.Request, skill string) string {
	above := 2 // agents, and the agent
	if skill != "" {
		above += 2
	}
	rest := r.URL.EscapedPath()
	for range above {
		_, rest, _ = strings.Cut(rest[1:], "/")
		rest = "/" + rest
	}
	return rest
}

// header collects what an A2A client says beside the body. The version may
// come as a query parameter; two versions are none that is supported.
func header(r *http.Request) a2a.Header {
	versions := append(r.Header.Values("A2A-Version"), r.URL.Query()["A2A-Version"]...)
	version := strings.Join(slices.Compact(versions), ", ")
	return a2a.Header{
		Version:    version,
		Extensions: append(r.Header.Values("A2A-Extensions"), r.Header.Values("X-A2A-Extensions")...),
	}
}

// maxDepth is how deep a body is nested at the most.
const maxDepth = 64

// decode reads the body and the one call in it. A request that goes no further is
// answered here.
func (g *Gateway) decode(w http.ResponseWriter, i *identified) (x *decoded, ok bool) {
	limits := g.bounds(i)
	body, status, err := readBody(i.request, limits.Bytes)
	if err != nil {
		g.unreadable(w, i.unread(nil, false), status, err)
		return nil, false
	}
	view, err := i.agent.view(i.request.Context())
	if err != nil {
		g.unavailable(w, g.of(i, body), "the agent behind cannot be reached", err)
		return nil, false
	}
	if len(view.card.Speaks(i.binding)) == 0 && i.binding != a2a.JSONRPC {
		g.unoffered(w, i.unread(nil, false))
		return nil, false
	}
	if !g.enter(w, i, body) {
		return nil, false
	}
	// In observe what HTTP can carry is carried; everywhere else what cannot be
	// read is refused with the protocol's own error.
	noCallStatus, noCall := i.noCall()
	x = &decoded{identified: i, view: view, mode: i.mode, body: body, proof: body, call: a2a.Call{Binding: i.binding}, wrong: a2a.NoCall(noCall)}
	if noCall == nil {
		bindingOf(x.binding).decode(x, limits)
	}
	i.notes.decoded = x
	if g.leaving(w, x) {
		return nil, false
	}
	mode, err := g.modeNow(i.request.Context(), x, x.wrong == nil)
	if err != nil {
		g.unavailable(w, x, "the mode of the agent cannot be told", err)
		return nil, false
	}
	x.mode = mode
	if g.undecodable(w, x, noCallStatus, noCall) {
		return nil, false
	}
	return x, true
}

// of is the stage for an answer to a request whose body was read, and no more.
func (g *Gateway) of(i *identified, body []byte) *decoded {
	if !bindingOf(i.binding).hasID() {
		return i.unread(nil, false)
	}
	id, method := a2a.Glance(body)
	x := i.unread(id, method.Streams())
	x.call.Method = method
	return x
}

// undecodable answers a request of which no call could be made, and reports whether it
// was one.
func (g *Gateway) undecodable(w http.ResponseWriter, x *decoded, status int, noCall error) bool {
	if x.unproven != nil && (x.mode != gate.Observe || x.call.Method.IsExtension()) {
		g.unauthenticated(w, x, x.unproven)
		return true
	}
	if x.mode != gate.Observe {
		if noCall != nil {
			g.unreadable(w, x, status, noCall)
			return true
		}
		if wrong := a2a.CheckType(x.binding, x.request.Header.Values("Content-Type"), len(x.body) == 0); wrong != nil {
			g.unreadable(w, x, http.StatusUnsupportedMediaType, wrong)
			return true
		}
	}
	// A path that servers read differently could lead out of the agent's URL.
	if x.wrong != nil && (x.mode != gate.Observe || x.call.Method.IsExtension() || x.wrong.Reason == a2a.ReasonPath) {
		g.malformed(w, x, x.wrong)
		return true
	}
	return false
}

// target is the URL that a proof must name: the agent's public URL, with the
// skill where the URL names one, and what the binding has below it.
func (x *decoded) target() string {
	target := x.URL
	if x.skill != "" {
		target += "/skills/" + x.skill
	}
	return target + x.by().below(x)
}

// addressed returns the request under the URL that its client means. That of
// gRPC is, for proofs, below the agent's own, since its address says no more than
// a port: a proof for one agent must be useless at another.
func (x *received) addressed() *http.Request {
	if x.binding != a2a.GRPC {
		return x.request
	}
	r := *x.request
	if own, err := url.Parse(x.URL); err == nil {
		r.URL = own.JoinPath(r.URL.Path)
	}
	return &r
}

// asked is the version that the call names itself, "" where it names none.
func (x *decoded) asked() string {
	if x.call.Binding != a2a.GRPC && header(x.request).Version == "" {
		return ""
	}
	return x.call.Version
}

// unspoken implements [custom].
func (ofA2A) unspoken(x *decoded) *a2a.Error {
	if uri := x.unasked(); uri != "" {
		return &a2a.Error{
			Code: a2a.CodeExtensionRequired, Reason: a2a.ReasonExtension,
			Message: "this agent is called with the extension " + uri + " alone; name it in A2A-Extensions",
		}
	}
	if x.tenantIn03() {
		return &a2a.Error{
			Code: a2a.CodeInvalidParams, Reason: a2a.ReasonTask,
			Message: "the call names a tenant, which A2A 0.3 does not have, and is sent on as 0.3; leave the tenant out, or send A2A-Version 1.0 where the agent speaks it",
		}
	}
	if x.call.Method.IsExtension() {
		return nil // it becomes a message that the agent speaks
	}
	if _, ok := x.behind(); ok {
		return nil
	}
	spoken := x.view.card.Speaks(x.call.Binding)
	if len(spoken) == 0 {
		return a2a.MethodNotFound(x.call.Binding, x.call.Wire)
	}
	return &a2a.Error{
		Code: a2a.CodeVersionNotSupported, Reason: a2a.ReasonVersion,
		Message: fmt.Sprintf("this agent does not speak A2A %s by %s; send A2A-Version %s", x.call.Version, x.call.Binding, strings.Join(spoken, " or ")),
	}
}

// tenantIn03 reports whether a call that names a tenant continues by 0.3: the agent reads
// none there, and answers with what has the same id in none (ATK-18).
func (x *decoded) tenantIn03() bool {
	switch {
	case x.call.Tenant == "":
		return false
	case x.call.Method.IsExtension():
		return x.version() == a2a.Version03
	}
	at, ok := x.behind()
	return ok && strings.HasPrefix(at.Version, a2a.Version03)
}

// unasked is an extension that callers must ask for and this one does not, ""
// where there is none (EXT-36, EXT-42). A method of our extension is how its callers
// ask for it; of the other one it says nothing.
func (x *decoded) unasked() string {
	if x.NeedsExtension && !x.call.Method.IsExtension() && !slices.Contains(x.call.Extensions, a2a.ExtensionURI) {
		return a2a.ExtensionURI
	}
	if x.Scopes.Evidence && !slices.Contains(x.call.Extensions, a2a.AuthorizationURI) {
		return a2a.AuthorizationURI
	}
	return ""
}

// behind returns where the agent takes calls of this binding, version and tenant. A
// call that does not say its version goes where the agent prefers.
func (x *decoded) behind() (a2a.Interface, bool) {
	card := x.view.card
	if at, ok := card.Interface(x.call.Binding, x.call.Version, x.call.Tenant); ok {
		return at, true
	}
	if x.asked() == "" || x.mode == gate.Observe {
		at, ok := card.Interface(x.call.Binding, "", x.call.Tenant)
		if x.mode != gate.Observe && x.call.Binding == a2a.HTTPJSON && strings.HasPrefix(strings.ToLower(x.path), "/v1/") {
			return a2a.Interface{}, false // it is where 0.3 has its paths, and a tenant to readers of another version (ATK-18)
		}
		return at, ok
	}
	return a2a.Interface{}, false
}

// upstream is the URL of the agent behind to which the call goes. unnamed says that the
// agent's card names its host, and no operator did.
func (x *decided) upstream() (u *url.URL, unnamed bool, err error) {
	if x.Local {
		return nil, false, errors.New("the agent is inside a program of its own; nothing is forwarded to it")
	}
	if u, err = x.addressBehind(); err != nil {
		return nil, false, err
	}
	if x.Encrypted && u.Scheme != "https" {
		return nil, false, errors.New("the agent's card names a URL without TLS, and agents.tls demands TLS")
	}
	return u, !x.isNamedHost(u), nil
}

// thisMachine stands for every host that means the machine that the gateway runs on.
const thisMachine = "localhost"

// Names reports whether an operator named the host of a URL for an agent, so that
// the agent's card may lead calls there wherever it is.
func (a Agent) Names(u *url.URL) bool {
	return (&agent{Agent: a, hosts: namedHosts(a.Upstream, a.GRPCUpstream)}).isNamedHost(u)
}

// isNamedHost reports whether an operator wrote the host of a URL.
func (a *agent) isNamedHost(u *url.URL) bool {
	host := u.Hostname()
	return a.hosts[host] || a.hosts[sameHost(host)] || slices.ContainsFunc(a.UpstreamHosts, func(pattern string) bool { return matchesHost(pattern, host) })
}

// namedHosts are the hosts of the URLs that an operator wrote, as they are written and
// in one spelling.
func namedHosts(urls ...string) map[string]bool {
	hosts := map[string]bool{}
	for _, text := range urls {
		if u, err := url.Parse(text); err == nil && u.Host != "" {
			hosts[u.Hostname()], hosts[sameHost(u.Hostname())] = true, true
		}
	}
	return hosts
}

// sameHost is a host in one spelling.
func sameHost(host string) string {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	ip := net.ParseIP(host)
	switch {
	case ip == nil:
		return host
	case ip.IsLoopback():
		return thisMachine
	default:
		return ip.String()
	}
}

// unnamed is the way to a host that the agent's card names and no operator did:
// anyone who writes the card must not have the gateway call where only the gateway can
// (ATK-15). A name is looked up as it is dialled, so that it cannot become another
// address in between.
type unnamed struct{ public http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (u unnamed) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := u.public.RoundTrip(r)
	if err != nil {
		err = fmt.Errorf("the agent's card names a host that is neither its upstream's nor in agents.upstream_hosts, to which calls go on public addresses alone: %w", err)
	}
	return response, err
}

// addressBehind is the URL that the agent's card names for the call.
func (x *decoded) addressBehind() (*url.URL, error) {
	at, ok := x.behind()
	if !ok {
		return nil, fmt.Errorf("the agent has no interface for %s", x.call.Binding)
	}
	return x.by().behind(x, at)
}

// pathBehind is the path of HTTP+JSON as the agent gets it.
func (x *decoded) pathBehind() string {
	if x.mode == gate.Observe {
		return x.path
	}
	return x.call.Written.Path
}

func usable(u *url.URL, err error) (*url.URL, error) {
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the agent's card names no usable URL")
	}
	return u, nil
}

// grpcURL makes a URL of what a card names for gRPC, which is host:port. Beyond
// this machine TLS is spoken, unless the operator names a URL without it.
func grpcURL(named, configured string, encrypted bool) (*url.URL, error) {
	if configured != "" {
		named = configured
	}
	if strings.Contains(named, "://") {
		u, err := url.Parse(named)
		return usable(u, err)
	}
	host, _, err := net.SplitHostPort(named)
	if err != nil {
		return nil, errors.New("the agent's card names no usable address for gRPC")
	}
	scheme := "https"
	if ip := net.ParseIP(host); !encrypted && (host == "localhost" || ip != nil && ip.IsLoopback()) {
		scheme = "http"
	}
	return usable(&url.URL{Scheme: scheme, Host: named}, nil)
}

// version is the protocol version in which we compose messages for the agent
// behind.
func (x *decoded) version() string {
	if slices.Contains(x.view.card.Speaks(a2a.JSONRPC), a2a.Version1) {
		return a2a.Version1
	}
	return a2a.Version03
}

// writes reports whether the call may have changed something. Anything that is not
// known to read may.
func (x *decided) writes() bool { return x.by().changes(x.decoded, &x.attempted) }

// changes implements [meaning].
func (ofA2A) changes(x *decoded, tried *attempted) bool {
	switch x.call.Method {
	case a2a.GetTask, a2a.ListTasks, a2a.SubscribeToTask, a2a.GetPushConfig, a2a.ListPushConfigs, a2a.GetExtendedCard:
		return false
	case a2a.SendMessage, a2a.SendStreamingMessage, a2a.SkillInvoke, a2a.TaskSend:
		return !tried.isNamed || tried.mapped.Write || x.call.Message.Loose
	default:
		return true
	}
}
