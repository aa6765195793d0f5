package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
)

// callFlags are one call of a skill.
type callFlags struct {
	holder     holderFlags
	capability string
	skill      string
	arguments  string
}

func newCall(p *program) *cobra.Command {
	var c callFlags
	cmd := &cobra.Command{
		Use:   "call AGENT_URL --skill SKILL [--arguments JSON] [--capability FILE] --key FILE",
		Short: "Call a skill of an agent; exit 3 when it is denied",
		Long: "With a capability the call is a2a/skill/invoke with a proof of it. Without one it is the SendMessage that a\n" +
			"stock client sends, with the user's session where there is one: what that may do is for the agent's mode to say.",
		Args: cobra.ExactArgs(1),
	}
	output := outputFlag(cmd)
	f := cmd.Flags()
	f.StringVar(&c.capability, "capability", "", "capability `file` to call under")
	f.StringVar(&c.skill, "skill", "", "skill to call (required)")
	f.StringVar(&c.arguments, "arguments", "{}", "arguments of the skill, a JSON object")
	c.holder.add(cmd)
	required(cmd, "skill", "key")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		arguments, err := powerbox.ParseValue([]byte(c.arguments))
		if err == nil && arguments.Kind() != powerbox.KindObject {
			err = errors.New(`want an object such as {"title": "x"}`)
		}
		if err != nil {
			return usage(fmt.Errorf("--arguments: %w", err))
		}
		client, err := p.holderClient(c.holder)
		if err != nil {
			return err
		}
		agent, err := client.Discover(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		result, err := p.call(cmd.Context(), client, agent, c, arguments)
		if err != nil {
			return p.denied(err, *output)
		}
		if *output == "json" {
			fmt.Fprintln(p.stdout, string(result))
			return nil
		}
		fmt.Fprintln(p.stdout, answerText(result))
		return nil
	}
	return cmd
}

func (p *program) call(ctx context.Context, client *holder.Client, agent holder.Agent, c callFlags, arguments powerbox.Value) (json.RawMessage, error) {
	if c.capability == "" {
		return client.Send(ctx, agent, c.skill, arguments)
	}
	held, err := p.readCapabilities(c.capability)
	if err != nil {
		return nil, err
	}
	under, err := pick(held, agent, c.skill, arguments, client)
	if err != nil {
		return nil, err
	}
	if len(under.Chain) == 0 && under.ScopeToken == "" && client.Session == nil {
		return nil, usage(fmt.Errorf("the capability is by reference only, so the call needs the user's session; use --session-file or %s", sessionEnv))
	}
	return client.Invoke(ctx, agent, under, c.skill, arguments)
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
		return holder.Capability{}, usage(fmt.Errorf("the file has no capability of %s; it has one of %s", agent.Issuer, held[0].Agent))
	}
	return *other, nil
}
