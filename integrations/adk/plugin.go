package powerboxadk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/genai"

	"github.com/powerbox-project/powerbox/holder/guard"
)

// transfer is the tool by which a model hands over to another agent.
const transfer = "transfer_to_agent"

// finish is the tool with which an agent in task mode gives its result back. It
// hands nothing over.
const finish = "finish_task"

// maxRuns bounds the invocations that are remembered. If a forgotten one continues,
// the gate is asked again, and its state belongs to no agent.
const maxRuns = 1 << 12

// Skill is what a tool, or a key of the session's state, is to the gate.
type Skill struct {
	Agent string // the agent there whose skill it is: a set of tools, with protocol: local
	Skill string
}

// Config says what the hierarchy is to the gate.
type Config struct {
	// Gate is the local gate. Required.
	Gate *guard.Gate
	// Tools are the tools by name. One that is not here is refused.
	Tools map[string]Skill
	// State are the skills by which keys of the session's state are written: by key,
	// or by what it begins with and *. One that is not here is not written. nil leaves
	// state alone.
	State map[string]Skill
	// Reads are the skills by which keys are read, in the same form, for an agent that
	// runs with [Gate.Sessions]. One that is not here is not read.
	Reads map[string]Skill
	// Agents are the names of agents at the gate, where they have others there.
	Agents map[string]string
	// Wait has a call that a person must approve wait, until its context ends. Asked, which
	// may be nil, is told of the question.
	Wait  bool
	Asked func(guard.Pending)
	// Decided is told of each decision on a call of a tool or a hand-off. Optional.
	Decided func(what string, d guard.Decision)
	// Log gets the refused attempts. Optional: slog.Default.
	Log *slog.Logger
}

// Gate holds a hierarchy to scopes.
type Gate struct {
	config Config
	tools  *guard.Tools

	mu      sync.Mutex
	agents  map[string]agent.Agent
	parents map[string]string
	guarded map[string]bool // by their own callbacks
	most    int             // runs
	begun   uint64          // runs so far
	runs    map[string]*run // by invocation
	pending map[call]guard.Decision
}

// run is one invocation.
type run struct {
	nth      uint64
	first    string // the agent that the runner runs
	admitted map[string]bool
	handed   map[string]string   // who handed over to an agent, by the agent
	frames   map[string][]*frame // agents that were begun, by branch
}

// New returns what holds a hierarchy to scopes. [Gate.Know] tells it of the agents.
func New(c Config) (*Gate, error) {
	if c.Gate == nil {
		return nil, errors.New("powerbox: Config needs Gate")
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return &Gate{
		config: c, tools: &guard.Tools{Gate: c.Gate, Wait: c.Wait, Asked: c.Asked, Decided: c.Decided}, agents: map[string]agent.Agent{}, parents: map[string]string{}, guarded: map[string]bool{},
		most: maxRuns, runs: map[string]*run{}, pending: map[call]guard.Decision{},
	}, nil
}

// Know tells of the agent that the runner runs with all below it, and of agents
// that run as tools in runners of their own (agenttool), before any runs.
func (g *Gate) Know(roots ...agent.Agent) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, a := range roots {
		g.walk(a, "")
	}
}

// Guarded adds to an agent what the plugin does, for one that runs as a tool in a
// runner of its own (agenttool), which has no plugins. Such a tool is refused where
// its agent was not made so.
func (g *Gate) Guarded(c llmagent.Config) llmagent.Config {
	g.mu.Lock()
	g.guarded[c.Name] = true
	g.mu.Unlock()
	c.BeforeModelCallbacks = append(c.BeforeModelCallbacks[:len(c.BeforeModelCallbacks):len(c.BeforeModelCallbacks)], g.beforeModel)
	c.BeforeToolCallbacks = append(c.BeforeToolCallbacks[:len(c.BeforeToolCallbacks):len(c.BeforeToolCallbacks)], g.beforeTool)
	c.AfterToolCallbacks = append([]llmagent.AfterToolCallback{g.afterTool}, c.AfterToolCallbacks...)
	return c
}

// isAgent and parentOf look an agent up in the hierarchy.
func (g *Gate) isAgent(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.agents[name] != nil
}

func (g *Gate) parentOf(name string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.parents[name]
}

// walk is called with the lock.
func (g *Gate) walk(a agent.Agent, parent string) {
	if _, seen := g.agents[a.Name()]; seen {
		return
	}
	g.agents[a.Name()], g.parents[a.Name()] = a, parent
	for _, sub := range a.SubAgents() {
		g.walk(sub, a.Name())
	}
}

// Plugin returns the plugin for the runner's PluginConfig, as the last one.
func (g *Gate) Plugin() (*plugin.Plugin, error) {
	return plugin.New(plugin.Config{
		Name: "powerbox", BeforeRunCallback: g.beforeRun,
		BeforeAgentCallback: g.beforeAgent, AfterAgentCallback: g.afterAgent, BeforeToolCallback: g.beforeTool, AfterToolCallback: g.afterTool,
		BeforeModelCallback: g.beforeModel, OnEventCallback: g.onEvent, AfterRunCallback: g.afterRun,
	})
}

func (g *Gate) named(name string) string {
	if at, ok := g.config.Agents[name]; ok {
		return at
	}
	return name
}

// run returns the memory of an invocation. It has none of an invocation that began in
// a tool's own runner, without the plugin, or long ago. It is called with the lock.
func (g *Gate) run(invocation string) *run {
	if r, ok := g.runs[invocation]; ok {
		return r
	}
	return &run{admitted: map[string]bool{}, handed: map[string]string{}, frames: map[string][]*frame{}}
}

// beforeRun begins an invocation, and tells its session of it.
func (g *Gate) beforeRun(ctx agent.InvocationContext) (*genai.Content, error) {
	if ctx.RunConfig() == nil { // as it is where there is a live session
		if err := live(ctx.Agent()); err != nil {
			return nil, err
		}
	}
	g.mu.Lock()
	r := g.run(ctx.InvocationID())
	if r.nth == 0 {
		if len(g.runs) >= g.most {
			oldest := slices.MinFunc(slices.Collect(maps.Keys(g.runs)), func(a, b string) int { return cmp.Compare(g.runs[a].nth, g.runs[b].nth) })
			delete(g.runs, oldest)
		}
		g.begun++
		r.nth = g.begun
		g.runs[ctx.InvocationID()] = r
	}
	r.first = ctx.Agent().Name() // it continues with another after a pause
	g.mu.Unlock()
	if held, ok := ctx.Session().(*heldSession); ok {
		held.of.Store(&invocation{ctx, ctx.InvocationID()})
	}
	return nil, nil //nolint:nilnil // nil lets the run continue
}

func (g *Gate) afterRun(ctx agent.InvocationContext) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.runs, ctx.InvocationID())
	maps.DeleteFunc(g.pending, func(of call, _ guard.Decision) bool { return of.invocation == ctx.InvocationID() })
}

// beforeAgent asks before an agent runs that was not handed over to by a tool:
// those of workflows. The first of an invocation is whom the user talks to.
func (g *Gate) beforeAgent(ctx agent.Context) (*genai.Content, error) {
	name := ctx.AgentName()
	g.mu.Lock()
	r := g.run(ctx.InvocationID())
	free := r.first == name || r.admitted[name]
	if free {
		g.begins(r, ctx.Branch(), name)
	}
	g.mu.Unlock()
	if free {
		return nil, nil //nolint:nilnil // nil lets the agent run
	}
	parent := cmp.Or(g.parentOf(name), r.first)
	d, err := g.handoff(ctx, parent, name)
	if err != nil {
		return genai.NewContentFromText(g.refused(ctx, parent, name, err)["message"].(string), genai.RoleModel), nil
	}
	g.tell(ctx, d, nil)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.begins(g.run(ctx.InvocationID()), ctx.Branch(), name)
	return nil, nil //nolint:nilnil // as above
}

// afterAgent notes that an agent has ended.
func (g *Gate) afterAgent(ctx agent.Context) (*genai.Content, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ends(g.run(ctx.InvocationID()), ctx)
	return nil, nil //nolint:nilnil // nil adds nothing
}

// handoff asks whether an agent may hand over to another, who may then run.
func (g *Gate) handoff(ctx agent.Context, from, to string) (guard.Decision, error) {
	if from == "" {
		return guard.Decision{}, &guard.Refused{Decision: guard.Decision{Text: "agent " + to + " runs where nobody is known to hand over to it"}}
	}
	d, err := g.tools.Try(ctx, to, guard.Attempt{From: g.named(from), To: g.named(to), Context: ctx.SessionID(), Trace: ctx.InvocationID()})
	if err == nil {
		g.mu.Lock()
		r := g.run(ctx.InvocationID())
		r.admitted[to], r.handed[to] = true, from
		g.mu.Unlock()
	}
	return d, err
}

// beforeTool asks before a tool runs. A denial is the tool's result.
func (g *Gate) beforeTool(ctx agent.Context, t tool.Tool, args map[string]any) (map[string]any, error) {
	from, name := ctx.AgentName(), t.Name()
	isAgent := g.isAgent(name)
	g.mu.Lock()
	r := g.run(ctx.InvocationID())
	g.calls(r, ctx, name, isAgent)
	_, asked := g.pending[callOf(ctx, name)]
	g.mu.Unlock()
	if name == finish {
		return nil, nil //nolint:nilnil // nil lets the tool run
	}
	if asked {
		return nil, nil //nolint:nilnil // by the plugin, of an agent that is Guarded too
	}
	if why := g.unheld(ctx, t, args, r.nth == 0); why != nil {
		return why, nil
	}
	d, err := g.ask(ctx, from, name, args)
	if err != nil {
		return g.refused(ctx, from, name, err), nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending[callOf(ctx, name)] = d
	if isAgentTool(t) {
		g.runsAsTool(r, ctx, name)
	}
	return nil, nil //nolint:nilnil // as above
}

// unheld says why an agent that a tool begins would not be held, nil where it is: in
// a runner of its own, or apart, which is within such a runner.
func (g *Gate) unheld(ctx agent.Context, t tool.Tool, args map[string]any, apart bool) map[string]any {
	name := t.Name()
	begins := isAgentTool(t) || apart && (name == transfer || g.isAgent(name) || isFrom(t, "internal/workflowinternal"))
	if !begins {
		return nil
	}
	if name == transfer {
		name, _ = args["agent_name"].(string)
	}
	g.mu.Lock()
	guarded := g.guarded[name]
	g.mu.Unlock()
	if !guarded {
		return map[string]any{"error": "agent_not_guarded", "message": "agent " + name + " runs in a runner without plugins, where nothing would hold it; it has to be made with Guarded"}
	}
	if !apart || g.config.Reads == nil {
		return nil
	}
	// What state there is was for who began this runner, and is all read by who comes.
	for key := range ctx.State().All() {
		if strings.HasPrefix(key, "_adk") {
			continue
		}
		if err := g.askState(ctx, g.config.Reads, name, key, ctx.SessionID(), ctx.InvocationID()); err != nil {
			return g.refused(ctx, ctx.AgentName(), name, fmt.Errorf("state %q is there: %w", key, err))
		}
	}
	return nil
}

// isAgentTool reports whether a tool runs an agent in its own runner.
func isAgentTool(t tool.Tool) bool { return isFrom(t, "tool/agenttool") }

func isFrom(t tool.Tool, folder string) bool {
	return reflect.Indirect(reflect.ValueOf(t)).Type().PkgPath() == "google.golang.org/adk/v2/"+folder
}

// call is one call of a tool. A model may give two the same identifier: what each
// has of its own are the actions that its context collects.
type call struct {
	actions              *session.EventActions
	invocation, id, tool string
}

func callOf(ctx agent.Context, name string) call {
	return call{ctx.Actions(), ctx.InvocationID(), ctx.FunctionCallID(), name}
}

func (g *Gate) ask(ctx agent.Context, from, name string, args map[string]any) (guard.Decision, error) {
	if name == transfer {
		to, _ := args["agent_name"].(string)
		if to == "" {
			return guard.Decision{}, &guard.Refused{Decision: guard.Decision{Text: "transfer_to_agent names no agent"}}
		}
		return g.handoff(ctx, from, to)
	}
	mapped, ok := g.config.Tools[name]
	if !ok && g.isAgent(name) {
		return g.handoff(ctx, from, name)
	}
	if !ok {
		// The gate knows no agent of that name: it says so, on record.
		mapped = Skill{Agent: name, Skill: name}
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return guard.Decision{}, err
	}
	return g.tools.Try(ctx, name, guard.Attempt{
		From: g.named(from), To: mapped.Agent, Skill: mapped.Skill, Arguments: raw, Context: ctx.SessionID(), Trace: ctx.InvocationID(),
	})
}

// afterTool tells what became of a tool.
func (g *Gate) afterTool(ctx agent.Context, t tool.Tool, _, result map[string]any, err error) (map[string]any, error) {
	of := callOf(ctx, t.Name())
	g.mu.Lock()
	d, ok := g.pending[of]
	delete(g.pending, of)
	g.called(g.run(ctx.InvocationID()), ctx, of)
	g.mu.Unlock()
	if ok {
		if _, failed := result["error"]; failed && err == nil {
			err = errors.New("the tool answered with an error")
		}
		g.tell(ctx, d, err)
	}
	return nil, nil //nolint:nilnil // nil leaves the result as it is
}

func (g *Gate) tell(ctx context.Context, d guard.Decision, failed error) {
	if err := g.config.Gate.Outcome(ctx, d, failed); err != nil {
		g.config.Log.WarnContext(ctx, "an outcome could not be told", "decision", d.ID, "error", err)
	}
}

// refused is what the model sees of a denial.
func (g *Gate) refused(ctx context.Context, from, what string, err error) map[string]any {
	out := map[string]any{"error": "authorization_unavailable", "message": "Whether it is allowed cannot be told now; nothing is done without an answer.", "retryable": true}
	if refused := (*guard.Refused)(nil); errors.As(err, &refused) {
		out = map[string]any{
			"error": refused.Code(), "message": refused.Error(), "missing": refused.Decision.Missing,
			"decision": refused.Decision.ID, "retryable": refused.Decision.Retryable,
		}
		if p := refused.Decision.Pending; p != nil {
			out["pending"] = map[string]any{"id": p.ID, "approvalUrl": p.URL, "expires": p.Expires.Format(time.RFC3339), "interval": p.Interval}
		}
	}
	g.config.Log.WarnContext(ctx, "refused", "agent", from, "what", what, "error", err)
	return out
}

// skillOf is what a key of the session's state is: the longest that fits.
func skillOf(skills map[string]Skill, key string) (Skill, bool) {
	if s, ok := skills[key]; ok {
		return s, true
	}
	names := slices.SortedFunc(maps.Keys(skills), func(a, b string) int { return len(b) - len(a) })
	for _, name := range names {
		if prefix, open := strings.CutSuffix(name, "*"); open && strings.HasPrefix(key, prefix) {
			return skills[name], true
		}
	}
	return Skill{}, false
}
