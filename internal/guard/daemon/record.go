package daemon

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/guard"
)

// record begins the record of a decision. It names paths, hosts, and commands of the table.
// Command lines, file contents and prompts can hold secrets, and never stand in it.
func (d *Daemon) record(s *session, a *agent, operation string, now time.Time) (evidence.Record, error) {
	id, err := newID("rec_", d.config.Random)
	if err != nil {
		return evidence.Record{}, err
	}
	requester := s.Client
	if a.ID != "" {
		requester += "/" + fileName(a.ID)[:12]
		if guard.PlainName(a.Type) {
			requester += "/" + a.Type
		}
	}
	return evidence.Record{
		ID: id, AgentID: agentID, TaskID: fileName(s.Client, s.ID), ActionType: action.GuardTool.String(), Intent: evidence.Intent{Operation: operation}, Time: now,
		Details: evidence.Details{Recorder: recorder, Requester: requester, Capability: a.lease.name},
	}, nil
}

// operationOf names what a call does. A call that cannot be judged is named by its kind.
func operationOf(e guard.Event, v guard.Verdict) string {
	if len(v.Needs) > 0 {
		return v.Needs[len(v.Needs)-1].Operation
	}
	return map[guard.Kind]string{
		guard.Shell: guard.OpRun, guard.Reading: guard.OpRead, guard.Editing: guard.OpEdit, guard.Listing: guard.OpRead, guard.Fetching: guard.OpFetch,
		guard.Searching: guard.OpSearch, guard.MCP: guard.OpTool, guard.Starting: guard.OpStart, guard.Harmless: "conversation", guard.Unknown: "unknown",
	}[e.Call.Kind]
}

// maxNeeds is how many needs a record lists.
const maxNeeds = 64

// Use is what a record says of a call.
type Use struct {
	Project string   `json:"project"`
	Needs   []string `json:"needs,omitempty"`
}

// arguments lists what a call needs, without the words of exact commands and without queries.
func arguments(project string, needs []guard.Need) ([]byte, error) {
	u := Use{Project: project}
	for _, n := range needs {
		if text := n.Redacted(); !slices.Contains(u.Needs, text) && len(u.Needs) < maxNeeds {
			u.Needs = append(u.Needs, text)
		}
	}
	return json.Marshal(u)
}
