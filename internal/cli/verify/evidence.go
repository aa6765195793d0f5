package verify

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/plain"
)

func newEvidence(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "evidence",
		Short:   "List, export and verify the records of decisions",
		Example: "  powerbox evidence list --since 24h",
	}
	cmd.AddCommand(newEvidenceVerify(p), newEvidenceVerifier(p), newEvidenceExport(p), newEvidenceCheckpoint(p), newEvidenceTrust(p), newEvidenceList(p), newEvidenceShow(p), newEvidenceProof(p), newEvidenceVerifyReceipt(p), newEvidenceErase(p), newEvidenceClose(p), newEvidencePeriods(p), newEvidenceArchive(p), newEvidenceTiles(p))
	return cmd
}

func newEvidenceVerify(p *cli.Program) *cobra.Command {
	var f verifyFlags
	var resumeFile string
	how := verifying{workers: runtime.GOMAXPROCS(0)}
	cmd := &cobra.Command{
		Use:   "verify FILE... --trust FILE",
		Short: "Verify a bundle, or one record with its proof, offline",
		Example: "  powerbox evidence verify bundle.jsonl --trust trust.json\n" +
			"  powerbox evidence verify record.json --proof record.proof --trust trust.json",
		Long: "Verify checks an exported bundle, or one record with its proof, against pinned keys, offline. It exits with 4 if anything\n" +
			"is wrong.\n" +
			"\n" +
			"Several files are the bundles of periods, oldest first, and then the current bundle. Each must begin where the one before\n" +
			"ends. If the first one does not begin with the log, --seen names the last checkpoint of the bundle before it.",
		Args: cobra.MinimumNArgs(1),
	}
	output := cli.OutputFlag(cmd)
	f.add(cmd)
	cmd.Flags().StringVar(&resumeFile, "resume", "", "`file` that remembers verified signatures, to continue after an interruption or with a later bundle; protect it like the trust file")
	cmd.Flags().IntVar(&how.workers, "workers", how.workers, "how many goroutines examine records at the same time; the report is the same with any number")
	cmd.Flags().BoolVar(&how.progress, "progress", false, "print progress and remaining time on standard error, even if it is not a terminal")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if how.workers < 1 {
			return cli.Usage(errors.New("--workers is less than 1"))
		}
		trust, err := trustOf(p, f)
		if err != nil {
			return err
		}
		if f.proof != "" {
			if len(args) > 1 {
				return cli.Usage(fmt.Errorf("%d files are given with --proof; want the one record that it proves", len(args)))
			}
			return verifyRecord(p, args[0], f, trust, *output)
		}
		if resumeFile != "" {
			data, errResume := p.ReadFile(f.trust)
			if errResume != nil {
				return errResume
			}
			memory, errResume := resume(resumeFile, data, &trust)
			if errResume != nil {
				return errResume
			}
			defer func() { err = errors.Join(err, memory.Close()) }()
		}
		report, err := verifyBundles(cmd.Context(), p, args, trust, how)
		if err != nil {
			return err
		}
		return printReport(p, report, *output)
	}
	return cmd
}

// checkpoints opens checkpoints that were kept, under the pinned keys.
func checkpoints(p *cli.Program, files []string, trust evidence.Trust) ([]evidence.Checkpoint, error) {
	var known []note.Verifier
	for _, key := range trust.CheckpointKeys {
		v, err := note.NewVerifier(key)
		if err != nil {
			return nil, cli.Invalid(err)
		}
		known = append(known, v)
	}
	var out []evidence.Checkpoint
	for _, name := range files {
		data, err := p.ReadFile(name)
		if err != nil {
			return nil, err
		}
		c, err := evidence.OpenCheckpoint(data, known...)
		if err != nil {
			return nil, cli.Invalid(fmt.Errorf("%s: %w", name, err))
		}
		out = append(out, c)
	}
	return out, nil
}

// newEvidenceCheckpoint takes the checkpoint out of a bundle, to be kept where
// the log's keeper cannot reach it.
func newEvidenceCheckpoint(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:     "checkpoint FILE",
		Short:   "Print the checkpoint of an exported bundle",
		Long:    "Keep the checkpoint in another place than the bundles. Verify later bundles against it: powerbox evidence verify --seen.",
		Example: "  powerbox evidence checkpoint bundle.jsonl > checkpoint.txt",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			signed, err := checkpointOf(p, args[0])
			if err != nil {
				return err
			}
			cli.Document(p.Stdout, signed)
			return nil
		},
	}
}

// checkpointOf is the signed checkpoint in the last line of a bundle.
func checkpointOf(p *cli.Program, name string) ([]byte, error) {
	data, err := p.ReadFile(name)
	if err != nil {
		return nil, err
	}
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	var last struct {
		Checkpoint string `json:"checkpoint"`
	}
	if err := json.Unmarshal(lines[len(lines)-1], &last); err != nil || last.Checkpoint == "" {
		return nil, cli.Invalid(fmt.Errorf("%s does not end in a checkpoint; want a bundle from powerbox evidence export", name))
	}
	return []byte(last.Checkpoint), nil
}

// newEvidenceVerifier prints the verifier for those who do not run this binary.
func newEvidenceVerifier(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:     "verifier",
		Short:   "Print a verifier of bundles for Node and browsers",
		Long:    "Verifier prints verify.mjs, which verifies bundles without this program.",
		Example: "  powerbox evidence verifier > verify.mjs",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cli.Document(p.Stdout, evidence.JavaScript())
			return nil
		},
	}
}

// verifying has the settings of a verification that do not change its result.
type verifying struct {
	workers  int
	progress bool
}

// verifyBundles reads bundles as it verifies them: they can be long.
func verifyBundles(ctx context.Context, p *cli.Program, names []string, trust evidence.Trust, how verifying) (evidence.Report, error) {
	shown := p.ShowProgress(ctx, how.progress)
	defer shown.Clear()
	var series []io.Reader
	for _, name := range names {
		if name == "-" {
			series = append(series, shown.Add(p.Stdin))
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			return evidence.Report{}, err
		}
		defer func() { _ = f.Close() }() // it was only read
		series = append(series, bufio.NewReader(shown.Add(f)))
	}
	return evidence.VerifyParallel(trust, how.workers, series...)
}

// otherKeys is the printed verdict on evidence under other keys than the pinned ones.
const otherKeys = "signed by keys that are not pinned"

// verdictText is the verdict in words. Evidence under other keys than the pinned ones can be whole,
// and can be made by anyone: nothing tells which, so it is not called tampered.
func verdictText(r evidence.Report) string {
	other := func(p evidence.Problem) bool { return p.Kind != evidence.UnknownKey }
	if len(r.Problems) > 0 && !slices.ContainsFunc(r.Problems, other) {
		return otherKeys
	}
	return string(r.Verdict())
}

func printReport(p *cli.Program, r evidence.Report, output string) error {
	if r.Records == 0 && r.Origin == "" {
		cli.Printf(p.Stderr, "powerbox: that is no bundle; want a file that powerbox evidence export wrote\n")
	}
	if output == "json" {
		if err := p.PrintJSON(struct {
			Verdict evidence.Verdict `json:"verdict"`
			evidence.Report
		}{r.Verdict(), r}); err != nil {
			return err
		}
	} else {
		cli.Printf(p.Stdout, "%s: %s in %s of %s, %d without a recorded outcome\n",
			verdictText(r), plain.Count(r.Records, "record"), plain.Count(len(r.Chains), "chain"), cmp.Or(r.Origin, "no log"), len(r.Pending))
		if r.Covered > 0 {
			cli.Printf(p.Stdout, "  %s covered by the signature of a later one of their chain, the others by one of their own\n", plain.Count(r.Covered, "record"))
		}
		if b := r.Bodies; b.Committed > 0 {
			cli.Printf(p.Stdout, "  %s beside the records: %d opened, %d erased, %d not in this bundle\n",
				cli.Bodies(b.Committed), b.Opened, b.Erased, b.Committed-b.Opened-b.Erased)
		}
		for _, c := range r.Cosigned {
			cli.Printf(p.Stdout, "  cosigned by %s at %s\n", c.Witness, c.Time.Format(time.RFC3339))
		}
		if r.From != nil {
			cli.Printf(p.Stdout, "  from entry %d of the log on: what is before it is not here\n", r.From.Size)
		}
		for _, recorder := range r.Silent {
			cli.Printf(p.Stdout, "  recorder %q is open and has no record here\n", recorder)
		}
		for _, chain := range r.Earlier {
			cli.Printf(p.Stdout, "  chain %s is not here, and may have ended before: verify with the bundles before it\n", chain)
		}
		for _, problem := range r.Problems {
			in := ""
			if problem.Bundle > 0 {
				in = fmt.Sprintf("bundle %d, ", problem.Bundle)
			}
			cli.Printf(p.Stdout, "  %sline %d: %s: %s\n", in, problem.Line, problem.Kind, problem.Message)
		}
		if verdictText(r) == otherKeys {
			cli.Printf(p.Stderr, "powerbox: want the trust file of this log, from its operator (powerbox evidence trust), and not from where the bundle came\n")
		}
	}
	if r.Verdict() != evidence.OK {
		return cli.Exit(cli.ExitInvalid, nil)
	}
	return nil
}

func newEvidenceTrust(p *cli.Program) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:     "trust [--out FILE]",
		Short:   "Write the public keys that verifiers of evidence pin",
		Long:    "Keep the file in another place than the evidence.",
		Example: "  powerbox evidence trust --out trust.json",
	}
	o := cli.AddOperatorFlags(cmd)
	cmd.Flags().StringVar(&out, "out", "", "`file` to write; default: standard output")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		op, err := p.Operator(o)
		if err != nil {
			return err
		}
		var trust json.RawMessage
		if err := op.Get(cmd.Context(), "/v1/evidence/trust", &trust); err != nil {
			return err
		}
		return p.WriteOut(out, 0o644, func(w io.Writer) error {
			_, err := w.Write(append(trust, '\n'))
			return err
		})
	}
	return cmd
}

func newEvidenceShow(p *cli.Program) *cobra.Command {
	var body bool
	var arguments string
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Print one record, or its stored body",
		Example: "  powerbox evidence show rec_01m81030k8rktbf8fcyfezvy0d\n" +
			"  powerbox evidence show rec_01m81030k8rktbf8fcyfezvy0d --body",
		Args: cobra.ExactArgs(1),
	}
	o := cli.AddOperatorFlags(cmd)
	cmd.Flags().BoolVar(&body, "body", false, "print the body (agents[].bodies) instead, after checking it against the commitment in the record")
	cmd.Flags().StringVar(&arguments, "arguments", "", "compare the arguments of an execution with `FILE` instead, byte for byte as sent; exit 4 if they differ")
	cmd.MarkFlagsMutuallyExclusive("body", "arguments")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		op, err := p.Operator(o)
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("arguments") {
			return showArguments(cmd.Context(), p, op, args[0], arguments)
		}
		if body {
			return showBody(cmd.Context(), p, op, args[0])
		}
		var record json.RawMessage
		if err := op.Get(cmd.Context(), "/v1/records/"+url.PathEscape(args[0]), &record); err != nil {
			return fmt.Errorf("record %s: %w", args[0], err)
		}
		cli.Document(p.Stdout, record)
		return nil
	}
	return cmd
}
