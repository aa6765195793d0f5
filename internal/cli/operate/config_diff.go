package operate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/cli/design"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/handoff"
)

// configChanges is the stable form of what becomes of everybody by another
// configuration.
type configChanges struct {
	Gains    []handoff.Gain `json:"changes"`
	Modes    []modeChange   `json:"modes"`
	Policies bool           `json:"policies_differ"` // powerbox policy replay says in what
}

// modeChange is an agent whose mode or known state changes.
type modeChange struct {
	Agent  string `json:"agent"`
	Before string `json:"before"` // "" where it is new
	After  string `json:"after"`  // "" where it is gone
	Weaker bool   `json:"weaker"` // less is enforced for it than before
}

// modesByForce are the modes, the one that enforces least first.
var modesByForce = []string{"observe", "scoped", "prefer", "require"}

// wider reports whether anybody can have more done than before.
func (c configChanges) wider() bool {
	return slices.ContainsFunc(c.Gains, func(g handoff.Gain) bool { return len(g.Gains) > 0 }) ||
		slices.ContainsFunc(c.Modes, func(m modeChange) bool { return m.Weaker })
}

// compareConfigs says who gains and who loses what between two configurations.
func compareConfigs(ctx context.Context, p *cli.Program, before, after string) (configChanges, error) {
	out := configChanges{Gains: []handoff.Gain{}, Modes: []modeChange{}}
	quiet := *p // that no cards are read is meant here
	quiet.Stderr = &bytes.Buffer{}
	var declared [2]*handoff.Declarations
	var loaded [2]*config.Config
	for i, file := range []string{before, after} {
		var err error
		if loaded[i], err = p.LoadConfig(file); err != nil {
			return out, err
		}
		declared[i] = handoff.New()
		if err := design.Configured(ctx, &quiet, declared[i], design.GraphFlags{Config: file}); err != nil {
			return out, err
		}
	}
	gains, err := handoff.Diff(declared[0], declared[1])
	if err != nil {
		return out, cli.Invalid(err)
	}
	out.Gains = append(out.Gains, gains...)
	out.Modes = append(out.Modes, modeChanges(loaded[0].Agents, loaded[1].Agents)...)
	was, err := joinedPolicies(loaded[0])
	if err != nil {
		return out, err
	}
	is, err := joinedPolicies(loaded[1])
	out.Policies = !bytes.Equal(was, is)
	return out, err
}

func modeChanges(before, after []config.Agent) (out []modeChange) {
	was := map[string]string{}
	for _, a := range before {
		was[a.ID] = a.Mode
	}
	for _, a := range after {
		if b := was[a.ID]; b != a.Mode {
			out = append(out, modeChange{a.ID, b, a.Mode, b != "" && slices.Index(modesByForce, a.Mode) < slices.Index(modesByForce, b)})
		}
		delete(was, a.ID)
	}
	for _, a := range before {
		if b, gone := was[a.ID]; gone {
			out = append(out, modeChange{a.ID, b, "", false})
		}
	}
	return out
}

// joinedPolicies are the policies of a configuration, one after the other.
func joinedPolicies(c *config.Config) ([]byte, error) {
	files, err := config.Files(c.Policies)
	if err != nil {
		return nil, err
	}
	var all []byte
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all = append(append(all, data...), 0)
	}
	return all, nil
}

func printConfigChanges(p *cli.Program, c configChanges, output string) error {
	if output == "json" {
		return p.PrintJSON(c)
	}
	for _, g := range c.Gains {
		for _, op := range g.Gains {
			cli.Printf(p.Stdout, "+ %s gains %s at %s\n", g.Agent, op, g.At)
		}
		for _, op := range g.Loses {
			cli.Printf(p.Stdout, "- %s loses %s at %s\n", g.Agent, op, g.At)
		}
	}
	for _, m := range c.Modes {
		switch {
		case m.Before == "":
			cli.Printf(p.Stdout, "  agent %s is new, in mode %s\n", m.Agent, m.After)
		case m.After == "":
			cli.Printf(p.Stdout, "- agent %s is gone\n", m.Agent)
		case m.Weaker:
			cli.Printf(p.Stdout, "+ agent %s is in mode %s and no longer in %s: less is enforced\n", m.Agent, m.After, m.Before)
		default:
			cli.Printf(p.Stdout, "- agent %s is in mode %s and no longer in %s: more is enforced\n", m.Agent, m.After, m.Before)
		}
	}
	if c.Policies {
		cli.Printf(p.Stdout, "  policies differ; powerbox policy replay says which decisions on record they change\n")
	}
	if len(c.Gains)+len(c.Modes) == 0 {
		cli.Printf(p.Stdout, "no agent or user gains or loses authority by scopes, skills and modes\n")
	}
	return nil
}

func newConfigDiff(p *cli.Program) *cobra.Command {
	var consent bool
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Show who gains or loses authority between two configurations",
		Long: "Diff compares the operations that each scope allows of the skills of its target. A mode that enforces less is a gain for\n" +
			"every caller. To compare the decisions of policies, use powerbox policy replay.",
		Args:    cobra.ExactArgs(2),
		Example: "  powerbox config diff old.yaml powerbox.yaml --consent",
	}
	output := cli.OutputFlag(cmd)
	cmd.Flags().BoolVar(&consent, "consent", false, "exit 4 if an agent or user gains authority")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		changes, err := compareConfigs(cmd.Context(), p, args[0], args[1])
		if err != nil {
			return err
		}
		if err := printConfigChanges(p, changes, *output); err != nil {
			return err
		}
		if consent && changes.wider() {
			return cli.Exit(cli.ExitInvalid, nil)
		}
		return nil
	}
	return cmd
}

func newConfigApply(p *cli.Program) *cobra.Command {
	var to string
	var dry, consent bool
	cmd := &cobra.Command{
		Use:   "apply FILE",
		Short: "Replace the current configuration with a checked one",
		Long: "Apply checks FILE as serve would, and compares it with the current configuration. If an agent or user gains authority,\n" +
			"apply needs --consent. It replaces the file in one step, and the server uses it after a restart. Relative paths in FILE\n" +
			"are relative to the current configuration: put both in one folder.",
		Args:    cobra.ExactArgs(1),
		Example: "  powerbox config apply proposed.yaml --dry-run",
	}
	output := cli.OutputFlag(cmd)
	cmd.Flags().StringVarP(&to, "config", "c", cli.DefaultConfig, "the configuration `file` in force")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "show the changes, and change nothing")
	cmd.Flags().BoolVar(&consent, "consent", false, "accept that agents or users gain the listed authority")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		changes, err := compareConfigs(cmd.Context(), p, to, args[0])
		if err != nil {
			return err
		}
		if filepath.Dir(filepath.Clean(args[0])) != filepath.Dir(filepath.Clean(to)) {
			return cli.Usage(fmt.Errorf("%s is not in the folder of %s, from which the files that it names are read", args[0], to))
		}
		if err := printConfigChanges(p, changes, *output); err != nil {
			return err
		}
		switch {
		case dry:
			return nil
		case changes.wider() && !consent:
			return cli.Invalid(errors.New("an agent or user gains authority; nothing was changed. If this is intended, add --consent"))
		}
		if err := replaceFile(args[0], to); err != nil {
			return err
		}
		cli.Printf(p.Stderr, "powerbox: %s is in place; powerbox config reload puts agents, scopes, plans, policies and callers in force, and a restart everything\n", to)
		return nil
	}
	return cmd
}

// replaceFile replaces the bytes of a file with those of another, at once and
// durably.
func replaceFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	part, err := os.CreateTemp(filepath.Dir(to), filepath.Base(to)+".*.part")
	if err != nil {
		return err
	}
	_, err = part.Write(data)
	err = errors.Join(err, part.Sync(), part.Close())
	if err == nil {
		err = os.Rename(part.Name(), to)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	return nil
}
