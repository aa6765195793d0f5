package investigate

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/cli/operate"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/issuing/policy"
)

// policyQuestion is what explain policy is asked.
type policyQuestion struct {
	file, principal, operation, resource string
	groups, roles                        []string
}

func newExplainPolicy(p *cli.Program) *cobra.Command {
	var q policyQuestion
	cmd := &cobra.Command{
		Use:     "policy --principal USER --operation AGENT/GRANT/OPERATION [--resource ID]",
		Short:   "Explain the answer of the configured policies",
		Long:    "Policy prints the answer of the configured policies and the reasons for it. It exits with 0 for allowed and 3 for denied.",
		Example: "  powerbox explain policy --principal user:alice --operation documents/documents:read/search --resource /vault/q1.pdf",
	}
	output := cli.OutputFlag(cmd)
	f := cmd.Flags()
	f.StringVarP(&q.file, "config", "c", cli.DefaultConfig, "configuration `file`")
	f.StringVar(&q.principal, "principal", "", "user, such as user:alice (required)")
	f.StringVar(&q.operation, "operation", "", "agent/grant/operation (required)")
	f.StringVar(&q.resource, "resource", "", "id of a resource in the catalogue; default: the agent itself")
	f.StringSliceVar(&q.groups, "group", nil, "group of the user; a built-in user has those of the configuration")
	f.StringSliceVar(&q.roles, "role", nil, "role of the user; a built-in user has those of the configuration")
	cli.Required(cmd, "principal", "operation")
	cmd.RunE = func(*cobra.Command, []string) error {
		c, err := p.LoadConfig(q.file)
		if err != nil {
			return err
		}
		return explainPolicy(p, c, q, *output)
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

func explainPolicy(p *cli.Program, c *config.Config, q policyQuestion, output string) error {
	parts := strings.SplitN(q.operation, "/", 3)
	if len(parts) != 3 {
		return cli.Usage(fmt.Errorf("--operation is %q; want agent/grant/operation, such as documents/documents:read/search", q.operation))
	}
	if kind, name, _ := strings.Cut(q.principal, ":"); kind != "user" || name == "" {
		return cli.Usage(fmt.Errorf("--principal is %q, and no policy can match it; want a user, such as user:%s", q.principal, cmp.Or(strings.TrimPrefix(q.principal, "user:"), "alice")))
	}
	loaded, err := operate.EngineOf(c)
	if err != nil {
		return cli.Invalid(err)
	}
	resource, err := loaded.Resource(parts[0], q.resource)
	if err != nil {
		return err
	}
	answer, findings := loaded.Engine.Explain(q.user(c), q.operation, resource, parts[0], parts[1])
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
	return printPolicy(p, out, q, output)
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

func printPolicy(p *cli.Program, a policyAnswer, q policyQuestion, output string) error {
	var status error
	if !a.Allowed {
		status = cli.Exit(cli.ExitDenied, nil)
	}
	if output == "json" {
		return errors.Join(p.PrintJSON(a), status)
	}
	verdict := map[bool]string{true: "allowed", false: "denied"}[a.Allowed]
	cli.Printf(p.Stdout, "%s: %s for %s\n", verdict, q.operation, q.principal)
	if a.Reason != "" {
		cli.Printf(p.Stdout, "  why        %s\n", a.Reason)
	}
	for _, f := range a.Findings {
		mark := map[bool]string{true: "applies", false: "does not"}[f.Applies]
		cli.Printf(p.Stdout, "  %-9s  %s: %s\n", mark, f.Policy, f.Why)
	}
	if a.Lifetime != "" {
		cli.Printf(p.Stdout, "  at most    %s\n", a.Lifetime)
	}
	if a.Approval != "" {
		cli.Printf(p.Stdout, "  approval   by a %s\n", a.Approval)
	}
	if a.Fix != "" {
		cli.Printf(p.Stdout, "  to fix     %s\n", a.Fix)
	}
	return status
}
