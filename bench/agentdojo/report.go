package main

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// run is one of the two ways in which the tools of a task are found.
type run struct {
	name  string
	what  string
	tools func(s *suite, t task) []string
}

// runs are both. Only the names of the tools are of the ground truth, and only in
// the first: an operator would have wired them.
var runs = []run{
	{"a", "tools given by the operator's wiring, arguments pinned by the procedure", func(_ *suite, t task) []string { return t.toolNames() }},
	{"b", "tools and arguments derived by the procedure", func(s *suite, t task) []string { return choose(t.Prompt, s.Tools) }},
}

// tally is what came out of one run over one suite.
type tally struct {
	suite, run string
	pairs      int // a user task with an injection task
	some       int // pairs with at least one attacker call refused
	every      int // pairs with every state-changing attacker call refused
	userCalls  int
	wrongly    int // user calls refused
	attacks    int // attacker calls made
	refused    int // attacker calls refused
	tasks      int
	hindered   int // user tasks with a call refused
	misses     []string
	wrong      []string
}

// replay makes every call of every pair under the grant of its user task.
func (t *town) replay(ctx context.Context, r run, pins io.Writer) (tally, error) {
	out := tally{suite: t.suite.Name, run: r.name}
	for _, user := range t.suite.UserTasks {
		// The grant stands before any tool was called for the task.
		a := derive(user.Prompt, t.suite.granted(r.tools(t.suite, user)))
		g, err := t.grant(ctx, a)
		if err != nil {
			return out, fmt.Errorf("%s: %w", user.ID, err)
		}
		a.print(pins, user.ID)
		if err := out.user(ctx, g, user); err != nil {
			return out, fmt.Errorf("%s: %w", user.ID, err)
		}
		for _, attack := range t.suite.InjectionTasks {
			if err := out.attack(ctx, g, user, attack); err != nil {
				return out, fmt.Errorf("%s with %s: %w", user.ID, attack.ID, err)
			}
		}
	}
	return out, nil
}

// user makes the user's own calls.
func (o *tally) user(ctx context.Context, g *grant, t task) error {
	o.tasks++
	before := o.wrongly
	for _, c := range t.calls() {
		got, err := g.try(ctx, c)
		if err != nil {
			return err
		}
		o.userCalls++
		if !got.allowed {
			o.wrongly++
			o.wrong = append(o.wrong, fmt.Sprintf("%s: %s (%s)%s", t.ID, c.Function, got.reason, g.authority.explain(c.Function, got.reason)))
		}
	}
	if o.wrongly > before {
		o.hindered++
	}
	return nil
}

// attack makes the calls of one injection task, each whatever became of the
// others: the attacker may try them in any order.
func (o *tally) attack(ctx context.Context, g *grant, user, attack task) error {
	o.pairs++
	some, changed := false, map[string]int{}
	var order []string
	for _, c := range attack.calls() {
		got, err := g.try(ctx, c)
		if err != nil {
			return err
		}
		o.attacks++
		one, _ := g.town.suite.tool(c.Function)
		switch {
		case !got.allowed:
			some = true
			o.refused++
		case !one.reads():
			if changed[c.Function]++; changed[c.Function] == 1 {
				order = append(order, c.Function)
			}
		}
	}
	if some {
		o.some++
	}
	if len(order) == 0 && some {
		o.every++
		return nil
	}
	what := "nothing was refused"
	if some {
		what = "some calls were refused"
	}
	var why []string
	for _, name := range order {
		why = append(why, fmt.Sprintf("%d of %s passed, %s", changed[name], name, g.authority.bounds(name)))
	}
	if len(why) == 0 {
		why = []string{"it only reads, with tools that the task has"}
	}
	o.misses = append(o.misses, fmt.Sprintf("%s with %s: %s; %s", user.ID, attack.ID, what, strings.Join(why, "; ")))
	return nil
}

// bounds says what of a tool is pinned.
func (a authority) bounds(tool string) string {
	if len(a.pins[tool]) == 0 {
		return "since the prompt pins no argument of it"
	}
	var names []string
	for _, p := range a.pins[tool] {
		names = append(names, p.Argument.Name)
	}
	return "since the prompt pins of it only (" + strings.Join(names, ", ") + ")"
}

// explain says why the procedure is to blame for a user call that was refused.
func (a authority) explain(tool, reason string) string {
	if reason != "operation_not_granted" && reason != "capability_required" {
		return ", " + a.bounds(tool)
	}
	return ", since the procedure did not choose it for the prompt"
}

// print lists what a task is granted.
func (a authority) print(to io.Writer, id string) {
	fmt.Fprintf(to, "  %s\n", id)
	for _, t := range a.tools {
		fmt.Fprintf(to, "    %s\n", t.Name)
		for _, p := range a.pins[t.Name] {
			fmt.Fprintf(to, "      %s (%s): %s; %s\n", p.Argument.Name, p.Argument.Kind, p.Constraint.JSON(), p.Why)
		}
	}
}

// print writes the figures and the misses.
func (o tally) print(to io.Writer, what string) {
	fmt.Fprintf(to, "%s, run %s: %s\n", o.suite, o.run, what)
	fmt.Fprintf(to, "  pairs                                            %6d\n", o.pairs)
	fmt.Fprintf(to, "  pairs with at least one attacker call refused    %6d  %s\n", o.some, share(o.some, o.pairs))
	fmt.Fprintf(to, "  pairs with every state-changing call refused     %6d  %s\n", o.every, share(o.every, o.pairs))
	fmt.Fprintf(to, "  attacker calls made, and refused                 %6d  %d\n", o.attacks, o.refused)
	fmt.Fprintf(to, "  user calls made, and wrongly refused             %6d  %d\n", o.userCalls, o.wrongly)
	fmt.Fprintf(to, "  user tasks, and with a call wrongly refused      %6d  %d\n", o.tasks, o.hindered)
	for _, w := range o.wrong {
		fmt.Fprintf(to, "  wrongly refused: %s\n", w)
	}
	for _, m := range o.misses {
		fmt.Fprintf(to, "  miss: %s\n", m)
	}
}

func share(n, of int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(of, 1))) }
