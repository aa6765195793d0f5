package powerboxadk

import (
	"slices"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/session"
	"google.golang.org/genai"

	"github.com/powerbox-project/powerbox/holder/guard"
)

// beforeModel hides from the model the tools that the agent may not use. What it
// names all the same is asked about, so that it is refused on record.
func (g *Gate) beforeModel(ctx agent.Context, req *model.LLMRequest) (*model.LLMResponse, error) {
	g.mu.Lock()
	g.turns(g.run(ctx.InvocationID()), ctx).worked = true
	g.mu.Unlock()
	collect(req)
	if req.Config == nil {
		return nil, nil //nolint:nilnil // nil continues to the model
	}
	known := map[string]listed{} // by target
	ask := func(target string) listed {
		if _, asked := known[target]; !asked {
			known[target] = g.skills(ctx, target)
		}
		return known[target]
	}
	may := func(name string) bool {
		mapped, ok := g.config.Tools[name]
		switch isAgent := g.isAgent(name); {
		case name == finish || name == transfer:
			return true // whom to is asked about when it is known
		case !ok && isAgent:
			return ask(g.named(name)).may
		case !ok:
			return false
		}
		l := ask(mapped.Agent)
		return l.all || slices.Contains(l.skills, mapped.Skill)
	}
	var kept []*genai.Tool
	for _, t := range req.Config.Tools {
		if t == nil {
			continue
		}
		own := *t
		own.FunctionDeclarations = nil
		for _, f := range t.FunctionDeclarations {
			if f != nil && may(f.Name) {
				own.FunctionDeclarations = append(own.FunctionDeclarations, f)
			}
		}
		if len(own.FunctionDeclarations) > 0 || len(t.FunctionDeclarations) == 0 {
			kept = append(kept, &own)
		}
	}
	req.Config.Tools = kept
	return nil, nil //nolint:nilnil // as above
}

// listed is what a list may show of a target.
type listed struct {
	may    bool // be talked to at all
	all    bool // nothing is held to anything, as in observe
	skills []string
}

// skills returns the skills of a target that the running agent may call. It
// returns none if the agent may not talk to the target at all, or if that is
// unknown.
func (g *Gate) skills(ctx agent.Context, target string) listed {
	skills, d, err := g.config.Gate.Skills(ctx, guard.Attempt{
		From: g.named(ctx.AgentName()), To: target, Purpose: "list tools", Context: ctx.SessionID(), Trace: ctx.InvocationID(),
	})
	if err != nil {
		return listed{}
	}
	g.tell(ctx, d, nil)
	return listed{true, d.Ambient, skills}
}

// onEvent takes out of an event the keys of the session's state that its author may
// not write.
func (g *Gate) onEvent(ctx agent.InvocationContext, e *session.Event) (*session.Event, error) {
	if e == nil || e.Author == genai.RoleUser {
		return nil, nil //nolint:nilnil // nil leaves the event as it is
	}
	g.seen(ctx.InvocationID(), e)
	if g.config.State == nil || e.Partial {
		return nil, nil //nolint:nilnil // as above
	}
	for key := range e.Actions.StateDelta {
		if g.askState(ctx, g.config.State, e.Author, key, ctx.Session().ID(), ctx.InvocationID()) != nil {
			delete(e.Actions.StateDelta, key)
		}
	}
	return e, nil
}

// seen notes that an agent has said something. One that has called neither model nor
// tool may have been skipped, with this in its place.
func (g *Gate) seen(invocation string, e *session.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r, ok := g.runs[invocation]
	if !ok {
		return
	}
	stack := r.frames[e.Branch]
	if at := lastOf(stack, e.Author); at >= 0 && !stack[at].worked {
		stack[at].unsure = true
	}
}
