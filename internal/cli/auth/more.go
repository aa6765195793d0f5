package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder/agentauth"
	"github.com/powerbox-project/powerbox/internal/cli"
)

// KnownProviders are the issuers that the environment names: as URLs joined by
// commas, or as discovery documents in the form of the protocol's own command line,
// of which the issuer alone is believed (AAP-CL3).
func KnownProviders(p *cli.Program) ([]string, error) {
	var out []string
	for _, one := range strings.Split(fromEnv(p, agentsProvidersEnv, "AGENT_AUTH_URLS"), ",") {
		if one = strings.TrimSpace(one); one != "" {
			out = append(out, one)
		}
	}
	documents := []byte(p.Env("AGENT_AUTH_PROVIDERS"))
	if file := p.Env("AGENT_AUTH_PROVIDERS_FILE"); file != "" {
		var err error
		if documents, err = p.ReadFile(file); err != nil {
			return nil, err
		}
	}
	if len(documents) == 0 {
		return out, nil
	}
	type document struct {
		Issuer string `json:"issuer"`
	}
	var list []document
	if json.Unmarshal(documents, &list) != nil {
		list = make([]document, 1)
		if err := json.Unmarshal(documents, &list[0]); err != nil {
			return nil, cli.Usage(errors.New("AGENT_AUTH_PROVIDERS or its file is no JSON; want a discovery document, or an array of them"))
		}
	}
	for _, one := range list {
		if one.Issuer == "" {
			return nil, cli.Usage(errors.New("AGENT_AUTH_PROVIDERS or its file has a provider without issuer"))
		}
		out = append(out, one.Issuer)
	}
	return out, nil
}

// discovering is how long the providers of the environment have to answer before the
// tools are served.
const discovering = 10 * time.Second

// DiscoverAll puts providers into the store; one that does not answer is warned of.
func DiscoverAll(ctx context.Context, p *cli.Program, client *agentauth.Client, issuers []string) {
	ctx, cancel := context.WithTimeout(ctx, discovering)
	defer cancel()
	for _, issuer := range issuers {
		if _, err := client.Discover(ctx, issuer); err != nil {
			cli.Printf(p.Stderr, "powerbox: warning: %v\n", err)
		}
	}
}

func newAgentShow(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show AGENT",
		Short:   "Show one agent in the local store",
		Long:    "Show prints the agent as the provider last described it.",
		Example: "  powerbox agent show agt_...",
		Args:    cobra.ExactArgs(1),
	}
	output, f := addAgentFlags(cmd)
	cmd.RunE = withClient(p, f, func(_ *cobra.Command, args []string, client *agentauth.Client) error {
		agents, err := client.Agents()
		if err != nil {
			return err
		}
		for _, a := range agents {
			if a.ID == args[0] {
				return printAgent(p, a, *output)
			}
		}
		return fmt.Errorf("the store has no agent %q; powerbox agent list shows those that it has", args[0])
	})
	return cmd
}

func newAgentFind(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "find QUERY",
		Short:   "Search the capabilities of known providers and of a directory",
		Example: "  powerbox agent find 'transfer money'",
		Args:    cobra.ExactArgs(1),
	}
	output, f := addAgentFlags(cmd)
	f.addDirectory(cmd)
	limit := cmd.Flags().Int("limit", 5, "how many to show, up to 50")
	cmd.RunE = withClient(p, f, func(cmd *cobra.Command, args []string, client *agentauth.Client) error {
		found, err := client.Find(cmd.Context(), args[0], *limit)
		if err != nil {
			return Refused(p, err, *output)
		}
		if *output == "json" {
			return p.PrintJSON(map[string]any{"results": append([]agentauth.Found{}, found...)})
		}
		for _, one := range found {
			cli.Printf(p.Stdout, "%s  %s: %s\n", one.Issuer, one.Name, one.Description)
		}
		return nil
	})
	return cmd
}

func newAgentExecute(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "execute AGENT CAPABILITY",
		Short:   "Execute a capability that an agent was granted",
		Long:    "Execute exits with 3 if the call is denied.",
		Example: "  powerbox agent execute agt_... transfer_money --arguments '{\"amount\": 20}'",
		Args:    cobra.ExactArgs(2),
	}
	output, f := addAgentFlags(cmd)
	given := cmd.Flags().String("arguments", "{}", "arguments, a JSON object")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		arguments, err := powerbox.ParseValue([]byte(*given))
		if err == nil && arguments.Kind() != powerbox.KindObject {
			err = errors.New(`want an object such as {"title": "x"}`)
		}
		if err != nil {
			return cli.Usage(fmt.Errorf("--arguments: %w", err))
		}
		return Execute(cmd.Context(), p, f, args[0], args[1], arguments, *output)
	}
	return cmd
}

func newAgentRequest(p *cli.Program) *cobra.Command {
	var asking AskingFlags
	var names []string
	cmd := &cobra.Command{
		Use:     "request AGENT",
		Short:   "Request more capabilities for an agent, and wait for approval",
		Long:    "Request exits with 3 if a person denies it.",
		Example: "  powerbox agent request agt_... --capability transfer_money --reason 'pay the invoice'",
		Args:    cobra.ExactArgs(1),
	}
	output, f := addAgentFlags(cmd)
	cmd.Flags().StringSliceVar(&names, "capability", nil, "capability to ask for; may be repeated (required)")
	cmd.Flags().StringVar(&asking.With.Reason, "reason", "", "reason, in your own words")
	asking.Add(cmd)
	cli.Required(cmd, "capability")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		asks, err := asking.Asks(names)
		if err != nil {
			return err
		}
		client, err := AgentClient(p, f)
		if err != nil {
			return err
		}
		id, err := AgentOf(client, args[0])
		if err != nil {
			return err
		}
		a, err := client.RequestCapability(cmd.Context(), id, asks, asking.With)
		return Connected(p, a, err, asking.With.NoWait, *output)
	}
	return cmd
}

func newAgentClaim(p *cli.Program) *cobra.Command {
	var with agentauth.Asking
	cmd := &cobra.Command{
		Use:     "claim AGENT",
		Short:   "Ask a person to take over an autonomous agent",
		Example: "  powerbox agent claim agt_...",
		Long: "Claim asks the provider for a code with which a person takes over. The host then belongs to this person. Its autonomous\n" +
			"agents end, and their actions are attributed to the person. The person sees these actions before deciding. Claim exits\n" +
			"with 3 if the person declines.",
		Args: cobra.ExactArgs(1),
	}
	output, f := addAgentFlags(cmd)
	cmd.Flags().StringVar(&with.Method, "preferred-method", "", "preferred way to ask the person; a hint")
	cmd.Flags().StringVar(&with.LoginHint, "login-hint", "", "name of the person, for providers that can use it")
	cmd.Flags().StringVar(&with.Message, "binding-message", "", "short text that the person sees on both sides")
	cmd.Flags().BoolVar(&with.NoWait, "no-wait", false, "do not wait for the person; exit 6 if it is pending")
	cmd.RunE = withClient(p, f, func(cmd *cobra.Command, args []string, client *agentauth.Client) error {
		a, err := client.Claim(cmd.Context(), args[0], with)
		return Connected(p, a, err, with.NoWait, *output)
	})
	return cmd
}

func newAgentEnrollHost(p *cli.Program) *cobra.Command {
	var token, file, name string
	cmd := &cobra.Command{
		Use:     "enroll-host PROVIDER",
		Short:   "Enroll this host at a provider with an administrator's token",
		Example: "  powerbox agent enroll-host https://bank.example --token-file - --name ci",
		Args:    cobra.ExactArgs(1),
	}
	output, f := addAgentFlags(cmd)
	cmd.Flags().StringVar(&token, "token", "", "the `token`; other users of the machine may see it: prefer --token-file")
	cmd.Flags().StringVar(&file, "token-file", "", "`file` with the token; - is standard input")
	cmd.Flags().StringVar(&name, "name", "", "name of this host, for people")
	cmd.MarkFlagsMutuallyExclusive("token", "token-file")
	cmd.MarkFlagsOneRequired("token", "token-file")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if file != "" {
			data, err := p.ReadFile(file)
			if err != nil {
				return err
			}
			token = strings.TrimSpace(string(data))
		}
		client, err := AgentClient(p, f)
		if err != nil {
			return err
		}
		host, err := client.Enroll(cmd.Context(), args[0], token, name)
		if err != nil {
			return Refused(p, err, *output)
		}
		return said(p, *output, host, fmt.Sprintf("this host is %s at %s, %s", host.HostID, host.Issuer, host.Status))
	}
	return cmd
}

func newAgentInvite(p *cli.Program) *cobra.Command {
	var name, user string
	var defaults []string
	cmd := &cobra.Command{
		Use:     "invite",
		Short:   "As an administrator, create a token that enrolls one host",
		Example: "  powerbox agent invite --name ci --session-file session",
		Long: "Invite prepares a host whose key is not known yet. The token works once, within one hour. Give it to the person who runs\n" +
			"powerbox agent enroll-host on that host.",
		Args: cobra.NoArgs,
	}
	v := p.PersonVerb(cmd)
	cmd.Flags().StringVar(&name, "name", "", "name of the host, for people")
	cmd.Flags().StringVar(&user, "user", "", "principal that the host is linked to, such as user:alice; default: no user")
	cmd.Flags().StringSliceVar(&defaults, "default", nil, "capability that its agents have without asking; default: those of the provider")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		body := map[string]any{"name": name, "user": user}
		if cmd.Flags().Changed("default") {
			body["defaults"] = append([]string{}, defaults...)
		}
		type invited struct {
			Token   string `json:"enrollment_token"`
			Expires string `json:"expires_at"`
		}
		return cli.Show(cmd.Context(), v, cli.Post("/v1/hosts", body), func(answer invited) error {
			cli.Printf(p.Stderr, "powerbox: good once, until %s\n", answer.Expires)
			cli.Printf(p.Stdout, "%s\n", answer.Token)
			return nil
		})
	}
	return cmd
}
