package operate

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/plain"
	"github.com/powerbox-project/powerbox/internal/web/api"
)

// listedAgent is an agent as the registry tells it, as far as text shows it.
type listedAgent struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	URL       string   `json:"url"`
	Protected bool     `json:"protected"`
	Digest    string   `json:"card_digest"`
	Features  []string `json:"features"`
	Skills    []struct {
		ID string `json:"id"`
	} `json:"skills"`
	Authorization *struct {
		Model    string `json:"model"`
		MaxDepth int    `json:"max_delegation_depth"`
	} `json:"authorization"`
	Changed []struct {
		Kind    string `json:"kind"`
		Subject string `json:"subject"`
		Message string `json:"message"`
	} `json:"changed"`
	Waiting string `json:"waiting_digest"`
	Failure string `json:"failure"`
}

func newRegistry(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use: "registry", Short: "Search the agent registry, and register agents",
		Long: "The registry contains the agents that the server protects and the agents that an operator registered. It finds agents\n" +
			"suitable for a task before anything is sent to them.",
	}
	cmd.AddCommand(append(newRegistryListing(p), newRegistrySearch(p), newRegistryRegister(p))...)
	return cmd
}

// newRegistrySearch searches the registry.
func newRegistrySearch(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use: "search [WORD...]", Short: "Search the registry for agents suitable for a task",
		Long: "An agent must match every flag. The operator's token searches all agents. With --session-file the search covers the\n" +
			"agents that the user of the session may see.",
		Example: "  powerbox registry search reports --skill summarize --feature streaming\n" +
			"  powerbox registry search --model CAPABILITY --depth 2 --evidence tlog-proof --compliance soc2",
		Args: cobra.ArbitraryArgs,
	}
	o, output := cli.AddOperatorFlags(cmd), cli.OutputFlag(cmd)
	f := cmd.Flags()
	session := f.String("session-file", "", "`file` with an access token of a user, instead of the operator's")
	lists := map[string]*[]string{}
	for _, l := range []struct{ name, usage string }{
		{"skill", "`id` of a skill that it has"},
		{"operation", "qualified `name` of an operation"},
		{"version", "`version` of A2A that the agent speaks; any of several"},
		{"binding", "`binding` that the agent has; any of several"},
		{"feature", "`feature` that its card declares"},
		{"model", "authorization `model` that the agent has; any of several"},
		{"scope", "`scope` that it accepts"},
		{"evidence", "`format` of evidence that it can produce"},
		{"compliance", "compliance `label`"},
	} {
		lists[l.name] = f.StringSlice(l.name, nil, l.usage)
	}
	depth := f.Int("depth", 0, "minimum `number` of further delegations that it supports")
	level := f.String("trust", "", "`level` of trust that it has reached: HIGH, MODERATE or LOW")
	cli.Values(cmd, "trust", "HIGH", "MODERATE", "LOW")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		op, err := searcher(p, o, *session)
		if err != nil {
			return err
		}
		q := url.Values{"text": words}
		for name, list := range lists {
			if len(*list) > 0 {
				q[name] = *list
			}
		}
		if *depth != 0 {
			q.Set("depth", strconv.Itoa(*depth))
		}
		if *level != "" {
			q.Set("trust", *level)
		}
		var raw struct {
			Agents []json.RawMessage `json:"agents"`
		}
		if err := op.Get(cmd.Context(), api.PathRegistry+"?"+q.Encode(), &raw); err != nil {
			return err
		}
		if *output == "json" {
			return p.PrintJSON(raw)
		}
		return printListed(p, raw.Agents)
	}
	return cmd
}

// searcher is the operator's way to the server, or that of a user.
func searcher(p *cli.Program, o *cli.OperatorFlags, session string) (*cli.Operator, error) {
	if session == "" {
		return p.Operator(o)
	}
	data, err := os.ReadFile(session)
	if err != nil {
		return nil, err
	}
	base, err := p.ServerOf(o)
	if err != nil {
		return nil, err
	}
	return &cli.Operator{Base: base, Token: strings.TrimSpace(string(data)), HTTP: cli.NewHTTPClient(), Now: p.Now}, nil
}

func printListed(p *cli.Program, all []json.RawMessage) error {
	if len(all) == 0 {
		cli.Printf(p.Stderr, "no agent that you may see matches\n")
		return nil
	}
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	cli.Printf(w, "AGENT\tNAME\tSKILLS\tMODEL\tDEPTH\tURL\n")
	for _, raw := range all {
		var a listedAgent
		if err := json.Unmarshal(raw, &a); err != nil {
			return err
		}
		var skills []string
		for _, s := range a.Skills {
			skills = append(skills, s.ID)
		}
		model, depth := "-", "-"
		if a.Authorization != nil {
			model, depth = a.Authorization.Model, strconv.Itoa(a.Authorization.MaxDepth)
		}
		cli.Printf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", a.ID, a.Name, strings.Join(skills, " "), model, depth, a.URL)
	}
	return w.Flush()
}

// newRegistryRegister lists an agent that this server does not protect.
func newRegistryRegister(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use: "register URL|FILE", Short: "Add an agent to the registry by its card", Args: cobra.ExactArgs(1),
		Long: "Registering an agent accepts its card. If the card changes later, the registry shows the change and keeps the accepted\n" +
			"card until you run powerbox registry accept.",
		Example: "  powerbox registry register https://agents.example.org/.well-known/agent-card.json --visible-to group:research\n" +
			"  powerbox registry register card.json --id notes --keys jwks.json --visible-to '*'",
	}
	v := p.OperatorVerb(cmd)
	f := cmd.Flags()
	id := f.String("id", "", "name in the registry; default: made from the name in the card")
	keys := f.String("keys", "", "JWK Set `file`; the card must then be signed by one of its keys")
	visible := f.StringSlice("visible-to", nil, "`principal` that may see it: user:alice, group:NAME, or *; default: only operators")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		offer := map[string]any{"visible_to": *visible}
		if *id != "" {
			offer["id"] = *id
		}
		if strings.Contains(args[0], "://") {
			offer["url"] = args[0]
		} else if offer["card"], err = cli.JSONFile(args[0]); err != nil {
			return err
		}
		if *keys != "" {
			if offer["keys"], err = cli.JSONFile(*keys); err != nil {
				return err
			}
		}
		return listing(cmd.Context(), p, v, cli.Post(api.PathRegistry, offer))
	}
	return cmd
}

// listing makes a call about one listing and says what it is now.
func listing(ctx context.Context, p *cli.Program, v *cli.Verb, c cli.Call) error {
	return cli.Show(ctx, v, c, func(raw json.RawMessage) error { return printListing(p, raw) })
}

func printListing(p *cli.Program, raw json.RawMessage) error {
	var a listedAgent
	if err := json.Unmarshal(raw, &a); err != nil {
		return err
	}
	cli.Printf(p.Stdout, "%s: %s, %s, card %s\n", a.ID, a.Name, plain.Count(len(a.Skills), "skill"), a.Digest)
	if a.Failure != "" {
		cli.Printf(p.Stdout, "  its source brought nothing: %s\n", a.Failure)
	}
	if a.Waiting != "" {
		cli.Printf(p.Stdout, "  another card waits, with the digest %s:\n", a.Waiting)
	}
	for _, c := range a.Changed {
		cli.Printf(p.Stdout, "  %-6s %s: %s\n", c.Kind, c.Subject, c.Message)
	}
	return nil
}

// listedAt is where the server has the listing of an agent.
func listedAt(id string) string { return api.PathRegistry + "/" + url.PathEscape(id) }

// newRegistryListing are the verbs about one listing.
func newRegistryListing(p *cli.Program) []*cobra.Command {
	refresh := &cobra.Command{
		Use:     "refresh ID",
		Short:   "Fetch the card of a registered agent again, and show changes",
		Example: "  powerbox registry refresh notes",
		Args:    cobra.ExactArgs(1),
	}
	v := p.OperatorVerb(refresh)
	refresh.RunE = func(cmd *cobra.Command, args []string) error {
		return listing(cmd.Context(), p, v, cli.Post(listedAt(args[0])+"/refresh", nil))
	}
	accept := &cobra.Command{
		Use:     "accept ID --card-digest DIGEST",
		Short:   "Accept the current card of a registered agent",
		Example: "  powerbox registry accept notes --card-digest sha256:...",
		Args:    cobra.ExactArgs(1),
	}
	accepting := p.OperatorVerb(accept)
	digest := accept.Flags().String("card-digest", "", "`digest` of the card that you reviewed (required)")
	cli.Required(accept, "card-digest")
	accept.RunE = func(cmd *cobra.Command, args []string) error {
		return listing(cmd.Context(), p, accepting, cli.Post(listedAt(args[0])+"/accept", map[string]string{"card_digest": *digest}))
	}
	remove := &cobra.Command{
		Use:     "remove ID",
		Short:   "Remove an agent from the registry",
		Example: "  powerbox registry remove notes",
		Args:    cobra.ExactArgs(1),
	}
	ou := cli.AddOperatorFlags(remove)
	remove.RunE = func(cmd *cobra.Command, args []string) error {
		op, err := p.Operator(ou)
		if err != nil {
			return err
		}
		var gone struct {
			Removed string `json:"removed"`
		}
		if err := op.Call(cmd.Context(), http.MethodDelete, listedAt(args[0]), nil, &gone); err != nil {
			return err
		}
		cli.Printf(p.Stdout, "%s is not listed any more\n", gone.Removed)
		return nil
	}
	return []*cobra.Command{refresh, accept, remove}
}
