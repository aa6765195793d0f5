package operate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/app"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/policy"
	"github.com/powerbox-project/powerbox/internal/plain"
)

// Policies are the policies of a configuration with what they speak about,
// loaded without a server and without keys.
type Policies struct {
	Engine *policy.Engine
	agents map[string]*issuer.Agent
	config *config.Config
}

// Operations implements [policy.Tested].
func (l Policies) Operations(agent string) []string {
	var all []string
	for _, o := range l.config.Offers[agent] {
		for _, op := range l.config.OperationsOf(agent, o) {
			all = append(all, issuer.Qualify(agent, o.ID, op))
		}
	}
	return all
}

// EngineOf is the policy engine of a configuration, with its catalogues.
func EngineOf(c *config.Config) (Policies, error) {
	i := app.New(c, nil)
	p := Policies{agents: map[string]*issuer.Agent{}, config: c}
	var agents []*issuer.Agent
	var wrong error
	for _, a := range c.Agents {
		resources, err := i.Resources(a.ID)
		wrong = errors.Join(wrong, err)
		p.agents[a.ID] = &issuer.Agent{ID: a.ID, Resources: resources}
		agents = append(agents, p.agents[a.ID])
	}
	if wrong != nil {
		_, err := i.PolicyFiles() // all that is wrong is told at once
		return p, errors.Join(wrong, err)
	}
	var err error
	p.Engine, err = i.Policies(agents)
	return p, err
}

// Resource is a resource of an agent's catalogue, nil for none.
func (l Policies) Resource(agent, id string) (*catalogue.Item, error) {
	a, ok := l.agents[agent]
	if !ok {
		return nil, cli.Usage(fmt.Errorf("no agent %q is configured", agent))
	}
	if id == "" {
		return nil, nil
	}
	for i := range a.Resources {
		if a.Resources[i].ID == id {
			return &a.Resources[i], nil
		}
	}
	return nil, cli.Usage(fmt.Errorf("the catalogue of agent %q has no resource %q", agent, id))
}

func newPolicy(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "policy",
		Short:   "Test policies, and replay recorded decisions under new ones",
		Example: "  powerbox policy test",
	}
	cmd.AddCommand(newPolicyTest(p), newPolicyReplay(p))
	return cmd
}

func newPolicyTest(p *cli.Program) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "test [FILE...]",
		Short: "Compare the answers of policies with test tables",
		Long: "Test exits with 1 if a policy gives another answer than the table. Without FILE it reads every *_test.yaml beside the\n" +
			"policies. A table looks like this:\n" +
			"\n" +
			"    tests:\n" +
			"      - name: readers search\n" +
			"        user: user:carol\n" +
			"        roles: [reader]                # also groups, and attributes: {clearance: 5}\n" +
			"        operation: documents/documents:read/search\n" +
			"        resource: /vault/q1.pdf        # default: the agent itself\n" +
			"        expect: allow                  # or deny\n" +
			"        approval: human                # who must approve; default: no approval\n" +
			"\n" +
			"No server runs. Users have only the groups, roles and attributes of the table, built-in users too.",
		Args:    cobra.ArbitraryArgs,
		Example: "  powerbox policy test\n  powerbox policy test -c powerbox.yaml policies/readers_test.yaml",
	}
	output := cli.OutputFlag(cmd)
	cmd.Flags().StringVarP(&file, "config", "c", cli.DefaultConfig, "configuration `file`")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		c, err := p.LoadConfig(file)
		if err != nil {
			return err
		}
		if len(args) == 0 {
			if args, err = besidePolicies(c); err != nil {
				return err
			}
		}
		return testPolicies(p, c, args, *output)
	}
	return cmd
}

// besidePolicies finds the tables beside the policies.
func besidePolicies(c *config.Config) ([]string, error) {
	all, err := app.PolicyTables(c)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, cli.Usage(errors.New("there is no *_test.yaml beside the policies; write one (powerbox policy test --help) or name a file"))
	}
	return all, nil
}

// policyFailure is a row whose answer was another one.
type policyFailure struct {
	File     string   `json:"file"`
	Test     string   `json:"test"`
	Want     string   `json:"want"`
	Got      string   `json:"got"`
	Policies []string `json:"policies"`
	Reason   string   `json:"reason,omitempty"`
}

func testPolicies(p *cli.Program, c *config.Config, files []string, output string) error {
	loaded, err := EngineOf(c)
	if err != nil {
		return cli.Invalid(err)
	}
	ran, failures := 0, []policyFailure{}
	for _, file := range files {
		data, err := p.ReadFile(file)
		if err != nil {
			return err
		}
		tests, err := policy.ReadTests(data)
		if err != nil {
			return cli.Invalid(fmt.Errorf("%s%w", file, err))
		}
		for n, t := range tests {
			got, err := t.Run(loaded.Engine, loaded)
			if err != nil {
				return cli.Invalid(fmt.Errorf("%s, test %d (%s): %w", file, n+1, t.Name, err))
			}
			if ran++; !got.Passed() {
				failures = append(failures, policyFailure{file, t.Name, got.Want, got.Got, got.Policies, got.Reason})
			}
		}
	}
	var status error
	if len(failures) > 0 {
		status = cli.Exit(cli.ExitError, nil)
	}
	if output == "json" {
		return errors.Join(p.PrintJSON(map[string]any{"tests": ran, "failures": failures}), status)
	}
	for _, f := range failures {
		cli.Printf(p.Stdout, "FAILED  %s: %s\n        want %s, got %s", f.File, f.Test, f.Want, f.Got)
		if why := strings.Join(append(slices.Clone(f.Policies), f.Reason), ", "); strings.Trim(why, ", ") != "" {
			cli.Printf(p.Stdout, " by %s", strings.Trim(why, ", "))
		}
		cli.Printf(p.Stdout, "\n")
	}
	cli.Printf(p.Stdout, "%s, %d failed\n", plain.Count(ran, "test"), len(failures))
	return status
}
