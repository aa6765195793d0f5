package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/agentcard"
	"github.com/powerbox-project/powerbox/internal/config"
)

// needFlags say what a caller speaks and needs.
type needFlags struct {
	file  string
	needs agentcard.Needs
}

func (n *needFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&n.file, "needs", "", "`file` with the needs as JSON (docs/reference/cards.md); flags add to it")
	f.StringArrayVar(&n.needs.Versions, "speak", nil, "`version` of A2A that the caller speaks, as in the header A2A-Version: empty is 0.3 (default 1.0)")
	f.StringSliceVar(&n.needs.Bindings, "binding", nil, "`binding` that the caller speaks (default JSONRPC,HTTP+JSON,GRPC)")
	f.StringSliceVar(&n.needs.Features, "feature", nil, "`feature` that the task relies on, such as streaming_message")
	f.StringSliceVar(&n.needs.Skills, "skill", nil, "`skill` that the task needs")
	f.StringSliceVar(&n.needs.Inputs, "sends", nil, "`media type` that the agent must take")
	f.StringSliceVar(&n.needs.Outputs, "takes", nil, "`media type` that the caller takes: the agent must give one of them")
	f.StringSliceVar(&n.needs.Extensions, "extension", nil, "`URI` of an extension that the caller speaks")
	f.StringSliceVar(&n.needs.Schemes, "scheme", nil, "`kind` of security scheme that the caller can use: apiKey, http, oauth2, openIdConnect, mutualTLS (default any)")
	f.BoolVar(&n.needs.Strict, "strict", false, "refuse cards with any error, and not only those that cannot be relied on")
	f.StringVar(&n.needs.Digest, "digest", "", "the only card that will do, by its `digest`")
}

// read joins file and flags.
func (p *program) readNeeds(n needFlags) (agentcard.Needs, error) {
	if n.file == "" {
		return n.needs, nil
	}
	raw, err := p.readFile(n.file)
	if err != nil {
		return agentcard.Needs{}, err
	}
	out, err := agentcard.ParseNeeds(raw)
	if err != nil {
		return out, invalid(fmt.Errorf("%s: %w", n.file, err))
	}
	for _, j := range []struct{ to, from *[]string }{
		{&out.Versions, &n.needs.Versions},
		{&out.Bindings, &n.needs.Bindings},
		{&out.Features, &n.needs.Features},
		{&out.Skills, &n.needs.Skills},
		{&out.Inputs, &n.needs.Inputs},
		{&out.Outputs, &n.needs.Outputs},
		{&out.Extensions, &n.needs.Extensions},
		{&out.Schemes, &n.needs.Schemes},
	} {
		*j.to = append(*j.to, *j.from...)
	}
	out.Strict = out.Strict || n.needs.Strict
	if n.needs.Digest != "" {
		out.Digest = n.needs.Digest
	}
	return out, nil
}

// checkJSON is the stable form of what card check answers.
type checkJSON struct {
	agentcard.Answer
	Enforcement *enforcement `json:"enforcement,omitempty"`
}

func newCardCheck(p *program) *cobra.Command {
	var n needFlags
	var from cardSource
	var keys, file, agent string
	cmd := &cobra.Command{
		Use:   "check CARD",
		Short: "Say whether an agent will do for a task, with every reason: exit 3 where it will not",
		Long: "Check holds a card against what the caller speaks and what its task relies on, before anything is sent. What an\n" +
			"agent does not declare is not relied on. With -c and --agent it says as well how far the gateway of that\n" +
			"configuration can enforce anything in front of the agent: L0 who calls which agent with which method, L1 which\n" +
			"skill, L2 with which arguments, L3 on which resources.",
		Args:    cobra.ExactArgs(1),
		Example: "  powerbox card check https://agent.example.com --speak 1.0 --feature streaming_message,context_reuse\n  powerbox card check card.json -c powerbox.yaml --agent documents",
	}
	output := outputFlag(cmd)
	n.add(cmd)
	from.add(cmd)
	cmd.Flags().StringVar(&keys, "keys", "", "`file` with pinned keys: only what one of them signed counts")
	cmd.Flags().StringVarP(&file, "config", "c", "", "configuration `file`, for the level of enforcement")
	cmd.Flags().StringVar(&agent, "agent", "", "`id` of the agent in that configuration")
	cmd.MarkFlagsRequiredTogether("config", "agent")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		needs, err := p.readNeeds(n)
		if err != nil {
			return err
		}
		card, err := p.cardFrom(cmd.Context(), args[0], from, keys)
		if err != nil {
			return err
		}
		answer := checkJSON{Answer: agentcard.Compatible(card, needs)}
		if file != "" {
			c, err := p.loadConfig(file)
			if err != nil {
				return err
			}
			if answer.Enforcement, err = enforced(c, agent, card); err != nil {
				return err
			}
		}
		if err := p.printCheck(answer, *output); err != nil {
			return err
		}
		if !answer.Compatible {
			return exitWith(exitDenied, nil)
		}
		return nil
	}
	return cmd
}

// cardFrom reads a card to be held against something. A file of keys, where there
// is one, must have signed it.
func (p *program) cardFrom(ctx context.Context, name string, from cardSource, keys string) (agentcard.Card, error) {
	raw, err := p.readCard(ctx, name, from)
	if err != nil {
		return agentcard.Card{}, err
	}
	var pinned agentcard.Keys
	if keys != "" {
		if pinned, err = p.readCardKeys(keys); err != nil {
			return agentcard.Card{}, err
		}
	}
	card, err := signedCard(raw, pinned)
	return card, invalid(naming(name, err))
}

func (p *program) printCheck(a checkJSON, output string) error {
	if output == "json" {
		return p.printJSON(a)
	}
	p.printAnswer("", a.Answer)
	if e := a.Enforcement; e != nil {
		fmt.Fprintf(p.visible(), "enforcement of %s: %s\n", e.Agent, e.Level)
		for _, s := range e.Skills {
			fmt.Fprintf(p.visible(), "  %s  %s: %s\n", s.Level, s.Skill, s.Why)
		}
		fmt.Fprintf(p.visible(), "  free text: %s\n", e.FreeText)
	}
	return nil
}

func (p *program) printAnswer(indent string, a agentcard.Answer) {
	if a.Compatible {
		fmt.Fprintf(p.visible(), "%s%s: compatible, %s %s at %s\n", indent, orDash(a.Agent), a.Interface.Binding, a.Version, strings.TrimSpace(a.Interface.URL+" "+a.Interface.Tenant))
	} else {
		fmt.Fprintf(p.visible(), "%s%s: not compatible\n", indent, orDash(a.Agent))
	}
	for _, r := range a.Reasons {
		fmt.Fprintf(p.visible(), "%s  %s: %s\n", indent, r.Code, r.Message)
	}
	for _, w := range a.Warnings {
		fmt.Fprintf(p.visible(), "%s  warning: %s\n", indent, w)
	}
}

// enforcement is how far a gateway can enforce anything in front of an agent that
// nobody changed: L0 caller, agent and method; L1 skill; L2 arguments; L3 handles.
type enforcement struct {
	Agent    string          `json:"agent"`
	Level    string          `json:"level"` // the lowest of its skills
	Skills   []enforcedSkill `json:"skills"`
	FreeText string          `json:"free_text"`
}

type enforcedSkill struct {
	Skill string `json:"skill"`
	Level string `json:"level"`
	Why   string `json:"why"`
}

// enforced says it for an agent of a configuration and the skills on its card.
func enforced(c *config.Config, id string, card agentcard.Card) (*enforcement, error) {
	var agent *config.Agent
	for i := range c.Agents {
		if c.Agents[i].ID == id {
			agent = &c.Agents[i]
		}
	}
	if agent == nil {
		return nil, fmt.Errorf("the configuration has no agent %q", id)
	}
	mapped := map[string]config.Skill{}
	for _, s := range c.Skills[id] {
		mapped[s.Skill] = s
	}
	resources := c.Resources[id].File != "" || len(c.Resources[id].Items) > 0
	e := &enforcement{Agent: id, Skills: []enforcedSkill{}, FreeText: freeText(*agent)}
	for _, s := range card.Skills() {
		level := enforcedSkill{s.ID, "L0", "maps to no operation; nobody can be granted it by itself"}
		if m, ok := mapped[s.ID]; ok {
			level.Level, level.Why = levelOf(m, resources)
		}
		e.Skills = append(e.Skills, level)
		if e.Level == "" || level.Level < e.Level {
			e.Level = level.Level
		}
	}
	if e.Level == "" {
		e.Level = "L0"
	}
	return e, nil
}

func levelOf(s config.Skill, resources bool) (level, why string) {
	operation := s.Grant + "/" + s.Operation
	switch {
	case s.Handle != "" && resources:
		return "L3", operation + ", on resources named by handles in argument " + s.Handle
	case s.Arguments != nil:
		return "L2", operation + ", with the arguments that are declared, where a call names the skill with them"
	default:
		return "L1", operation + "; declare its arguments in skills to hold calls to them"
	}
}

// freeText says what becomes of messages that name no skill.
func freeText(a config.Agent) string {
	switch {
	case len(a.Required) == 0:
		return "refused, since no operations are required for it"
	case a.Enforces == "context":
		return "admitted with " + strings.Join(a.Required, ", ") + "; the agent enforces the context itself"
	case a.AdmitFreeText == "unsafe":
		return "admitted with " + strings.Join(a.Required, ", ") + ", though the agent enforces nothing (unsafe)"
	}
	return "admitted with " + strings.Join(a.Required, ", ") + ", and refused under a capability with constrained operations"
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

func newCardPath(p *program) *cobra.Command {
	var n needFlags
	var source cardSource
	var caller, keys, file, plan, conf string
	var shared bool
	cmd := &cobra.Command{
		Use:   "path CARD...",
		Short: "Check a path of delegations, A to B to C, before anything is sent: exit 3 where it would not hold",
		Long: "The cards are those of the agents that work is handed to, in order. Every hop is checked as the agent before it\n" +
			"would, and what only the origin can see: one agent without context_reuse ends the shared context of all. With\n" +
			"--path the hops, each with needs of its own, come from a file (docs/reference/cards.md). With --plan they are those of a plan in\n" +
			"the configuration, and the cards are fetched from the agents.",
		Example: "  powerbox card path reports.json mailer.json --feature streaming_message --shared-context\n" +
			"  powerbox card path -c powerbox.yaml --plan quarterly --private",
		Args: cobra.ArbitraryArgs,
	}
	output := outputFlag(cmd)
	n.add(cmd)
	source.add(cmd)
	cmd.Flags().StringVar(&caller, "from", "caller", "`name` of the agent that begins the path")
	cmd.Flags().StringVar(&keys, "keys", "", "`file` with pinned keys: only what one of them signed counts")
	cmd.Flags().StringVar(&file, "path", "", "`file` with the hops as JSON")
	cmd.Flags().StringVar(&plan, "plan", "", "`id` of a plan in the configuration")
	cmd.Flags().StringVarP(&conf, "config", "c", defaultConfig, "configuration `file` that has the plan")
	cmd.Flags().BoolVar(&shared, "shared-context", false, "the origin relies on one context along the path")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		needs, err := p.readNeeds(n)
		if err != nil {
			return err
		}
		path, err := p.pathOf(args, file, plan, conf, needs)
		if err != nil {
			return err
		}
		path.SharedContext = path.SharedContext || shared
		hops, err := p.hops(cmd.Context(), path, caller, source, keys)
		if err != nil {
			return err
		}
		answer := agentcard.CheckPath(hops, path.SharedContext)
		if err := p.printPath(answer, *output); err != nil {
			return err
		}
		if !answer.Compatible {
			return exitWith(exitDenied, nil)
		}
		return nil
	}
	return cmd
}

// pathOf reads the path that a command names in one of its three ways.
func (p *program) pathOf(cards []string, file, plan, conf string, needs agentcard.Needs) (path pathFile, err error) {
	switch {
	case plan != "" && file == "" && len(cards) == 0:
		return p.planned(conf, plan)
	case (file == "") == (len(cards) == 0) || plan != "":
		return path, usage(errors.New("want one of: the cards of the path, --path FILE, --plan ID"))
	case file != "":
		return p.readPath(file)
	}
	for _, name := range cards {
		path.Hops = append(path.Hops, pathHop{Card: name, Needs: needs})
	}
	return path, nil
}

// planned is a plan of the configuration as a path, with the cards where its agents are.
func (p *program) planned(file, id string) (pathFile, error) {
	c, err := p.loadConfig(file)
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
	return pathFile{}, usage(fmt.Errorf("%s has no plan %q; there are [%s]", file, id, strings.Join(names, ", ")))
}

func (p *program) readPath(file string) (pathFile, error) {
	var path pathFile
	raw, err := p.readFile(file)
	if err != nil {
		return path, err
	}
	if err := agentcard.DecodeStrict(raw, &path); err != nil {
		return path, invalid(fmt.Errorf("%s: %w", file, err))
	}
	for i, h := range path.Hops {
		if !strings.Contains(h.Card, "://") && !filepath.IsAbs(h.Card) {
			path.Hops[i].Card = filepath.Join(filepath.Dir(file), h.Card)
		}
	}
	return path, nil
}

// hops reads the cards of a path. Who hands on is who was handed to.
func (p *program) hops(ctx context.Context, path pathFile, caller string, source cardSource, keys string) ([]agentcard.Hop, error) {
	var hops []agentcard.Hop
	for _, h := range path.Hops {
		card, err := p.cardFrom(ctx, h.Card, source, keys)
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

func (p *program) printPath(a agentcard.PathAnswer, output string) error {
	if output == "json" {
		return p.printJSON(a)
	}
	out := p.visible()
	if len(a.Hops) > 0 {
		fmt.Fprintln(out, a.Hops[0].From)
	}
	for i, h := range a.Hops {
		indent := strings.Repeat("   ", i)
		word := "ok"
		if !h.Compatible {
			word = "FAILS"
		}
		fmt.Fprintf(out, "%s└─ %s  %s\n", indent, h.To, word)
		for _, r := range h.Reasons {
			fmt.Fprintf(out, "%s     %s: %s\n", indent, r.Code, r.Message)
		}
		for _, w := range h.Warnings {
			fmt.Fprintf(out, "%s     warning: %s\n", indent, w)
		}
	}
	if a.SharedContext {
		fmt.Fprintln(out, "shared context: yes, every agent declares context_reuse")
	} else {
		fmt.Fprintln(out, "shared context: not to be relied on")
		for _, l := range a.Lost {
			fmt.Fprintln(out, "  "+l)
		}
	}
	if a.Compatible {
		fmt.Fprintln(out, "the path holds")
	} else {
		fmt.Fprintln(out, "the path does not hold; nothing is to be sent")
	}
	return nil
}
