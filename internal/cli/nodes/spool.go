package nodes

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/app/proxy"
	"github.com/powerbox-project/powerbox/internal/app/remote"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/remote/link"
	"github.com/powerbox-project/powerbox/internal/store/spool"
)

const spoolLong = `The spool of a remote gateway holds the records that its server does not have yet. A gateway with a damaged spool does not
start. Check lists the intact and the damaged records, changes nothing, and exits with 4 on damage. Salvage needs the
gateway to be stopped. It sends every intact record to the server, with a record of the lost ones that the gateway
signs. The damaged files are kept beside the spool.`

func newGatewaySpool(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use: "spool", Short: "Check and salvage records that the server does not have yet",
		Example: "  powerbox gateway spool check powerbox-gateway",
		Long:    spoolLong,
	}
	cmd.AddCommand(newSpoolCheck(p), newSpoolSalvage(p))
	return cmd
}

// spoolVerb is a verb about the spool in the folder of a gateway.
func spoolVerb(p *cli.Program, verb, short string, run func(ctx context.Context, s *remote.SpoolOf, asJSON bool) error) *cobra.Command {
	var passphrase string
	cmd := &cobra.Command{
		Use: verb + " DIR", Short: short, Long: spoolLong, Args: cobra.ExactArgs(1),
		Example: "  powerbox gateway spool " + verb + " powerbox-gateway",
	}
	output := cli.OutputFlag(cmd)
	cmd.Flags().StringVar(&passphrase, "passphrase-file", "", "`file` with the passphrase of its keys")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := remote.OpenSpoolOf(args[0], passphrase, p.Now)
		if err != nil {
			return err
		}
		return run(cmd.Context(), s, *output == "json")
	}
	return cmd
}

func newSpoolCheck(p *cli.Program) *cobra.Command {
	return spoolVerb(p, "check", "Check the unsent records of a gateway", func(_ context.Context, s *remote.SpoolOf, asJSON bool) error {
		found, err := spool.Check(s.Config.Dir, s.Key)
		if err != nil {
			return err
		}
		if asJSON {
			err = p.PrintJSON(found)
		} else {
			printFound(p, found)
		}
		if err == nil && !found.Whole() {
			err = cli.Exit(cli.ExitInvalid, nil)
		}
		return err
	})
}

func printFound(p *cli.Program, f spool.Found) {
	cli.Printf(p.Stdout, "%d whole records, %d to %d", f.Records, f.First, f.Next-1)
	if f.Shipped >= 0 {
		cli.Printf(p.Stdout, "; the server has those before %d", f.Shipped)
	}
	cli.Printf(p.Stdout, "\n")
	for _, h := range f.Damage {
		cli.Printf(p.Stdout, "damaged: %s\n", h)
	}
}

func newSpoolSalvage(p *cli.Program) *cobra.Command {
	return spoolVerb(p, "salvage", "Send intact records to the server, and record the lost ones", func(ctx context.Context, s *remote.SpoolOf, asJSON bool) error {
		done, err := salvage(ctx, p, s, "")
		if err != nil {
			return err
		}
		if asJSON {
			return p.PrintJSON(done)
		}
		printSalvaged(p, done)
		return nil
	})
}

// salvage repairs a spool, and sends its records. With a reason it accepts a server that lacks
// records which it had before.
func salvage(ctx context.Context, p *cli.Program, s *remote.SpoolOf, older string) (spool.Salvaged, error) {
	client := &link.Client{Server: s.Enrolled.Server, Key: s.Keys.Own, Transport: outbound.New(outbound.Configured()).Transport(), Now: p.Now}
	head, err := client.ChainEnd(ctx)
	if err != nil {
		return spool.Salvaged{}, fmt.Errorf("which records the server has cannot be told, and nothing was changed: %w", err)
	}
	done, err := spool.Salvage(spool.SalvageConfig{Spool: s.Config, Key: s.Key, Server: head, Now: p.Now(), NewID: proxy.RecordIDs(p.Now), Older: older != "", Reason: older})
	if err != nil {
		return done, err
	}
	open, err := spool.Open(s.Config)
	if err != nil {
		return done, err
	}
	return done, errors.Join(open.ShipRest(ctx, remote.Sends(open, client)), open.Close())
}

func printSalvaged(p *cli.Program, done spool.Salvaged) {
	printFound(p, done.Found)
	if done.Whole() {
		cli.Printf(p.Stdout, "nothing is damaged; the server has every record\n")
		return
	}
	for _, l := range done.Lost {
		to := "on"
		if l.To > 0 {
			to = fmt.Sprintf("to %d", l.To-1)
		}
		cli.Printf(p.Stdout, "lost: records from %d %s, %d bytes from byte %d of %s\n", l.From, to, l.Bytes, l.At, l.File)
	}
	if len(done.Lost) == 0 {
		cli.Printf(p.Stdout, "no record is lost: the server had those that are damaged\n")
	}
	cli.Printf(p.Stdout, "sent: %d records as they were, %d behind a loss, sealed anew\n", done.Kept, done.Sealed)
	if done.Record != "" {
		cli.Printf(p.Stdout, "on record: %s\n", done.Record)
	}
	cli.Printf(p.Stdout, "the damaged files are in %s\n", done.Aside)
}
