package operate

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/app"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/plain"
	"github.com/powerbox-project/powerbox/internal/web/api"
)

func newConfig(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "config",
		Short:   "Check, compare, apply and reload the configuration",
		Example: "  powerbox config check",
	}
	cmd.AddCommand(newConfigCheck(p), newConfigPrint(p), newConfigReload(p), newConfigDiff(p), newConfigApply(p), &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of powerbox.yaml",
		Example: "  powerbox config schema > powerbox.schema.json",
		RunE: func(*cobra.Command, []string) error {
			cli.Document(p.Stdout, config.Schema())
			return nil
		},
	})
	return cmd
}

func newConfigCheck(p *cli.Program) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration, its policies and catalogues",
		Long:  "Check lists every error in the configuration, its policies and its catalogues. It exits with 4 if it finds one.",
		Example: "  powerbox config check\n" +
			"  powerbox config check -c powerbox.next.yaml",
	}
	cmd.Flags().StringVarP(&file, "config", "c", cli.DefaultConfig, "configuration `file`")
	output := cli.OutputFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		c, problems, err := checked(p, file)
		if err != nil {
			return err
		}
		good := len(problems) == 0
		var status error
		if !good {
			status = cli.Exit(cli.ExitInvalid, nil)
		}
		if *output == "json" {
			return errors.Join(p.PrintJSON(map[string]any{"ok": good, "problems": problems}), status)
		}
		for _, text := range problems {
			cli.Printf(p.Stdout, "%s\n", text)
		}
		if good {
			cli.Printf(p.Stdout, "%s is good: %s\n", file, plain.Count(len(c.Agents), "agent"))
		}
		return status
	}
	return cmd
}

// checked are the problems of a configuration and of the files that it names.
func checked(p *cli.Program, file string) (*config.Config, []string, error) {
	c, wrong, err := p.CheckConfig(file)
	if err != nil {
		return nil, nil, err
	}
	if len(wrong) == 0 {
		_, err = EngineOf(c)
		return c, ProblemTexts(err), nil
	}
	// Policies are not checked against offers that may not be what they seem. Their files are read.
	i := app.New(c, p.Now)
	problems := ProblemTexts(wrong)
	for _, agent := range slices.Sorted(maps.Keys(c.Resources)) {
		if _, err := i.Resources(agent); err != nil {
			problems = append(problems, ProblemTexts(err)...)
		}
	}
	_, err = i.PolicyFiles()
	return c, append(problems, ProblemTexts(err)...), nil
}

func newConfigReload(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "reload",
		Short:   "Make the running server read its configuration again",
		Example: "  powerbox config reload",
		Long: "The server reads its own file, as it does on SIGHUP. It replaces agents with their offers and skills, scopes, plans,\n" +
			"policies and identity.callers: all of them or none. The difference is printed and recorded. If another setting changed,\n" +
			"the server names it and changes nothing: that setting needs a restart. Check the file first: powerbox config check.",
		Args: cobra.NoArgs,
	}
	v := p.OperatorVerb(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return cli.Show(cmd.Context(), v, cli.Post("/v1/config/reload", struct{}{}), func(done api.Reloaded) error {
			for _, change := range done.Changes {
				cli.Printf(p.Stdout, "%s\n", change)
			}
			if len(done.Changes) == 0 {
				cli.Printf(p.Stdout, "the configuration says what it said before; nothing was changed\n")
				return nil
			}
			cli.Printf(p.Stdout, "in force now: %s (before: %s), on record as %s\n", done.After, done.Before, done.Record)
			return nil
		})
	}
	return cmd
}

// wrongConfig maps problems of a configuration to exit code 4; a file that
// cannot be read is an error like any other.
func wrongConfig(err error) error {
	var problems config.Problems
	if errors.As(err, &problems) {
		return cli.Invalid(err)
	}
	return err
}

// ProblemTexts are the single problems of a configuration.
func ProblemTexts(err error) []string {
	texts := []string{}
	var problems config.Problems
	switch {
	case err == nil:
	case errors.As(err, &problems):
		for _, problem := range problems {
			texts = append(texts, problem.String())
		}
	default:
		texts = strings.Split(err.Error(), "\n") // policies and catalogues join theirs
	}
	return texts
}

func newConfigPrint(p *cli.Program) *cobra.Command {
	var file string
	var effective bool
	cmd := &cobra.Command{
		Use:     "print --effective",
		Short:   "Print the effective configuration, with secrets masked",
		Long:    "Print shows the configuration with its defaults and with the values from environment variables. Secrets are masked.",
		Example: "  powerbox config print --effective",
	}
	cmd.Flags().StringVarP(&file, "config", "c", cli.DefaultConfig, "configuration `file`")
	cmd.Flags().BoolVar(&effective, "effective", false, "print the effective configuration (required)")
	cli.Required(cmd, "effective")
	cmd.RunE = func(*cobra.Command, []string) error {
		c, err := p.LoadConfig(file)
		if err != nil {
			return wrongConfig(err)
		}
		data, err := c.Effective()
		if err != nil {
			return err
		}
		cli.Document(p.Stdout, data)
		return nil
	}
	return cmd
}
