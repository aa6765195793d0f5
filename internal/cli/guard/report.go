package guard

import (
	"crypto/rand"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/guard/daemon"
)

// usage reads what the sessions of a project did.
func usage(p *cli.Program, project string) (daemon.Usage, error) {
	at, err := locate(p)
	if err != nil {
		return daemon.Usage{}, err
	}
	dir, err := absolute(project)
	if err != nil {
		return daemon.Usage{}, err
	}
	owner, text, err := (daemon.Grants{State: at.state}).Find(dir)
	if err != nil {
		return daemon.Usage{}, err
	}
	records, err := daemon.Records(at.state)
	if err != nil {
		return daemon.Usage{}, err
	}
	return daemon.Count(records, owner, text)
}

func newReport(p *cli.Program) *cobra.Command {
	var project *string
	cmd := &cobra.Command{
		Use: "report", Short: "Show what the sessions of a project used, and what was denied",
		Example: "  powerbox guard report", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			u, err := usage(p, *project)
			if err != nil {
				return err
			}
			return u.Report(p.Stdout)
		},
	}
	project = projectFlag(cmd)
	return cmd
}

func newAdvise(p *cli.Program) *cobra.Command {
	var project *string
	cmd := &cobra.Command{
		Use: "advise", Short: "Write the grant that would have sufficed", Args: cobra.NoArgs,
		Long:    "Advise writes a grant of what the sessions of a project used, and of nothing that was denied. Look at it,\nthen give it.",
		Example: "  powerbox guard advise > next.yaml\n  powerbox guard grant next.yaml",
		RunE: func(*cobra.Command, []string) error {
			u, err := usage(p, *project)
			if err != nil {
				return err
			}
			text, err := u.Advise()
			if err != nil {
				return err
			}
			cli.Document(p.Stdout, text)
			return nil
		},
	}
	project = projectFlag(cmd)
	return cmd
}

func newLog(p *cli.Program) *cobra.Command {
	var out, trust string
	cmd := &cobra.Command{
		Use: "log --out FILE --trust FILE", Short: "Export the log as a bundle that powerbox evidence verify checks", Args: cobra.NoArgs,
		Example: "  powerbox guard log --out bundle.jsonl --trust trust.json\n  powerbox evidence verify bundle.jsonl --trust trust.json",
		RunE: func(*cobra.Command, []string) error {
			at, err := locate(p)
			if err != nil {
				return err
			}
			pins, err := os.OpenFile(trust, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
			if err != nil {
				return err
			}
			err = p.WriteOut(out, 0o600, func(w io.Writer) error {
				return daemon.Export(at.state, rand.Reader, w, pins)
			})
			if e := pins.Close(); err == nil {
				err = e
			}
			if err != nil {
				return fmt.Errorf("the log cannot be exported: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "`file` for the bundle")
	cmd.Flags().StringVar(&trust, "trust", "", "`file` for the keys to verify it with")
	cli.Required(cmd, "out", "trust")
	return cmd
}
