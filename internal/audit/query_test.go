package audit

import (
	"fmt"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
)

// asked is a decision n seconds after noon.
func asked(n int, requester, agent, trace string, decision evidence.Decision) evidence.Record {
	r := evidence.Record{
		ID: fmt.Sprint("rec_", n), AgentID: agent, ActionType: "a2a.SendMessage", Decision: decision, Time: time.Date(2027, 1, 15, 12, 0, n, 0, time.UTC),
		Intent: evidence.Intent{Operation: agent + "/g/op"}, Details: evidence.Details{Requester: requester, TraceID: trace, Granted: []string{agent + "/g/op", agent + "/g/other"}},
	}
	if decision == evidence.Allow {
		r.OutcomeStatus, r.Details.Exercised = evidence.Pending, []string{agent + "/g/op"}
	}
	r.Details.Gate = &evidence.Gate{Required: []string{agent + "/g/op"}}
	return r
}
