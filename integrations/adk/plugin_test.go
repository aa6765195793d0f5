package powerboxadk_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/agent/workflowagents/sequentialagent"
	"google.golang.org/adk/v2/tool/agenttool"
)

type object = map[string]any

// Tools and transfers of a hierarchy are held to scopes: one outside the scope never
// runs, the model sees the missing set and not the tool, and every attempt is on
// record.
func TestGATE7_ToolsAndTransfers(t *testing.T) {
	w := newTown(t)
	coordinator := says(
		"coordinator", "delete_doc", object{"path": "/a"}, "unmapped", object{"path": "/a"}, "read_doc", object{"path": "/a"}, "read_doc", object{"path": "/none"},
		"transfer_to_agent", object{"agent_name": "writer"}, "transfer_to_agent", object{"agent_name": "reader"},
	)
	reader := says("reader", "delete_doc", object{"path": "/b"}, "read_doc", object{"path": "/b"}, "transfer_to_agent", object{"agent_name": "writer"})
	writer := says("writer", "delete_doc", object{"path": "/c"})
	root := w.agent(coordinator, func(c *llmagent.Config) { c.SubAgents = []agent.Agent{w.agent(reader, nil), w.agent(writer, nil)} })
	texts, _ := w.run(w.gate(root), root)
	if want := []string{"coordinator read_doc /a", "coordinator read_doc /none", "reader read_doc /b"}; !slices.Equal(w.ran, want) {
		t.Errorf("ran %q; want %q", w.ran, want)
	}
	if len(texts) == 0 || texts[len(texts)-1] != "reader is done" || slices.Contains(texts, "writer is done") {
		t.Errorf("texts %q", texts)
	}
	for _, m := range []*scripted{coordinator, reader} {
		if got := m.shown[0]; slices.Contains(got, "delete_doc") || slices.Contains(got, "unmapped") || !slices.Contains(got, "read_doc") {
			t.Errorf("%s was shown %q", m.name, got)
		}
	}
	if got := coordinator.heard[0]; got["error"] != "outside_caller_scope" || got["message"] != "Capability scope violation: {docs/docs/delete}" {
		t.Errorf("heard %v", got)
	}
	if got := coordinator.heard[1]; got["error"] != "agent_unknown" {
		t.Errorf("heard %v", got)
	}
	if got := coordinator.heard[4]; got["message"] != "Capability scope violation: {a2a.message, writer/answer/write}" {
		t.Errorf("heard %v", got)
	}
	got := w.records("docs")
	for text, want := range map[string]int{
		"coordinator docs/docs/delete DENY": 1, "coordinator docs/docs/read ALLOW PENDING": 2, "coordinator docs/docs/read ALLOW ACHIEVED": 1,
		"coordinator docs/docs/read ALLOW FAILED": 1, "reader docs/docs/delete DENY": 1, "reader docs/docs/read ALLOW ACHIEVED": 1,
	} {
		if got[text] != want {
			t.Errorf("on record: %d of %s; want %d: %v", got[text], text, want, got)
		}
	}
	if got := w.records("writer"); got["coordinator writer/answer/write DENY"] != 1 || got["reader writer/answer/write DENY"] != 1 {
		t.Errorf("on record of the writer: %v", got)
	}
}

// Sub-agents that run without a transfer are held to scopes as well: as tools in
// their parent's turn, in their own runner, and as steps of a workflow.
func TestGATE7_SubAgentsAsToolsAndSteps(t *testing.T) {
	t.Run("single turn", func(t *testing.T) {
		w := newTown(t)
		coordinator := says("coordinator", "summariser", object{"request": "x"}, "reader", object{"request": "x"})
		reader, summariser := says("reader", "read_doc", object{"path": "/b"}, "delete_doc", object{"path": "/b"}), says("summariser", "delete_doc", object{"path": "/c"})
		single := func(c *llmagent.Config) { c.Mode = llmagent.ModeSingleTurn }
		root := w.agent(coordinator, func(c *llmagent.Config) {
			c.SubAgents = []agent.Agent{w.agent(reader, single), w.agent(summariser, single)}
		})
		w.run(w.gate(root), root)
		if want := []string{"reader read_doc /b"}; !slices.Equal(w.ran, want) || len(summariser.shown) > 0 {
			t.Errorf("ran %q; the summariser's model %q", w.ran, summariser.shown)
		}
		if got := coordinator.shown[0]; slices.Contains(got, "summariser") || !slices.Contains(got, "reader") {
			t.Errorf("shown %q", got)
		}
	})
	t.Run("agenttool", func(t *testing.T) {
		w := newTown(t)
		coordinator := says("coordinator", "writer", object{"request": "x"}, "reader", object{"request": "x"}, "summariser", object{"request": "x"})
		reader, writer := says("reader", "delete_doc", object{"path": "/b"}, "read_doc", object{"path": "/b"}), says("writer", "delete_doc", object{"path": "/c"})
		summariser := says("summariser", "read_doc", object{"path": "/d"})
		g := w.gate()
		guarded := func(c *llmagent.Config) { *c = g.Guarded(*c) }
		inner := []agent.Agent{w.agent(reader, guarded), w.agent(writer, guarded), w.agent(summariser, nil)}
		root := w.agent(coordinator, func(c *llmagent.Config) {
			for _, a := range inner {
				c.Tools = append(c.Tools, agenttool.New(a, nil))
			}
		})
		g.Know(append(inner, root)...)
		w.run(g, root)
		if len(summariser.shown) > 0 || coordinator.heard[2]["error"] != "agent_not_guarded" {
			t.Errorf("an agent that is not guarded ran: %v", coordinator.heard)
		}
		if want := []string{"reader read_doc /b"}; !slices.Equal(w.ran, want) || len(writer.shown) > 0 {
			t.Errorf("ran %q; the writer's model %q", w.ran, writer.shown)
		}
	})
	t.Run("workflow", func(t *testing.T) {
		w := newTown(t)
		reader, writer := says("reader", "read_doc", object{"path": "/b"}), says("writer", "read_doc", object{"path": "/c"})
		root, err := sequentialagent.New(sequentialagent.Config{AgentConfig: agent.Config{
			Name: "coordinator", SubAgents: []agent.Agent{w.agent(reader, nil), w.agent(writer, nil)},
		}})
		if err != nil {
			t.Fatal(err)
		}
		texts, _ := w.run(w.gate(root), root)
		if want := []string{"reader read_doc /b"}; !slices.Equal(w.ran, want) || len(writer.shown) > 0 {
			t.Errorf("ran %q; the writer's model %q", w.ran, writer.shown)
		}
		if !strings.Contains(fmt.Sprint(texts), "Capability scope violation: {a2a.message, writer/answer/write}") {
			t.Errorf("texts %q", texts)
		}
	})
}

// Keys of the session's state are written by whom the scope lets.
func TestGATE7_StateKeys(t *testing.T) {
	w := newTown(t)
	coordinator := says("coordinator", "read_doc", object{"path": "/state"})
	root := w.agent(coordinator, nil)
	_, state := w.run(w.gate(root), root)
	if state["kept"] != "x" || state["secret"] != nil {
		t.Errorf("state %v", state)
	}
	if got := w.records("notes"); got["coordinator notes/notes/secret DENY"] != 1 || got["coordinator notes/notes/keep ALLOW ACHIEVED"] != 1 {
		t.Errorf("on record: %v", got)
	}
}

// The implicit hierarchy in words, with what goes beyond the scopes.
func TestGATE7_Report(t *testing.T) {
	w := newTown(t)
	root := w.agent(says("coordinator"), func(c *llmagent.Config) {
		c.SubAgents = []agent.Agent{w.agent(says("reader"), nil), w.agent(says("writer"), nil)}
	})
	wiring, err := w.gate(root).Report(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	exceeding := []string{}
	for _, wire := range wiring.Exceeding() {
		exceeding = append(exceeding, wire.From+" "+wire.Tool)
	}
	slices.Sort(exceeding)
	want := []string{
		"coordinator delete_doc", "coordinator unmapped", "coordinator writer", "reader delete_doc", "reader unmapped",
		"writer delete_doc", "writer read_doc", "writer unmapped",
	}
	if !slices.Equal(exceeding, want) || len(wiring.Opaque) != 0 {
		t.Errorf("exceeding %q; want %q; opaque %q", exceeding, want, wiring.Opaque)
	}
	scopes := wiring.Scopes()
	if got := scopes["coordinator"]["docs"]; !slices.Equal(got, []string{"delete_doc", "read_doc"}) || scopes["coordinator"]["reader"] == nil {
		t.Errorf("scopes %v", scopes)
	}
}
