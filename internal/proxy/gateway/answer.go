package gateway

import (
	"errors"
	"net/http"
	"strings"

	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// The types of what we answer ourselves.
const (
	typeJSON   = "application/json"
	typeEvents = "text/event-stream"
	typeGRPC   = "application/grpc"
)

// deny answers with a denial.
func (g *Gateway) deny(w http.ResponseWriter, at stage, d a2a.Denial) {
	x := at.readable()
	h := w.Header()
	if d.DecisionID != "" {
		h.Set(HeaderDecision, d.DecisionID)
	}
	h.Set(HeaderOutcome, "denied")
	if d.Reason != "" {
		h.Set(HeaderReason, d.Reason) // SDKs that lose the details keep headers
	}
	g.say(w, x, d)
}

// say writes a denial in the form that the binding's clients read.
func (g *Gateway) say(w http.ResponseWriter, at stage, d a2a.Denial) {
	x := at.readable()
	x.notes.code = d.Reason
	if x.notes.throttled {
		d = again(w, d)
	}
	x.by().say(g, g.challenge(w, x, d), x, d)
}

func (g *Gateway) sayJSONRPC(w http.ResponseWriter, at stage, d a2a.Denial) {
	x := at.readable()
	status := http.StatusOK
	if x.DenyStatus == http.StatusForbidden && (d.Code == 0 || d.Code == a2a.CodeUnauthorized) {
		status = http.StatusForbidden
	}
	if x.call.Streaming && status == http.StatusOK {
		g.write(w, status, typeEvents, d.Event(a2a.JSONRPC, x.call.ID))
		return
	}
	g.write(w, status, typeJSON, d.JSONRPC(x.call.ID))
}

func (g *Gateway) write(w http.ResponseWriter, status int, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client has gone: there is no caller to tell
}

// unoffered answers a binding that the agent behind does not have.
func (g *Gateway) unoffered(w http.ResponseWriter, at stage) {
	x := at.readable()
	if x.call.Binding == a2a.HTTPJSON {
		http.Error(w, "there is nothing here; the agent's card says where it is reached", http.StatusNotFound)
		return
	}
	g.say(w, x, a2a.MethodNotFound(x.call.Binding, x.request.URL.Path).Denial())
}

// unreadable answers a request whose body cannot be had as it should be, in the form that
// the clients of its binding read.
func (g *Gateway) unreadable(w http.ResponseWriter, at stage, status int, err error) {
	x := at.readable()
	d := a2a.Denial{Code: a2a.CodeInvalidRequest, Reason: a2a.ReasonEnvelope, Message: err.Error()}
	if wrong := (*a2a.Error)(nil); errors.As(err, &wrong) {
		d.Code, d.Reason = wrong.Code, wrong.Reason
	}
	switch {
	case x.call.Binding == a2a.GRPC:
		g.say(w, x, d)
	case status == http.StatusMethodNotAllowed || x.call.Binding == a2a.HTTPJSON:
		if status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", strings.Join(callsBy[x.call.Binding], ", "))
		}
		http.Error(w, err.Error(), status)
	default:
		x.notes.code = d.Reason
		w.Header().Set(HeaderOutcome, "denied")
		w.Header().Set(HeaderReason, d.Reason)
		g.write(w, status, typeJSON, d.JSONRPC(x.call.ID))
	}
}
