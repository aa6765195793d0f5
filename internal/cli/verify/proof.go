package verify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/cli"
)

// verifyFlags say what a verifier brings.
type verifyFlags struct {
	trust     string
	proof     string
	seen      []string
	recorders []string
	witnesses []string
	quorum    int
	claim     claimFlags
}

// add adds all flags of verify.
func (f *verifyFlags) add(cmd *cobra.Command) {
	f.addBundle(cmd)
	cmd.Flags().StringVar(&f.proof, "proof", "", "`file` with the proof of one record, from powerbox evidence proof; FILE is then that record, from powerbox evidence show")
	f.claim.add(cmd)
}

// addBundle adds those that are about bundles.
func (f *verifyFlags) addBundle(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.trust, "trust", "", "`file` with the keys to trust, from powerbox evidence trust (required)")
	flags.StringArrayVar(&f.seen, "seen", nil, "`file` with an earlier checkpoint of the same log (powerbox evidence checkpoint, or from a witness): detects a log that was cut or rewritten since, even if signed again")
	flags.StringArrayVar(&f.recorders, "recorders", nil, "`file` with the list of an agent's recorders that you kept earlier (AGENT/.well-known/recorders.json); may be repeated: names chains that were left out since")
	flags.StringArrayVar(&f.witnesses, "witness", nil, "`key` of a witness, from powerbox witness key; may be repeated. The checkpoint must be cosigned")
	flags.IntVar(&f.quorum, "quorum", 0, "how many of the witnesses must have cosigned; default: all")
	cli.Required(cmd, "trust")
}

func recorders(p *cli.Program, name string) (evidence.Recorders, error) {
	data, err := p.ReadFile(name)
	if err != nil {
		return evidence.Recorders{}, err
	}
	list, err := evidence.ParseRecorders(data)
	if err != nil {
		return evidence.Recorders{}, cli.Invalid(fmt.Errorf("%s: %w", name, err))
	}
	return list, nil
}

// trustOf reads what the flags name.
func trustOf(p *cli.Program, f verifyFlags) (evidence.Trust, error) {
	if f.proof != "" && len(f.seen)+len(f.recorders) > 0 {
		return evidence.Trust{}, cli.Usage(errors.New("--seen, as --recorders, needs a bundle: one record with its proof does not show that the log continues an earlier checkpoint"))
	}
	if f.proof == "" && f.claim.given() {
		return evidence.Trust{}, cli.Usage(errors.New("--expect, --under, --revoked and --honoured are about one record with its --proof"))
	}
	data, err := p.ReadFile(f.trust)
	if err != nil {
		return evidence.Trust{}, err
	}
	trust, err := evidence.ParseTrust(data)
	if err != nil {
		return evidence.Trust{}, cli.Invalid(fmt.Errorf("%s: %w", f.trust, err))
	}
	for _, text := range f.witnesses {
		key, err := evidence.ParseWitnessKey(text)
		if err != nil {
			return evidence.Trust{}, cli.Usage(err)
		}
		trust.Quorum.Witnesses = append(trust.Quorum.Witnesses, key)
	}
	trust.Quorum.Number = f.quorum
	if f.quorum == 0 {
		trust.Quorum.Number = len(f.witnesses)
	}
	if err := trust.Quorum.Usable(); err != nil || f.quorum < 0 {
		return evidence.Trust{}, cli.Usage(errors.Join(err, fmt.Errorf("--quorum %d of %d --witness", f.quorum, len(f.witnesses))))
	}
	for _, name := range f.recorders {
		list, err := recorders(p, name)
		if err != nil {
			return evidence.Trust{}, err
		}
		trust.Recorders = append(trust.Recorders, list)
	}
	trust.Seen, err = checkpoints(p, f.seen, trust)
	return trust, err
}

// verifyRecord verifies one record that was handed out with its proof.
func verifyRecord(p *cli.Program, name string, f verifyFlags, trust evidence.Trust, output string) error {
	stored, err := p.ReadFile(name)
	if err != nil {
		return err
	}
	shown, err := p.ReadFile(f.proof)
	if err != nil {
		return err
	}
	checkpoint, err := evidence.VerifyRecord(bytes.TrimSuffix(stored, []byte("\n")), shown, trust)
	if err != nil {
		return cli.Invalid(err)
	}
	record, err := evidence.ParseSealed(bytes.TrimSuffix(stored, []byte("\n")))
	if err != nil {
		return cli.Invalid(err)
	}
	parsed, err := evidence.ParseProof(shown)
	if err != nil {
		return cli.Invalid(err)
	}
	cosigned, err := trust.Quorum.Check(parsed.Checkpoint)
	if err != nil {
		return cli.Invalid(err)
	}
	if err := claim(p, f.claim, record.Record()); err != nil {
		return err
	}
	if output == "json" {
		return p.PrintJSON(map[string]any{
			"verdict": evidence.OK, "record_id": record.Record().ID, "origin": checkpoint.Origin, "index": parsed.Index, "size": checkpoint.Size, "cosigned": cosigned,
		})
	}
	cli.Printf(p.Stdout, "%s: record %s is entry %d of the %d of %s\n", evidence.OK, record.Record().ID, parsed.Index, checkpoint.Size, checkpoint.Origin)
	for _, c := range cosigned {
		cli.Printf(p.Stdout, "  cosigned by %s at %s\n", c.Witness, c.Time.Format(time.RFC3339))
	}
	return nil
}

func newEvidenceProof(p *cli.Program) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:     "proof RECORD_ID [--out FILE]",
		Short:   "Write the proof that one record is in the log",
		Long:    "Proof writes a C2SP tlog-proof. Give it to a verifier together with the record.",
		Example: "  powerbox evidence proof rec_01m81030k8rktbf8fcyfezvy0d --out record.proof",
		Args:    cobra.ExactArgs(1),
	}
	o := cli.AddOperatorFlags(cmd)
	cmd.Flags().StringVar(&out, "out", "", "`file` to write; default: standard output")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		op, err := p.Operator(o)
		if err != nil {
			return err
		}
		response, err := op.Open(cmd.Context(), http.MethodGet, "/v1/evidence/proof/"+url.PathEscape(args[0]), nil)
		if err != nil {
			return fmt.Errorf("record %s: %w", args[0], err)
		}
		defer func() { _ = response.Body.Close() }() // it was read; nothing is lost
		return p.WriteOut(out, 0o644, func(w io.Writer) error {
			_, err := io.Copy(w, response.Body)
			return err
		})
	}
	return cmd
}
