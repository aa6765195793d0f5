package gateway

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// Seen is one call that is over, as telemetry sees it. Except for the id, every
// text is from a set that configuration or code bounds.
type Seen = struct {
	Agent, Binding, Method, Decision, Basis, Mode string
	Reasons                                       []string // codes
	DecisionID                                    string
	Signal                                        bool // a burst of denials begins with it
	// Tool is the tool of MCP that was called, "" for one that the configuration does not name.
	Tool string
	Took time.Duration // until the answer was sent
}

// The codes of what we ourselves could not do.
const (
	codeNotRecorded    = "evidence_unavailable"
	codeOutcomeUnknown = "outcome_unknown"
)

// Observer is told what becomes of calls. It decides nothing.
type Observer interface {
	// Begin is called before anything of a call is read, which was received at a time. The
	// context is the call's from then on. Once the message was read, joined takes the trace
	// that it names. It returns the id of the trace that the call is part of. Both are "" for
	// none. Only the first trace counts.
	Begin(ctx context.Context, at time.Time, h http.Header, agent, binding string) (of context.Context, joined traced)
	// Continue makes the headers of a request to the agent behind part of that
	// trace.
	Continue(ctx context.Context, h http.Header)
	// Took is told how long a step took: upstream.
	Took(ctx context.Context, step, agent string, d time.Duration)
	// Stream is called when a stream opens, and what it returns when it ends,
	// with the code for which it was cut or "".
	Stream(ctx context.Context, agent string) (closed func(reason string))
	// End is called when a call is over, with the context of Begin.
	End(ctx context.Context, s Seen)
}

// traced returns the id of the trace that a call is part of, "" for none. It takes the
// trace that the message names itself, in the form of W3C Trace Context.
type traced = func(parent, state string) string

// within is a trace that is known already.
func within(id string) traced { return func(string, string) string { return id } }

// unobserved is the observer where there is none.
type unobserved struct{}

func (unobserved) Begin(ctx context.Context, _ time.Time, _ http.Header, _, _ string) (context.Context, traced) {
	return ctx, within("")
}
func (unobserved) Continue(context.Context, http.Header)               {}
func (unobserved) Took(context.Context, string, string, time.Duration) {}
func (unobserved) Stream(context.Context, string) (closed func(reason string)) {
	return func(string) {}
}
func (unobserved) End(context.Context, Seen) {}

// observed serves a call and tells the observer of it, also when the answer is
// broken off by a panic, as the reverse proxy does.
func (g *Gateway) observed(w http.ResponseWriter, x *received) {
	begin := g.config.Now()
	ctx, trace := g.config.Observer.Begin(x.request.Context(), begin, x.request.Header, x.ID, x.binding.String())
	x.request, x.trace = x.request.WithContext(ctx), trace
	defer func() {
		seen := x.seen()
		seen.Took = g.config.Now().Sub(begin)
		g.config.Observer.End(ctx, seen)
	}()
	g.handle(w, x)
}

// seen says what became of a request.
func (r *received) seen() Seen {
	v, code := r.notes.verdict, r.notes.code
	s := Seen{
		Agent: r.ID, Binding: r.binding.String(), Method: "Unknown",
		Basis: string(v.Basis), DecisionID: v.Record.ID, Decision: strings.ToLower(string(v.Record.Decision)), Signal: r.notes.signal,
	}
	extension := false
	if x := r.notes.decoded; x != nil {
		s.Method, s.Mode, extension = x.by().method(x), string(x.mode), x.call.Method.IsExtension()
		s.Tool = x.configuredTool()
	}
	if len(v.Reasons) > 0 {
		for _, r := range v.Reasons {
			s.Reasons = append(s.Reasons, r.Code)
		}
	} else if code != "" {
		s.Reasons = []string{code}
	}
	switch {
	case code == gate.CodeUnavailable || code == codeNotRecorded || code == codeOutcomeUnknown:
		s.Decision, s.Reasons = "error", []string{code}
	case code == codeOverloaded:
		s.Decision = "shed"
	case s.Decision != "":
	case code != "":
		s.Decision = "deny" // before there was anything to record
	case extension:
		s.Decision = "answered" // by the issuer, which has records of its own
	default:
		s.Decision = "unreadable"
	}
	return s
}

// configuredTool is the tool that a message of MCP calls, if the configuration names it. Any
// other name is a caller's word, which telemetry does not repeat.
func (x *decoded) configuredTool() string {
	if x.binding != a2a.MCP || !x.mcp.IsTool() {
		return ""
	}
	if _, ok := x.Skills[x.mcp.Tool]; !ok {
		return ""
	}
	return x.mcp.Tool
}

// timed measures how long the agent behind takes to begin its answer.
type timed struct {
	http.RoundTripper
	gateway *Gateway
	agent   string
}

// RoundTrip implements [http.RoundTripper].
func (t timed) RoundTrip(r *http.Request) (*http.Response, error) {
	begin := t.gateway.config.Now()
	response, err := t.RoundTripper.RoundTrip(r)
	t.gateway.config.Observer.Took(r.Context(), "upstream", t.agent, t.gateway.config.Now().Sub(begin))
	return response, err
}
