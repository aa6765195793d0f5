package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/holder/agentauth"
	"github.com/powerbox-project/powerbox/internal/cli"
)

// AskingFlags are how a person is asked.
type AskingFlags struct {
	With        agentauth.Asking
	constraints string
}

// Add adds the flags to a command.
func (a *AskingFlags) Add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&a.constraints, "constraints", "", "constraints by capability, as `JSON`: {\"transfer_money\": {\"amount\": {\"max\": 100}}}")
	f.StringVar(&a.With.Method, "preferred-method", "", "preferred way to ask the person; a hint")
	f.StringVar(&a.With.LoginHint, "login-hint", "", "name of the person, for providers that can use it")
	f.StringVar(&a.With.Message, "binding-message", "", "short text that the person sees on both sides")
	f.BoolVar(&a.With.Again, "again", false, "ask again for a denied request")
	f.BoolVar(&a.With.NoWait, "no-wait", false, "do not wait for approval; exit 6 if it is pending")
}

// Asks are the capabilities of the flags, with their constraints.
func (a *AskingFlags) Asks(names []string) ([]agentauth.Ask, error) {
	by := map[string]json.RawMessage{}
	if a.constraints != "" {
		if err := json.Unmarshal([]byte(a.constraints), &by); err != nil {
			return nil, cli.Usage(errors.New("--constraints is no JSON object; want {\"capability\": {\"field\": {\"max\": 1}}}"))
		}
	}
	for name := range by {
		if !slices.Contains(names, name) {
			return nil, cli.Usage(fmt.Errorf("--constraints names %q, which is not asked for", name))
		}
	}
	asks := make([]agentauth.Ask, 0, len(names))
	for _, n := range names {
		asks = append(asks, agentauth.Ask{Capability: n, Constraints: by[n]})
	}
	return asks, nil
}

func newAgentConnect(p *cli.Program) *cobra.Command {
	var asking AskingFlags
	var with agentauth.Connection
	var names []string
	cmd := &cobra.Command{
		Use:   "connect URL",
		Short: "Register an agent with a provider, and wait for approval",
		Long:  "Connect exits with 3 if the registration is denied.",
		Example: "  powerbox agent connect http://127.0.0.1:4850 --name 'Balance checker' --capability check_balance\n" +
			"  powerbox agent connect https://bank.example --name Payer --capability transfer_money --constraints '{\"transfer_money\": {\"amount\": {\"max\": 100}}}'",
		Args: cobra.ExactArgs(1),
	}
	output, f := addAgentFlags(cmd)
	cmd.Flags().StringVar(&with.Name, "name", "", "`name` of the agent, for people (required)")
	cmd.Flags().StringSliceVar(&names, "capability", nil, "capability to ask for; may be repeated")
	cmd.Flags().StringVar(&with.Mode, "mode", "delegated", "delegated or autonomous")
	cli.Values(cmd, "mode", "delegated", "autonomous")
	cmd.Flags().StringVar(&asking.With.Reason, "reason", "", "reason, in your own words")
	cmd.Flags().StringVar(&f.host, "host-name", "", "name of this host, for people")
	asking.Add(cmd)
	cli.Required(cmd, "name")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if with.Capabilities, err = asking.Asks(names); err != nil {
			return err
		}
		with.Asking = asking.With
		client, err := AgentClient(p, f)
		if err != nil {
			return err
		}
		a, err := client.Connect(cmd.Context(), args[0], with)
		return Connected(p, a, err, with.NoWait, *output)
	}
	return cmd
}

// Connected prints how a request came out. That a person has yet to answer is an
// answer with its own exit code, where it is not waited for.
func Connected(p *cli.Program, a agentauth.Agent, err error, noWait bool, output string) error {
	var pending *agentauth.Pending
	if errors.As(err, &pending) && noWait {
		if output == "text" {
			cli.Printf(p.Stderr, "powerbox: then see how it stands with: powerbox agent status %s --wait\n", a.ID)
		}
		if err := printAgent(p, a, output); err != nil {
			return err
		}
		return cli.Exit(cli.ExitPending, nil)
	}
	if err != nil {
		return Refused(p, err, output)
	}
	return printAgent(p, a, output)
}

func newAgentDiscover(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "discover URL",
		Short:   "Read the description of a provider",
		Example: "  powerbox agent discover https://bank.example",
		Args:    cobra.ExactArgs(1),
	}
	output, f := addAgentFlags(cmd)
	cmd.RunE = withClient(p, f, func(cmd *cobra.Command, args []string, client *agentauth.Client) error {
		provider, err := client.Provider(cmd.Context(), args[0])
		if err != nil {
			return Refused(p, err, *output)
		}
		return printProviders(p, []agentauth.Provider{provider}, *output)
	})
	return cmd
}

func newAgentProviders(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "providers",
		Short:   "List the providers in the local store",
		Example: "  powerbox agent providers",
		Args:    cobra.NoArgs,
	}
	output, f := addAgentFlags(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		client, err := AgentClient(p, f)
		if err != nil {
			return err
		}
		providers, err := client.Providers()
		if err != nil {
			return err
		}
		return printProviders(p, providers, *output)
	}
	return cmd
}

// AddHost adds the flags of a command that makes this machine known to providers.
func (f *Flags) AddHost(cmd *cobra.Command) {
	f.addDirectory(cmd)
	cmd.Flags().StringVar(&f.host, "host-name", "", "name of this host, for people")
}

func (f *Flags) addDirectory(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.directory, "directory", "", "`URL` of a directory of providers; default: the variable "+agentsDirectoryEnv)
}

func newAgentSearch(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "search INTENT --directory URL",
		Short:   "Search a directory for providers",
		Example: "  powerbox agent search 'pay an invoice' --directory https://directory.example",
		Args:    cobra.ExactArgs(1),
	}
	output, f := addAgentFlags(cmd)
	f.addDirectory(cmd)
	cmd.RunE = withClient(p, f, func(cmd *cobra.Command, args []string, client *agentauth.Client) error {
		providers, err := client.Search(cmd.Context(), args[0])
		if err != nil {
			return Refused(p, err, *output)
		}
		return printProviders(p, providers, *output)
	})
	return cmd
}

func printProviders(p *cli.Program, providers []agentauth.Provider, output string) error {
	if output == "json" {
		return p.PrintJSON(map[string]any{"providers": append([]agentauth.Provider{}, providers...)})
	}
	p.Empty(len(providers), "no provider is known; find one with: powerbox agent discover URL")
	for _, one := range providers {
		cli.Printf(p.Stdout, "%s  %s\n  %s\n", one.Name, one.Issuer, one.Description)
	}
	return nil
}

func newAgentCapabilities(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{Use: "capabilities", Short: "List and describe the capabilities of a provider"}
	cmd.AddCommand(newAgentCapabilitiesList(p), newAgentCapabilitiesDescribe(p))
	return cmd
}

// viewFlags say as whom capabilities are looked at.
func viewFlags(cmd *cobra.Command) *agentauth.View {
	var v agentauth.View
	cmd.Flags().StringVar(&v.Agent, "agent", "", "ask as this `agent`, with its grants")
	cmd.Flags().BoolVar(&v.Anonymous, "anonymous", false, "ask anonymously, even if the host is known")
	return &v
}

func newAgentCapabilitiesList(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list PROVIDER",
		Short:   "List the capabilities of a provider, by its URL or name",
		Example: "  powerbox agent capabilities list https://bank.example",
		Args:    cobra.ExactArgs(1),
	}
	output, f := addAgentFlags(cmd)
	v := viewFlags(cmd)
	cmd.Flags().StringVar(&v.Query, "query", "", "words to search for")
	cmd.RunE = withClient(p, f, func(cmd *cobra.Command, args []string, client *agentauth.Client) error {
		list, err := client.List(cmd.Context(), args[0], *v)
		if err != nil {
			return Refused(p, err, *output)
		}
		if *output == "json" {
			return p.PrintJSON(map[string]any{"capabilities": append([]agentauth.Capability{}, list...)})
		}
		for _, c := range list {
			printCapabilityLine(p, c)
		}
		return nil
	})
	return cmd
}

func printCapabilityLine(p *cli.Program, c agentauth.Capability) {
	granted := ""
	if c.Granted != "" {
		granted = " (" + c.Granted + ")"
	}
	cli.Printf(p.Stdout, "%s%s: %s\n", c.Name, granted, c.Description)
}

func newAgentCapabilitiesDescribe(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "describe PROVIDER CAPABILITY",
		Short:   "Show one capability with its schemas",
		Example: "  powerbox agent capabilities describe https://bank.example transfer_money",
		Args:    cobra.ExactArgs(2),
	}
	output, f := addAgentFlags(cmd)
	v := viewFlags(cmd)
	cmd.RunE = withClient(p, f, func(cmd *cobra.Command, args []string, client *agentauth.Client) error {
		c, err := client.Describe(cmd.Context(), args[0], args[1], *v)
		if err != nil {
			return Refused(p, err, *output)
		}
		if *output == "json" {
			return p.PrintJSON(c)
		}
		printCapabilityLine(p, c)
		for _, s := range []struct {
			name  string
			value string
		}{{"input", string(c.Input)}, {"output", string(c.Output)}, {"location", c.Location}} {
			if s.value != "" {
				cli.Printf(p.Stdout, "  %-8s  %s\n", s.name, s.value)
			}
		}
		return nil
	})
	return cmd
}

// ResultJSON is an execution on standard output.
type ResultJSON struct {
	Data     json.RawMessage `json:"data"`
	Decision string          `json:"decision,omitempty"`
}

// ResultOf returns the result of an execution as it is printed.
func ResultOf(r agentauth.Result) ResultJSON {
	if r.Data == nil {
		r.Data = json.RawMessage("null")
	}
	return ResultJSON(r)
}
