package audit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/action"
)

// called is a record of one call as the gate writes it.
func called(decision evidence.Decision, requester, mode, capability string, codes ...string) evidence.Record {
	r := evidence.Record{
		AgentID: "notes", ActionType: "a2a.SendMessage", Decision: decision,
		Intent: evidence.Intent{Operation: "notes/notes:read/read_note"},
		Details: evidence.Details{
			Requester: requester, Mode: mode, Capability: capability,
			Gate: &evidence.Gate{Required: []string{"notes/notes:read/read_note", "a2a.message"}},
		},
	}
	for _, c := range codes {
		r.Details.Reasons = append(r.Details.Reasons, evidence.Reason{Code: c})
	}
	return r
}

// TestReportSaysWhatEachLevelWouldDo holds every kind of record against both levels.
// Callers without a capability must not make everything denied.
func TestReportSaysWhatEachLevelWouldDo(t *testing.T) {
	fine, want, deny, unknown := level{}, level{Denied: 1, Mendable: 1}, level{Denied: 1}, level{Unknown: 1}
	for name, c := range map[string]struct {
		record          evidence.Record
		scoped, require level
	}{
		"within its scope":              {called(evidence.Abstain, "a", "observe", "", gate.CodeCapabilityRequired), fine, want},
		"outside its scope":             {called(evidence.Abstain, "a", "observe", "", gate.CodeScope, gate.CodeCapabilityRequired), want, want},
		"not offered":                   {called(evidence.Abstain, "a", "observe", "", gate.CodeCaps, gate.CodeCapabilityRequired), deny, deny},
		"caller without a name":         {called(evidence.Abstain, "key:x", "observe", "", gate.CodeScope, gate.CodeCapabilityRequired), deny, want},
		"caller that showed nothing":    {called(evidence.Abstain, "unknown", "observe", "", gate.CodeScope, gate.CodeCapabilityRequired), deny, deny},
		"on a capability":               {called(evidence.Allow, "a", "observe/capability", "cap_1"), fine, fine},
		"capability that was revoked":   {called(evidence.Abstain, "a", "observe", "cap_1", gate.CodeRevoked), deny, want},
		"capability for less":           {called(evidence.Abstain, "a", "observe", "cap_1", "operation_not_granted"), deny, deny},
		"on its scope":                  {called(evidence.Allow, "a", "scoped/standing", ""), fine, want},
		"denied by its scope":           {called(evidence.Deny, "a", "scoped", "", gate.CodeScope), want, want},
		"on the fallback":               {called(evidence.Allow, "a", "prefer/ambient", "", gate.CodeUndeclaredAmbient), unknown, want},
		"denied for want of one":        {called(evidence.Deny, "a", "require", "", gate.CodeCapabilityRequired), fine, want},
		"denied without a reason":       {called(evidence.Deny, "a", "require", ""), deny, deny},
		"somebody else's task":          {called(evidence.Abstain, "a", "observe", "", gate.CodeForeignTask, gate.CodeCapabilityRequired), deny, deny},
		"free text that was let pass":   {called(evidence.Abstain, "a", "observe", "", gate.CodeCapabilityRequired, "free_text_unsafe"), fine, want},
		"free text that cannot be held": {called(evidence.Abstain, "a", "observe", "", gate.CodeMessageNotBound, gate.CodeCapabilityRequired), deny, deny},
	} {
		t.Run(name, func(t *testing.T) {
			r := summarise([]evidence.Record{c.record})
			if len(r.Uses) != 1 || r.Uses[0].Calls != 1 || r.Uses[0].Operation != "notes:read/read_note" {
				t.Fatalf("%+v", r.Uses)
			}
			if d := cmp.Diff([]level{c.scoped, c.require}, []level{r.Uses[0].AtScoped, r.Uses[0].AtRequire}); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestReportCountsCalls leaves out records that are no calls: outcomes, and the issuing
// of capabilities.
func TestReportCountsCalls(t *testing.T) {
	outcome := called(evidence.Abstain, "a", "observe", "")
	outcome.Details.OutcomeOf = "rec_1"
	issued := called(evidence.Allow, "a", "", "cap_1")
	issued.ActionType, issued.Details.Gate = "capability.request", nil
	read := called(evidence.Allow, "a", "require/capability", "cap_1")
	read.Details.Gate.Required, read.Intent.Operation = []string{"a2a.task.read"}, "a2a.task.read"
	r := summarise([]evidence.Record{outcome, issued, read})
	if len(r.Uses) != 1 || r.Uses[0].Operation != "a2a.task.read" || r.Uses[0].Allowed != 1 {
		t.Errorf("%+v", r.Uses)
	}
	if g := r.Grants(); len(g.Scopes)+len(g.Left)+len(g.Unnamed) != 0 {
		t.Errorf("reading a task comes with every scope: %+v", g)
	}
}

// TestReportGrantsNothingThatWasDenied: a denied call, or one beyond its capability, is
// no reason to grant the operation.
func TestReportGrantsNothingThatWasDenied(t *testing.T) {
	for name, r := range map[string]evidence.Record{
		"denied":                called(evidence.Deny, "a", "scoped", "", gate.CodeScope),
		"beyond its capability": called(evidence.Abstain, "a", "observe", "cap_1", "operation_not_granted"),
		"not offered":           called(evidence.Abstain, "a", "observe", "", gate.CodeCaps, gate.CodeCapabilityRequired),
	} {
		if g := summarise([]evidence.Record{r}).Grants(); len(g.Scopes) != 0 || len(g.Left) != 1 {
			t.Errorf("%s: %+v", name, g)
		}
	}
	seen := called(evidence.Abstain, "a", "observe", "", gate.CodeScope, gate.CodeCapabilityRequired)
	want := map[string]map[string][]string{"a": {"notes": {"notes:read/read_note"}}}
	if d := cmp.Diff(want, summarise([]evidence.Record{seen}).Grants().Scopes); d != "" {
		t.Error(d)
	}
}

// A message in free text is one call that names no skill, for every sender. It is no
// reason to grant any of the operations that it could have asked for.
func TestReportCountsFreeTextOnce(t *testing.T) {
	for requester, second := range map[string]string{"a": "", "key:x": "1 call of callers without a name", unknownCaller: "1 call of callers without credentials"} {
		r := called(evidence.Abstain, requester, "observe", "", gate.CodeScope, gate.CodeCapabilityRequired)
		r.Details.Attempt = "admission"
		r.Details.Gate.Required = []string{"notes/notes:read/read_note", "notes/notes:read/search_notes", "notes/notes:write/delete_note", "a2a.message"}
		told := summarise([]evidence.Record{r})
		lines := told.Advice()
		if len(told.Uses) != 1 || told.Uses[0].Operation != FreeTextCall || !strings.HasPrefix(lines[0], "1 call in free text") || second != "" && !strings.HasPrefix(lines[1], second) {
			t.Errorf("%s: %+v %q", requester, told.Uses, lines)
		}
		if g := told.Grants(); len(g.Scopes)+len(g.Unnamed) != 0 || len(g.Left) != 1 {
			t.Errorf("%s: %+v", requester, g)
		}
		r.ActionType = action.Handoff.String()
		if told := summarise([]evidence.Record{r}); len(told.Uses) != 3 {
			t.Errorf("a hand-off says what it needs: %+v", told.Uses)
		}
	}
}

// TestReportGivesBuiltInUsersAKey: identity.callers cannot name a built-in user, so the advice is
// a key for the agent.
func TestReportGivesBuiltInUsersAKey(t *testing.T) {
	seen := called(evidence.Abstain, "dev:dev", "observe", "", gate.CodeScope, gate.CodeCapabilityRequired)
	if lines := summarise([]evidence.Record{seen}).Advice(); len(lines) != 1 || !strings.Contains(lines[0], "1 call of built-in users") || !strings.Contains(lines[0], "powerbox keys new FILE") {
		t.Errorf("%q", lines)
	}
	if text := NameCaller("dev:dev"); strings.Contains(text, "add it to identity.callers") || !strings.Contains(text, "{agent: NAME, key: THUMBPRINT}") {
		t.Error(text)
	}
}

// TestReportKnowsSessionsOfMCP: a request that is about the session of an MCP client names
// nothing that would have to be configured, and needs no scope of its own.
func TestReportKnowsSessionsOfMCP(t *testing.T) {
	r := asked(1, "a", "b", "", evidence.Allow)
	r.ActionType, r.Details.Recorder = "mcp.tools.list", "server"
	r.Intent.Operation, r.Details.Gate.Required = "a2a.message", []string{"a2a.message"}
	told := summarise([]evidence.Record{r})
	if len(told.Uses) != 1 || told.Uses[0].Operation != SessionCall || strings.Contains(strings.Join(told.Advice(), " "), "nothing that is configured") {
		t.Errorf("%+v %q", told.Uses, told.Advice())
	}
	if g := told.Grants(); len(g.Scopes)+len(g.Left) != 0 {
		t.Errorf("%+v", g)
	}
}

// summarise counts the calls in records.
func summarise(records []evidence.Record) Report {
	s := Summary{}
	for _, r := range records {
		s.Add(r)
	}
	return Report{Uses: s.List(), Frozen: []Freeze{}}
}
