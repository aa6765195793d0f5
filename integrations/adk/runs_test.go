package powerboxadk_test

import (
	"strings"
	"testing"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/agent/workflowagents/sequentialagent"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/agenttool"
)

// Of runs in runners of their own nothing is remembered, and of others what there is
// room for: one that was forgotten while it goes on is asked about, and no agent of it
// reads state.
func TestGATE7_RunsThatAreForgotten(t *testing.T) {
	w := newTown(t)
	g := w.gate()
	inner, err := llmagent.New(g.Guarded(llmagent.Config{Name: "reader", Description: "as a tool", Model: says("reader", "read_doc", object{"path": "/a"}), Tools: w.tools()}))
	if err != nil {
		t.Fatal(err)
	}
	outer := w.agent(says("coordinator", "reader", object{"request": "x"}, "reader", object{"request": "y"}), func(c *llmagent.Config) {
		c.Tools = []tool.Tool{agenttool.New(inner, nil)}
	})
	g.Know(outer, inner)
	w.run(g, outer)
	if runs, calls := g.Remembered(); runs != 0 || calls != 0 || len(w.ran) != 1 {
		t.Errorf("%d runs and %d calls are remembered; ran %q", runs, calls, w.ran)
	}

	s := &shelf{w: w}
	visits := 0
	step := w.agent(says("reader", "read_doc", object{"path": "/a"}, "read_doc", object{"path": "/b"}), func(c *llmagent.Config) {
		c.Tools = []tool.Tool{s.does(func(ctx agent.Context) {
			if visits++; visits == 1 {
				s.look("before", ctx.State())
				w.run(g, w.agent(says("coordinator"), nil)) // another, for which this one is forgotten
				return
			}
			s.look("after", ctx.State())
		})}
	})
	writer, clerk := says("writer"), says("clerk")
	root, err := sequentialagent.New(sequentialagent.Config{AgentConfig: agent.Config{Name: "coordinator", SubAgents: []agent.Agent{step, w.agent(writer, nil), w.agent(clerk, nil)}}})
	if err != nil {
		t.Fatal(err)
	}
	g = w.gate(root)
	g.Remember(1)
	s.run(g, root)
	s.want("before", "got K", "has kept K")
	s.want("after")
	if visits != 2 || len(writer.shown) != 0 || len(clerk.shown) != 1 {
		t.Errorf("%d visits; the writer's model %q; the clerk's %q", visits, writer.shown, clerk.shown)
	}
	if got := w.records("writer"); got["coordinator writer/answer/write DENY"] != 1 {
		t.Errorf("on record of the writer: %v", got)
	}
	if runs, calls := g.Remembered(); runs != 0 || calls != 0 {
		t.Errorf("%d runs and %d calls are remembered", runs, calls)
	}

	// Nor does one begin that nobody is known to have handed over to.
	step = w.agent(says("reader", "read_doc", object{"path": "/a"}), func(c *llmagent.Config) {
		c.Tools = []tool.Tool{s.does(func(agent.Context) { w.run(g, w.agent(says("coordinator"), nil)) })}
	})
	root, err = sequentialagent.New(sequentialagent.Config{AgentConfig: agent.Config{Name: "coordinator", SubAgents: []agent.Agent{step, w.agent(clerk, nil)}}})
	if err != nil {
		t.Fatal(err)
	}
	g = w.gate()
	g.Remember(1)
	if said := s.run(g, root); !strings.HasSuffix(said, "agent clerk runs where nobody is known to hand over to it") || len(clerk.shown) != 1 {
		t.Errorf("said %q; the clerk's model %q", said, clerk.shown)
	}
}
