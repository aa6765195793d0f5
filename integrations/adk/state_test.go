package powerboxadk_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/agent/workflowagents/parallelagent"
	"google.golang.org/adk/v2/agent/workflowagents/sequentialagent"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/agenttool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/genai"

	powerboxadk "github.com/powerbox-project/powerbox/integrations/adk"
)

// shelf is what agents have seen of a session's state, by agent.
type shelf struct {
	w    *town
	base session.Service
	in   func(session.Service) session.Service // in front of base, where not nil
	keys map[string]any                        // instead of draft, kept and secret, if not nil

	mu   sync.Mutex
	seen map[string][]string
}

func (s *shelf) note(who, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[who] = append(s.seen[who], what)
}

// look notes what of the keys is there.
func (s *shelf) look(who string, state session.ReadonlyState) {
	for _, key := range []string{"draft", "kept", "secret"} {
		if v, err := state.Get(key); err == nil {
			s.note(who, fmt.Sprint("got ", v))
		} else if !errors.Is(err, session.ErrStateKeyNotExist) {
			s.note(who, err.Error())
		}
	}
	var listed []string
	for key, v := range state.All() {
		listed = append(listed, fmt.Sprint("has ", key, " ", v))
	}
	slices.Sort(listed)
	for _, what := range listed {
		s.note(who, what)
	}
}

// tools are a tool that looks, and whatever else it does.
func (s *shelf) tools(do func(agent.Context)) []tool.Tool {
	return []tool.Tool{s.does(func(ctx agent.Context) {
		if do != nil {
			do(ctx)
		}
		s.look(ctx.AgentName(), ctx.State())
	})}
}

// does is a tool that does something.
func (s *shelf) does(do func(agent.Context)) tool.Tool {
	t, err := functiontool.New(functiontool.Config{Name: "read_doc", Description: "looks"}, func(ctx agent.Context, _ pathOf) (map[string]any, error) {
		do(ctx)
		return map[string]any{"text": "looked"}, nil
	})
	if err != nil {
		s.w.t.Fatal(err)
	}
	return t
}

// run runs a hierarchy over a session that has the keys, and returns the agents' words.
func (s *shelf) run(g *powerboxadk.Gate, root agent.Agent, options ...runner.RunOption) (said string) {
	t := s.w.t
	t.Helper()
	p, err := g.Plugin()
	if err != nil {
		t.Fatal(err)
	}
	s.base, s.seen = session.InMemoryService(), map[string][]string{}
	state := map[string]any{"draft": "D", "kept": "K", "secret": "S"}
	if s.keys != nil {
		state = s.keys
	}
	if _, err := s.base.Create(t.Context(), &session.CreateRequest{AppName: "test", UserID: "alice", SessionID: "s1", State: state}); err != nil {
		t.Fatal(err)
	}
	behind := s.base
	if s.in != nil {
		behind = s.in(behind)
	}
	r, err := runner.New(runner.Config{AppName: "test", Agent: root, SessionService: g.Sessions(behind), PluginConfig: runner.PluginConfig{Plugins: []*plugin.Plugin{p}}})
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range r.Run(t.Context(), "alice", "s1", genai.NewContentFromText("go", genai.RoleUser), agent.RunConfig{}, options...) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Content != nil {
			for _, part := range e.Content.Parts {
				said += part.Text
			}
		}
	}
	return said
}

func (s *shelf) want(who string, want ...string) {
	s.w.t.Helper()
	if got := s.seen[who]; !slices.Equal(got, want) {
		s.w.t.Errorf("%s saw %q; want %q", who, got, want)
	}
}

// What tools, callbacks and instructions read of the session's state is what the
// running agent's scope has; the rest is not there, and every read is on record.
func TestGATE7_ReadsOfState(t *testing.T) {
	w := newTown(t)
	s := &shelf{w: w}
	coordinator := says("coordinator", "read_doc", object{"path": "/a"})
	root := w.agent(coordinator, func(c *llmagent.Config) {
		c.Tools = s.tools(nil)
		c.Instruction = "kept is {kept?}, secret is {secret?}."
		c.BeforeAgentCallbacks = []agent.BeforeAgentCallback{func(ctx agent.Context) (*genai.Content, error) {
			s.look("before", ctx.State())
			return nil, nil //nolint:nilnil // nil lets the agent run
		}}
		c.AfterAgentCallbacks = []agent.AfterAgentCallback{func(ctx agent.Context) (*genai.Content, error) {
			s.look("after", ctx.ReadonlyState())
			return nil, nil //nolint:nilnil // nil adds nothing
		}}
	})
	g := w.gate(root)
	s.run(g, root)
	for _, who := range []string{"before", "coordinator", "after"} {
		s.want(who, "got D", "got K", "has draft D", "has kept K")
	}
	if told := strings.Join(coordinator.told, " "); !strings.Contains(told, "kept is K, secret is .") || strings.Contains(told, "S") {
		t.Errorf("the model was told %q", told)
	}
	got := w.records("notes")
	// Two turns of the model, and three looks at each key in both ways.
	if got["coordinator notes/notes/look ALLOW ACHIEVED"] != 8 || got["coordinator notes/notes/keep ALLOW ACHIEVED"] != 6 || got["coordinator notes/notes/hide DENY"] != 8 {
		t.Errorf("on record: %v", got)
	}
	held, err := g.Sessions(s.base).Get(t.Context(), &session.GetRequest{AppName: "test", UserID: "alice", SessionID: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	s.look("nobody", held.Session.State())
	s.want("nobody")
}

// Each agent reads by its own scope, regardless of who handed over to it, and one that has
// ended does not read for those after it.
func TestGATE7_ReadsAreTheRunningAgents(t *testing.T) {
	w := newTown(t)
	s := &shelf{w: w}
	step := func(name string, called ...any) agent.Agent {
		return w.agent(says(name, called...), func(c *llmagent.Config) {
			c.Tools = s.tools(nil)
			c.AfterAgentCallbacks = []agent.AfterAgentCallback{func(ctx agent.Context) (*genai.Content, error) {
				s.look(name+" after", ctx.State())
				return nil, nil //nolint:nilnil // nil adds nothing
			}}
		})
	}
	reader, clerk := step("reader", "read_doc", object{"path": "/a"}), step("clerk")
	root, err := sequentialagent.New(sequentialagent.Config{AgentConfig: agent.Config{Name: "coordinator", SubAgents: []agent.Agent{reader, clerk}}})
	if err != nil {
		t.Fatal(err)
	}
	s.run(w.gate(root), root)
	s.want("reader", "got K", "has kept K")
	s.want("reader after", "got K", "has kept K")
	s.want("clerk after")

	chat := w.agent(says("coordinator", "transfer_to_agent", object{"agent_name": "reader"}), func(c *llmagent.Config) {
		c.SubAgents = []agent.Agent{step("reader", "read_doc", object{"path": "/b"}), step("clerk")}
	})
	s.run(w.gate(chat), chat)
	s.want("reader", "got K", "has kept K")
}

// Where agents run at once a key must be permitted to each of them.
func TestGATE7_ReadsOfAgentsAtOnce(t *testing.T) {
	w := newTown(t)
	s := &shelf{w: w}
	var both sync.WaitGroup
	both.Add(2)
	meet := func(agent.Context) { both.Done(); both.Wait() }
	at := func(name string) agent.Agent {
		return w.agent(says(name, "read_doc", object{"path": "/a"}), func(c *llmagent.Config) { c.Tools = s.tools(meet) })
	}
	other := w.agent(says("clerk"), func(c *llmagent.Config) {
		c.BeforeAgentCallbacks = []agent.BeforeAgentCallback{func(ctx agent.Context) (*genai.Content, error) {
			meet(ctx)
			s.look("clerk", ctx.State())
			return nil, nil //nolint:nilnil // nil lets the agent run
		}}
	})
	root, err := parallelagent.New(parallelagent.Config{AgentConfig: agent.Config{Name: "coordinator", SubAgents: []agent.Agent{at("reader"), other}}})
	if err != nil {
		t.Fatal(err)
	}
	s.run(w.gate(root), root)
	s.want("reader")
	s.want("clerk")
	if got := w.records("notes"); got["clerk notes/notes/look DENY"] == 0 {
		t.Errorf("on record: %v", got)
	}
}

// What no plugin is told of does not read with the rights of another agent: that one
// has ended, that it was skipped, that two run on one branch.
func TestGATE7_ReadsInDoubt(t *testing.T) {
	w := newTown(t)
	s := &shelf{w: w}
	custom := func(name string, run func(agent.InvocationContext, func(*session.Event, error) bool), subs ...agent.Agent) agent.Agent {
		a, err := agent.New(agent.Config{Name: name, SubAgents: subs, Run: func(ctx agent.InvocationContext) iter.Seq2[*session.Event, error] {
			return func(yield func(*session.Event, error) bool) { run(ctx, yield) }
		}})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	looks := func(name string) func(ctx agent.InvocationContext) {
		return func(ctx agent.InvocationContext) { s.look(name, ctx.Session().State()) }
	}
	after := func(sub agent.Agent) agent.Agent { // a clerk who looks when another agent is done
		return custom("clerk", func(ctx agent.InvocationContext, yield func(*session.Event, error) bool) {
			for e, err := range sub.Run(ctx) {
				yield(e, err)
			}
			looks("clerk")(ctx)
		}, sub)
	}
	ends := after(custom("reader", func(ctx agent.InvocationContext, _ func(*session.Event, error) bool) { looks("reader")(ctx) }))
	s.run(w.gate(ends), ends)
	s.want("reader", "got K", "has kept K")
	s.want("clerk")

	skipped := after(w.agent(says("reader"), func(c *llmagent.Config) {
		c.BeforeAgentCallbacks = []agent.BeforeAgentCallback{func(agent.Context) (*genai.Content, error) {
			return genai.NewContentFromText("not today", genai.RoleModel), nil
		}}
	}))
	if said := s.run(w.gate(skipped), skipped); said != "not today" {
		t.Errorf("said %q", said)
	}
	s.want("clerk")

	pauses := func(name string) agent.Agent {
		return custom(name, func(ctx agent.InvocationContext, yield func(*session.Event, error) bool) {
			yield(session.NewEvent(ctx, ctx.InvocationID()), nil)
			looks(name)(ctx)
		})
	}
	clerk, reader := pauses("clerk"), pauses("reader")
	both := custom("coordinator", func(ctx agent.InvocationContext, _ func(*session.Event, error) bool) {
		goOn, stop := iter.Pull2(clerk.Run(ctx))
		defer stop()
		goOn()
		begun, end := iter.Pull2(reader.Run(ctx))
		defer end()
		begun()
		goOn() // while the reader is in the middle
	}, clerk, reader)
	s.run(w.gate(both), both)
	s.want("clerk")
}

// State does not get around the gate by events, by writing, or in the copy for an
// agent that runs as a tool: that has what both may read.
func TestGATE7_StateTakesNoOtherWay(t *testing.T) {
	w := newTown(t)
	s := &shelf{w: w}
	g := w.gate()
	child, inner := asTool(t, g)
	var wrote error
	root := w.agent(says("coordinator", "read_doc", object{"path": "/a"}, "reader", object{"request": "x"}, "read_doc", object{"path": "/a"}), func(c *llmagent.Config) {
		c.Tools = append(s.tools(func(ctx agent.Context) { wrote = ctx.State().Set("secret", "mine") }), agenttool.New(inner, nil))
	})
	g.Know(root, inner)
	s.run(g, root)
	if told := strings.Join(child.told, " "); !strings.Contains(told, "kept K draft  secret .") {
		t.Errorf("the agent that ran as a tool was told %q", told)
	}
	s.want("coordinator", "got D", "got K", "got mine", "has draft D", "has kept K", "got D", "got K", "got mine", "has draft D", "has kept K")
	after, err := s.base.Get(t.Context(), &session.GetRequest{AppName: "test", UserID: "alice", SessionID: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := after.Session.State().Get("secret"); err != nil || v != "S" || wrote == nil {
		t.Errorf("secret is %v, %v; writing it: %v", v, err, wrote)
	}

	own, err := agent.New(agent.Config{Name: "coordinator", Run: func(ctx agent.InvocationContext) iter.Seq2[*session.Event, error] {
		return func(_ func(*session.Event, error) bool) {
			events := ctx.Session().Events()
			for e := range events.All() {
				s.note("events", fmt.Sprint(e.Author, len(e.Actions.StateDelta)))
			}
			s.note("events", fmt.Sprint(len(events.At(0).Actions.StateDelta)))
			s.look("own", ctx.Session().State())
			s.note("own", fmt.Sprint(ctx.Session().State().Set("secret", "mine") != nil, ctx.Session().State().Set("kept", "L")))
			s.look("own", ctx.Session().State())
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.run(w.gate(own), own, runner.WithStateDelta(map[string]any{"secret": "the user's"}))
	s.want("events", "user0", "0")
	s.want("own", "got D", "got K", "has draft D", "has kept K", "true <nil>", "got D", "got L", "has draft D", "has kept L")
}
