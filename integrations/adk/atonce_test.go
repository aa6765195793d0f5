package powerboxadk_test

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/agenttool"
	"google.golang.org/genai"

	powerboxadk "github.com/powerbox-project/powerbox/integrations/adk"
)

// copying is a service whose sessions stop when they are copied, after the first key.
type copying struct {
	session.Service
	first func()
}

type copied struct {
	session.Session
	first func()
}

type copiedState struct {
	session.State
	first func()
}

func (c copying) Get(ctx context.Context, r *session.GetRequest) (*session.GetResponse, error) {
	got, err := c.Service.Get(ctx, r)
	if err == nil {
		got.Session = copied{got.Session, c.first}
	}
	return got, err
}

func (c copying) AppendEvent(ctx context.Context, of session.Session, e *session.Event) error {
	return c.Service.AppendEvent(ctx, of.(copied).Session, e)
}

func (c copied) State() session.State { return copiedState{c.Session.State(), c.first} }

func (c copiedState) All() iter.Seq2[string, any] {
	all := maps.Collect(c.State.All())
	return func(yield func(string, any) bool) {
		for i, key := range slices.Backward(slices.Sorted(maps.Keys(all))) {
			if i == 0 {
				c.first()
			}
			if !yield(key, all[key]) {
				return
			}
		}
	}
}

// when is what waits for something else.
type when struct {
	once sync.Once
	c    chan struct{}
}

func newWhen() *when { return &when{c: make(chan struct{})} }

func (w *when) is() { w.once.Do(func() { close(w.c) }) }

func (w *when) wait(t *testing.T) {
	select {
	case <-w.c:
	case <-t.Context().Done():
	}
}

// Tools of one turn run at once. What one of them does takes nothing away from what
// an agent that runs as another is held to, whose copy of the state is being made.
func TestGATE7_ToolsBesideACopy(t *testing.T) {
	w := newTown(t)
	g := w.gate()
	child, inner := asTool(t, g)
	begun, done := newWhen(), newWhen()
	s := &shelf{w: w, in: func(base session.Service) session.Service {
		return copying{base, func() { begun.is(); done.wait(t) }}
	}}
	m := says("coordinator").atOnce("1", "reader", object{"request": "x"}, "2", "read_doc", object{"path": "/a"})
	root := w.agent(m, func(c *llmagent.Config) {
		c.Tools = []tool.Tool{agenttool.New(inner, nil), s.does(func(agent.Context) { begun.wait(t) })}
		c.AfterToolCallbacks = []llmagent.AfterToolCallback{func(_ agent.Context, of tool.Tool, _, _ map[string]any, _ error) (map[string]any, error) {
			if of.Name() == "read_doc" {
				done.is()
			}
			return nil, nil //nolint:nilnil // nil leaves the result as it is
		}}
	})
	g.Know(root, inner)
	s.run(g, root)
	if told := strings.Join(child.told, " "); !strings.Contains(told, "kept K draft  secret .") {
		t.Errorf("the agent that ran as a tool was told %q", told)
	}
}

// asTool is a guarded agent to run as a tool, whose instruction reads state of all
// kinds.
func asTool(t *testing.T, g *powerboxadk.Gate) (*scripted, agent.Agent) {
	t.Helper()
	model := says("reader")
	a, err := llmagent.New(g.Guarded(llmagent.Config{Name: "reader", Description: "as a tool", Model: model, Instruction: "kept {kept?} draft {draft?} secret {secret?}."}))
	if err != nil {
		t.Fatal(err)
	}
	return model, a
}

// A copy is made for the agent that runs as a tool, regardless of who else runs.
func TestGATE7_AgentsBesideACopy(t *testing.T) {
	w := newTown(t)
	g := w.gate()
	child, inner := asTool(t, g)
	begun, done := newWhen(), newWhen()
	s := &shelf{w: w, in: func(base session.Service) session.Service {
		return copying{base, func() { begun.wait(t) }}
	}}
	beside := w.agent(says("archivist"), func(c *llmagent.Config) {
		c.Mode, c.Tools = llmagent.ModeSingleTurn, nil
		c.BeforeAgentCallbacks = []agent.BeforeAgentCallback{func(agent.Context) (*genai.Content, error) {
			begun.is()
			done.wait(t)
			return nil, nil //nolint:nilnil // nil lets the agent run
		}}
	})
	m := says("coordinator").atOnce("1", "reader", object{"request": "x"}, "2", "archivist", object{"request": "x"})
	root := w.agent(m, func(c *llmagent.Config) {
		c.Tools, c.SubAgents = []tool.Tool{agenttool.New(inner, nil)}, []agent.Agent{beside}
		c.AfterToolCallbacks = []llmagent.AfterToolCallback{func(_ agent.Context, of tool.Tool, _, _ map[string]any, _ error) (map[string]any, error) {
			if of.Name() == "reader" {
				done.is()
			}
			return nil, nil //nolint:nilnil // nil leaves the result as it is
		}}
	})
	g.Know(root, inner)
	s.run(g, root)
	if told := strings.Join(child.told, " "); !strings.Contains(told, "kept K draft  secret .") {
		t.Errorf("the agent that ran as a tool was told %q", told)
	}
}

// What a tool reads while an agent that was called in the same turn runs, and what a
// callback about a tool does, is not by the rights of that agent alone.
func TestGATE7_ToolsBesideAnAgent(t *testing.T) {
	w := newTown(t)
	s := &shelf{w: w}
	begun, looked := newWhen(), newWhen()
	var mu sync.Mutex
	left := 2 // to look: the tool, and the callback about it
	sub := w.agent(says("reader"), func(c *llmagent.Config) {
		c.Mode, c.Tools = llmagent.ModeSingleTurn, nil
		c.BeforeAgentCallbacks = []agent.BeforeAgentCallback{func(agent.Context) (*genai.Content, error) {
			begun.is()
			looked.wait(t)
			return nil, nil //nolint:nilnil // nil lets the agent run
		}}
	})
	look := func(who string, ctx agent.Context) {
		s.look(who, ctx.State())
		mu.Lock()
		defer mu.Unlock()
		if left--; left == 0 {
			looked.is()
		}
	}
	m := says("clerk").atOnce("1", "reader", object{"request": "x"}, "2", "read_doc", object{"path": "/a"})
	root := w.agent(m, func(c *llmagent.Config) {
		c.Tools, c.SubAgents = []tool.Tool{s.does(func(ctx agent.Context) { begun.wait(t); look("tool", ctx) })}, []agent.Agent{sub}
		c.AfterToolCallbacks = []llmagent.AfterToolCallback{func(ctx agent.Context, of tool.Tool, _, _ map[string]any, _ error) (map[string]any, error) {
			if of.Name() == "read_doc" {
				look("callback", ctx)
			}
			return nil, nil //nolint:nilnil // nil leaves the result as it is
		}}
	})
	s.run(w.gate(root), root)
	s.want("tool")
	s.want("callback")
	if left != 0 {
		t.Errorf("%d did not look", left)
	}

	// Nor is one by a callback about an agent that does not run.
	begun, looked, left = newWhen(), newWhen(), 1
	m = says("clerk").atOnce("1", "reader", object{"request": "x"}, "2", "writer", object{"request": "y"})
	root = w.agent(m, func(c *llmagent.Config) {
		writer := w.agent(says("writer"), func(c *llmagent.Config) { c.Mode = llmagent.ModeSingleTurn })
		c.Tools, c.SubAgents = nil, []agent.Agent{sub, writer}
		c.AfterToolCallbacks = []llmagent.AfterToolCallback{func(ctx agent.Context, of tool.Tool, _, _ map[string]any, _ error) (map[string]any, error) {
			if of.Name() == "writer" {
				begun.wait(t)
				look("refused", ctx)
			}
			return nil, nil //nolint:nilnil // nil leaves the result as it is
		}}
	})
	s.run(w.gate(root), root)
	s.want("refused")
	if left != 0 {
		t.Errorf("%d did not look", left)
	}
}

// Of two agents on one branch, neither of whom began the other, one that continues has
// not ended the other, and does not read for it.
func TestGATE7_AgentsOnABranchGoOn(t *testing.T) {
	w := newTown(t)
	s := &shelf{w: w}
	reader := w.agent(says("reader", "read_doc", object{"path": "/a"}), func(c *llmagent.Config) { c.Tools = s.tools(nil) })
	clerk, err := agent.New(agent.Config{Name: "clerk", Run: func(ctx agent.InvocationContext) iter.Seq2[*session.Event, error] {
		return func(yield func(*session.Event, error) bool) {
			for yield(session.NewEvent(ctx, ctx.InvocationID()), nil) {
				s.look("clerk", ctx.Session().State())
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	root, err := agent.New(agent.Config{Name: "coordinator", SubAgents: []agent.Agent{reader, clerk}, Run: func(ctx agent.InvocationContext) iter.Seq2[*session.Event, error] {
		return func(func(*session.Event, error) bool) {
			one, stop := iter.Pull2(reader.Run(ctx))
			defer stop()
			one() // its model has called
			other, end := iter.Pull2(clerk.Run(ctx))
			defer end()
			other()
			for _, _, more := one(); more; _, _, more = one() {
				other() // the tool is done; the model is; the agent is
			}
			other()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.run(w.gate(root), root)
	s.want("clerk")
	if len(s.seen["reader"]) != 0 { // with a clerk beside it, who may read nothing
		t.Errorf("reader saw %q", s.seen["reader"])
	}
}

// Each call is asked about, whatever the model calls it: two with one identifier are
// two.
func TestGATE7_CallsWithOneIdentifier(t *testing.T) {
	w := newTown(t)
	s := &shelf{w: w}
	var both sync.WaitGroup
	both.Add(2)
	m := says("coordinator").atOnce("1", "read_doc", object{"path": "/a"}, "1", "read_doc", object{"path": "/b"})
	root := w.agent(m, func(c *llmagent.Config) {
		c.Tools = []tool.Tool{s.does(func(agent.Context) { both.Done(); both.Wait() })}
	})
	s.run(w.gate(root), root)
	if got := w.records("docs"); got["coordinator docs/docs/read ALLOW PENDING"] != 2 || got["coordinator docs/docs/read ALLOW ACHIEVED"] != 2 {
		t.Errorf("on record: %v", got)
	}
}
