package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/a2apb"
)

// Carries is what a proxy can do with an answer. Another proxy asks, and forwards calls
// itself (ADR 128).
type Carries struct {
	Answers bool // it can answer the caller for the agent, with a status below 300 too
	Bodies  bool // it replaces the body of the request with the one that was decided on
	Results bool // it shows the agent's answer, and replaces that
}

// Advice is the decision about a call that another proxy forwards. Exactly one of the two
// is meant: the call may continue as Forward says, or the rest is the answer to its caller.
type Advice struct {
	Forward *Forward // nil for a call that must not continue
	Status  int
	Header  http.Header
	Body    []byte
}

// Forward is a call that was allowed and recorded, as it continues.
type Forward struct {
	Decision string // id of the record
	Agent    string
	Path     string // of HTTP+JSON, below the agent's URL; "" for that of the request
	Query    string
	Header   http.Header
	Body     []byte
	made     *forwardable
	gateway  *Gateway
}

// Advise decides a request that another proxy forwards. Its path is that of the agent
// here, /agents/ID, and what follows. It goes through the stages of every call and its
// record is durable, but nothing is forwarded.
func (g *Gateway) Advise(r *http.Request, c Carries) Advice { return adviseBy(g.mux, r, c) }

// AdviseGRPC is Advise for a call of gRPC, whose path names no agent.
func (g *Gateway) AdviseGRPC(agent string, r *http.Request, c Carries) Advice {
	h, err := g.GRPC(agent)
	if err != nil {
		h = http.NotFoundHandler()
	}
	return adviseBy(h, r, c)
}

func adviseBy(h http.Handler, r *http.Request, c Carries) Advice {
	w := &advised{carries: c, header: http.Header{}}
	h.ServeHTTP(w, r)
	if w.forward != nil && w.status == 0 {
		return Advice{Forward: w.forward}
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	return Advice{Status: w.status, Header: w.header, Body: w.body.Bytes()}
}

// advised takes what the gateway answers to a proxy that asks.
type advised struct {
	carries Carries
	header  http.Header
	status  int
	body    bytes.Buffer
	forward *Forward
}

// Header implements [http.ResponseWriter].
func (w *advised) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *advised) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write implements [http.ResponseWriter].
func (w *advised) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// SetReadDeadline lets [http.ResponseController] set one: the body is here already.
func (w *advised) SetReadDeadline(time.Time) error { return nil }

// carriesOf returns what the proxy that asks can do, nil for a call that is forwarded
// here.
func carriesOf(w http.ResponseWriter) *Carries {
	if a, ok := w.(*advised); ok {
		return &a.carries
	}
	return nil
}

// The denials of calls that would need more than the asking proxy can do.
const (
	codeNotAsDecided  = "not_as_decided"
	codeAnswerNotSeen = "answer_not_seen"
	codeNoAnswer      = "door_cannot_answer"
)

// beyond returns why the proxy that asks cannot carry a call, nil where it can. The
// gateway would write the request again, look at the answer, or answer itself. What
// observe lets through is forwarded as it came.
func (x *decoded) beyond() *evidence.Reason {
	c := x.carries
	if c == nil {
		return nil
	}
	because := func(code, format string, args ...any) *evidence.Reason {
		return &evidence.Reason{Code: code, Message: fmt.Sprintf(format, args...)}
	}
	held := strings.HasPrefix(x.call.Task, HeldPrefix)
	switch {
	case held && (!c.Answers || x.call.Streaming):
		return because(codeNoAnswer, "the task stands for a call that waits for a person; ask for it at %s, without the proxy in between", x.URL)
	case !c.Bodies && x.isComposed():
		return because(codeNotAsDecided, "the gateway makes a message of this method, and the proxy that asks cannot replace a body; send a message that names the skill, or use ext_proc")
	case x.mode == gate.Observe || held:
		return nil
	case !c.Results && x.needsAnswer():
		return because(codeAnswerNotSeen, "the gateway has to read the answer to this call, and the proxy that asks does not show it; use ext_proc, or call the agent at %s", x.URL)
	case !c.Bodies:
		return x.notAsDecided()
	}
	return nil
}

// needsAnswer reports whether an answer must be changed before the caller gets it:
// tasks of other callers are in lists, and a card or an address for events would lead past
// the proxy.
func (x *decoded) needsAnswer() bool {
	m := x.call.Method
	if m == a2a.ListTasks || x.asksForCard() {
		return true
	}
	return x.Relay.On && (x.call.Push != nil || m == a2a.CreatePushConfig || m == a2a.GetPushConfig || m == a2a.ListPushConfigs)
}

// notAsDecided says how the request that the proxy would forward differs from the message
// that is decided on, nil where it does not.
func (x *decoded) notAsDecided() *evidence.Reason {
	differs := func(what string) *evidence.Reason {
		return &evidence.Reason{Code: codeNotAsDecided, Message: what + "; leave that out, or have the proxy use ext_proc, which forwards the message that was decided on"}
	}
	if x.request.URL.RawQuery != x.queryDecided() {
		return differs("the query of the URL has more than the call was read by, or spells it differently")
	}
	if x.binding == a2a.HTTPJSON && x.path != x.call.Written.Path {
		return differs("the path of the URL is not spelt as it was read")
	}
	body, err := bindingOf(x.binding).compose(x)
	switch {
	case err != nil:
		return differs("the message that was decided on cannot be written")
	case len(x.body) == 0 && len(body) == 0:
		return nil
	}
	if x.binding == a2a.GRPC {
		if message, err := a2apb.Unframe(body); err != nil || !a2apb.Same(x.call.Wire, x.proof, message) {
			return differs("the message is not the one that was decided on: it has fields that no rule knows, credentials, a field twice, or a default that is spelled out")
		}
		return nil
	}
	limits := powerbox.Limits{Bytes: x.gateway.config.BodyLimit, Depth: maxDepth, Nodes: knownNodes}
	came, err := powerbox.DecodeValue(x.body, limits)
	if err != nil {
		return differs("the body is not JSON that all readers agree on: " + err.Error())
	}
	decided, err := powerbox.DecodeValue(body, limits)
	if err != nil || !came.Equal(decided) {
		what := "the body is not the message that was decided on"
		if dropped := append(x.call.Dropped, x.mcp.Dropped...); len(dropped) > 0 {
			return differs(what + ": no rule knows " + strings.Join(dropped, ", "))
		}
		return differs(what + ": it has credentials, or members that are null")
	}
	return nil
}

// advise hands a call that may continue to the proxy that asks.
func (g *Gateway) advise(w http.ResponseWriter, x *decided, e extras) {
	f, err := g.forwardable(x, e)
	if err != nil {
		g.unmade(w, x, err)
		return
	}
	if !x.carries.Bodies && (x.isComposed() || x.mode != gate.Observe && x.notAsDecided() != nil) {
		g.unmade(w, x, errors.New("the message for the agent is not the one that the proxy has"))
		return
	}
	out := f.onward()
	g.config.Observer.Continue(out.Context(), out.Header)
	to := &Forward{Decision: x.verdict.Record.ID, Agent: x.ID, Query: f.added, Header: out.Header, Body: f.body, made: f, gateway: g}
	if x.binding == a2a.HTTPJSON {
		to.Path = x.pathBehind()
	}
	w.(*advised).forward = to
}

// onward is the request as the gateway would send it.
func (x *forwardable) onward() *http.Request {
	out := x.request.Clone(x.request.Context())
	for name := range out.Header { // as net/http's proxy leaves them out
		if strings.HasPrefix(name, "X-Forwarded-") || name == "Forwarded" || ofConnection[strings.ToLower(name)] && name != "Authorization" && name != "Dpop" && name != "Te" {
			delete(out.Header, name)
		}
	}
	x.put(&httputil.ProxyRequest{In: x.request, Out: out})
	return out
}

// Answer looks at the agent's answer to a call, as the gateway does before its caller
// gets it: it learns tasks and sessions, cuts lists, and records the outcome. An error
// means that the caller must not have the answer.
func (f *Forward) Answer(r *http.Response) (err error) {
	r.Request = f.made.request
	return f.gateway.answer(r, f.made)
}

// Unanswered words the end of a call whose answer the caller must not have, and records
// its outcome. reached reports whether the agent may have acted.
func (f *Forward) Unanswered(err error, reached bool) Advice {
	w := &advised{header: http.Header{}}
	f.gateway.unanswered(w, f.made.decided, err, reached)
	return Advice{Status: w.status, Header: w.header, Body: w.body.Bytes()}
}
