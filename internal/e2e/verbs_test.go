package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// TestGATE9_EveryVerbCountsToolCalls: calls of tools of an MCP server are in the report, in
// the grants that it proposes and in what an incident touched, as calls of A2A are.
func TestGATE9_EveryVerbCountsToolCalls(t *testing.T) {
	for _, on := range []wire{{}, {overMCP, "2025-11-25"}} {
		t.Run(on.String(), func(t *testing.T) {
			w := start(t, options{on: on})
			alice := w.caller(aliceToken)
			c := alice.reports()
			args, body := retrieve(c.ResourceHandles[0].Handle)
			made := alice.present("documents", body, proven{chain: []string{c.Token}, operation: opRetrieve, arguments: args})
			allowed(t, made)
			denied(t, alice.present("documents", invoke("delete_document", args, ""), proven{chain: []string{c.Token}, operation: opDelete, arguments: args}), "operation_not_granted")
			by := w.decided(made).Powerbox.Requester
			var report struct {
				Uses []struct {
					Caller, Agent, Operation string
					Allowed, Denied          int
				}
			}
			if err := json.Unmarshal([]byte(w.run("report", "--output", "json")), &report); err != nil {
				t.Fatal(err)
			}
			calls := map[string][2]int{}
			for _, u := range report.Uses {
				if u.Caller == by && u.Agent == "documents" {
					calls[u.Operation] = [2]int{u.Allowed, u.Denied}
				}
			}
			read, removed := strings.TrimPrefix(opRetrieve, "documents/"), strings.TrimPrefix(opDelete, "documents/")
			if calls[read] != [2]int{1, 0} || calls[removed] != [2]int{0, 1} {
				t.Errorf("GATE-9 the report has %v", report.Uses)
			}
			if grants := w.run("report", "--grants", "--output", "json"); !strings.Contains(grants, read) {
				t.Errorf("GATE-9 what was called is not in the grants:\n%s", grants)
			}
			in := readIncident(t, w.run("trace", "--incident", by, "--output", "json"))
			if !slices.Contains(in.touched, by+" documents "+opRetrieve+" 1 0") || !slices.Contains(in.touched, by+" documents "+opDelete+" 0 1") {
				t.Errorf("GATE-9 the incident touched %q", in.touched)
			}
		})
	}
}
