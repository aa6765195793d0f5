package gateway

import (
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// because is a reason as the caller of a decided call gets it. The sentence is the
// reason's own; what callers of this protocol can do about it is added.
func (g *Gateway) because(x *decided, r evidence.Reason) a2a.Denial {
	if r.Code == gate.CodeCapabilityRequired {
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
