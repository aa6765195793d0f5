package verify

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/plain"
)

// period is a closed period as the server tells it.
type period struct {
	Number     int64     `json:"period"`
	First      int64     `json:"first"`
	Size       int64     `json:"size"`
	Root       string    `json:"root"`
	Closed     time.Time `json:"closed"`
	Archived   bool      `json:"archived"`
	Checkpoint string    `json:"checkpoint"`
}

func newEvidenceClose(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "close",
		Short:   "Close the current period of the log",
		Example: "  powerbox evidence close",
		Long: "Close ends the current period of the log. Its checkpoint is final, and the next period names it. Export the period\n" +
			"with powerbox evidence export --period, then remove its records with powerbox evidence archive. Run close once per\n" +
			"period, for example monthly from cron.",
		Args: cobra.NoArgs,
	}
	v := p.OperatorVerb(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return cli.Show(cmd.Context(), v, cli.Post("/v1/evidence/periods", struct{}{}), func(closed period) error {
			cli.Printf(p.Stdout, "closed period %d: entries %d to %d\n", closed.Number, closed.First, closed.Size-1)
			return nil
		})
	}
	return cmd
}

func newEvidencePeriods(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "periods",
		Short:   "List the closed periods of the log",
		Example: "  powerbox evidence periods",
		Args:    cobra.NoArgs,
	}
	v := p.OperatorVerb(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return cli.Show(cmd.Context(), v, cli.Get("/v1/evidence/periods"), func(all []period) error { return listPeriods(p, all) })
	}
	return cmd
}

func listPeriods(p *cli.Program, all []period) error {
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	cli.Printf(w, "PERIOD\tENTRIES\tCLOSED\tRECORDS\n")
	for _, one := range all {
		where := "here"
		if one.Archived {
			where = "archived"
		}
		cli.Printf(w, "%d\t%d to %d\t%s\t%s\n", one.Number, one.First, one.Size-1, one.Closed.Format(time.RFC3339), where)
	}
	return w.Flush()
}

func newEvidenceArchive(p *cli.Program) *cobra.Command {
	var number int64
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "archive BUNDLE --period N --trust FILE [--seen CHECKPOINT]",
		Short: "Remove a closed period from the store after verifying its bundle",
		Example: "  powerbox evidence archive period-1.jsonl --period 1 --trust trust.json\n" +
			"  powerbox evidence archive period-2.jsonl --period 2 --trust trust.json --seen checkpoint-1.txt",
		Long: "Archive removes the records of a closed period from the store. First it verifies the bundle of the period against your\n" +
			"pinned keys. From the second period on, --seen names the last checkpoint of the period before. Hashes and checkpoints\n" +
			"stay in the log, and the bundle still verifies.\n" +
			"The bundle is then the only copy of these records. Archive the oldest period first.",
		Args: cobra.ExactArgs(1),
	}
	output := cli.OutputFlag(cmd)
	o := cli.AddOperatorFlags(cmd)
	f.addBundle(cmd)
	cmd.Flags().Int64Var(&number, "period", 0, "`number` of the period, as powerbox evidence periods lists it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if number < 1 {
			return cli.Usage(errors.New("want a bundle and --period with the number of its period, from 1"))
		}
		trust, err := trustOf(p, f)
		if err != nil {
			return err
		}
		report, err := verifyBundles(cmd.Context(), p, args, trust, verifying{workers: runtime.GOMAXPROCS(0)})
		if err != nil {
			return err
		}
		if len(report.Problems) > 0 {
			return errors.Join(printReport(p, report, *output), errors.New("nothing is archived: the bundle does not verify"))
		}
		op, err := p.Operator(o)
		if err != nil {
			return err
		}
		var done period
		path := fmt.Sprintf("/v1/evidence/periods/%d/archive", number)
		if err := op.Call(cmd.Context(), http.MethodPost, path, map[string]string{"root": report.Root}, &done); err != nil {
			return noPeriod(number, err)
		}
		if *output == "json" {
			return p.PrintJSON(done)
		}
		cli.Printf(p.Stdout, "archived period %d: %s; the bundle is their only copy now\n", done.Number, plain.Count(int(done.Size-done.First), "record"))
		return nil
	}
	return cmd
}

// noPeriod says which periods there are, if err is that there is none of a number.
func noPeriod(number int64, err error) error {
	if errors.Is(err, audit.ErrNotThere) {
		return fmt.Errorf("there is no closed period %d; powerbox evidence periods lists them", number)
	}
	return err
}
