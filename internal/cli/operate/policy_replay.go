package operate

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/app"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/plain"
	"github.com/powerbox-project/powerbox/internal/web/api"
)

func newPolicyReplay(p *cli.Program) *cobra.Command {
	var next, agent, since, until string
	var limit int
	var code bool
	cmd := &cobra.Command{
		Use:     "replay --new FILE",
		Aliases: []string{"diff"},
		Short:   "List recorded decisions that other policies would change",
		Long: "The running server replays its recorded decisions: calls under capabilities, and requests for capabilities. It asks the\n" +
			"policies of the other file, with the agents and resources of that file. It uses the groups, roles and attributes that\n" +
			"each capability was issued for. Nothing changes. Decisions that the records cannot replay are counted separately.",
		Args:    cobra.NoArgs,
		Example: "  powerbox policy replay --new powerbox.next.yaml --since 168h\n  powerbox policy replay --new powerbox.next.yaml --exit-code",
	}
	output := cli.OutputFlag(cmd)
	o := cli.AddOperatorFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&next, "new", "", "configuration `file` whose policies are tried (required)")
	f.StringVar(&agent, "agent", "", "only decisions of the agent of this `id`")
	cli.AgentFlag(cmd, "agent")
	f.StringVar(&since, "since", "", "only decisions since a `time`, or of the last hours, such as 168h")
	f.StringVar(&until, "until", "", "only decisions until a `time`")
	f.IntVar(&limit, "limit", 0, "maximum number of decisions, latest first; 0 for all")
	f.BoolVar(&code, "exit-code", false, "exit 1 if a decision changes or would grant less; decisions that cannot be replayed do not count")
	cli.Required(cmd, "new")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		q := api.Replay{Agent: agent, Limit: limit}
		if limit < 0 {
			return cli.Usage(errors.New("--limit is negative; want a number of decisions, or 0 for all"))
		}
		var err error
		if q.Since, err = p.Moment("since", since); err != nil {
			return err
		}
		if q.Until, err = p.Moment("until", until); err != nil {
			return err
		}
		if q.Files, err = policyTexts(p, next); err != nil {
			return err
		}
		op, err := p.Operator(o)
		if err != nil {
			return err
		}
		var answer api.ReplayAnswer
		if err := op.Call(cmd.Context(), http.MethodPost, "/v1/policies/replay", q, &answer); err != nil {
			return err
		}
		if err := printReplay(p, answer, *output); err != nil {
			return err
		}
		if code && answer.Flips+answer.Narrower > 0 {
			return cli.Exit(cli.ExitError, nil)
		}
		return nil
	}
	return cmd
}

// policyTexts are the policies of a configuration, by the names of their files.
func policyTexts(p *cli.Program, file string) (map[string]string, error) {
	c, err := p.LoadConfig(file)
	if err != nil {
		return nil, err
	}
	files, err := app.New(c, p.Now).PolicyFiles()
	if err != nil {
		return nil, cli.Invalid(err)
	}
	texts := map[string]string{}
	for name, text := range files {
		texts[name] = string(text)
	}
	return texts, nil
}

// notReplayed says in words why a decision could not be replayed.
var notReplayed = map[string]string{
	"roles_not_on_record":      "calls without a capability: the roles of their sessions are not kept",
	"request_not_on_record":    "requests that were refused: what is known of who asked is not kept",
	"capability_not_on_record": "calls under a capability that its holder derived and the server never saw",
	"resource_not_on_record":   "calls about a resource that the record does not name (evidence.arguments: full would), which the policies tell apart",
	"agent_not_configured":     "decisions about an agent or a resource that is no longer configured",
	"refused_for_more":         "calls that policy refused, and something else as well",
}

func printReplay(p *cli.Program, a api.ReplayAnswer, output string) error {
	if output == "json" {
		return p.PrintJSON(a)
	}
	for _, c := range a.Changed {
		cli.Printf(p.Stdout, "%s  %s  %s -> %s  %s by %s at %s\n", c.Time.UTC().Format(time.RFC3339), c.Record, c.Was, c.Becomes, c.Operation, c.Requester, c.Agent)
	}
	if n := a.Flips + a.Narrower - len(a.Changed); n > 0 {
		cli.Printf(p.Stdout, "and %d more\n", n)
	}
	unknown := 0
	for _, n := range a.Unknown {
		unknown += n
	}
	cli.Printf(p.Stdout, "%s: %d the same, %d would flip, %d would give less, %d cannot be replayed\n", plain.Count(a.Decisions, "decision"), a.Same, a.Flips, a.Narrower, unknown)
	for _, why := range slices.Sorted(maps.Keys(a.Unknown)) {
		cli.Printf(p.Stdout, "  %d %s: %s\n", a.Unknown[why], why, notReplayed[why])
	}
	if a.More {
		cli.Printf(p.Stdout, "older decisions were not looked at (--limit)\n")
	}
	return nil
}
