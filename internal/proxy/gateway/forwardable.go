package gateway

import (
	"bytes"
	"context"
	"errors"
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

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/hop"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// maxAnswer bounds the memory for one answer, or for one event of a stream, to
// learn the tasks in it.
const maxAnswer = 16 << 20

// answerLimits bound an answer that is read. Agents are trusted with more than callers.
var answerLimits = powerbox.Limits{Bytes: maxAnswer, Depth: maxDepth, Nodes: 1 << 20}

// extras are the parts of a call beside the decided ones.
type extras struct {
	list      ownList
	delegated []Delegated
}

// forwardable makes what goes to the agent of a decided call. It is the only place that
// does.
func (g *Gateway) forwardable(x *decided, e extras) (*forwardable, error) {
	f := &forwardable{decided: x, own: e.list.tasks, method: x.request.Method, person: g.ownerOf(x.decoded, x.verdict.Held).Principal}
	steps := []struct {
		what string
		make func() error
	}{
		{"the message for the agent behind could not be made", func() error { return g.compose(f) }},
		{"the list cannot be asked for", func() error { return g.openPage(f, e.list.restart) }},
		{"the gateway cannot put itself in the place of the address for events", func() error { return g.relay(f) }},
		{"the agent's card names no usable URL", func() (err error) { f.url, f.unnamed, err = x.upstream(); return err }},
		{"the context for the agent behind could not be signed", func() error { return g.address(f, e.delegated) }},
	}
	for _, step := range steps {
		if err := step.make(); err != nil {
			return nil, &unforwardable{step.what, err}
		}
	}
	return f, nil
}

// unforwardable is a call that was allowed and of which nothing can be made that continues.
type unforwardable struct {
	what string
	err  error
}

func (u *unforwardable) Error() string { return u.what + ": " + u.err.Error() }

func (u *unforwardable) Unwrap() error { return u.err }

// unmade answers a call of which nothing could be made that continues.
func (g *Gateway) unmade(w http.ResponseWriter, x *decided, err error) {
	g.conclude(w, x, notTheAgent(evidence.Failed), func(x *concluded) { g.sayUnmade(w, x, err) })
}

func (g *Gateway) sayUnmade(w http.ResponseWriter, x *concluded, err error) {
	d := a2a.Denial{Message: err.Error(), DecisionID: x.verdict.Record.ID, At: g.config.Now()}
	var why *unforwardable
	switch {
	case errors.Is(err, errPageToken):
		d.Code, d.Reason, d.At, d.Message = a2a.CodeInvalidParams, codePageToken, time.Time{}, errPageToken.Error()
		g.deny(w, x, d)
	case errors.Is(err, errRelay):
		d.Reason, d.Message = a2a.ReasonPush, errRelay.Error()
		g.deny(w, x, d)
	case errors.As(err, &why):
		g.unavailable(w, x, why.what, why.err)
	default:
		g.unavailable(w, x, "the call cannot be sent on", err)
	}
}

// pass forwards a call that was allowed and the answer to it.
func (g *Gateway) pass(w http.ResponseWriter, x *decided, e extras) {
	if x.carries != nil {
		g.advise(w, x, e)
		return
	}
	f, err := g.forwardable(x, e)
	if err != nil {
		g.unmade(w, x, err)
		return
	}
	// Once a connection was had, the agent behind may have acted.
	var reached atomic.Bool
	request := f.plain(g.named(x))
	proxy := httputil.ReverseProxy{
		Transport: hop.Final(request.Context(), timed{g.transport(f), g, x.ID}, func() { reached.Store(true) }),
		// Events pass as they come, since ReverseProxy flushes streams and answers without
		// a length; everything else is whole and goes out in one piece. What
		// is empty is not flushed: the status of gRPC would not be in its headers.
		BufferPool: pieces,
		Rewrite: func(r *httputil.ProxyRequest) {
			f.put(r)
			g.config.Observer.Continue(r.Out.Context(), r.Out.Header)
		},
		ModifyResponse: func(r *http.Response) error { return g.answer(r, f) },
		ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, err error) { g.unanswered(w, x, err, reached.Load()) },
	}
	h := w.Header()
	h.Set(HeaderDecision, x.verdict.Record.ID)
	h.Set(HeaderOutcome, "forwarded")
	proxy.ServeHTTP(w, request)
}

// unanswered answers a call whose answer cannot be passed on.
func (g *Gateway) unanswered(w http.ResponseWriter, x *decided, err error, reached bool) {
	var dial *net.OpError
	var drift *driftError
	var ended *endedError
	switch {
	case errors.Is(err, errUnrecorded):
		g.unrecorded(w, x)
	case errors.As(err, &dial) && dial.Op == "dial" && !reached:
		g.noInterface(x)
		g.conclude(w, x, outcome{status: evidence.Failed}, func(x *concluded) { g.unavailable(w, x, "the agent behind cannot be reached", err) })
	case errors.As(err, &drift):
		g.concludeDenied(w, x, outcome{status: evidence.Partial}, g.undeclared(x, drift))
	case errors.Is(err, errTaken):
		g.taken(w, x)
	case errors.As(err, &ended):
		g.concludeDenied(w, x, notTheAgent(evidence.Failed), g.because(x, ended.why))
	case isCredential(err):
		g.withoutCredential(w, x, err)
	case errors.Is(err, errTooMany):
		g.concludeDenied(w, x, notTheAgent(evidence.Failed), a2a.Denial{
			Code: a2a.CodeInvalidParams, Reason: codeTooMany, DecisionID: x.verdict.Record.ID, Message: errTooMany.Error() + "; name a context, or ask for a task by its id",
		})
	default:
		g.end(x)
		g.unknown(w, x, err)
	}
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

// transport is the way to the agent behind, which adds the operator's credential. gRPC
// needs HTTP/2.
func (g *Gateway) transport(x *forwardable) http.RoundTripper {
	way := x.wayOut()
	switch {
	case x.Credential == nil:
		return way
	case x.unnamed, strings.HasPrefix(x.Upstream, "https://") && x.url.Scheme != "https":
		return refusing{errUnnamedCredential}
	}
	return x.Credential.Transport(unended{way, func() error { return g.still(x.decided) }}, x.person)
}

// unended is a way that a call goes only while its verdict holds. Getting the operator's
// credential takes up to ten seconds, in which its capability can be revoked (ATK-143).
type unended struct {
	http.RoundTripper
	still func() error
}

// RoundTrip implements [http.RoundTripper].
func (u unended) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := u.still(); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // which is in memory
		}
		return nil, err
	}
	return u.RoundTripper.RoundTrip(r)
}

func (x *forwardable) wayOut() http.RoundTripper {
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

// compose makes the body: in observe the bytes that came, otherwise those that the call
// was read from, without the credentials in them; and for an agent that does not know our
// methods a message.
func (g *Gateway) compose(f *forwardable) (err error) {
	if f.isComposed() {
		return g.composeMessage(f)
	}
	if f.mode == gate.Observe {
		f.body = f.decoded.body
		return nil
	}
	f.body, err = bindingOf(f.binding).compose(f.decoded)
	return err
}

// isComposed reports whether what continues is a message that is made here.
func (x *decoded) isComposed() bool {
	return (x.call.Method == a2a.SkillInvoke || x.call.Method == a2a.TaskSend) && !x.InvokeNative
}

func (g *Gateway) composeMessage(f *forwardable) error {
	if len(f.view.card.Speaks(a2a.JSONRPC)) == 0 {
		return errors.New("the agent behind takes no JSON-RPC, in which this method reaches it")
	}
	id, err := g.config.Gate.NewID()
	if err != nil {
		return err
	}
	version := f.version()
	if f.call.Method == a2a.SkillInvoke {
		f.body = a2a.Compose(*f.call.Invoke, f.call.ID, version, id)
		return nil
	}
	f.body, err = a2a.ComposeTask(*f.call.TaskSend, f.call.ID, version, id)
	return err
}

// address says where the call goes, and with which headers.
func (g *Gateway) address(f *forwardable, delegated []Delegated) error {
	f.added, f.query = f.queryAdded(), f.queryBehind()
	f.header = http.Header{}
	if f.mode != gate.Observe {
		f.header = f.allowedHeader()
	}
	h := f.header
	if err := g.sign(h, f.decided, delegated, f.body); err != nil {
		return err
	}
	// A compressed answer could not be read for the tasks in it.
	h.Set("Accept-Encoding", "identity")
	if f.binding == a2a.GRPC {
		h.Set("Grpc-Accept-Encoding", "identity")
	}
	if f.isComposed() {
		h.Set("A2A-Version", f.version())
		h.Set("Content-Type", typeJSON)
	}
	f.handOn(h)
	return nil
}

// plain is the request as httputil's proxy gets it: without headers where [forwardable.put]
// sets all of them, since the proxy would copy and clean those that came.
func (x *forwardable) plain(r *http.Request) *http.Request {
	if x.mode == gate.Observe {
		return r
	}
	r = r.WithContext(r.Context())
	r.Header = nil
	return r
}

// put makes the request to the agent what the call says.
func (x *forwardable) put(r *httputil.ProxyRequest) {
	u := *x.url
	u.RawQuery = x.query
	r.Out.URL, r.Out.Host, r.Out.Method = &u, u.Host, x.method
	grpc := x.binding == a2a.GRPC
	if x.mode != gate.Observe {
		alone := !grpc && hop.Alone(x.request, x.body) // by the headers that came
		r.Out.Header = x.header.Clone()
		hop.Onward(r.Out, x.body, grpc)
		r.Out.Close = r.Out.Close || alone
		return
	}
	// Nothing in between may undo what the bytes say.
	hop.Onward(r.Out, x.body, grpc)
	h := r.Out.Header
	keepDecisive(h, r.In.Header)
	stripOurs(h)
	stripOwnCookies(h)
	if x.strayProof(h) {
		h.Del("DPoP") // another's belongs to another's token
	}
	// The contents of an upgraded connection are not checked.
	h.Del("Connection")
	h.Del("Upgrade")
	if x.consumed {
		h.Del("Authorization")
	}
	for name, values := range x.header {
		h[name] = values
	}
}

// strayProof reports whether a proof of DPoP in the headers belongs to no token that goes
// on.
func (x *identified) strayProof(h http.Header) bool {
	scheme, _, _ := strings.Cut(h.Get("Authorization"), " ")
	return x.consumed || !strings.EqualFold(scheme, "DPoP")
}

// queryBehind is that of the agent's card, with what the caller may add to it: in
// observe everything, and otherwise the parameters by which the call was read.
func (x *forwardable) queryBehind() string {
	own, added := x.url.RawQuery, x.queryAdded()
	if own != "" && added != "" {
		own += "&"
	}
	return own + added
}

// queryAdded is the part of the query that the caller adds.
func (x *forwardable) queryAdded() string {
	switch {
	case x.query != "":
		return x.query // of another page
	case x.mode == gate.Observe:
		return x.request.URL.RawQuery
	}
	return x.queryDecided()
}

// queryDecided is the query by which the call was read.
func (x *decoded) queryDecided() string {
	if x.binding == a2a.HTTPJSON {
		return x.call.Written.Query
	}
	version := x.request.URL.Query().Get("A2A-Version")
	if version == "" || x.request.Header.Get("A2A-Version") != "" || x.isComposed() {
		return ""
	}
	return url.Values{"A2A-Version": {version}}.Encode()
}

// answer looks at an answer before it goes to the caller: the tasks in it
// become the caller's before the caller can know of them.
func (g *Gateway) answer(r *http.Response, x *forwardable) error {
	h := r.Header
	stripOurs(h)
	stripOurs(r.Trailer) // the announced ones; the received ones are checked later
	if r.StatusCode < http.StatusOK {
		return errSwitched
	}
	contain(r)
	if err := x.contained(r); err != nil {
		return err
	}
	return x.by().answer(g, r, x)
}

// a2aAnswer looks at an answer of A2A in JSON.
func (g *Gateway) a2aAnswer(r *http.Response, x *forwardable) error {
	h := r.Header
	kind, _ := kindOf(h.Get("Content-Type"))
	card := x.asksForCard()
	if x.inEvents(kind) {
		return g.answerStream(r, x, card)
	}
	body, err := whole(r)
	if err != nil {
		return err
	}
	good := r.StatusCode < http.StatusBadRequest
	said := a2a.ReadResponse(body)
	if good || x.call.Binding == a2a.JSONRPC {
		if judged(r, body) {
			if err := x.oneAnswer(r, said, body); err != nil {
				return err
			}
			x.asReadWhole(r, body)
		}
		if body, err = g.learn(r, x, said, body); err != nil {
			return err
		}
		if card {
			// It would lead past the gateway, in every mode.
			if body, err = g.rewriteCard(x.decided, body); err != nil {
				return err
			}
		}
	}
	if good {
		if body, err = g.restored(r, x.decided, body); err != nil {
			return err
		}
	}
	became := outcomeOf(r, x.decoded, said, body)
	code, refused := said.Error()
	if x.call.Binding == a2a.HTTPJSON {
		code, refused = a2a.HTTPRefusal(r.StatusCode, body, x.call.Task != "")
	}
	g.unserved(x.decided, code, refused)
	if became.status == evidence.Achieved {
		if err := g.behaved(x.decided, body, false); err != nil {
			return err
		}
		if err := g.earn(x.decided, body); err != nil {
			return err
		}
	}
	done, err := g.finish(x, became)
	if err != nil {
		return err
	}
	if good {
		body = g.receipted(done, h, body)
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	done.body(r, body)
	trailersLast(r)
	return nil
}

// oneReading returns why clients may take an answer or an event for different ones. Of a
// method that only configuration knows, nothing is read.
func (x *decoded) oneReading(said a2a.Response, payload []byte) error {
	if x.mode == gate.Observe || x.isUnread() || x.call.Binding == a2a.GRPC {
		return nil // see oneMessage
	}
	if x.call.Binding == a2a.JSONRPC {
		return said.OneResponse(x.call.ID)
	}
	if text := bytes.TrimLeft(payload, " \t\r\n\uFEFF"); len(text) == 0 || text[0] != '{' {
		return nil // such as a list of push configurations
	}
	return said.OneReading()
}

// trailersLast has trailers come behind a body: nothing comes behind one whose length is told.
func trailersLast(r *http.Response) {
	if stripOurs(r.Trailer); len(r.Trailer) > 0 {
		r.Header.Del("Content-Length")
		r.ContentLength = -1
	}
}

// answerStream has an answer continue that is a stream of events.
func (g *Gateway) answerStream(r *http.Response, x *forwardable, card bool) error {
	if card {
		return errors.New("the answer to GetExtendedAgentCard is a stream, in which a card cannot be rewritten")
	}
	r.Body = g.receiptedStream(g.stream(r, x.decided))
	return nil
}

// rewriteCard gives the card in an answer our URLs. In HTTP+JSON the answer is
// the card.
func (g *Gateway) rewriteCard(x *decided, body []byte) ([]byte, error) {
	rewrite := func(card []byte) ([]byte, error) { return g.inFront(x.agent, x.skill, card) }
	if x.call.Binding == a2a.HTTPJSON {
		return rewrite(body)
	}
	return a2a.RewriteCardAnswer(body, rewrite)
}

// asksForCard reports whether the answer holds a card, also where the call
// could not be read to its end and observe let it through.
func (x *decoded) asksForCard() bool {
	m, _ := a2a.ParseMethod(x.call.Wire)
	route := x.call.Binding == a2a.HTTPJSON && x.request.Method == http.MethodGet && strings.HasSuffix(x.path, "/card") // of 0.3, whatever was said
	return m == a2a.GetExtendedCard || x.call.Method == a2a.GetExtendedCard || route
}

// activate echoes our extension where the caller asked for it (EXT-36) and the
// agent behind did not, under the name by which it was asked for: 0.3 has one of
// its own.
func (g *Gateway) activate(h http.Header, x *decoded) {
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
func (g *Gateway) learn(r *http.Response, x *forwardable, said a2a.Response, body []byte) ([]byte, error) {
	if x.call.Method == a2a.ListTasks {
		if x.mode == gate.Observe {
			return body, nil
		}
		if _, wrong := said.Error(); wrong && x.call.Binding == a2a.JSONRPC {
			return body, nil
		}
		return g.page(r, x, body)
	}
	return body, g.bind(x.request.Context(), x.decided, said)
}

// mine tells the tasks that belong to the one who makes the call.
func (g *Gateway) mine(ctx context.Context, x *decided) func(a2a.TaskRef) bool {
	mine := g.ownerOf(x.decoded, x.verdict.Held)
	return func(t a2a.TaskRef) bool {
		o, known, err := g.config.Tasks.Owner(ctx, x.ID, x.call.Tenant, taskNamed(t.Task).key())
		return err == nil && known && o == mine && mine != Owner{}
	}
}

// bind remembers whose the tasks and contexts in an answer are. In which tenant those
// are of a call that could not be read, is unknown, so that they have no owner.
func (g *Gateway) bind(ctx context.Context, x *decided, said a2a.Response) error {
	if x.elsewhere() {
		return nil
	}
	tasks, ended := said.Told()
	for _, task := range ended {
		fresh, err := x.learned.names.add(reference{anEnd, task})
		if err != nil {
			return err
		}
		if fresh {
			x.learned.ended = append(x.learned.ended, task)
		}
	}
	for _, t := range tasks {
		if x.learned.begun == "" && x.call.Method.IsMessage() {
			x.learned.begun = t.Task
		}
		if t.Task != "" && t.Task == x.call.Task {
			// The call was allowed for this task, regardless of who began its context.
			continue
		}
		for _, name := range []reference{taskNamed(t.Task), contextNamed(t.Context)} {
			if name.id == "" || name == contextNamed(x.call.Context) {
				continue
			}
			fresh, err := x.learned.names.add(name)
			if err == nil && fresh {
				err = g.bindOne(ctx, x, name)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
