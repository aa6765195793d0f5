package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/a2a"
)

// maxAnswer bounds what is held of one answer, or of one event of a stream, to
// learn the tasks in it.
const maxAnswer = 16 << 20

// pass forwards a call that was allowed and the answer to it.
func (g *Gateway) pass(w http.ResponseWriter, x *exchange) {
	if err := g.compose(x); err != nil {
		g.finish(x, evidence.Failed)
		g.unavailable(w, x, "the message for the agent behind could not be made", err)
		return
	}
	upstream, err := url.Parse(x.view.card.URL)
	if err != nil {
		g.finish(x, evidence.Failed)
		g.unavailable(w, x, "the agent's card names no usable URL", err)
		return
	}
	context, err := g.context(x)
	if err != nil {
		g.finish(x, evidence.Failed)
		g.unavailable(w, x, "the context for the agent behind could not be signed", err)
		return
	}
	// Once a connection was had, the agent behind may have acted.
	var reached atomic.Bool
	request := x.request.WithContext(httptrace.WithClientTrace(x.request.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { reached.Store(true) },
	}))
	proxy := httputil.ReverseProxy{
		Transport:     g.config.Transport,
		FlushInterval: -1, // events pass as they come
		Rewrite: func(r *httputil.ProxyRequest) {
			rewrite(r, x, upstream, context)
		},
		ModifyResponse: func(r *http.Response) error { return g.answer(r, x) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" && !reached.Load() {
				g.finish(x, evidence.Failed)
				g.unavailable(w, x, "the agent behind cannot be reached", err)
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

// unknown answers where the agent behind may have done what it was asked, and
// nothing can be said about that. No outcome is recorded, so that evidence says
// the same.
func (g *Gateway) unknown(w http.ResponseWriter, x *exchange, err error) {
	g.config.Log.ErrorContext(x.request.Context(), "the outcome of a call is unknown", "agent", x.ID, "record", x.verdict.Record.ID, "error", err)
	d := a2a.Denial{
		Code: a2a.CodeInternal, Reason: "outcome_unknown", DecisionID: x.verdict.Record.ID, Retryable: !x.writes(), At: g.config.Now(),
		Message: "the call went to the agent behind and no answer that can be passed on came back, so its outcome is unknown",
	}
	if !d.Retryable {
		d.Fix = "find out what became of it before it is repeated"
	}
	h := w.Header()
	h.Set(HeaderOutcome, "unknown")
	answer, kind := d.JSONRPC(x.call.ID), "application/json"
	if x.call.Streaming {
		answer, kind = d.Event(x.call.ID), "text/event-stream"
	}
	h.Set("Content-Type", kind)
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(answer) // the client has gone: nobody is left to tell
}

// writes reports whether the call may have changed something. What is not
// known to read may.
func (x *exchange) writes() bool {
	switch x.call.Method {
	case a2a.GetTask, a2a.ListTasks, a2a.SubscribeToTask, a2a.GetPushConfig, a2a.ListPushConfigs, a2a.GetExtendedCard:
		return false
	case a2a.SendMessage, a2a.SendStreamingMessage, a2a.SkillInvoke, a2a.TaskSend:
		return !x.isNamed || x.mapped.Write || x.call.Message.Loose
	default:
		return true
	}
}

// compose makes the message for an agent that does not know our methods.
// Everything else is forwarded as it was received.
func (g *Gateway) compose(x *exchange) error {
	if x.InvokeNative || x.call.Method != a2a.SkillInvoke && x.call.Method != a2a.TaskSend {
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

// version is the protocol version in which we speak to the agent behind.
func (x *exchange) version() string {
	if slices.Contains(x.view.card.Versions, a2a.Version1) {
		return a2a.Version1
	}
	return a2a.Version03
}

// rewrite addresses the request to the agent behind, with the bytes that were
// checked, without the credentials that are ours, with the signed context.
func rewrite(r *httputil.ProxyRequest, x *exchange, upstream *url.URL, context string) {
	u := *upstream
	u.RawQuery = x.query(upstream.RawQuery)
	r.Out.URL, r.Out.Host = &u, u.Host
	// Nothing in between may undo what the checked bytes say.
	r.Out.Body = io.NopCloser(bytes.NewReader(x.forward))
	r.Out.ContentLength = int64(len(x.forward))
	r.Out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(x.forward)), nil }
	h := r.Out.Header
	stripOurs(h)
	h.Del("DPoP")
	// What an upgraded connection carries, nobody checks.
	h.Del("Connection")
	h.Del("Upgrade")
	if x.consumed {
		h.Del("Authorization")
	}
	// A compressed answer could not be read for the tasks in it.
	h.Set("Accept-Encoding", "identity")
	if !bytes.Equal(x.forward, x.body) {
		h.Set("A2A-Version", x.version())
		h.Set("Content-Type", "application/json")
	}
	h.Set(HeaderContext, context)
}

// query is that of the agent's card, with what the caller may add to it: in
// observe everything, otherwise the version, by which the call was read. What
// else is in there nobody checks.
func (x *exchange) query(own string) string {
	added := x.request.URL.RawQuery
	if x.mode != gate.Observe {
		version := x.request.URL.Query().Get("A2A-Version")
		if added = ""; version != "" && x.request.Header.Get("A2A-Version") == "" && bytes.Equal(x.forward, x.body) {
			added = url.Values{"A2A-Version": {version}}.Encode()
		}
	}
	if own != "" && added != "" {
		own += "&"
	}
	return own + added
}

// stripOurs deletes the headers under our names. A server that hands headers on
// as environment variables takes an underscore for a dash.
func stripOurs(h http.Header) {
	for name := range h {
		if strings.HasPrefix(strings.ToLower(strings.ReplaceAll(name, "_", "-")), "powerbox-") {
			delete(h, name)
		}
	}
}

// answer looks at an answer before it goes to the caller: the tasks in it
// become the caller's before the caller can know of them.
func (g *Gateway) answer(r *http.Response, x *exchange) error {
	h := r.Header
	stripOurs(h)
	if x.call.Method.IsMessage() || x.call.Method == a2a.GetTask {
		g.activate(h, x)
	}
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	if kind == "text/event-stream" && x.call.Method == a2a.ListTasks && x.mode != gate.Observe {
		return errors.New("the answer to ListTasks is a stream, from which the tasks of others cannot be cut")
	}
	card := x.asksForCard()
	if kind == "text/event-stream" && card {
		return errors.New("the answer to GetExtendedAgentCard is a stream, in which a card cannot be rewritten")
	}
	if kind == "text/event-stream" {
		r.Body = g.stream(r.Body, x)
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer+1))
	if err != nil {
		return err
	}
	_ = r.Body.Close() // it has been read to its end
	if len(body) > maxAnswer {
		return errors.New("the answer is larger than 16 MiB")
	}
	if body, err = g.learn(x, body); err != nil {
		return err
	}
	if card {
		// It would lead past the gateway, in every mode.
		if body, err = a2a.RewriteCardAnswer(body, x.rewritten(x.skill)); err != nil {
			return err
		}
	}
	status := evidence.Achieved
	if r.StatusCode >= http.StatusBadRequest || isError(body) {
		status = evidence.Failed
	}
	g.finish(x, status)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	r.ContentLength = int64(len(body))
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

// asksForCard reports whether the answer holds a card, also where the call
// could not be read to its end and observe let it through.
func (x *exchange) asksForCard() bool {
	m, _ := a2a.ParseMethod(x.call.Wire)
	return m == a2a.GetExtendedCard
}

// activate echoes our extension where the caller asked for it (EXT-36) and the
// agent behind did not.
func (g *Gateway) activate(h http.Header, x *exchange) {
	if slices.Contains(x.call.Extensions, a2a.ExtensionURI) && !strings.Contains(strings.Join(h.Values("A2A-Extensions"), ","), a2a.ExtensionURI) {
		h.Add("A2A-Extensions", a2a.ExtensionURI)
	}
}

// learn binds the tasks of a whole answer, and cuts foreign ones out of a list.
func (g *Gateway) learn(x *exchange, body []byte) ([]byte, error) {
	ctx := x.request.Context()
	if x.call.Method == a2a.ListTasks {
		if x.mode == gate.Observe {
			return body, nil
		}
		mine := g.ownerOf(x, x.verdict.Held)
		return a2a.FilterTasks(body, func(t a2a.TaskRef) bool {
			o, known, err := g.config.Tasks.Owner(ctx, x.ID, t.Task)
			return err == nil && known && o == mine && mine != Owner{}
		})
	}
	return body, g.bind(ctx, x, body)
}

// bind remembers whose the tasks and contexts in an answer are.
func (g *Gateway) bind(ctx context.Context, x *exchange, payload []byte) error {
	x.ended = append(x.ended, a2a.Ended(payload)...)
	for _, t := range a2a.Learn(payload) {
		for _, id := range []string{t.Task, t.Context} {
			if id == "" || id == x.call.Task || id == x.call.Context {
				continue
			}
			if _, err := g.config.Tasks.Bind(ctx, x.ID, id, g.ownerOf(x, x.verdict.Held)); err != nil {
				return err
			}
		}
	}
	return nil
}

// isError reports whether a JSON-RPC answer has an error member. It is for the
// outcome record alone; nothing is decided by it.
func isError(body []byte) bool {
	head := body[:min(len(body), 4096)]
	return bytes.Contains(head, []byte(`"error"`)) && !bytes.Contains(head, []byte(`"result"`))
}

// finish records the outcome. An outcome that cannot be written fails nothing:
// the call has been made, and a decision without an outcome is reported as
// unknown. Where the outcome is unknown to us, [Gateway.end] alone is called.
func (g *Gateway) finish(x *exchange, status evidence.OutcomeStatus) {
	g.end(x)
	ctx := context.WithoutCancel(x.request.Context())
	if err := g.config.Gate.Outcome(ctx, x.verdict, status, nil); err != nil {
		g.config.Log.ErrorContext(ctx, "an outcome was not recorded", "agent", x.ID, "record", x.verdict.Record.ID, "error", err)
	}
}

// end ends the capabilities of the tasks that the answer said have ended.
func (g *Gateway) end(x *exchange) {
	ctx := context.WithoutCancel(x.request.Context())
	for _, task := range x.ended {
		if err := g.config.Tasks.End(ctx, x.ID, task); err != nil {
			g.config.Log.ErrorContext(ctx, "the capabilities of an ended task stay until they expire", "agent", x.ID, "error", err)
		}
	}
}
