package capability

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/agentcard"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/cli/auth"
	"github.com/powerbox-project/powerbox/internal/cli/design"
)

// callFlags are one call of a skill.
type callFlags struct {
	holder     cli.HolderFlags
	capability string
	skill      string
	task       string
	arguments  string
	via        string
	wait       cli.WaitFlags
	agent      auth.Flags
	needs      string
	features   []string
}

// viaAgentAuth is the protocol of --via beside A2A.
const viaAgentAuth = "agent-auth"

// checkVia checks --via, which is a2a where it is absent.
func checkVia(via string) error {
	switch via {
	case "a2a", viaAgentAuth:
		return nil
	}
	return cli.Usage(fmt.Errorf("--via is %q; want a2a or %s", via, viaAgentAuth))
}

const callLong = "With a capability, call uses a2a/skill/invoke with a proof. Without one it sends a plain SendMessage, with the user's\n" +
	"session if there is one: the mode of the agent decides. At an MCP server the skill is a tool, and call uses tools/call.\n" +
	"Call exits with 3 if the call is denied, and with 6 if it waits for a person. With --wait it waits for the answer of the\n" +
	"person and prints that of the agent. --task reads the task of a call that waits. A tool of an MCP server has no task:\n" +
	"without --wait its call is denied, and no person is asked.\n" +
	"\n" +
	"With --via agent-auth it executes a capability at an Agent Auth provider, with an agent from powerbox agent connect.\n" +
	"AGENT_URL is then the id of the agent, or a provider with one agent."

func newCall(p *cli.Program) *cobra.Command {
	var c callFlags
	cmd := &cobra.Command{
		Use:     "call AGENT_URL --skill SKILL [--arguments JSON] [--capability FILE] --key FILE",
		Short:   "Call a skill of an agent, or a tool of an MCP server",
		Example: "  powerbox call http://127.0.0.1:8700/agents/documents --skill search_documents --arguments '{\"query\": \"Q1\"}' --capability capability.json --key holder.jwk",
		Long:    callLong,
		Args:    cobra.ExactArgs(1),
	}
	output := cli.OutputFlag(cmd)
	f := cmd.Flags()
	f.StringVar(&c.capability, "capability", "", "capability `file` to call under")
	f.StringVar(&c.skill, "skill", "", "`skill` to call (required, except with --task)")
	f.StringVar(&c.task, "task", "", "read the `task` of a call that waits for a person, such as task_pb_..., instead of a new call")
	f.StringVar(&c.arguments, "arguments", "{}", "arguments of the skill, a JSON object")
	c.addNeeds(cmd)
	c.wait.Add(cmd)
	f.StringVar(&c.via, "via", "a2a", "protocol: a2a, or agent-auth")
	cli.Values(cmd, "via", "a2a", "agent-auth")
	c.holder.AddEither(cmd)
	c.agent.Add(cmd)
	cmd.MarkFlagsMutuallyExclusive("skill", "task")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkVia(c.via); err != nil {
			return err
		}
		if c.skill == "" && c.task == "" {
			return cli.Usage(errors.New("--skill skill is missing: skill to call; see powerbox call --help"))
		}
		arguments, err := c.readArguments()
		if err != nil {
			return err
		}
		if c.via == viaAgentAuth {
			if err := foreign(cmd, "capability", "key", "session", "session-file", "by-reference", "certificate", "certificate-key", "ca", "needs", "feature", "wait", "timeout", "task"); err != nil {
				return err
			}
			return auth.Execute(cmd.Context(), p, &c.agent, args[0], c.skill, arguments, *output)
		}
		return callAgent(cmd.Context(), p, c, args[0], arguments, *output)
	}
	return cmd
}

// callAgent calls a skill of an agent, or a tool of an MCP server.
func callAgent(ctx context.Context, p *cli.Program, c callFlags, url string, arguments powerbox.Value, output string) error {
	client, err := p.HolderClient(c.holder)
	if err != nil {
		return err
	}
	agent, err := client.Discover(ctx, url)
	if err != nil {
		return err
	}
	if err := fits(p, agent, c, output); err != nil {
		return err
	}
	asked, ctx, stop, err := p.Waiting(ctx, c.wait)
	defer stop()
	if err != nil {
		return err
	}
	client.Asked = asked
	var result json.RawMessage
	if c.task != "" {
		result, err = readTask(ctx, p, client, agent, c)
	} else {
		result, err = call(ctx, p, client, agent, c, arguments)
	}
	if err != nil {
		denied, waits := (*holder.Denied)(nil), (*holder.Pending)(nil)
		if errors.As(err, &denied) && !errors.As(err, &waits) {
			defer advise(p, agent, c, denied)
		}
		return p.Denied(err, output)
	}
	return printAnswer(p, result, output)
}

// printAnswer prints the answer to a call. A call that waits for a person has its own exit code.
func printAnswer(p *cli.Program, result json.RawMessage, output string) error {
	if output == "json" {
		cli.Document(p.Stdout, result)
	} else {
		cli.Document(p.Stdout, answerText(result))
	}
	if _, waits := holder.Waiting(result); waits {
		return cli.Exit(cli.ExitPending, nil)
	}
	return nil
}

// readArguments returns the arguments of the skill, which are an object.
func (c *callFlags) readArguments() (powerbox.Value, error) {
	arguments, err := powerbox.ParseValue([]byte(c.arguments))
	switch {
	case err != nil:
		return arguments, cli.Usage(fmt.Errorf(`--arguments is not JSON: %w; want an object such as {"title": "x"}`, err))
	case arguments.Kind() != powerbox.KindObject:
		return arguments, cli.Usage(errors.New(`--arguments is no JSON object; want one such as {"title": "x"}`))
	}
	return arguments, nil
}

// advise says what the holder can do about a call that was denied.
func advise(p *cli.Program, agent holder.Agent, c callFlags, denied *holder.Denied) {
	if len(agent.Skills) == 0 || c.task != "" {
		return // the card says nothing about authority, or no skill was called
	}
	grants, _, err := agent.Needs(c.skill)
	switch {
	case err == nil && denied.Code == gate.CodeScope:
		cli.Printf(p.Stderr, "powerbox: no capability is enough: it reaches no further than the caller's scope, which lacks the operation; an operator adds it (scopes in powerbox.yaml)\n")
	case err == nil && denied.Code == gate.CodeApproval && agent.MCP() && !c.wait.Waits():
		cli.Printf(p.Stderr, "powerbox: to ask a person and wait for the answer, make the same call with --wait\n")
	case err == nil && c.capability == "":
		cli.Printf(p.Stderr, "powerbox: request a capability with: powerbox request %s --grant %s --purpose TEXT --out FILE, and call with --capability FILE\n", agent.Base, strings.Join(grants, ","))
	case err != nil:
		cli.Printf(p.Stderr, "powerbox: the agent has no skill %q; it has %s\n", c.skill, strings.Join(slices.Sorted(maps.Keys(agent.Skills)), ", "))
	}
}

func (c *callFlags) addNeeds(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.needs, "needs", "", "`file` with the needs of the task (docs/reference/cards.md); if the card does not declare them, nothing is sent")
	cmd.Flags().StringSliceVar(&c.features, "feature", nil, "`feature` that the task relies on, such as context_reuse; as --needs")
}

// fits asks whether the agent will do, where the caller says what for: before
// anything is sent (CARD-8).
func fits(p *cli.Program, agent holder.Agent, c callFlags, output string) error {
	if c.needs == "" && len(c.features) == 0 {
		return nil
	}
	needs, err := design.ReadNeeds(p, design.NeedFlags{File: c.needs, Needs: agentcard.Needs{Features: c.features}})
	if err != nil {
		return err
	}
	needs.Skills = append(needs.Skills, c.skill)
	answer := agent.Fits(needs)
	if answer.Compatible {
		return nil
	}
	if err := design.PrintCheck(p, design.CheckJSON{Answer: answer}, output); err != nil {
		return err
	}
	cli.Printf(p.Stderr, "powerbox: nothing was sent\n")
	return cli.Exit(cli.ExitDenied, nil)
}

// foreign refuses flags that mean nothing with --via agent-auth.
func foreign(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			return cli.Usage(fmt.Errorf("--%s is for a2a; with --via %s the store has the keys", name, viaAgentAuth))
		}
	}
	return nil
}

func call(ctx context.Context, p *cli.Program, client *holder.Client, agent holder.Agent, c callFlags, arguments powerbox.Value) (json.RawMessage, error) {
	if c.capability == "" {
		return client.Send(ctx, agent, c.skill, arguments)
	}
	held, err := p.ReadCapabilities(c.capability)
	if err != nil {
		return nil, err
	}
	under, err := pick(held, agent, c.skill, arguments, client)
	if err != nil {
		return nil, err
	}
	if len(under.Chain) == 0 && under.ScopeToken == "" && client.Session == nil {
		return nil, cli.Usage(fmt.Errorf("the capability is by reference only, so the call needs the user's session; use --session-file or %s", cli.SessionEnv))
	}
	return client.Invoke(ctx, agent, under, c.skill, arguments)
}

// readTask reads the task of a call that was held, and waits for its end with --wait.
func readTask(ctx context.Context, p *cli.Program, client *holder.Client, agent holder.Agent, c callFlags) (json.RawMessage, error) {
	var under holder.Capability
	if c.capability != "" {
		held, err := p.ReadCapabilities(c.capability)
		if err != nil {
			return nil, err
		}
		of := slices.IndexFunc(held, func(h holder.Capability) bool { return h.Agent == agent.Issuer })
		if of < 0 {
			return nil, notOf(agent, held)
		}
		under = held[of]
	}
	task, err := client.Task(ctx, agent, under, c.task)
	if err != nil {
		return nil, err
	}
	return client.Await(ctx, agent, under, task)
}

// notOf says that a file has no capability of an agent.
func notOf(agent holder.Agent, held []holder.Capability) error {
	return cli.Usage(fmt.Errorf("the file has no capability of %s; it has one of %s", agent.Issuer, held[0].Agent))
}

// pick returns a capability of the agent that permits the call. Where none
// does, the agent says so better than we could, and on record.
func pick(held []holder.Capability, agent holder.Agent, skill string, arguments powerbox.Value, client *holder.Client) (holder.Capability, error) {
	var other *holder.Capability
	for i := range held {
		if held[i].Agent != agent.Issuer {
			continue
		}
		if held[i].Permits(agent.Skills[skill].Operation, arguments, client.Now()) {
			return held[i], nil
		}
		other = &held[i]
	}
	if other == nil {
		return holder.Capability{}, notOf(agent, held)
	}
	return *other, nil
}
