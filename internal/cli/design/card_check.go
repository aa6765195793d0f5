package design

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/agentcard"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/config"
)

// NeedFlags say what a caller speaks and needs.
type NeedFlags struct {
	File  string
	Needs agentcard.Needs
}

func (n *NeedFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&n.File, "needs", "", "`file` with the needs as JSON (docs/reference/cards.md); flags add to it")
	f.StringArrayVar(&n.Needs.Versions, "speak", nil, "`version` of A2A that the caller speaks, as in the header A2A-Version: empty is 0.3 (default 1.0)")
	f.StringSliceVar(&n.Needs.Bindings, "binding", nil, "`binding` that the caller speaks (default JSONRPC,HTTP+JSON,GRPC)")
	f.StringSliceVar(&n.Needs.Features, "feature", nil, "`feature` that the task relies on, such as streaming_message")
	f.StringSliceVar(&n.Needs.Skills, "skill", nil, "`skill` that the task needs")
	f.StringSliceVar(&n.Needs.Inputs, "sends", nil, "`media type` that the agent must take")
	f.StringSliceVar(&n.Needs.Outputs, "takes", nil, "`media type` that the caller takes: the agent must give one of them")
	f.StringSliceVar(&n.Needs.Extensions, "extension", nil, "`URI` of an extension that the caller speaks")
	f.StringSliceVar(&n.Needs.Schemes, "scheme", nil, "`kind` of security scheme that the caller can use: apiKey, http, oauth2, openIdConnect, mutualTLS (default any)")
	f.BoolVar(&n.Needs.Strict, "strict", false, "reject cards with any error")
	f.StringVar(&n.Needs.Digest, "digest", "", "accept only the card with this `digest`")
}

// ReadNeeds joins file and flags.
func ReadNeeds(p *cli.Program, n NeedFlags) (agentcard.Needs, error) {
	if n.File == "" {
		return n.Needs, nil
	}
	raw, err := p.ReadFile(n.File)
	if err != nil {
		return agentcard.Needs{}, err
	}
	out, err := agentcard.ParseNeeds(raw)
	if err != nil {
		return out, cli.Invalid(fmt.Errorf("%s: %w", n.File, err))
	}
	for _, j := range []struct{ to, from *[]string }{
		{&out.Versions, &n.Needs.Versions},
		{&out.Bindings, &n.Needs.Bindings},
		{&out.Features, &n.Needs.Features},
		{&out.Skills, &n.Needs.Skills},
		{&out.Inputs, &n.Needs.Inputs},
		{&out.Outputs, &n.Needs.Outputs},
		{&out.Extensions, &n.Needs.Extensions},
		{&out.Schemes, &n.Needs.Schemes},
	} {
		*j.to = append(*j.to, *j.from...)
	}
	out.Strict = out.Strict || n.Needs.Strict
	if n.Needs.Digest != "" {
		out.Digest = n.Needs.Digest
	}
	return out, nil
}

// CheckJSON is the stable form of what card check answers.
type CheckJSON struct {
	agentcard.Answer
	Enforcement *config.Enforcement `json:"enforcement,omitempty"`
}

func newCardCheck(p *cli.Program) *cobra.Command {
	var n NeedFlags
	var from CardSource
	var keys, file, agent string
	cmd := &cobra.Command{
		Use:   "check CARD",
		Short: "Check whether an agent is suitable for a task",
		Long: "Check compares a card with the protocols of the caller and the needs of its task, before anything is sent. Features that\n" +
			"the agent does not declare count as missing. Check lists every reason, and exits with 3 if the agent is not suitable.\n" +
			"\n" +
			"With -c and --agent it also shows how much the gateway of that configuration can enforce for the agent. L0 is the method\n" +
			"of a call, L1 the skill, L2 the arguments, L3 the resources.",
		Args:    cobra.ExactArgs(1),
		Example: "  powerbox card check https://agent.example.com --speak 1.0 --feature streaming_message,context_reuse\n  powerbox card check card.json -c powerbox.yaml --agent documents",
	}
	output := cli.OutputFlag(cmd)
	n.add(cmd)
	from.add(cmd)
	cmd.Flags().StringVar(&keys, "keys", "", "`file` with pinned keys: only content signed by one of them counts")
	cmd.Flags().StringVarP(&file, "config", "c", "", "configuration `file`, for the level of enforcement")
	cmd.Flags().StringVar(&agent, "agent", "", "`id` of the agent in that configuration")
	cmd.MarkFlagsRequiredTogether("config", "agent")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		needs, err := ReadNeeds(p, n)
		if err != nil {
			return err
		}
		card, err := cardFrom(cmd.Context(), p, args[0], from, keys)
		if err != nil {
			return err
		}
		answer := CheckJSON{Answer: agentcard.Compatible(card, needs)}
		if file != "" {
			c, err := p.LoadConfig(file)
			if err != nil {
				return err
			}
			if answer.Enforcement, err = config.Enforced(c, agent, card); err != nil {
				return err
			}
		}
		if err := PrintCheck(p, answer, *output); err != nil {
			return err
		}
		if !answer.Compatible {
			return cli.Exit(cli.ExitDenied, nil)
		}
		return nil
	}
	return cmd
}

// cardFrom reads a card to be held against something. A file of keys, where there
// is one, must have signed it.
func cardFrom(ctx context.Context, p *cli.Program, name string, from CardSource, keys string) (agentcard.Card, error) {
	raw, err := ReadCard(ctx, p, name, from)
	if err != nil {
		return agentcard.Card{}, err
	}
	var pinned agentcard.Keys
	if keys != "" {
		if pinned, err = readCardKeys(p, keys); err != nil {
			return agentcard.Card{}, err
		}
	}
	card, err := signedCard(raw, pinned)
	return card, cli.Invalid(naming(name, err))
}

// PrintCheck prints whether an agent is compatible, and why not.
func PrintCheck(p *cli.Program, a CheckJSON, output string) error {
	if output == "json" {
		return p.PrintJSON(a)
	}
	printAnswer(p, "", a.Answer)
	if e := a.Enforcement; e != nil {
		cli.Printf(p.Stdout, "enforcement of %s: %s\n", e.Agent, e.Level)
		for _, s := range e.Skills {
			cli.Printf(p.Stdout, "  %s  %s: %s\n", s.Level, s.Skill, s.Why)
		}
		cli.Printf(p.Stdout, "  free text: %s\n", e.FreeText)
	}
	return nil
}

func printAnswer(p *cli.Program, indent string, a agentcard.Answer) {
	if a.Compatible {
		cli.Printf(p.Stdout, "%s%s: compatible, %s %s at %s\n", indent, cmp.Or(a.Agent, "-"), a.Interface.Binding, a.Version, strings.TrimSpace(a.Interface.URL+" "+a.Interface.Tenant))
	} else {
		cli.Printf(p.Stdout, "%s%s: not compatible\n", indent, cmp.Or(a.Agent, "-"))
	}
	for _, r := range a.Reasons {
		cli.Printf(p.Stdout, "%s  %s: %s\n", indent, r.Code, r.Message)
	}
	for _, w := range a.Warnings {
		cli.Printf(p.Stdout, "%s  warning: %s\n", indent, w)
	}
}

// pathFile is the form of the file that card path reads.
type pathFile struct {
	SharedContext bool      `json:"shared_context"`
	Hops          []pathHop `json:"hops"`
}

type pathHop struct {
	From  string          `json:"from"`
	To    string          `json:"to"`
	Card  string          `json:"card"` // beside the file, or a URL
	Needs agentcard.Needs `json:"needs"`
}

func newCardPath(p *cli.Program) *cobra.Command {
	var n NeedFlags
	var source CardSource
	var caller, keys, file, plan, conf string
	var shared bool
	cmd := &cobra.Command{
		Use:   "path CARD...",
		Short: "Check a path of delegations before anything is sent",
		Long: "The cards belong to the agents that receive the work, in order. Path checks every hop from the view of the agent before\n" +
			"it. It also covers the view of the origin: one agent without context_reuse ends the shared context of all. With --path\n" +
			"the hops and their needs come from a file (docs/reference/cards.md). With --plan they come from a plan in the\n" +
			"configuration, and the cards are fetched from the agents. Path exits with 3 if a hop fails.",
		Example: "  powerbox card path reports.json mailer.json --feature streaming_message --shared-context\n" +
			"  powerbox card path -c powerbox.yaml --plan quarterly --private",
		Args: cobra.ArbitraryArgs,
	}
	output := cli.OutputFlag(cmd)
	n.add(cmd)
	source.add(cmd)
	cmd.Flags().StringVar(&caller, "from", "caller", "`name` of the agent that begins the path")
	cmd.Flags().StringVar(&keys, "keys", "", "`file` with pinned keys: only content signed by one of them counts")
	cmd.Flags().StringVar(&file, "path", "", "`file` with the hops as JSON")
	cmd.Flags().StringVar(&plan, "plan", "", "`id` of a plan in the configuration")
	cmd.Flags().StringVarP(&conf, "config", "c", cli.DefaultConfig, "configuration `file` that has the plan")
	cmd.Flags().BoolVar(&shared, "shared-context", false, "the origin relies on one context along the path")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		needs, err := ReadNeeds(p, n)
		if err != nil {
			return err
		}
		path, err := pathOf(p, args, file, plan, conf, needs)
		if err != nil {
			return err
		}
		path.SharedContext = path.SharedContext || shared
		hops, err := hops(cmd.Context(), p, path, caller, source, keys)
		if err != nil {
			return err
		}
		answer := agentcard.CheckPath(hops, path.SharedContext)
		if err := printPath(p, answer, *output); err != nil {
			return err
		}
		if !answer.Compatible {
			return cli.Exit(cli.ExitDenied, nil)
		}
		return nil
	}
	return cmd
}

// pathOf reads the path that a command names in one of its three ways.
func pathOf(p *cli.Program, cards []string, file, plan, conf string, needs agentcard.Needs) (path pathFile, err error) {
	switch {
	case plan != "" && file == "" && len(cards) == 0:
		return planned(p, conf, plan)
	case (file == "") == (len(cards) == 0) || plan != "":
		return path, cli.Usage(errors.New("want one of: the cards of the path, --path FILE, --plan ID"))
	case file != "":
		return readPath(p, file)
	}
	for _, name := range cards {
		path.Hops = append(path.Hops, pathHop{Card: name, Needs: needs})
	}
	return path, nil
}

// planned is a plan of the configuration as a path, with the cards where its agents are.
func planned(p *cli.Program, file, id string) (pathFile, error) {
	c, err := p.LoadConfig(file)
	if err != nil {
		return pathFile{}, err
	}
	var names []string
	for _, plan := range c.Plans {
		if names = append(names, plan.ID); plan.ID != id {
			continue
		}
		path := pathFile{SharedContext: plan.SharedContext}
		for _, h := range plan.Hops {
			at := slices.IndexFunc(c.Agents, func(a config.Agent) bool { return a.ID == h.To }) // it was checked that there is one
			path.Hops = append(path.Hops, pathHop{From: h.From, To: h.To, Card: c.Agents[at].Upstream, Needs: agentcard.Needs(h.Needs)})
		}
		return path, nil
	}
	return pathFile{}, cli.Usage(fmt.Errorf("%s has no plan %q; there are [%s]", file, id, strings.Join(names, ", ")))
}

func readPath(p *cli.Program, file string) (pathFile, error) {
	var path pathFile
	raw, err := p.ReadFile(file)
	if err != nil {
		return path, err
	}
	if err := agentcard.DecodeStrict(raw, &path); err != nil {
		return path, cli.Invalid(fmt.Errorf("%s: %w", file, err))
	}
	for i, h := range path.Hops {
		if !strings.Contains(h.Card, "://") && !filepath.IsAbs(h.Card) {
			path.Hops[i].Card = filepath.Join(filepath.Dir(file), h.Card)
		}
	}
	return path, nil
}

// hops reads the cards of a path. Who hands on is who was handed to.
func hops(ctx context.Context, p *cli.Program, path pathFile, caller string, source CardSource, keys string) ([]agentcard.Hop, error) {
	var hops []agentcard.Hop
	for _, h := range path.Hops {
		card, err := cardFrom(ctx, p, h.Card, source, keys)
		if err != nil {
			return nil, err
		}
		hop := agentcard.Hop{From: h.From, To: h.To, Card: card, Needs: h.Needs}
		if hop.To == "" {
			hop.To = card.Name()
		}
		if hop.From == "" {
			hop.From = caller
		}
		caller = hop.To
		hops = append(hops, hop)
	}
	return hops, nil
}

func printPath(p *cli.Program, a agentcard.PathAnswer, output string) error {
	if output == "json" {
		return p.PrintJSON(a)
	}
	out := p.Stdout
	if len(a.Hops) > 0 {
		cli.Printf(out, "%s\n", a.Hops[0].From)
	}
	for i, h := range a.Hops {
		indent := strings.Repeat("   ", i)
		word := "ok"
		if !h.Compatible {
			word = "FAILS"
		}
		cli.Printf(out, "%s└─ %s  %s\n", indent, h.To, word)
		for _, r := range h.Reasons {
			cli.Printf(out, "%s     %s: %s\n", indent, r.Code, r.Message)
		}
		for _, w := range h.Warnings {
			cli.Printf(out, "%s     warning: %s\n", indent, w)
		}
	}
	if a.SharedContext {
		cli.Printf(out, "shared context: yes, every agent declares context_reuse\n")
	} else {
		cli.Printf(out, "shared context: not to be relied on\n")
		for _, l := range a.Lost {
			cli.Printf(out, "  %s\n", l)
		}
	}
	if a.Compatible {
		cli.Printf(out, "the path holds\n")
	} else {
		cli.Printf(out, "the path does not hold; nothing is to be sent\n")
	}
	return nil
}
