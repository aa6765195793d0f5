package verify

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/version"
)

// exportFormats are the forms of an export, by their names.
var exportFormats = []string{"bundle", "jsonl", "ocsf", "cef"}

func newEvidenceExport(p *cli.Program) *cobra.Command {
	var out, format, from string
	var bodies bool
	var period int64
	cmd := &cobra.Command{
		Use:   "export [--format bundle|jsonl|ocsf|cef] [--bodies] [--out FILE]",
		Short: "Export evidence as a verifiable bundle, or as lines for a SIEM",
		Example: "  powerbox evidence export --out bundle.jsonl\n" +
			"  powerbox evidence export --format ocsf --out events.jsonl",
		Long: "Export writes all evidence in one of these formats:\n" +
			"\n" +
			"  bundle  records, leaves of the log and signed checkpoint, for powerbox evidence verify and verify.mjs\n" +
			"  jsonl   only the records, one per line, byte for byte as they were hashed\n" +
			"  ocsf    one OCSF event per line (API Activity), for a SIEM; the record is in raw_data\n" +
			"  cef     one line of the Common Event Format per record, for a SIEM\n" +
			"\n" +
			"Lines of jsonl, ocsf and cef prove nothing without the bundle: keep it too.",
		Args: cobra.NoArgs,
	}
	o := cli.AddOperatorFlags(cmd)
	cmd.Flags().StringVar(&out, "out", "", "`file` to write; default: standard output")
	cmd.Flags().StringVar(&format, "format", "bundle", "bundle, jsonl, ocsf or cef")
	cli.Values(cmd, "format", "bundle", "jsonl", "ocsf", "cef")
	cmd.Flags().StringVar(&from, "from", "", "a bundle in a `file` instead of the server's evidence; it is not verified")
	cmd.Flags().BoolVar(&bodies, "bodies", false, "include stored bodies (agents[].bodies), each after its record; only for a bundle")
	cmd.Flags().Int64Var(&period, "period", 0, "closed period with this `number` (powerbox evidence close) instead of the whole store")
	cmd.MarkFlagsMutuallyExclusive("bodies", "from")
	cmd.MarkFlagsMutuallyExclusive("period", "from")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if bodies && format != "bundle" {
			return cli.Usage(fmt.Errorf("--bodies is for a bundle; the format is %s", format))
		}
		write, err := exporter(format)
		if err != nil {
			return cli.Usage(err)
		}
		in, err := bundle(cmd.Context(), p, o, from, period, bodies)
		if err != nil {
			return err
		}
		defer func() { _ = in.Close() }() // it was read; nothing is lost
		mode := os.FileMode(0o644)
		if bodies {
			mode = 0o600 // what callers said
		}
		return p.WriteOut(out, mode, func(w io.Writer) error { return write(w, in) })
	}
	return cmd
}

// bundle opens a bundle in a file, or that of the server.
func bundle(ctx context.Context, p *cli.Program, o *cli.OperatorFlags, from string, period int64, bodies bool) (io.ReadCloser, error) {
	if from != "" {
		return os.Open(from)
	}
	op, err := p.Operator(o)
	if err != nil {
		return nil, err
	}
	path := "/v1/evidence/bundle"
	if period != 0 {
		path = fmt.Sprintf("/v1/evidence/periods/%d/bundle", period)
	}
	if bodies {
		path += "?bodies=true"
	}
	response, err := op.Open(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, noPeriod(period, err)
	}
	return response.Body, nil
}

// exporter returns what turns a bundle into a format. It holds one line at a
// time.
func exporter(format string) (func(io.Writer, io.Reader) error, error) {
	switch format {
	case "bundle":
		return func(w io.Writer, in io.Reader) error {
			_, err := io.Copy(w, in)
			return err
		}, nil
	case "jsonl":
		return func(w io.Writer, in io.Reader) error {
			return eachRecord(w, in, func(record []byte) ([]byte, error) { return record, nil })
		}, nil
	case "ocsf":
		return func(w io.Writer, in io.Reader) error { return eachRecord(w, in, ocsf) }, nil
	case "cef":
		return func(w io.Writer, in io.Reader) error { return eachRecord(w, in, cef) }, nil
	}
	return nil, fmt.Errorf("--format is %q; want one of %v", format, exportFormats)
}

// eachRecord writes a line for each record of a bundle.
func eachRecord(w io.Writer, in io.Reader, form func(record []byte) ([]byte, error)) error {
	out := bufio.NewWriter(w)
	for line, err := range cli.BundleLines(in) {
		if err != nil {
			return err
		}
		text, err := form(line.Text)
		if err != nil {
			return line.Wrong(err)
		}
		if _, err := out.Write(append(text, '\n')); err != nil {
			return err
		}
	}
	return out.Flush()
}

// ocsf is one record as an event of the Open Cybersecurity Schema Framework.
func ocsf(line []byte) ([]byte, error) {
	sealed, err := evidence.ParseSealed(line)
	if err != nil {
		return nil, cli.Invalid(err)
	}
	return audit.MarshalLine(audit.OCSFEvent(sealed))
}

// cef is one record as a line of the Common Event Format.
func cef(line []byte) ([]byte, error) {
	sealed, err := evidence.ParseSealed(line)
	if err != nil {
		return nil, cli.Invalid(err)
	}
	return []byte(audit.CEFEvent(sealed, version.Read().Version)), nil
}
