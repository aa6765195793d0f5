package doors

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/powerbox-project/powerbox/internal/peer"
	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
	"github.com/powerbox-project/powerbox/internal/sorting"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/a2apb"
)

// Route names the agent for requests to a host and a path.
type Route struct {
	Host  string // without a port; "" for any
	Path  string // and everything below it
	Agent string
}

// question is a request as a proxy tells of it.
type question struct {
	method, host string
	target       string // path and query, as the proxy forwards them
	header       http.Header
	body         []byte
	from         string // address of the client, host:port; "" where the proxy tells it otherwise
	peer         *x509.Certificate
	setting      string // of the proxy, that makes it send bodies
}

// The denials that are about the proxy and not about the call. Nothing is decided then.
const (
	codeRoute   = "route_unknown"
	codeNotSent = "body_not_sent"
	codeCut     = "body_cut_short"
	codeTarget  = "path"
	codeUpgrade = "upgrade"
)

// headerPartial is how Envoy says that a body is not whole.
const headerPartial = "X-Envoy-Auth-Partial-Body"

// problem is why a question cannot be decided.
func problem(code, format string, args ...any) *a2a.Denial {
	return &a2a.Denial{Reason: code, Message: fmt.Sprintf(format, args...)}
}

// incomplete returns why the body of a question is not the one that the proxy forwards, nil
// where it is whole.
func (q *question) incomplete() *a2a.Denial {
	if slices.ContainsFunc(q.header.Values(headerPartial), func(v string) bool { return v != "false" }) {
		return problem(codeCut, "the proxy sent %d bytes of the body and cut the rest off; raise max_request_bytes of with_request_body and set allow_partial_message: false", len(q.body))
	}
	told := q.header.Values("Content-Length")
	for _, length := range told {
		n, err := strconv.ParseUint(length, 10, 63)
		switch {
		case err == nil && n == uint64(len(q.body)) && len(told) == 1:
			return nil
		case len(q.body) > 0:
			return problem(codeCut, "the proxy sent %d bytes of a body whose Content-Length is %.32q; %s", len(q.body), length, q.setting)
		default:
			return problem(codeNotSent, "the proxy did not send the body, which has to be decided on; %s", q.setting)
		}
	}
	bodied := q.method == http.MethodPost || q.method == http.MethodPut || q.method == http.MethodPatch || len(q.header.Values("Transfer-Encoding")) > 0
	if len(q.body) == 0 && bodied {
		return problem(codeNotSent, "the proxy did not send the body, which has to be decided on; %s", q.setting)
	}
	return nil
}

// routed returns the route of a question, and its path below it. Proxies find their own route
// after they decoded the path, some in any case. A path that could be of two routes is
// refused, or the proxy could forward to one agent a call that was decided for another.
func (d *Door) routed(q *question) (route *Route, below, query string, wrong *a2a.Denial) {
	path, query, _ := strings.Cut(q.target, "?")
	if !plain(path) || strings.Contains(query, "#") {
		return nil, "", "", problem(codeTarget, "proxies and agents resolve the path %.128q differently; send it without dot segments, empty segments, encoded separators and a fragment", path)
	}
	host := strings.ToLower(q.host)
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if strings.HasSuffix(host, ".") || strings.ContainsAny(host, ",@/ ") {
		return nil, "", "", problem(codeTarget, "proxies read the host %.128q differently; send one name, without a user and a dot at its end", q.host)
	}
	if route = d.route(host, path, plainly); route == nil {
		return nil, "", "", problem(codeRoute, "no route of the door %s has the host %.128q and the path %.128q; add it to doors.routes", d.Name, q.host, path)
	}
	if d.route(host, path, freely) != route {
		return nil, "", "", problem(codeTarget, "proxies that decode a path, or ignore its case, take %.128q for one of another route; send it as it is in doors.routes", path)
	}
	return route, path[len(strings.TrimSuffix(route.Path, "/")):], query, nil
}

// route returns the first route of a host and a path, nil for none. read says how a path is
// read.
func (d *Door) route(host, path string, read func(string) string) *Route {
	path = read(path)
	for i := range d.Routes {
		r := &d.Routes[i]
		rest, under := strings.CutPrefix(path, read(strings.TrimSuffix(r.Path, "/")))
		if under && (rest == "" || rest[0] == '/') && (r.Host == "" || r.Host == host) {
			return r
		}
	}
	return nil
}

// plainly reads a path as it is, and freely as the most lenient proxy does.
func plainly(path string) string { return path }

func freely(path string) string {
	if decoded, err := url.PathUnescape(path); err == nil {
		path = decoded
	}
	return strings.ToLower(path)
}

// inOrder sorts routes so that the first that matches counts: those of a host before those
// of any, and longer paths before shorter ones.
func inOrder(routes []Route) []Route {
	routes = slices.Clone(routes)
	sorting.Stable(routes, func(a, b Route) int {
		return cmp.Or(cmp.Compare(min(len(b.Host), 1), min(len(a.Host), 1)), cmp.Compare(len(b.Path), len(a.Path)))
	})
	return routes
}

// plain reports whether all readers resolve a path to itself.
func plain(path string) bool {
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "\\#") {
		return false
	}
	segments := strings.Split(path[1:], "/")
	for i, s := range segments {
		u, err := url.PathUnescape(s)
		if err != nil || u == "." || u == ".." || u == "" && i < len(segments)-1 || strings.ContainsAny(u, "/\\;\x00") {
			return false
		}
	}
	return true
}

// asked makes the request to the gateway of a question.
func (d *Door) asked(ctx context.Context, q *question) (*http.Request, *Route, *a2a.Denial) {
	route, below, query, wrong := d.routed(q)
	if wrong == nil {
		wrong = q.incomplete()
	}
	if wrong != nil {
		return nil, nil, wrong
	}
	if query != "" {
		query = "?" + query
	}
	path := "/agents/" + route.Agent + below
	if isGRPC(q.header) { // names no agent
		path, _, _ = strings.Cut(q.target, "?")
	}
	r, err := http.NewRequestWithContext(ctx, q.method, path+query, bytes.NewReader(q.body))
	if err != nil {
		return nil, nil, problem(codeTarget, "the proxy tells of a request that is none: its method or path is malformed")
	}
	r.Body, r.Host, r.Header, r.RequestURI = io.NopCloser(bytes.NewReader(q.body)), q.host, q.header, r.URL.RequestURI()
	for name := range r.Header { // the proxy's, about the body that is here
		if name == headerPartial || name == "Content-Length" || name == "Transfer-Encoding" {
			delete(r.Header, name)
		}
	}
	if isGRPC(q.header) {
		r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/2.0", 2, 0
		if r.URL.Path != path {
			return nil, nil, problem(codeTarget, "the path of a method of gRPC has no encoded characters")
		}
	}
	if q.from != "" {
		r = peer.Told(r, q.from)
	}
	if q.peer != nil {
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{q.peer}, VerifiedChains: [][]*x509.Certificate{{q.peer}}}
	}
	return r, route, nil
}

// isGRPC reports whether a request says that it is of gRPC, in any of its forms. The
// gateway takes one of them.
func isGRPC(h http.Header) bool {
	return slices.ContainsFunc(h.Values("Content-Type"), func(kind string) bool {
		return strings.HasPrefix(strings.ToLower(strings.TrimSpace(kind)), typeGRPC)
	})
}

const typeGRPC = "application/grpc"

// answered words a denial of the door as the gateway words its own.
func answered(q *question, d *a2a.Denial) gateway.Advice {
	h := http.Header{}
	h.Set(gateway.HeaderOutcome, "denied")
	h.Set(gateway.HeaderReason, d.Reason)
	if isGRPC(q.header) {
		h.Set("Content-Type", typeGRPC)
		if err := a2apb.SetStatus(h, d.GRPC()); err != nil {
			h.Set("Grpc-Status", "7") // without its details
		}
		return gateway.Advice{Status: http.StatusOK, Header: h}
	}
	h.Set("Content-Type", "application/json")
	id, _ := a2a.Glance(q.body)
	return gateway.Advice{Status: http.StatusForbidden, Header: h, Body: d.JSONRPC(id)}
}
