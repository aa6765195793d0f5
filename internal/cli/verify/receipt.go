package verify

import (
	"bytes"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/cli"
)

func newEvidenceVerifyReceipt(p *cli.Program) *cobra.Command {
	var f verifyFlags
	var record string
	cmd := &cobra.Command{
		Use:   "verify-receipt FILE --trust FILE [--record FILE]",
		Short: "Verify the receipt of a call offline",
		Long:  "A response carries the receipt of its call in its metadata. With --record the command also checks that the receipt names this record.",
		Example: "  powerbox evidence verify-receipt receipt.json --trust trust.json\n" +
			"  powerbox evidence verify-receipt receipt.json --trust trust.json --record record.json",
		Args: cobra.ExactArgs(1),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.trust, "trust", "", "`file` with the keys to trust, from powerbox evidence trust (required)")
	flags.StringArrayVar(&f.witnesses, "witness", nil, "`key` of a witness, from powerbox witness key; may be repeated. The checkpoint must be cosigned")
	flags.IntVar(&f.quorum, "quorum", 0, "how many of the witnesses must have cosigned; default: all")
	flags.StringVar(&record, "record", "", "`file` with a record, from powerbox evidence show: it must be the record of the receipt")
	output := cli.OutputFlag(cmd)
	cli.Required(cmd, "trust")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		trust, err := trustOf(p, f)
		if err != nil {
			return err
		}
		return verifyReceipt(p, args[0], record, trust, *output)
	}
	return cmd
}

func verifyReceipt(p *cli.Program, name, record string, trust evidence.Trust, output string) error {
	text, err := p.ReadFile(name)
	if err != nil {
		return err
	}
	// Clients write metadata in their own forms.
	if text, err = evidence.Canonical(text); err != nil {
		return cli.Invalid(err)
	}
	receipt, err := evidence.ParseReceipt(text)
	if err != nil {
		return cli.Invalid(err)
	}
	checkpoint, err := receipt.Verify(trust)
	if err != nil {
		return cli.Invalid(err)
	}
	if record != "" {
		stored, err := p.ReadFile(record)
		if err != nil {
			return err
		}
		if err := receipt.Is(bytes.TrimSuffix(stored, []byte("\n"))); err != nil {
			return cli.Invalid(err)
		}
	}
	cosigned, err := trust.Quorum.Check(receipt.Proof().Checkpoint)
	if err != nil {
		return cli.Invalid(err)
	}
	index := receipt.Proof().Index
	if output == "json" {
		return p.PrintJSON(map[string]any{
			"verdict": evidence.OK, "origin": checkpoint.Origin, "chain_id": receipt.Chain(), "sequence": receipt.Sequence(), "record_hash": receipt.Hash(),
			"index": index, "size": checkpoint.Size, "cosigned": cosigned,
		})
	}
	cli.Printf(p.Stdout, "%s: record %s is entry %d of the %d of %s\n", evidence.OK, receipt.Hash(), index, checkpoint.Size, checkpoint.Origin)
	for _, c := range cosigned {
		cli.Printf(p.Stdout, "  cosigned by %s at %s\n", c.Witness, c.Time.Format(time.RFC3339))
	}
	return nil
}
