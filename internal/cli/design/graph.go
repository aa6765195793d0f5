package design

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/handoff"
	"github.com/powerbox-project/powerbox/internal/handoff/graph"
	"github.com/powerbox-project/powerbox/internal/plain"
	"github.com/powerbox-project/powerbox/internal/sorting"
	"github.com/powerbox-project/powerbox/internal/version"
)

func newGraph(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "graph",
		Short:   "Show and check the delegation graph, from files only",
		Example: "  powerbox graph show delegation.yaml",
		Long: "The graph has three kinds of declarations (docs/how-to/graph.md): the surface of each agent, from its card or a list; the\n" +
			"scopes, which limit the calls between agents; and the wiring, which lists the delegations. -c adds the agents, skills,\n" +
			"scopes and gateways of a configuration. The agents are not contacted.",
	}
	cmd.AddCommand(newGraphShow(p), newGraphCheck(p), newGraphChecklist(p), newGraphDiff(p), newGraphPreflight(p))
	return cmd
}

// GraphFlags say what a graph is made of, beside the files that are named.
type GraphFlags struct {
	Config string
	cards  string
	Fetch  bool
	From   CardSource
}

func (g *GraphFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&g.Config, "config", "c", "", "configuration `file` whose agents, skills and scopes are part of the graph")
	f.StringVar(&g.cards, "cards", "", "`folder` with the cards of the configuration's agents, ID.json each")
	f.BoolVar(&g.Fetch, "fetch", false, "fetch the cards of the configuration's agents from their addresses")
	g.From.add(cmd)
}

// formatFlag is --output with other formats than text and json.
func formatFlag(cmd *cobra.Command, formats ...string) *string {
	output := cmd.Flags().StringP("output", "o", formats[0], strings.Join(formats, ", "))
	cli.Values(cmd, "output", formats...)
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if !slices.Contains(formats, *output) {
			return cli.Usage(fmt.Errorf("--output is %q; want one of %s", *output, strings.Join(formats, ", ")))
		}
		return nil
	}
	return output
}

// declarations reads what a graph is made of.
func declarations(ctx context.Context, p *cli.Program, files []string, g GraphFlags) (*handoff.Declarations, error) {
	if len(files) == 0 && g.Config == "" {
		return nil, cli.Usage(errors.New("want files with declarations, or -c with a configuration"))
	}
	d := handoff.New()
	if g.Config != "" {
		if err := Configured(ctx, p, d, g); err != nil {
			return nil, err
		}
	}
	for _, name := range files {
		data, err := p.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if err := d.Read(name, data, skillsOf); err != nil {
			return nil, cli.Invalid(err)
		}
	}
	if g.Config != "" {
		gates(d)
	}
	return d, nil
}

// skillsOf are the ids of the skills of a card in a file.
func skillsOf(name string) ([]string, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return handoff.SkillIDs(data)
}

// Configured adds what a configuration declares.
func Configured(ctx context.Context, p *cli.Program, d *handoff.Declarations, g GraphFlags) error {
	c, err := p.LoadConfig(g.Config)
	if err != nil {
		return err
	}
	d.Files = append(d.Files, g.Config)
	at := handoff.Place{File: g.Config}
	for _, agent := range c.Agents {
		a := &handoff.Agent{ID: agent.ID, Place: at, Skills: map[string]string{}, Prefix: agent.ID + "/"}
		for _, s := range c.Skills[agent.ID] {
			a.Skills[s.Skill] = s.Grant + "/" + s.Operation
		}
		skills, err := cardSkills(ctx, p, agent, a, g)
		if err != nil {
			return fmt.Errorf("card of agent %s: %w", agent.ID, err)
		}
		if err := a.Carries(skills); err != nil {
			return cli.Invalid(fmt.Errorf("%s: %w", g.Config, err))
		}
		d.Agents[agent.ID] = a
	}
	if g.cards == "" && !g.Fetch {
		cli.Printf(p.Stderr, "powerbox: no cards were read: every configured skill is taken to be on its agent's card (--cards, --fetch)\n")
	}
	for from, agents := range c.Scopes {
		for to, operations := range agents {
			if err := d.AddScope(handoff.Scope{From: from, To: to, Place: at, Entries: operations}); err != nil {
				return cli.Invalid(err)
			}
		}
	}
	sorting.Sort(d.Scopes, func(a, b handoff.Scope) int { return strings.Compare(a.From+"\x00"+a.To, b.From+"\x00"+b.To) })
	for _, agent := range c.Agents {
		if agent.Mode == string(gate.Observe) {
			cli.Printf(p.Stderr, "powerbox: agent %s is in mode observe: its gateway enforces nothing\n", agent.ID)
		}
	}
	return nil
}

// cardSkills are the skills of a configured agent: of its card where one is read.
func cardSkills(ctx context.Context, p *cli.Program, agent config.Agent, a *handoff.Agent, g GraphFlags) ([]string, error) {
	switch {
	case g.cards != "":
		a.Card = filepath.Join(g.cards, agent.ID+".json")
		return skillsOf(a.Card)
	case g.Fetch:
		raw, err := ReadCard(ctx, p, agent.Upstream, g.From)
		if err != nil {
			return nil, err
		}
		return handoff.SkillIDs(raw)
	}
	var skills []string
	for s := range a.Skills {
		skills = append(skills, s)
	}
	slices.Sort(skills)
	return skills, nil
}

// gates notes that what leads to a configured agent passes its gateway.
func gates(d *handoff.Declarations) {
	for i, w := range d.Wires {
		if a := d.Agents[w.To]; w.Gate == "" && a != nil && a.Prefix != "" {
			d.Wires[i].Gate = "gateway"
		}
	}
}

// graphJSON is the stable form of a graph.
type graphJSON struct {
	Agents  int             `json:"agents"`
	Wires   []edgeJSON      `json:"wires"`
	Cycles  [][]string      `json:"cycles"`
	Broad   []graph.Broad   `json:"over_broad"`
	Radii   []graph.Radius  `json:"blast_radius"`
	Reached []graph.Reached `json:"reach,omitempty"` // of --from
}

type edgeJSON struct {
	From     string        `json:"from"`
	To       string        `json:"to"`
	Requires []string      `json:"requires"`
	Passes   bool          `json:"passes"`
	Failure  *gate.Failure `json:"failure,omitempty"`
	Text     string        `json:"text,omitempty"` // of the failure
}

const graphShowExample = "  powerbox graph show delegation.yaml\n  powerbox graph show delegation.yaml --from analyst --output svg > analyst.svg"

func newGraphShow(p *cli.Program) *cobra.Command {
	var g GraphFlags
	var view handoff.View
	var all bool
	cmd := &cobra.Command{
		Use:     "show [FILE...]",
		Short:   "Show the graph and the blast radius of each agent",
		Long:    "Show prints the graph as a text tree, JSON, DOT, Mermaid or SVG.",
		Example: graphShowExample, Args: cobra.ArbitraryArgs,
	}
	output := formatFlag(cmd, "text", "json", "dot", "mermaid", "svg")
	g.add(cmd)
	cmd.Flags().StringVar(&view.From, "from", "", "only the calls that this `agent` can cause, and its reach if it is compromised")
	cmd.Flags().BoolVar(&all, "all", false, "show every level of a large graph, and the blast radius of every agent instead of the widest 20")
	cmd.Flags().IntVar(&view.Levels, "levels", 0, "show `N` levels of delegation, and count the rest (default: all, of more than 60 agents 2)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := declarations(cmd.Context(), p, args, g)
		if err != nil {
			return err
		}
		whole, err := d.Graph()
		if err != nil {
			return cli.Invalid(err)
		}
		part := whole
		if view.From != "" {
			if d.Agents[view.From] == nil {
				return fmt.Errorf("there is no agent %q", view.From)
			}
			if part, err = d.Part(view.From).Graph(); err != nil {
				return cli.Invalid(err)
			}
		}
		switch *output {
		case "dot":
			return handoff.DOT(p.Stdout, part)
		case "mermaid":
			return handoff.Mermaid(p.Stdout, part)
		case "svg":
			if view.From != "" {
				return handoff.SVGReach(p.Stdout, part, view.From)
			}
			return handoff.SVG(p.Stdout, part)
		case "json":
			return p.PrintJSON(describeGraph(part, whole, view.From))
		}
		if view.Levels < 0 {
			return cli.Usage(fmt.Errorf("--levels is %d; want 1 or more", view.Levels))
		}
		if view.Levels == 0 && !all && len(part.Nodes()) > shownWhole {
			view.Levels = 2
		}
		if err := printWrong(p, part); err != nil {
			return err
		}
		if err := handoff.Tree(p.Stdout, part, view); err != nil {
			return err
		}
		return printRadius(p, part, whole, view.From, all)
	}
	return cmd
}

func describeGraph(part, whole *graph.Graph, from string) graphJSON {
	out := graphJSON{Agents: len(part.Nodes()), Wires: []edgeJSON{}, Cycles: append([][]string{}, part.Cycles()...), Broad: append([]graph.Broad{}, part.OverBroad()...), Radii: part.Radii()}
	for _, e := range part.Edges() {
		edge := edgeJSON{From: e.Wire.From, To: e.Wire.To, Requires: []string{}, Passes: e.Failure == nil, Failure: e.Failure}
		for _, op := range e.Wire.Requires {
			edge.Requires = append(edge.Requires, op.String())
		}
		if e.Failure != nil {
			edge.Text = e.Failure.Error()
		}
		out.Wires = append(out.Wires, edge)
	}
	if from != "" {
		out.Reached = append([]graph.Reached{}, whole.Reach(from)...)
	}
	return out
}

// shownWhole is how many agents a tree shows with all their levels, unless --all or
// --levels says something else.
const shownWhole = 60

// printWrong prints the head of a graph: its size, and the delegations that can never pass.
func printWrong(p *cli.Program, g *graph.Graph) error {
	if len(g.Nodes()) <= shownWhole {
		return nil // it is in sight
	}
	edges := g.Edges()
	var bad []string
	for _, e := range edges {
		if e.Failure != nil {
			bad = append(bad, fmt.Sprintf("  %s to %s: %s", e.Wire.From, e.Wire.To, e.Failure))
		}
	}
	cli.Printf(p.Stdout, "%s, %s; %d can never pass\n", plain.Count(len(g.Nodes()), "agent"), plain.Count(len(edges), "wire"), len(bad))
	if left := len(bad) - shownRadii; left > 0 {
		bad = append(bad[:shownRadii], fmt.Sprintf("  and %d more; powerbox graph check lists them", left))
	}
	for _, b := range bad {
		cli.Printf(p.Stdout, "%s\n", b)
	}
	cli.Printf(p.Stdout, "\n")
	return nil
}

// shownRadii is how many agents the table of radii has without --all.
const shownRadii = 20

func printRadius(p *cli.Program, part, whole *graph.Graph, from string, all bool) error {
	cli.Printf(p.Stdout, "\n")
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	if from != "" {
		cli.Printf(w, "If %s were taken over\n", from)
		cli.Printf(w, "REACHES\tTHROUGH\tAMBIENT\tGATED\n")
		for _, r := range whole.Reach(from) {
			cli.Printf(w, "%s\t%s\t%s\t%s\n", r.Agent, cmp.Or(strings.Join(r.Through, " > "), "-"), cmp.Or(strings.Join(r.Operations, ", "), "-"), cmp.Or(strings.Join(r.Gated, ", "), "-"))
		}
		return w.Flush()
	}
	radii := part.Radii()
	sorting.Stable(radii, func(a, b graph.Radius) int { return b.AmbientOperations - a.AmbientOperations })
	left := 0
	if !all && len(radii) > shownRadii {
		left = len(radii) - shownRadii
		radii = radii[:shownRadii]
	}
	cli.Printf(w, "BLAST RADIUS\tAMBIENT\t\tGATED\t\n")
	for _, r := range radii {
		cli.Printf(w, "%s\t%s\t%s\t%s\t%s\n", r.Agent, plain.Count(r.AmbientAgents, "agent"), plain.Count(r.AmbientOperations, "operation"), plain.Count(r.GatedAgents, "agent"), plain.Count(r.GatedOperations, "operation"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if left > 0 {
		cli.Printf(p.Stdout, "and %s with less (--all)\n", plain.Count(left, "agent"))
	}
	return nil
}

func newGraphCheck(p *cli.Program) *cobra.Command {
	var g GraphFlags
	var strict bool
	cmd := &cobra.Command{
		Use:     "check [FILE...]",
		Short:   "Find impossible delegations, over-broad scopes and cycles",
		Long:    "Check exits with 4 on a violation.",
		Example: "  powerbox graph check delegation.yaml --output sarif > delegation.sarif",
	}
	cmd.Args = cobra.ArbitraryArgs
	output := formatFlag(cmd, "text", "json", "sarif")
	g.add(cmd)
	cmd.Flags().BoolVar(&strict, "strict", false, "treat warnings as violations")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := declarations(cmd.Context(), p, args, g)
		if err != nil {
			return err
		}
		findings, err := handoff.Check(d)
		if err != nil {
			return cli.Invalid(err)
		}
		errs := 0
		for _, f := range findings {
			if f.Level == "error" || strict {
				errs++
			}
		}
		switch *output {
		case "sarif":
			err = handoff.SARIF(p.Stdout, findings, version.Read().Version)
		case "json":
			err = p.PrintJSON(append([]handoff.Finding{}, findings...))
		default:
			for _, f := range findings {
				cli.Printf(p.Stdout, "%s: %s: %s (%s)\n", f.Place, f.Level, f.Message, f.Rule)
			}
			cli.Printf(p.Stdout, "%s, %s: %s\n", plain.Count(len(d.Agents), "agent"), plain.Count(len(d.Wires), "wire"), plain.Count(len(findings), "finding"))
		}
		if err == nil && errs > 0 {
			return cli.Exit(cli.ExitInvalid, nil)
		}
		return err
	}
	return cmd
}

func newGraphChecklist(p *cli.Program) *cobra.Command {
	var g GraphFlags
	cmd := &cobra.Command{
		Use:     "checklist [FILE...]",
		Short:   "List what is missing for capability gating",
		Long:    "Checklist exits with 4 if something is missing.",
		Example: "  powerbox graph checklist delegation.yaml",
	}
	cmd.Args = cobra.ArbitraryArgs
	output := cli.OutputFlag(cmd)
	g.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := declarations(cmd.Context(), p, args, g)
		if err != nil {
			return err
		}
		if _, err := d.Graph(); err != nil {
			return cli.Invalid(err)
		}
		items := handoff.Checklist(d, func(file string) bool { return tracked(cmd.Context(), file) })
		missing := false
		for _, i := range items {
			missing = missing || !i.Done
		}
		if *output == "json" {
			err = p.PrintJSON(items)
		} else {
			for _, i := range items {
				box := "[x]"
				if !i.Done {
					box = "[ ]"
				}
				cli.Printf(p.Stdout, "%s %s\n", box, i.Item)
				for _, m := range i.Missing {
					cli.Printf(p.Stdout, "      %s\n", m)
				}
			}
		}
		if err == nil && missing {
			return cli.Exit(cli.ExitInvalid, nil)
		}
		return err
	}
	return cmd
}

// tracked reports whether git has a file with its present content.
func tracked(ctx context.Context, file string) bool {
	dir, name := filepath.Split(file)
	if dir == "" {
		dir = "."
	}
	for _, args := range [][]string{{"ls-files", "--error-unmatch", "--", name}, {"diff", "--quiet", "HEAD", "--", name}} {
		cmd := exec.CommandContext(ctx, "git", args...) //nolint:gosec // the name follows --
		cmd.Dir = dir
		if cmd.Run() != nil {
			return false
		}
	}
	return true
}

func newGraphDiff(p *cli.Program) *cobra.Command {
	var consent bool
	cmd := &cobra.Command{
		Use:     "diff OLD NEW",
		Short:   "Show who gains or loses authority between two graphs",
		Long:    "Diff compares the operations that each scope allows of the operations of its target.",
		Args:    cobra.ExactArgs(2),
		Example: "  powerbox graph diff old.yaml delegation.yaml --consent",
	}
	output := cli.OutputFlag(cmd)
	cmd.Flags().BoolVar(&consent, "consent", false, "exit 4 if an agent or user gains authority")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		before, err := declarations(cmd.Context(), p, args[:1], GraphFlags{})
		if err != nil {
			return err
		}
		after, err := declarations(cmd.Context(), p, args[1:], GraphFlags{})
		if err != nil {
			return err
		}
		gains, err := handoff.Diff(before, after)
		if err != nil {
			return cli.Invalid(err)
		}
		more := 0
		for _, c := range gains {
			more += len(c.Gains)
		}
		if *output == "json" {
			err = p.PrintJSON(append([]handoff.Gain{}, gains...))
		} else {
			for _, c := range gains {
				for _, op := range c.Gains {
					cli.Printf(p.Stdout, "+ %s gains %s at %s\n", c.Agent, op, c.At)
				}
				for _, op := range c.Loses {
					cli.Printf(p.Stdout, "- %s loses %s at %s\n", c.Agent, op, c.At)
				}
			}
			if len(gains) == 0 {
				cli.Printf(p.Stdout, "no agent or user gains or loses authority\n")
			}
		}
		if err == nil && consent && more > 0 {
			return cli.Exit(cli.ExitInvalid, nil)
		}
		return err
	}
	return cmd
}
