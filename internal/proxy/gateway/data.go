package gateway

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/mcp"
)

// HeaderTask names the task that a call is part of, for values that are earned by reading
// (ADR 149). Nothing else is decided by it.
const HeaderTask = "Powerbox-Task"

// maxTask bounds the name of a task, in bytes.
const maxTask = 128

// Data is how labels of results are kept, and whether rules about them refuse anything.
type Data struct {
	Book    gate.DataKeeper
	Observe bool
	// Delegates reports whether a configured caller hands work to agents and reads nothing.
	Delegates func(caller string) bool
}

// data adds the rules about the origin of data to a call, where the operator labels results.
func (g *Gateway) data(x *decoded, c *gate.Call) {
	if g.config.Data == nil {
		return
	}
	tasks := x.request.Header.Values(HeaderTask)
	if len(tasks) > 1 || len(tasks) == 1 && (len(tasks[0]) > maxTask || !isSession(tasks[0])) {
		c.Refused = append(c.Refused, evidence.Reason{Code: a2a.ReasonEnvelope, Message: "the header " + HeaderTask + " is there twice, longer than 128 bytes, or not visible ASCII"})
		tasks = nil
	}
	c.Ask.Data = &gate.Data{
		Book: g.config.Data.Book, Observe: g.config.Data.Observe, Principal: x.caller.Principal, Task: strings.Join(tasks, ""), Sink: x.sink,
		Delegates: func(holder string) bool { return g.config.Data.Delegates(g.config.Origin(holder)) },
	}
}

// sink is the rule of an operation. Skills of one operation have one rule.
func (a *agent) sink(op powerbox.Operation) gate.Sink {
	for _, s := range a.Skills {
		if s.Operation == op {
			return s.Flow.Sink
		}
	}
	return gate.Sink{}
}

// mayFlow reports whether a context may tell the agent behind of an operation: the call is of
// that operation, or no rule about data is about it.
func (x *decided) mayFlow(c powerbox.Clause) bool {
	if d := x.gateway.config.Data; d == nil || d.Observe {
		return true
	}
	for _, s := range x.Skills {
		sink := s.Flow.Sink
		ruled := sink.Untrusted != gate.Pass || sink.Confidential != gate.Pass || len(sink.From) > 0
		if ruled && c.Pattern.Matches(s.Operation) && (!x.isNamed || x.mapped.Operation != s.Operation) {
			return false
		}
	}
	return true
}

// yields is the label of what a call answers; false where that is no data: the beginning of a
// session, and lists of what there is.
func (x *decided) yields() (gate.Label, bool) {
	if x.isNamed {
		return x.mapped.Flow.Yields, true
	}
	if x.binding != a2a.MCP {
		return x.Yields, !x.asksForCard()
	}
	m := x.mcp
	data := x.request.Method == http.MethodGet || m.IsTool() || m.IsRuled() || m.Listens() || !x.knownToMCP() || slices.Contains(x.Methods, m.Method)
	return x.Yields, data
}

// noteRead keeps the label of an answer before the call is made, so that no part of the answer
// reaches the caller without it.
func (g *Gateway) noteRead(x *decided) error {
	read := x.verdict.Data
	if g.config.Data == nil || read == nil || len(read.By.Holders) == 0 {
		return nil
	}
	label, ok := x.yields()
	if !ok {
		return nil
	}
	x.learned.label = &label
	return g.unnoted(x, g.config.Data.Book.Note(x.request.Context(), read.By, label))
}

// unnoted keeps an error that says that labels cannot be kept, where the rules refuse calls.
// Where an operator only looks on, the call continues.
func (g *Gateway) unnoted(x *decided, err error) error {
	if err == nil || !g.config.Data.Observe {
		return err
	}
	g.config.Log.WarnContext(x.request.Context(), "what a call reads cannot be noted, and data.mode observe lets it continue", "agent", x.ID, "error", err)
	return nil
}

// earn keeps the values of a trusted result that a rule can ask about, before the caller has
// them.
func (g *Gateway) earn(x *decided, payload []byte) error {
	read := x.verdict.Data
	if g.config.Data == nil || read == nil || len(read.By.Holders) == 0 || !x.isNamed || len(x.mapped.Flow.Paths) == 0 {
		return nil
	}
	var results []powerbox.Value
	if x.binding == a2a.MCP {
		results = mcp.Results(payload, answerLimits)
	} else {
		results = a2a.Results(payload, answerLimits)
	}
	values := x.mapped.Flow.Earned(x.mapped.Operation.String(), results...)
	if len(values) == 0 {
		return nil
	}
	return g.unnoted(x, g.config.Data.Book.Earn(context.WithoutCancel(x.request.Context()), read.By, values))
}
