package auth

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/holder/agentauth"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/outbound"
)

// Where agents are kept, and what opens it.
const (
	agentsStoreEnv      = "POWERBOX_AGENTS_STORE"
	agentsPassphraseEnv = "POWERBOX_AGENTS_PASSPHRASE"
	agentsHostNameEnv   = "POWERBOX_AGENTS_HOST_NAME"
	agentsDirectoryEnv  = "POWERBOX_AGENTS_DIRECTORY"
	agentsProvidersEnv  = "POWERBOX_AGENTS_PROVIDERS"
)

// Flags say where agents are kept.
type Flags struct {
	store, passphrase, directory, host string
}

// Add adds the flags to a command.
func (f *Flags) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.store, "store", "", "`file` with the keys of the host and its agents; default: the variable "+agentsStoreEnv+", or agents in the configuration folder")
	cmd.Flags().StringVar(&f.passphrase, "passphrase-file", "", "`file` with the passphrase of the store; default: the variable "+agentsPassphraseEnv)
}

func addAgentFlags(cmd *cobra.Command) (*string, *Flags) {
	f := &Flags{}
	output := cli.OutputFlag(cmd)
	f.Add(cmd)
	return output, f
}

// fromEnv is the first of some variables that is set: ours, and the one that the
// protocol's own command line has for the same.
func fromEnv(p *cli.Program, names ...string) string {
	for _, name := range names {
		if v := p.Env(name); v != "" {
			return v
		}
	}
	return ""
}

// withClient runs a command with the client of its flags.
func withClient(p *cli.Program, f *Flags, run func(cmd *cobra.Command, args []string, client *agentauth.Client) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		client, err := AgentClient(p, f)
		if err != nil {
			return err
		}
		return run(cmd, args, client)
	}
}

// AgentClient is the client of the flags.
func AgentClient(p *cli.Program, f *Flags) (*agentauth.Client, error) {
	passphrase := fromEnv(p, agentsPassphraseEnv, "AGENT_AUTH_ENCRYPTION_KEY")
	if f.passphrase != "" {
		data, err := p.ReadFile(f.passphrase)
		if err != nil {
			return nil, err
		}
		passphrase = strings.TrimRight(string(data), "\r\n")
	}
	if passphrase == "" {
		return nil, cli.Usage(fmt.Errorf("the keys of agents are kept under a passphrase; give it by --passphrase-file or %s", agentsPassphraseEnv))
	}
	file := cmp.Or(f.store, p.Env(agentsStoreEnv))
	if folder := p.Env("AGENT_AUTH_STORAGE_DIR"); file == "" && folder != "" {
		file = filepath.Join(folder, "powerbox-agents")
	}
	if file == "" {
		folder, err := p.ConfigFolder()
		if err != nil {
			return nil, cli.Usage(errors.New("there is no home folder to keep agents in; name a file with --store"))
		}
		file = filepath.Join(folder, "agents")
	}
	store, err := agentauth.Open(file, passphrase, rand.Reader)
	if err != nil {
		return nil, err
	}
	host := cmp.Or(f.host, fromEnv(p, agentsHostNameEnv, "AGENT_AUTH_HOST_NAME"))
	if host == "" {
		host, _ = os.Hostname() // a name for people; none does as well
	}
	return &agentauth.Client{
		Store: store, Now: p.Now, Random: rand.Reader, HostName: host,
		Directory: cmp.Or(f.directory, fromEnv(p, agentsDirectoryEnv, "AGENT_AUTH_DIRECTORY_URL")),
		HTTP:      &http.Client{Transport: outbound.New(outbound.Configured()).Transport()},
		Approve:   func(_ string, a agentauth.Approval) { cli.Printf(p.Stderr, "powerbox: %s\n", a.String()) },
		Warn:      func(message string) { cli.Printf(p.Stderr, "powerbox: warning: %s\n", message) },
	}, nil
}

func newAgent(p *cli.Program, imports *cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Connect agents to Agent Auth providers, and manage them",
		Long: "These commands are a client of the Agent Auth Protocol. They register agents with a provider, wait for approval, and keep\n" +
			"the keys in a file that a passphrase encrypts. To use a capability: powerbox call --via agent-auth. To ask for more:\n" +
			"powerbox request --via agent-auth. The agents behind your own gateway are in powerbox.yaml instead.",
	}
	cmd.AddCommand(
		newAgentDiscover(p), newAgentSearch(p), newAgentProviders(p), newAgentCapabilities(p), newAgentConnect(p), newAgentList(p), newAgentStatus(p), newAgentReactivate(p),
		newAgentDisconnect(p), newAgentSign(p), newAgentRotateKey(p), newAgentRotateHostKey(p),
		newAgentShow(p), newAgentFind(p), newAgentExecute(p), newAgentRequest(p), newAgentClaim(p), newAgentEnrollHost(p), newAgentInvite(p), newAgentHosts(p), newAgentLink(p), newAgentUnlink(p), imports, newAgentActivity(p), newAgentForget(p),
	)
	return cmd
}

// Refused prints the refusal of a provider, which is an answer, and passes other
// errors on.
func Refused(p *cli.Program, err error, output string) error {
	if !errors.Is(err, powerbox.ErrDenied) {
		return err
	}
	d := &holder.Denied{Code: "denied", Message: err.Error()}
	var e *agentauth.Error
	if errors.As(err, &e) {
		d.Code, d.Message, d.DecisionID = powerbox.Code(cmp.Or(e.Code, "denied")), cmp.Or(e.Message, e.Error()), e.Decision
		for _, v := range e.Violations {
			constraint, err := json.Marshal(v.Constraint)
			if err == nil {
				d.Fix = strings.TrimPrefix(fmt.Sprintf("%s; %s must be within %s", d.Fix, v.Field, constraint), "; ")
			}
		}
	}
	return p.Denied(d, output)
}

// printAgent prints an agent and its grants.
func printAgent(p *cli.Program, a agentauth.Agent, output string) error {
	if output == "json" {
		if a.Grants == nil {
			a.Grants = []agentauth.Grant{}
		}
		return p.PrintJSON(a)
	}
	cli.Printf(p.Stdout, "%s  %s  %q at %s, %s\n", a.ID, a.Status, a.Name, a.Provider, a.Issuer)
	for _, g := range a.Grants {
		cli.Printf(p.Stdout, "  %s: %s", g.Capability, g.Status)
		if g.Constraints != nil {
			cli.Printf(p.Stdout, ", only with %s", g.Constraints)
		}
		if g.Reason != "" {
			cli.Printf(p.Stdout, ", since %q", g.Reason)
		}
		cli.Printf(p.Stdout, "\n")
	}
	if a.Expires != "" {
		cli.Printf(p.Stdout, "  until %s\n", a.Expires)
	}
	return nil
}

func newAgentList(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the agents in the local store",
		Long:    "List shows each agent as the provider last described it.",
		Example: "  powerbox agent list",
		Args:    cobra.NoArgs,
	}
	output, f := addAgentFlags(cmd)
	at := cmd.Flags().String("provider", "", "only those at this `provider`, by name or URL")
	cmd.RunE = func(*cobra.Command, []string) error {
		client, err := AgentClient(p, f)
		if err != nil {
			return err
		}
		agents, err := client.Agents()
		if err != nil {
			return err
		}
		agents = slices.DeleteFunc(agents, func(a agentauth.Agent) bool {
			return *at != "" && a.Provider != *at && a.Issuer != strings.TrimSuffix(*at, "/")
		})
		if *output == "json" {
			return p.PrintJSON(map[string]any{"agents": append([]agentauth.Agent{}, agents...)})
		}
		w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
		cli.Printf(w, "AGENT\tNAME\tPROVIDER\tSTATUS\tHOLDS\n")
		p.Empty(len(agents), "the store has no such agent; connect one with: powerbox agent connect URL")
		for _, a := range agents {
			var holds []string
			for _, g := range a.Grants {
				if g.Status == "active" {
					holds = append(holds, g.Capability)
				}
			}
			cli.Printf(w, "%s\t%q\t%s\t%s\t%s\n", a.ID, a.Name, a.Provider, a.Status, strings.Join(holds, ", "))
		}
		return w.Flush()
	}
	return cmd
}

func newAgentStatus(p *cli.Program) *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use:   "status AGENT",
		Short: "Ask the provider for the state of an agent",
		Long:  "Status exits with 3 if a person denied the pending request.",
		Example: "  powerbox agent status agt_...\n" +
			"  powerbox agent status agt_... --wait",
		Args: cobra.ExactArgs(1),
	}
	output, f := addAgentFlags(cmd)
	cmd.Flags().BoolVar(&wait, "wait", false, "wait for approval")
	cmd.RunE = withClient(p, f, func(cmd *cobra.Command, args []string, client *agentauth.Client) error {
		look := client.Status
		if wait {
			look = client.Wait
		}
		a, err := look(cmd.Context(), args[0])
		if err != nil {
			return Refused(p, err, *output)
		}
		return printAgent(p, a, *output)
	})
	return cmd
}

func newAgentReactivate(p *cli.Program) *cobra.Command {
	var noWait bool
	cmd := &cobra.Command{
		Use:     "reactivate AGENT",
		Short:   "Reactivate an expired agent with the default capabilities",
		Example: "  powerbox agent reactivate agt_...",
		Args:    cobra.ExactArgs(1),
	}
	output, f := addAgentFlags(cmd)
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "do not wait for approval; exit 6 if it is pending")
	cmd.RunE = withClient(p, f, func(cmd *cobra.Command, args []string, client *agentauth.Client) error {
		a, err := client.Reactivate(cmd.Context(), args[0], noWait)
		return Connected(p, a, err, noWait, *output)
	})
	return cmd
}

func newAgentDisconnect(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "disconnect AGENT",
		Short:   "Revoke an agent permanently, and delete its key",
		Example: "  powerbox agent disconnect agt_...",
		Args:    cobra.ExactArgs(1),
	}
	output, f := addAgentFlags(cmd)
	cmd.RunE = withClient(p, f, func(cmd *cobra.Command, args []string, client *agentauth.Client) error {
		if err := client.Disconnect(cmd.Context(), args[0]); err != nil {
			return Refused(p, err, *output)
		}
		return said(p, *output, map[string]any{"agent_id": args[0], "status": "revoked"}, args[0]+" is revoked, and its key is gone")
	})
	return cmd
}

func newAgentSign(p *cli.Program) *cobra.Command {
	var audience string
	var only []string
	cmd := &cobra.Command{
		Use:     "sign AGENT",
		Short:   "Sign a token for an agent that calls a service directly",
		Example: "  powerbox agent sign agt_... --capability check_balance",
		Args:    cobra.ExactArgs(1),
	}
	output, f := addAgentFlags(cmd)
	cmd.Flags().StringVar(&audience, "audience", "", "`URL` of the service; default: the provider")
	cmd.Flags().StringSliceVar(&only, "capability", nil, "capability that the token permits; default: all grants")
	cmd.RunE = withClient(p, f, func(cmd *cobra.Command, args []string, client *agentauth.Client) error {
		signed, err := client.SignJWT(cmd.Context(), args[0], audience, only)
		if err != nil {
			return Refused(p, err, *output)
		}
		return said(p, *output, signed, signed.Token)
	})
	return cmd
}

func newAgentRotateKey(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rotate-key AGENT",
		Short:   "Replace the key of an agent; the old key ends at once",
		Example: "  powerbox agent rotate-key agt_...",
		Args:    cobra.ExactArgs(1),
	}
	output, f := addAgentFlags(cmd)
	cmd.RunE = withClient(p, f, func(cmd *cobra.Command, args []string, client *agentauth.Client) error {
		if err := client.RotateAgentKey(cmd.Context(), args[0]); err != nil {
			return Refused(p, err, *output)
		}
		return said(p, *output, map[string]any{"agent_id": args[0], "rotated": true}, args[0]+" has a new key")
	})
	return cmd
}

func newAgentRotateHostKey(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rotate-host-key [PROVIDER]",
		Short: "Replace the key of this host, and keep its agents",
		Long:  "Without PROVIDER the host gets a new key at every provider.",
		Example: "  powerbox agent rotate-host-key\n" +
			"  powerbox agent rotate-host-key https://bank.example",
		Args: cobra.MaximumNArgs(1),
	}
	output, f := addAgentFlags(cmd)
	cmd.RunE = withClient(p, f, func(cmd *cobra.Command, args []string, client *agentauth.Client) error {
		rotated, err := client.RotateHostKey(cmd.Context(), args...)
		if err != nil {
			return Refused(p, err, *output)
		}
		return said(p, *output, map[string]any{"rotated": append([]string{}, rotated...)}, "the host has a new key at: "+strings.Join(rotated, ", "))
	})
	return cmd
}

// said prints an outcome: as data, or in a sentence.
func said(p *cli.Program, output string, data any, sentence string) error {
	if output == "json" {
		return p.PrintJSON(data)
	}
	cli.Printf(p.Stdout, "%s\n", sentence)
	return nil
}

// AgentOf returns the id of an agent: the id that was given, or the one active agent at a
// provider of that name or URL.
func AgentOf(client *agentauth.Client, of string) (string, error) {
	agents, err := client.Agents()
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(agents, func(a agentauth.Agent) bool { return a.ID == of }) {
		return of, nil
	}
	var ids []string
	for _, a := range agents {
		if a.Status == "active" && (a.Provider == of || a.Issuer == strings.TrimSuffix(of, "/")) {
			ids = append(ids, a.ID)
		}
	}
	switch len(ids) {
	case 0:
		return "", cli.Usage(fmt.Errorf("the store has no active agent %q, and none at a provider of that name or URL; connect one with: powerbox agent connect URL", of))
	case 1:
		return ids[0], nil
	}
	return "", cli.Usage(fmt.Errorf("the store has several agents at %s: %s; name one", of, strings.Join(ids, ", ")))
}
