package verify

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/web/api"
	"github.com/powerbox-project/powerbox/trust"
)

func newTrust(p *cli.Program) *cobra.Command {
	var from, at string
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "trust AGENT [--from BUNDLE --trust FILE] [--at TIME]",
		Short: "Show the reputation score of an agent, with its computation",
		Example: "  powerbox trust documents\n" +
			"  powerbox trust documents --from bundle.jsonl --trust trust.json",
		Long: "Trust prints a reputation score, computed from recorded behaviour, with the arithmetic. The same records and the same time\n" +
			"always give the same score. Without --from the score comes from the running server, as of now. With --from it comes from\n" +
			"an exported bundle, as of its last record, and the bundle is verified too. --at ignores later records. See\n" +
			"docs/reference/scores.md. Trust exits with 4 if the bundle does not verify.",
		Args: cobra.ExactArgs(1),
	}
	output := cli.OutputFlag(cmd)
	o := cli.AddOperatorFlags(cmd)
	cli.AgentArgument(cmd)
	cmd.Flags().StringVar(&f.trust, "trust", "", "`file` with the keys to trust, from powerbox evidence trust; with --from")
	cmd.Flags().StringArrayVar(&f.seen, "seen", nil, "`file` with an earlier checkpoint of the same log; with --from")
	cmd.Flags().StringVar(&from, "from", "", "a bundle in a `file` instead of the server's evidence")
	cmd.Flags().StringVar(&at, "at", "", "as of this `time`, such as 2026-01-02T15:04:05Z")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var asOf time.Time
		if at != "" {
			var err error
			if asOf, err = time.Parse(time.RFC3339Nano, at); err != nil {
				return cli.Usage(fmt.Errorf("--at is %q; want a time such as 2026-01-02T15:04:05Z", at))
			}
		}
		if (from != "") != (f.trust != "") {
			return cli.Usage(errors.New("--from and --trust go together: a bundle is believed for keys that were pinned apart from it"))
		}
		if from != "" {
			return trustFrom(cmd.Context(), p, from, f, args[0], asOf, *output)
		}
		op, err := p.Operator(o)
		if err != nil {
			return err
		}
		query := ""
		if at != "" {
			query = "?at=" + url.QueryEscape(at)
		}
		var score api.Score
		if err := op.Get(cmd.Context(), "/v1/trust/"+url.PathEscape(args[0])+query, &score); err != nil {
			return err
		}
		return printScore(p, score, *output)
	}
	return cmd
}

// trustFrom computes a score from a bundle, in one reading with its verification.
func trustFrom(ctx context.Context, p *cli.Program, name string, f verifyFlags, agent string, asOf time.Time, output string) error {
	pinned, err := trustOf(p, f)
	if err != nil {
		return err
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	shown := p.ShowProgress(ctx, false)
	defer shown.Clear()
	reading := &bookReader{book: trust.Book{Until: asOf}}
	report, err := evidence.Verify(io.TeeReader(bufio.NewReader(shown.Add(file)), reading), pinned)
	if err != nil {
		return err
	}
	if report.From != nil {
		return fmt.Errorf("%s begins behind %d entries that are not in it, and a score is of everything an agent did: give an export of the whole log, or ask the running server without --from", name, report.From.Size)
	}
	if asOf.IsZero() {
		asOf = reading.last
	}
	breaks(&reading.book, report, agent)
	if err := printScore(p, api.NewScore(agent, reading.book.History(agent, asOf)), output); err != nil {
		return err
	}
	if report.Verdict() != evidence.OK {
		first := report.Problems[0]
		return cli.Invalid(fmt.Errorf("the bundle does not hold: line %d: %s: %s; powerbox evidence verify shows all of it", first.Line, first.Kind, first.Message))
	}
	return nil
}

// breaks notes a chain of the agent that does not hold. An error in the
// bundle as a whole is wrong with every chain in it.
func breaks(book *trust.Book, report evidence.Report, agent string) {
	of := map[string]string{}
	for _, c := range report.Chains {
		of[c.Chain] = c.AgentID
	}
	for _, problem := range report.Problems {
		if whose, known := of[problem.Chain]; !known || whose == agent {
			book.Break(agent)
		}
	}
}

// bookReader takes the records of a bundle as it passes by.
type bookReader struct {
	book    trust.Book
	last    time.Time
	line    []byte // that has not ended yet
	skipped bool   // whether the first line, which is no record, is over
}

// Write implements [io.Writer]. The verifier judges lines that are not records.
func (b *bookReader) Write(data []byte) (int, error) {
	n := len(data)
	for {
		part, rest, ended := bytes.Cut(data, []byte("\n"))
		if b.line = append(b.line, part...); !ended {
			return n, nil
		}
		b.take()
		b.line, data = b.line[:0], rest
	}
}

func (b *bookReader) take() {
	if !b.skipped {
		b.skipped = true
		return
	}
	sealed, err := evidence.ParseSealed(b.line)
	if err != nil {
		return
	}
	r := sealed.Record()
	if r.Time.After(b.last) {
		b.last = r.Time
	}
	b.book.Add(r)
}

func printScore(p *cli.Program, s api.Score, output string) error {
	if output == "json" {
		return p.PrintJSON(s)
	}
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	cli.Printf(w, "%s\tas of %s\n", s.Agent, s.AsOf.Format(time.RFC3339Nano))
	cli.Printf(w, "outcomes\t%d achieved, %d failed, %d partial\n", s.Counts.Achieved, s.Counts.Failed, s.Counts.Partial)
	renewed := "unknown"
	if s.Renewed != nil {
		renewed = s.Renewed.Format(time.RFC3339)
	}
	cli.Printf(w, "credentials renewed\t%s\n", renewed)
	cli.Printf(w, "\t%s\tto begin with\n", trust.Full)
	for _, part := range s.Parts {
		cli.Printf(w, "\t-%s\t%s\n", part.Off, part.Why)
	}
	cli.Printf(w, "score\t%s\t%s\n", s.Score, s.Level)
	return w.Flush()
}
