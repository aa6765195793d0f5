package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/a2a"
	"github.com/powerbox-project/powerbox/internal/hop"
)

// maxAnswer bounds what is held of one answer, or of one event of a stream, to
// learn the tasks in it.
const maxAnswer = 16 << 20

// pass forwards a call that was allowed and the answer to it.
func (g *Gateway) pass(w http.ResponseWriter, x *exchange) {
	if err := g.compose(x); err != nil {
		g.finish(x, notTheAgent(evidence.Failed))
		g.unavailable(w, x, "the message for the agent behind could not be made", err)
		return
	}
	if !g.replaced(w, x) {
		return
	}
	upstream, err := x.upstream()
	if err != nil {
		g.finish(x, notTheAgent(evidence.Failed))
		g.unavailable(w, x, "the agent's card names no usable URL", err)
		return
	}
	context, err := g.context(x)
	if err != nil {
		g.finish(x, notTheAgent(evidence.Failed))
		g.unavailable(w, x, "the context for the agent behind could not be signed", err)
		return
	}
	// Once a connection was had, the agent behind may have acted.
	var reached atomic.Bool
	request := g.named(x)
	proxy := httputil.ReverseProxy{
		Transport: hop.Final(request.Context(), timed{x.transport(), g, x.ID}, func() { reached.Store(true) }),
		// Events pass as they come, since ReverseProxy flushes what is a stream or
		// has no length; everything else is whole and goes out in one piece. What
		// is empty is not flushed: the status of gRPC would not be in its headers.
		BufferPool: pieces,
		Rewrite: func(r *httputil.ProxyRequest) {
			rewrite(r, x, upstream, context)
			g.config.Observer.Continue(r.Out.Context(), r.Out.Header)
		},
		ModifyResponse: func(r *http.Response) error { return g.answer(r, x) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" && !reached.Load() {
				g.finish(x, outcome{status: evidence.Failed})
				g.unavailable(w, x, "the agent behind cannot be reached", err)
				return
			}
			if drift := (*driftError)(nil); errors.As(err, &drift) {
				g.finish(x, outcome{status: evidence.Partial})
				g.deny(w, x, g.undeclared(x, drift))
				return
			}
			g.end(x)
			g.unknown(w, x, err)
		},
	}
	h := w.Header()
	h.Set(HeaderDecision, x.verdict.Record.ID)
	h.Set(HeaderOutcome, "forwarded")
	proxy.ServeHTTP(w, request)
}

// replaced puts into a call what the agent gets in the place of what came: its own
// token of a page, and our address for events. Where that fails the call is
// answered.
func (g *Gateway) replaced(w http.ResponseWriter, x *exchange) bool {
	message := "the list cannot be asked for"
	err := g.openPage(x)
	if err == nil {
		message = "the gateway cannot put itself in the place of the address for events"
		err = g.relay(x)
	}
	if err == nil {
		return true
	}
	g.finish(x, notTheAgent(evidence.Failed))
	d := a2a.Denial{Message: err.Error(), DecisionID: x.verdict.Record.ID, At: g.config.Now()}
	switch {
	case errors.Is(err, errPageToken):
		d.Code, d.Reason, d.At = a2a.CodeInvalidParams, codePageToken, time.Time{}
		g.deny(w, x, d)
	case errors.Is(err, errRelay):
		d.Reason = a2a.ReasonPush
		g.deny(w, x, d)
	default:
		g.unavailable(w, x, message, err)
	}
	return false
}

// pieceBytes is how much of an answer is copied at once.
const pieceBytes = 32 << 10

// pieces are the buffers that answers are copied through, kept for the next.
var pieces = &pieceBuffers{sync.Pool{New: func() any { return new([pieceBytes]byte) }}}

type pieceBuffers struct{ pool sync.Pool }

// Get implements [httputil.BufferPool].
func (p *pieceBuffers) Get() []byte { return p.pool.Get().(*[pieceBytes]byte)[:] }

// Put implements [httputil.BufferPool].
func (p *pieceBuffers) Put(b []byte) { p.pool.Put((*[pieceBytes]byte)(b)) }

// unknown answers where the agent behind may have done what it was asked, and
// nothing can be said about that. No outcome is recorded, so that evidence says
// the same.
func (g *Gateway) unknown(w http.ResponseWriter, x *exchange, err error) {
	g.config.Log.ErrorContext(x.request.Context(), "the outcome of a call is unknown", "agent", x.ID, "record", x.verdict.Record.ID, "error", err)
	d := a2a.Denial{
		Code: a2a.CodeInternal, Reason: codeOutcomeUnknown, DecisionID: x.verdict.Record.ID, Retryable: !x.writes(), At: g.config.Now(),
		Message: "the call went to the agent behind and no answer that can be passed on came back, so its outcome is unknown",
	}
	if !d.Retryable {
		d.Fix = "find out what became of it before it is repeated"
	}
	w.Header().Set(HeaderOutcome, "unknown")
	g.say(w, x, d)
}

// transport is the way to the agent behind: gRPC needs HTTP/2.
func (x *exchange) transport() http.RoundTripper {
	switch grpc := x.call.Binding == a2a.GRPC; {
	case x.unnamed && grpc:
		return unnamed{x.PublicHTTP2}
	case x.unnamed:
		return unnamed{x.Public}
	case grpc:
		return x.HTTP2
	default:
		return x.Transport
	}
}

// compose makes the message for an agent that does not know our methods.
// Everything else is forwarded as it was received.
func (g *Gateway) compose(x *exchange) error {
	if x.call.Method != a2a.SkillInvoke && x.call.Method != a2a.TaskSend {
		return nil
	}
	if len(x.view.card.Speaks(a2a.JSONRPC)) == 0 {
		return errors.New("the agent behind takes no JSON-RPC, in which this method reaches it")
	}
	if x.InvokeNative {
		return nil
	}
	id, err := g.config.Gate.NewID()
	if err != nil {
		return err
	}
	version := x.version()
	if x.call.Method == a2a.SkillInvoke {
		x.forward = a2a.Compose(*x.call.Invoke, x.call.ID, version, id)
		return nil
	}
	x.forward, err = a2a.ComposeTask(*x.call.TaskSend, x.call.ID, version, id)
	return err
}

// composed reports whether what goes on is a message that was made here.
func (x *exchange) composed() bool {
	return x.call.Method.IsExtension() && !bytes.Equal(x.forward, x.body)
}

// rewrite addresses the request to the agent behind, with the bytes that were
// checked, without the credentials that are ours, with the signed context.
func rewrite(r *httputil.ProxyRequest, x *exchange, upstream *url.URL, context string) {
	u := *upstream
	u.RawQuery = x.query(upstream.RawQuery)
	r.Out.URL, r.Out.Host = &u, u.Host
	// A compressed answer could not be read for the tasks in it.
	if x.call.Binding == a2a.GRPC {
		r.Out.Header.Set("Grpc-Accept-Encoding", "identity")
	}
	// Nothing in between may undo what the checked bytes say.
	hop.Onward(r.Out, x.forward, x.call.Binding == a2a.GRPC)
	h := r.Out.Header
	keepDecisive(h, r.In.Header)
	stripOurs(h)
	stripOwnCookies(h)
	if x.mode != gate.Observe {
		stripBelieved(h)
	}
	x.handOn(h)
	if scheme, _, _ := strings.Cut(h.Get("Authorization"), " "); x.consumed || !strings.EqualFold(scheme, "DPoP") {
		h.Del("DPoP") // another's belongs to another's token
	}
	// What an upgraded connection carries, nobody checks.
	h.Del("Connection")
	h.Del("Upgrade")
	if x.consumed {
		h.Del("Authorization")
	}
	h.Set("Accept-Encoding", "identity")
	if x.composed() {
		h.Set("A2A-Version", x.version())
		h.Set("Content-Type", "application/json")
	}
	h.Set(HeaderContext, context)
}

// query is that of the agent's card, with what the caller may add to it: in
// observe everything, otherwise the version, by which the call was read. What
// else is in there nobody checks.
// Where the query says what is asked for, it was read and is checked.
func (x *exchange) query(own string) string {
	added := x.request.URL.RawQuery
	if x.pageQuery != "" {
		added = x.pageQuery
	}
	if x.mode != gate.Observe && x.call.Binding != a2a.HTTPJSON {
		version := x.request.URL.Query().Get("A2A-Version")
		if added = ""; version != "" && x.request.Header.Get("A2A-Version") == "" && !x.composed() {
			added = url.Values{"A2A-Version": {version}}.Encode()
		}
	}
	if own != "" && added != "" {
		own += "&"
	}
	return own + added
}

// answer looks at an answer before it goes to the caller: the tasks in it
// become the caller's before the caller can know of them.
func (g *Gateway) answer(r *http.Response, x *exchange) error {
	h := r.Header
	stripOurs(h)
	stripOurs(r.Trailer) // what is announced; what comes is looked at when it has come
	contain(r)
	if err := x.contained(r); err != nil {
		return err
	}
	if x.call.Binding == a2a.MCP {
		return g.mcpAnswer(r, x)
	}
	g.activate(h, x)
	if x.call.Binding == a2a.GRPC {
		return g.grpcAnswer(r, x)
	}
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	if kind == typeEvents && x.call.Method == a2a.ListTasks && x.mode != gate.Observe {
		return errors.New("the answer to ListTasks is a stream, from which the tasks of others cannot be cut")
	}
	card := x.asksForCard()
	if kind == typeEvents && card {
		return errors.New("the answer to GetExtendedAgentCard is a stream, in which a card cannot be rewritten")
	}
	if kind == typeEvents {
		r.Body = g.stream(r, x)
		return nil
	}
	body, err := whole(r)
	if err != nil {
		return err
	}
	good := r.StatusCode < http.StatusBadRequest
	if good || x.call.Binding == a2a.JSONRPC {
		if body, err = g.learn(r, x, body); err != nil {
			return err
		}
		if card {
			// It would lead past the gateway, in every mode.
			if body, err = g.rewriteCard(x, body); err != nil {
				return err
			}
		}
	}
	if good {
		if body, err = g.restored(r, x, body); err != nil {
			return err
		}
	}
	became := outcomeOf(r, x, body)
	if became.status == evidence.Achieved {
		if err := g.behaved(x, body, false); err != nil {
			return err
		}
	}
	g.finish(x, became)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	r.ContentLength = int64(len(body))
	if stripOurs(r.Trailer); len(r.Trailer) > 0 {
		// Nothing comes behind a body whose length is told.
		h.Del("Content-Length")
		r.ContentLength = -1
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

// whole reads an answer to its end, within a limit.
func whole(r *http.Response) ([]byte, error) {
	body, err := readAll(io.LimitReader(r.Body, maxAnswer+1), r.ContentLength)
	if err != nil {
		return nil, err
	}
	_ = r.Body.Close() // it has been read to its end
	if len(body) > maxAnswer {
		return nil, errors.New("the answer is larger than 16 MiB")
	}
	return body, nil
}

// rewriteCard gives the card in an answer our URLs. In HTTP+JSON the answer is
// the card.
func (g *Gateway) rewriteCard(x *exchange, body []byte) ([]byte, error) {
	rewrite := func(card []byte) ([]byte, error) { return g.inFront(x.agent, x.skill, card) }
	if x.call.Binding == a2a.HTTPJSON {
		return rewrite(body)
	}
	return a2a.RewriteCardAnswer(body, rewrite)
}

// asksForCard reports whether the answer holds a card, also where the call
// could not be read to its end and observe let it through.
func (x *exchange) asksForCard() bool {
	m, _ := a2a.ParseMethod(x.call.Wire)
	route := x.call.Binding == a2a.HTTPJSON && x.request.Method == http.MethodGet && strings.HasSuffix(x.path, "/card") // of 0.3, whatever was said
	return m == a2a.GetExtendedCard || x.call.Method == a2a.GetExtendedCard || route
}

// activate echoes our extension where the caller asked for it (EXT-36) and the
// agent behind did not, under the name by which it was asked for: 0.3 has one of
// its own.
func (g *Gateway) activate(h http.Header, x *exchange) {
	for _, uri := range []string{a2a.ExtensionURI, a2a.AuthorizationURI} {
		if !slices.Contains(x.call.Extensions, uri) {
			continue
		}
		for _, name := range []string{"A2A-Extensions", "X-A2A-Extensions"} {
			asked := strings.Contains(strings.Join(x.request.Header.Values(name), ","), uri)
			if asked && !strings.Contains(strings.Join(h.Values(name), ","), uri) {
				h.Add(name, uri)
			}
		}
	}
}

// learn binds the tasks of a whole answer, and cuts foreign ones out of a list.
func (g *Gateway) learn(r *http.Response, x *exchange, body []byte) ([]byte, error) {
	ctx := x.request.Context()
	if x.call.Method == a2a.ListTasks {
		if x.mode == gate.Observe {
			return body, nil
		}
		if x.call.Binding == a2a.JSONRPC && a2a.IsError(body) {
			return body, nil
		}
		return g.page(r, x, body)
	}
	return body, g.bind(ctx, x, body)
}

// mine tells the tasks that belong to whoever makes the call.
func (g *Gateway) mine(ctx context.Context, x *exchange) func(a2a.TaskRef) bool {
	mine := g.ownerOf(x, x.verdict.Held)
	return func(t a2a.TaskRef) bool {
		o, known, err := g.config.Tasks.Owner(ctx, x.ID, x.call.Tenant, t.Task)
		return err == nil && known && o == mine && mine != Owner{}
	}
}

// bind remembers whose the tasks and contexts in an answer are. In which tenant those
// are of a call that could not be read, nobody knows, so that they stay nobody's.
func (g *Gateway) bind(ctx context.Context, x *exchange, payload []byte) error {
	if x.unread {
		return nil
	}
	tasks, ended := a2a.Told(payload)
	x.ended = append(x.ended, ended...)
	for _, t := range tasks {
		if x.begun == "" && x.call.Method.IsMessage() {
			x.begun = t.Task
		}
		for _, id := range []string{t.Task, t.Context} {
			if id == "" || id == x.call.Task || id == x.call.Context {
				continue
			}
			if _, err := g.config.Tasks.Bind(ctx, x.ID, x.call.Tenant, id, g.ownerOf(x, x.verdict.Held)); err != nil {
				return err
			}
		}
	}
	return nil
}

// end ends the capabilities of the tasks that the answer said have ended.
func (g *Gateway) end(x *exchange) {
	ctx := context.WithoutCancel(x.request.Context())
	for _, task := range x.ended {
		if err := g.config.Tasks.End(ctx, x.ID, x.call.Tenant, task); err != nil {
			g.config.Log.ErrorContext(ctx, "the capabilities of an ended task stay until they expire", "agent", x.ID, "error", err)
		}
	}
}
