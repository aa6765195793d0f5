package attach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox/internal/hop"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/a2apb"
)

// Handler serves the clients beside us: below /agents/NAME what stands for the
// protected agent of that name, and, as an HTTP proxy, its own http URLs.
// Everything else is refused.
func (a *Attach) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/agents/{name}", a.reverse)
	mux.HandleFunc("/agents/{name}/{path...}", a.reverse)
	return a.guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodConnect:
			http.Error(w, "a tunnel cannot be signed in; use http://"+r.Host+"/agents/NAME, or an http URL", http.StatusMethodNotAllowed)
		case r.URL.IsAbs():
			a.forward(w, r)
		default:
			mux.ServeHTTP(w, r)
		}
	}))
}

// GRPC serves the gRPC of one peer, whose paths name no agent.
func (a *Attach) GRPC(name string) (http.Handler, error) {
	p, ok := a.peers[name]
	if !ok {
		return nil, errors.New("attach: there is no agent " + name)
	}
	return a.guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 || r.Method != http.MethodPost || !isGRPC(r.Header) {
			http.Error(w, "this address takes gRPC over HTTP/2 with protobuf", http.StatusUnsupportedMediaType)
			return
		}
		a.call(w, r, p, a2a.GRPC, r.URL.Path, "")
	})), nil
}

func isGRPC(h http.Header) bool {
	kind := h.Get("Content-Type")
	return kind == typeGRPC || kind == typeGRPC+"+proto"
}

// reverse serves what stands for a peer under our own address.
func (a *Attach) reverse(w http.ResponseWriter, r *http.Request) {
	p, ok := a.peers[r.PathValue("name")]
	if !ok {
		http.Error(w, "no such agent; known are "+strings.Join(a.names(), ", "), http.StatusNotFound)
		return
	}
	_, below, _ := strings.Cut(r.URL.EscapedPath()[len("/agents/"):], "/")
	a.below(w, r, p, "/"+below, "http://"+r.Host+"/agents/"+p.Name)
}

// below serves one path below a peer's URL. local is where its card is to lead,
// "" to leave it as it is.
func (a *Attach) below(w http.ResponseWriter, r *http.Request, p *peer, path, local string) {
	if skill, rest, ok := skillOf(path); ok {
		if at := a.skill(r.Context(), p, skill); at != nil {
			p, path = at, rest
			if local != "" {
				local += "/skills/" + url.PathEscape(skill)
			}
		}
	}
	switch {
	case r.Method == http.MethodGet && (path == wellKnown || path == wellKnown03):
		a.card(w, r, p, local)
	case path == "/" && r.Method == http.MethodPost:
		a.call(w, r, p, a2a.JSONRPC, "/", local)
	case path == "/":
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "calls of JSON-RPC come by POST", http.StatusMethodNotAllowed)
	default:
		a.call(w, r, p, a2a.HTTPJSON, path, local)
	}
}

// skillOf reads the path of a skill's URL, or of one below it.
func skillOf(path string) (skill, rest string, ok bool) {
	below, ok := strings.CutPrefix(path, "/skills/")
	if !ok {
		return "", "", false
	}
	segment, rest, _ := strings.Cut(below, "/")
	skill, err := url.PathUnescape(segment)
	return skill, "/" + rest, err == nil && skill != ""
}

// skill is a peer at the URL of one of its skills, which has its own card; nil where
// the peer's card has no such skill.
func (a *Attach) skill(ctx context.Context, p *peer, skill string) *peer {
	known, err := p.card.get(ctx)
	if err != nil || !slices.Contains(known.view.Skills, skill) {
		return nil
	}
	base := strings.TrimRight(p.card.base, "/") + "/skills/" + url.PathEscape(skill)
	at, _ := a.skills.LoadOrStore(p.Name+"\x00"+skill, &peer{p.Peer, &card{base: base, http: p.card.http, now: p.card.now}})
	return at.(*peer) //nolint:forcetypeassert // nothing else is stored there
}

// forward serves a request as an HTTP proxy gets it, with its whole URL.
func (a *Attach) forward(w http.ResponseWriter, r *http.Request) {
	for _, name := range a.names() {
		if path, ok := pathOf(r.URL, a.peers[name].Card); ok {
			a.below(w, r, a.peers[name], path, "")
			return
		}
	}
	// Its calls may go elsewhere than where its card is. A URL that two cards claim is of neither:
	// one of them would get the calls to the other (ATK-156).
	var of []*peer
	var below string
	for _, name := range a.names() {
		known, err := a.peers[name].card.get(r.Context())
		if err != nil {
			continue
		}
		if path, ok := pathOf(r.URL, known.agent.URL); ok {
			of, below = append(of, a.peers[name]), path
		}
	}
	switch len(of) {
	case 0:
	case 1:
		a.below(w, r, of[0], below, "")
		return
	default:
		http.Error(w, "the cards of "+of[0].Name+" and "+of[1].Name+" both claim this URL; call the agent at /agents/NAME of this process", http.StatusForbidden)
		return
	}
	http.Error(w, "this proxy leads to the configured agents alone, by http: "+strings.Join(a.names(), ", "), http.StatusForbidden)
}

// pathOf returns the path of a target below a peer's URL, and false where it is
// none of the peer's.
func pathOf(target *url.URL, base string) (string, bool) {
	u := *target
	u.RawQuery = ""
	path, ok := strings.CutPrefix(u.String(), strings.TrimRight(base, "/"))
	if !ok || u.Scheme != "http" || u.User != nil || path != "" && path[0] != '/' {
		return "", false
	}
	return "/" + strings.TrimPrefix(path, "/"), true
}

// card serves a peer's card.
func (a *Attach) card(w http.ResponseWriter, r *http.Request, p *peer, local string) {
	known, err := p.card.get(r.Context())
	raw := []byte(nil)
	if err == nil {
		raw = known.raw
		if local != "" {
			raw, err = a2a.RewriteCard(known.raw, a2a.Rewrite{PublicURL: local, GRPC: p.GRPC})
		}
	}
	if err != nil {
		a.config.Log.WarnContext(r.Context(), "no card to serve", "agent", p.Name, "error", err)
		http.Error(w, "the agent's card cannot be had now: "+err.Error(), http.StatusBadGateway)
		return
	}
	hop.ServeCard(w, r, raw)
}

// call signs one call of a peer and sends it on.
func (a *Attach) call(w http.ResponseWriter, r *http.Request, p *peer, b a2a.Binding, path, local string) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the body cannot be read, or has more than 16 MiB", http.StatusRequestEntityTooLarge)
		return
	}
	known, err := p.card.get(r.Context())
	if err != nil {
		say(w, a2a.Call{Binding: b}, denial(err))
		return
	}
	s := sent{binding: b, method: r.Method, path: path, query: r.URL.RawQuery, header: r.Header, body: body}
	o, wrong := read(p.Peer, known, s)
	o.call.Binding = b
	if wrong != nil {
		say(w, o.call, wrong.Denial())
		return
	}
	if d := a.alongPlans(r.Context(), o); d != nil {
		a.config.Log.WarnContext(r.Context(), "a call is not made", "agent", p.Name, "method", o.call.Wire, "error", d.Message)
		say(w, o.call, *d)
		return
	}
	h := r.Header.Clone()
	t, held, err := a.sign(r.Context(), h, o)
	if err != nil {
		a.config.Log.WarnContext(r.Context(), "a call is not made", "agent", p.Name, "method", o.call.Wire, "error", err)
		say(w, o.call, denial(err))
		return
	}
	a.config.Log.InfoContext(r.Context(), "call", "agent", p.Name, "method", o.call.Method.String(), "operation", o.proven.Operation, "capability", held.ID, "uncorrelated", t.restrict)
	a.pass(w, r, passed{
		target: o.target, header: h, body: body, call: o.call,
		answer: func(payload []byte) { t.learn(o, held, payload) },
		renew:  func(h http.Header) error { return a.signAgain(r.Context(), t, h, o, held) },
		card:   a2a.Rewrite{PublicURL: local, GRPC: p.GRPC},
	})
}

// passed is a request that continues, and the handling of its answer.
type passed struct {
	target *url.URL
	header http.Header
	body   []byte
	call   a2a.Call
	renew  func(http.Header) error // signs the same call again; nil if nothing was signed
	answer func(payload []byte)    // called with every answer or event before it is forwarded
	card   a2a.Rewrite             // where cards in answers are to lead; no PublicURL leaves them
}

// pass sends a request on and its answer back, as it comes.
func (a *Attach) pass(w http.ResponseWriter, r *http.Request, p passed) {
	transport := a.config.Transport
	if p.call.Binding == a2a.GRPC {
		transport = a.config.HTTP2
	}
	var proxy httputil.ReverseProxy
	proxy = httputil.ReverseProxy{
		Transport:     hop.Final(r.Context(), renewing{transport, a.config.Client, p}, nil),
		FlushInterval: -1, // events pass as they come
		Rewrite: func(out *httputil.ProxyRequest) {
			u := *p.target
			out.Out.URL, out.Out.Host = &u, u.Host
			out.Out.Header = p.header.Clone()
			// A compressed answer could not be read for the tasks in it.
			out.Out.Header.Set("Accept-Encoding", "identity")
			if p.call.Binding == a2a.GRPC {
				out.Out.Header.Set("Grpc-Accept-Encoding", "identity")
			}
			hop.Onward(out.Out, p.body, p.call.Binding == a2a.GRPC)
		},
		ModifyResponse: func(answer *http.Response) error {
			if err := p.leadsOn(answer); err != nil {
				return err
			}
			p.confine(answer.Header)
			err := look(answer, p)
			if answer.ContentLength == 0 {
				// Flushed alone, headers would not be the end any more, and gRPC
				// looks for a status there only where they are.
				proxy.FlushInterval = 0
			}
			return err
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			a.config.Log.WarnContext(r.Context(), "a call got no answer", "host", p.target.Host, "error", err)
			say(w, p.call, a2a.Denial{Code: a2a.CodeInternal, Reason: "outcome_unknown", Message: "no answer that can be passed on came back from " + p.target.Host})
		},
	}
	proxy.ServeHTTP(w, r)
}

// leadsOn refuses an answer that sends the client elsewhere. Its kit would repeat the call
// there without a proof. At another agent here, the call would be signed as the client's
// own (ATK-137). A gateway that calls the agent beside us decides that for its callers.
func (p passed) leadsOn(answer *http.Response) error {
	if p.renew == nil || answer.StatusCode < http.StatusMultipleChoices || answer.StatusCode >= http.StatusBadRequest {
		return nil
	}
	return fmt.Errorf("the agent sends its callers elsewhere (status %d)", answer.StatusCode)
}

// confine has cookies of an agent go to that agent alone. All agents are at our host, and a
// client would send a cookie of one to every other (ATK-158). A client that uses us as its
// proxy knows the agents' own hosts.
func (p passed) confine(h http.Header) {
	lines := h.Values("Set-Cookie")
	here, err := url.Parse(p.card.PublicURL)
	if len(lines) == 0 || err != nil || here.Host == "" {
		return
	}
	h.Del("Set-Cookie")
	for _, line := range lines {
		cookie, err := http.ParseSetCookie(line)
		if err != nil {
			continue
		}
		cookie.Domain, cookie.Path = "", here.EscapedPath()
		h.Add("Set-Cookie", cookie.String())
	}
}

// ofRequest returns a request without the headers of one connection alone (RFC 9110,
// section 7.6.1). They are taken off before anything is read. Otherwise a client could name
// a header by which the call is read, or one that is put on here, and the header would not arrive
// (ATK-130). No party would sign the contents of an upgraded connection.
func ofRequest(r *http.Request) *http.Request {
	h := r.Header
	out := h.Clone()
	for _, line := range h.Values("Connection") {
		for name := range strings.SplitSeq(line, ",") {
			out.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range []string{"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade"} {
		out.Del(name)
	}
	if strings.Contains(strings.ToLower(h.Get("Te")), "trailers") {
		out.Set("Te", "trailers") // gRPC wants them
	}
	r = r.WithContext(r.Context())
	r.Header = out
	return r
}

// say answers with a denial in the form that the binding's clients read.
func say(w http.ResponseWriter, call a2a.Call, d a2a.Denial) {
	h := w.Header()
	h.Set("Powerbox-Outcome", "denied")
	if d.DecisionID != "" {
		h.Set("Powerbox-Decision", d.DecisionID)
	}
	status, kind, body := http.StatusOK, typeJSON, []byte(nil)
	switch {
	case call.Binding == a2a.GRPC:
		kind = typeGRPC
		if err := a2apb.SetStatus(h, d.GRPC()); err != nil {
			h.Set("Grpc-Status", "7")
		}
	case call.Binding == a2a.HTTPJSON:
		status, body = d.HTTP()
	case call.Streaming:
		kind, body = typeEvents, d.Event(a2a.JSONRPC, call.ID)
	default:
		body = d.JSONRPC(call.ID)
	}
	h.Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(body) //nolint:gosec // JSON or protobuf, under its own type; a client that has gone needs no answer
}
