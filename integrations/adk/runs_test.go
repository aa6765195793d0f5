package powerboxadk_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/agent/workflowagents/sequentialagent"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/agenttool"
)

// Of runs in runners of their own nothing is remembered, and of others what there is
// room for: one that was forgotten while it continues is asked about, and no agent of it
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

	// Nor does an agent begin without a known hand-off.
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

// In a runner of its own an agent begins no other that is not held there, in whatever
// way, and none that may not read what it was given.
func TestGATE7_AgentsWithinTools(t *testing.T) {
	for name, q := range map[string]struct {
		guarded bool           // the clerk
		keys    map[string]any // in the archivist's copy of the state
		error   string
		ran     []string
	}{
		"held":             {true, map[string]any{}, "", []string{"clerk read_doc /a"}},
		"not held":         {false, map[string]any{}, "agent_not_guarded", nil},
		"held, with state": {true, map[string]any{"draft": "D"}, "outside_caller_scope", nil},
	} {
		for _, way := range []string{"transfer", "agenttool", "single turn"} {
			t.Run(name+" "+way, func(t *testing.T) {
				w := newTown(t)
				g := w.gate()
				clerk := says("clerk", "read_doc", object{"path": "/a"}, "delete_doc", object{"path": "/a"})
				inner := w.agent(clerk, func(c *llmagent.Config) {
					if q.guarded {
						*c = g.Guarded(*c)
					}
					if way == "single turn" {
						c.Mode = llmagent.ModeSingleTurn
					}
				})
				archivist := says("archivist", "clerk", object{"request": "x"})
				if way == "transfer" {
					archivist = says("archivist", "transfer_to_agent", object{"agent_name": "clerk"})
				}
				middle := w.agent(archivist, func(c *llmagent.Config) {
					if c.Tools = nil; way == "agenttool" {
						c.Tools = []tool.Tool{agenttool.New(inner, nil)}
					} else {
						c.SubAgents = []agent.Agent{inner}
					}
					*c = g.Guarded(*c)
				})
				root := w.agent(says("coordinator", "archivist", object{"request": "x"}), func(c *llmagent.Config) {
					c.Tools = []tool.Tool{agenttool.New(middle, nil)}
				})
				g.Know(root, middle, inner)
				s := &shelf{w: w, keys: q.keys}
				s.run(g, root)
				if !slices.Equal(w.ran, q.ran) {
					t.Errorf("ran %q; want %q", w.ran, q.ran)
				}
				if q.error == "" {
					return
				}
				if len(archivist.heard) != 1 || archivist.heard[0]["error"] != q.error || len(clerk.shown) != 0 {
					t.Errorf("heard %v; the clerk's model %q", archivist.heard, clerk.shown)
				}
			})
		}
	}
}
