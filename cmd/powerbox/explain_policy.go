package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/policy"
)

// policies are the policies of a configuration with what they speak about,
// loaded without a server and without keys.
type policies struct {
	engine *policy.Engine
	agents map[string]*issuer.Agent
	config *config.Config
}

// operations are what an agent offers, by qualified names.
func (l policies) operations(agent string) []string {
	var all []string
	for _, o := range l.config.Offers[agent] {
		for _, op := range l.config.OperationsOf(agent, o) {
			all = append(all, issuer.Qualify(agent, o.ID, op))
		}
	}
	return all
}

func engineOf(c *config.Config) (policies, error) {
	i := &instance{config: c}
	p := policies{agents: map[string]*issuer.Agent{}, config: c}
	var agents []*issuer.Agent
	var wrong error
	for _, a := range c.Agents {
		resources, err := i.resources(a.ID)
		wrong = errors.Join(wrong, err)
		p.agents[a.ID] = &issuer.Agent{ID: a.ID, Resources: resources}
		agents = append(agents, p.agents[a.ID])
	}
	if wrong != nil {
		return p, wrong
	}
	var err error
	p.engine, err = i.policies(agents)
	return p, err
}

// policyQuestion is what explain policy is asked.
type policyQuestion struct {
	file, principal, operation, resource string
	groups, roles                        []string
}

func newExplainPolicy(p *program) *cobra.Command {
	var q policyQuestion
	cmd := &cobra.Command{
		Use:   "policy --principal USER --operation AGENT/GRANT/OPERATION [--resource ID]",
		Short: "Say what the policies of the configuration answer, and why: exit 0 allowed, 3 denied",
	}
	output := outputFlag(cmd)
	f := cmd.Flags()
	f.StringVarP(&q.file, "config", "c", defaultConfig, "configuration `file`")
	f.StringVar(&q.principal, "principal", "", "the user, such as user:alice (required)")
	f.StringVar(&q.operation, "operation", "", "agent/grant/operation (required)")
	f.StringVar(&q.resource, "resource", "", "id of a resource in the catalogue; the agent itself where absent")
	f.StringSliceVar(&q.groups, "group", nil, "group of the user; a built-in user has those of the configuration")
	f.StringSliceVar(&q.roles, "role", nil, "role of the user; likewise")
	required(cmd, "principal", "operation")
	cmd.RunE = func(*cobra.Command, []string) error {
		c, err := p.loadConfig(q.file)
		if err != nil {
			return err
		}
		return p.explainPolicy(c, q, *output)
	}
	return cmd
}

// policyAnswer is the stable form of the answer.
type policyAnswer struct {
	Allowed  bool            `json:"allowed"`
	Policies []string        `json:"policies"`
	Lifetime string          `json:"maximum_lifetime,omitempty"`
	Approval string          `json:"approval,omitempty"`
	Reason   string          `json:"reason,omitempty"`
	Findings []policyFinding `json:"findings"`
	Fix      string          `json:"fix,omitempty"`
}

type policyFinding struct {
	Policy  string `json:"policy"`
	Forbid  bool   `json:"forbid"`
	Applies bool   `json:"applies"`
	Why     string `json:"why"`
}

func (p *program) explainPolicy(c *config.Config, q policyQuestion, output string) error {
	parts := strings.SplitN(q.operation, "/", 3)
	if len(parts) != 3 {
		return usage(fmt.Errorf("--operation is %q; want agent/grant/operation, such as documents/documents:read/search", q.operation))
	}
	loaded, err := engineOf(c)
	if err != nil {
		return invalid(err)
	}
	resource, err := loaded.resource(parts[0], q.resource)
	if err != nil {
		return err
	}
	answer, findings := loaded.engine.Explain(q.user(c), q.operation, resource, parts[0], parts[1])
	out := policyAnswer{
		Allowed: answer.Allow, Policies: append([]string{}, answer.Policies...), Approval: answer.Approval,
		Reason: answer.Reason, Findings: []policyFinding{},
	}
	if answer.MaximumLifetime > 0 {
		out.Lifetime = answer.MaximumLifetime.String()
	}
	for _, f := range findings {
		out.Findings = append(out.Findings, policyFinding{f.Policy, f.Forbid, f.Applies, f.Why})
	}
	if !out.Allowed {
		out.Fix = policyFix(q, out, parts)
	}
	return p.printPolicy(out, q, output)
}

// user is the principal of the question: a built-in user has the groups, roles
// and attributes of the configuration.
func (q policyQuestion) user(c *config.Config) policy.Principal {
	u := policy.Principal{ID: q.principal, Groups: q.groups, Roles: q.roles}
	for _, d := range c.Identity.Dev {
		if "user:"+d.Name == q.principal {
			u.Groups, u.Roles, u.Attributes = append(u.Groups, d.Groups...), append(u.Roles, d.Roles...), d.Attributes
		}
	}
	return u
}

func (l policies) resource(agent, id string) (*catalogue.Item, error) {
	a, ok := l.agents[agent]
	if !ok {
		return nil, usage(fmt.Errorf("no agent %q is configured", agent))
	}
	if id == "" {
		return nil, nil
	}
	for i := range a.Resources {
		if a.Resources[i].ID == id {
			return &a.Resources[i], nil
		}
	}
	return nil, usage(fmt.Errorf("the catalogue of agent %q has no resource %q", agent, id))
}

func policyFix(q policyQuestion, a policyAnswer, parts []string) string {
	for _, f := range a.Findings {
		if f.Forbid && f.Applies {
			return fmt.Sprintf("%s forbids it: change that policy if it should not", f.Policy)
		}
	}
	if len(a.Findings) == 0 && a.Reason != "" {
		return "ask about what is configured: powerbox config print --effective"
	}
	return fmt.Sprintf("if it should be allowed, add: permit(principal == User::%q, action == Action::%q, resource in Agent::%q);",
		q.principal, q.operation, parts[0])
}

func (p *program) printPolicy(a policyAnswer, q policyQuestion, output string) error {
	var status error
	if !a.Allowed {
		status = exitWith(exitDenied, nil)
	}
	if output == "json" {
		return errors.Join(p.printJSON(a), status)
	}
	verdict := map[bool]string{true: "allowed", false: "denied"}[a.Allowed]
	fmt.Fprintf(p.stdout, "%s: %s for %s\n", verdict, q.operation, q.principal)
	if a.Reason != "" {
		fmt.Fprintf(p.stdout, "  why        %s\n", a.Reason)
	}
	for _, f := range a.Findings {
		mark := map[bool]string{true: "applies", false: "does not"}[f.Applies]
		fmt.Fprintf(p.stdout, "  %-9s  %s: %s\n", mark, f.Policy, f.Why)
	}
	if a.Lifetime != "" {
		fmt.Fprintf(p.stdout, "  at most    %s\n", a.Lifetime)
	}
	if a.Approval != "" {
		fmt.Fprintf(p.stdout, "  approval   by a %s\n", a.Approval)
	}
	if a.Fix != "" {
		fmt.Fprintf(p.stdout, "  to mend    %s\n", a.Fix)
	}
	return status
}
