package powerboxadk

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/adk/v2/agent"
)

// frame is an agent that was begun, on the branch of its run.
type frame struct {
	name   string
	worked bool // it has called a model or a tool
	// The agent below could be acting in its place: it has ended, except for its own
	// callbacks; or it may have been skipped, of which no plugin is told; or it was
	// begun by neither, so that both may be running.
	ended, unsure, beside bool
	// Tools of its last turn that run, and whether it may be acting the one who was begun
	// after it: tools run at once, and so do callbacks about them.
	calls map[call]bool
	busy  bool
	// The agent and its call whose tool this is, in its own runner, which gets a
	// copy of the state. It acts nowhere in this run, and is there until the call ends.
	caller *frame
	of     call
}

func (f *frame) alone() bool { return !f.ended && !f.unsure && !f.beside }

// State is used without a context that names the agent. Only the running agents
// are known: those on one branch of a run are begun within each other, or one
// after another, and branches run at once.

// begins notes that an agent begins. It is called with the lock.
func (g *Gate) begins(r *run, branch, name string) *frame {
	stack := r.frames[branch]
	for len(stack) > 0 && stack[len(stack)-1].ended {
		stack = stack[:len(stack)-1]
	}
	f := &frame{name: name}
	if len(stack) > 0 {
		top := stack[len(stack)-1].name
		f.beside = top != g.parents[name] && top != r.handed[name]
	}
	r.frames[branch] = append(stack, f)
	if by := r.begunOn(branch, len(stack)); by != nil && len(by.calls) == 0 {
		by.busy = false // its turn is over, with a transfer
	}
	return f
}

// begunOn is the agent within which one begins at a place of a branch: the one
// before it, or the last of the branch that its own was begun on.
func (r *run) begunOn(branch string, at int) *frame {
	before := r.frames[branch][:at]
	if at == 0 {
		on, _ := r.above(branch)
		before = r.frames[on]
	}
	for _, f := range slices.Backward(before) {
		if f.caller == nil {
			return f
		}
	}
	return nil
}

// acts notes that an agent acts. It is called with the lock.
func (g *Gate) acts(r *run, ctx agent.Context) *frame {
	branch := ctx.Branch()
	if at := lastOf(r.frames[branch], ctx.AgentName()); at >= 0 {
		return r.frames[branch][at]
	}
	return g.begins(r, branch, ctx.AgentName())
}

// turns notes that an agent has a turn, or none any more: its tools are over, and so
// is whatever was begun after it on its branch, except for what may be running beside it.
// It is called with the lock.
func (g *Gate) turns(r *run, ctx agent.Context) *frame {
	f, branch := g.acts(r, ctx), ctx.Branch()
	f.calls, f.busy = nil, false
	after, beside := false, false
	r.frames[branch] = slices.DeleteFunc(r.frames[branch], func(other *frame) bool {
		switch {
		case !after:
			after = other == f
			return false
		case other.caller != nil:
			return other.caller == f
		}
		beside = beside || other.beside
		return other.ended || !beside
	})
	for other, frames := range r.frames {
		if below(other, branch) && !slices.ContainsFunc(frames, func(f *frame) bool { return !f.ended }) {
			delete(r.frames, other)
		}
	}
	return f
}

// calls notes that an agent calls a tool, which does something itself where it is no
// agent.
func (g *Gate) calls(r *run, ctx agent.Context, name string, isAgent bool) {
	f := g.acts(r, ctx)
	if f.worked = true; f.calls == nil {
		f.calls = map[call]bool{}
	}
	f.calls[callOf(ctx, name)] = true
	f.busy = f.busy || !isAgent && name != transfer && name != finish
}

// runsAsTool notes that a tool is an agent in its own runner. It gets a copy of
// what its caller reads: what both may.
func (g *Gate) runsAsTool(r *run, ctx agent.Context, name string) {
	caller := g.acts(r, ctx)
	f := g.begins(r, ctx.Branch(), name)
	f.beside, f.caller, f.of = true, caller, callOf(ctx, name)
}

// called notes that a tool is done, except for callbacks, which other tools of the same
// turn do not wait for.
func (g *Gate) called(r *run, ctx agent.Context, of call) {
	f, branch := g.acts(r, ctx), ctx.Branch()
	r.frames[branch] = slices.DeleteFunc(r.frames[branch], func(f *frame) bool { return f.caller != nil && f.of == of })
	delete(f.calls, of)
	f.busy = f.busy || len(f.calls) > 0
}

// ends notes that an agent has ended, except for its own callbacks. It is called with
// the lock.
func (g *Gate) ends(r *run, ctx agent.Context) {
	f := g.turns(r, ctx)
	f.ended = true
	if stack := r.frames[ctx.Branch()]; stack[len(stack)-1] != f {
		return // branches may be those of who runs beside it
	}
	for branch := range r.frames {
		if below(branch, ctx.Branch()) {
			delete(r.frames, branch)
		}
	}
}

func lastOf(stack []*frame, name string) int {
	for i := len(stack) - 1; i >= 0; i-- {
		if stack[i].name == name && stack[i].caller == nil {
			return i
		}
	}
	return -1
}

// below reports whether a branch was begun on another.
func below(branch, of string) bool {
	return branch != of && (of == "" || strings.HasPrefix(branch, of+"."))
}

// acting are the agents of a run of which one is acting now: one where that is
// known, and each that could be where it is not.
func (g *Gate) acting(invocation string) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	r, ok := g.runs[invocation]
	if !ok {
		return nil
	}
	var names []string
	for branch := range r.frames {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(r.frames)), func(other string) bool { return below(other, branch) }) {
			names = append(names, r.actingOn(branch)...)
		}
		for _, f := range r.frames[branch] {
			if f.busy {
				names = append(names, f.name)
			}
			if f.caller != nil {
				names = append(names, f.name, f.caller.name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// actingOn are those of one branch, and below it of those that it was begun on.
func (r *run) actingOn(branch string) (names []string) {
	for on := true; on; branch, on = r.above(branch) {
		stack := r.frames[branch]
		for i := len(stack) - 1; i >= 0; i-- {
			names = append(names, stack[i].name)
			if stack[i].alone() && !slices.ContainsFunc(stack[:i], func(f *frame) bool { return f.beside }) {
				return names
			}
		}
	}
	return names
}

// above is the branch that another was begun on.
func (r *run) above(branch string) (on string, found bool) {
	for other := range r.frames {
		if below(branch, other) && (!found || len(other) > len(on)) {
			on, found = other, true
		}
	}
	return on, found
}
