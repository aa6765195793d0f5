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
	// The agent below could be acting in its place: it has ended, but for its own
	// callbacks; or it may have been skipped, of which no plugin is told; or it was
	// begun by neither, so that both may be running.
	ended, unsure, beside bool
}

func (f *frame) alone() bool { return !f.ended && !f.unsure && !f.beside }

// State is used without a context that says by whom. What is known are the agents
// that run: those on one branch of a run are begun within each other, or one after
// another, and branches run at once.

// begins notes that an agent begins. It is called with the lock.
func (g *Gate) begins(r *run, branch, name string) {
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
}

// at notes that an agent acts: whatever was begun after it on its branch is over. It
// is called with the lock.
func (g *Gate) at(r *run, ctx agent.Context) *frame {
	branch, name := ctx.Branch(), ctx.AgentName()
	stack := r.frames[branch]
	at := lastOf(stack, name)
	if at < 0 {
		g.begins(r, branch, name)
		stack = r.frames[branch]
		at = len(stack) - 1
	}
	r.frames[branch] = stack[:at+1]
	for other, frames := range r.frames {
		if below(other, branch) && !slices.ContainsFunc(frames, func(f *frame) bool { return !f.ended }) {
			delete(r.frames, other)
		}
	}
	return stack[at]
}

// ends notes that an agent has ended, but for its own callbacks. It is called with
// the lock.
func (g *Gate) ends(r *run, ctx agent.Context) {
	g.at(r, ctx).ended = true
	for branch := range r.frames {
		if below(branch, ctx.Branch()) {
			delete(r.frames, branch)
		}
	}
}

func lastOf(stack []*frame, name string) int {
	for i := len(stack) - 1; i >= 0; i-- {
		if stack[i].name == name {
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
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// actingOn are those of one branch, and below it of those that it was begun on.
func (r *run) actingOn(branch string) (names []string) {
	for {
		stack := r.frames[branch]
		for i := len(stack) - 1; i >= 0; i-- {
			names = append(names, stack[i].name)
			if stack[i].alone() {
				return names
			}
		}
		on, found := "", false
		for other := range r.frames {
			if below(branch, other) && (!found || len(other) > len(on)) {
				on, found = other, true
			}
		}
		if !found {
			return names
		}
		branch = on
	}
}
