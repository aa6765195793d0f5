package powerboxadk

import (
	"encoding/json"
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
	if req.Config == nil {
		return nil, nil //nolint:nilnil // nil goes on to the model
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

// skills are those of a target that the running agent may call; none where it may
// not talk to it at all, or nobody can tell.
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
	if g.config.State == nil || e == nil || e.Author == genai.RoleUser || e.Partial {
		return nil, nil //nolint:nilnil // nil leaves the event as it is
	}
	for key := range e.Actions.StateDelta {
		mapped, ok := g.stateSkill(key)
		if !ok {
			mapped = Skill{Agent: "state", Skill: key}
		}
		arguments, err := json.Marshal(map[string]string{"key": key})
		if err != nil {
			return nil, err
		}
		d, err := g.config.Gate.Check(ctx, guard.Attempt{
			From: g.named(e.Author), To: mapped.Agent, Skill: mapped.Skill, Arguments: arguments, Context: ctx.Session().ID(), Trace: ctx.InvocationID(),
		})
		if err != nil {
			g.refused(ctx, e.Author, "state "+key, err)
			delete(e.Actions.StateDelta, key)
			continue
		}
		g.tell(ctx, d, nil)
	}
	return e, nil
}
