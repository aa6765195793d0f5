package gateway

import (
	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// because is a reason as the caller of a decided call gets it. The sentence is the
// reason's own; what callers of this protocol can do about it is added.
func (g *Gateway) because(x *decided, r evidence.Reason) a2a.Denial {
	switch {
	case r.Code == gate.CodeCapabilityRequired && x.binding == a2a.MCP:
		r.Message += "; request one with powerbox request"
	case r.Code == gate.CodeCapabilityRequired:
		r.Message += a2a.HowToRequest
	}
	return a2a.Denial{Reason: r.Code, Message: r.Message, Retryable: passes(r.Code), DecisionID: x.verdict.Record.ID, At: g.config.Now()}
}

// wrongly is the fault of a call as a reason of the gate.
func wrongly(wrong *a2a.Error) evidence.Reason {
	return evidence.Reason{Code: wrong.Reason, Message: wrong.Message}
}

// passes reports whether a denial is of a trouble of ours, which goes by.
func passes(code string) bool { return code == gate.CodeUnavailable || code == gate.CodeStale }

// howToRequest says how a client of the call's protocol gets a capability. Clients of MCP
// call no methods of the extension: a person asks for them, or they log in by OAuth.
func (x *decided) howToRequest() string {
	if x.binding != a2a.MCP {
		return "request a capability with a2a/capabilities/request at " + x.URL
	}
	how := "request a capability with powerbox request " + x.URL + " --grant GRANT --purpose TEXT --by-reference, and let the client send the headers that it prints"
	if x.Metadata != "" {
		how += ", or connect the client with OAuth"
	}
	return how
}

// fixFor is what the caller of a denied call can do about the reason, "" for nothing.
func (x *decided) fixFor(reason string) string {
	switch reason {
	case gate.CodeCapabilityRequired:
		return x.howToRequest()
	case string(powerbox.CodeOperation):
		return "if the user's task needs it, " + x.howToRequest()
	case gate.CodeReplay, gate.CodeProofBefore:
		return "sign a new proof"
	case gate.CodeMessageNotBound:
		return "name the skill and its arguments in a data part {\"skill\", \"arguments\"}"
	case gate.CodeScope:
		if x.binding == a2a.MCP && !x.mcp.IsTool() && !x.mcp.IsRuled() {
			return "have an operator add an operation of this server to the scope of the caller: an MCP session (a2a.message) comes with every operation"
		}
	}
	return ""
}
