package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

func newEvidenceList(p *cli.Program) *cobra.Command {
	var q audit.Query
	var since, until string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List records of the server or a bundle, newest first",
		Long: "List prints records from the end of the log. If there are more than --limit, standard error names the next command:\n" +
			"--before with the id of the last printed record.",
		Example: "  powerbox evidence list --agent documents --decision DENY --since 24h\n" +
			"  powerbox evidence list --from bundle.jsonl --task task-1 --output json",
	}
	output := cli.OutputFlag(cmd)
	o := cli.AddSourceFlags(cmd)
	for name, flag := range map[string]struct {
		into  *string
		usage string
	}{
		"agent":      {&q.Agent, "only records of this agent"},
		"principal":  {&q.Principal, "only records of this user, by the pseudonym `pw_...` that it has at the agent"},
		"requester":  {&q.Requester, "only records of this caller"},
		"task":       {&q.Task, "only records of this task or context"},
		"trace":      {&q.Trace, "only records of this trace, by its `id` of W3C Trace Context"},
		"operation":  {&q.Operation, "only records of this operation, such as documents/documents:read/retrieve"},
		"capability": {&q.Capability, "only records of this capability"},
		"reason":     {&q.Reason, "only records with this `code` among their reasons, such as frozen"},
		"decision":   {&q.Decision, "only records with this decision: ALLOW, DENY or ABSTAIN"},
		"since":      {&since, "start: how long ago, such as 24h, or a time in RFC 3339"},
		"until":      {&until, "end, in the form of --since"},
		"before":     {&q.Before, "only records before the one with this `id`: the next page"},
	} {
		cmd.Flags().StringVar(flag.into, name, "", flag.usage)
	}
	cli.Values(cmd, "decision", "ALLOW", "DENY", "ABSTAIN")
	cli.AgentFlag(cmd, "agent")
	cmd.Flags().IntVar(&q.Limit, "limit", 1000, "maximum number of records; 0 for all")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		switch q.Decision {
		case "", "ALLOW", "DENY", "ABSTAIN":
		default:
			return cli.Usage(fmt.Errorf("--decision is %q; want ALLOW, DENY or ABSTAIN", q.Decision))
		}
		if q.Limit < 0 {
			return cli.Usage(fmt.Errorf("--limit is %d; want a number of records, or 0 for all", q.Limit))
		}
		if q.Since, err = p.Moment("since", since); err != nil {
			return err
		}
		if q.Until, err = p.Moment("until", until); err != nil {
			return err
		}
		from, err := p.Source(o)
		if err != nil {
			return err
		}
		return listRecords(cmd.Context(), p, from, q, *output)
	}
	return cmd
}

// listRecords prints records as they come, and names the command for the next page.
func listRecords(ctx context.Context, p *cli.Program, from audit.Source, q audit.Query, output string) error {
	// One more than is printed says whether there are more.
	ask := q
	if ask.Limit > 0 {
		ask.Limit++
	}
	write := WriteRecords
	if output == "json" {
		write = writeRecordsJSON
	}
	last, more := "", false
	err := write(p.Stdout, func(yield func(evidence.Record, error) bool) {
		n := 0
		for r, err := range from.Each(ctx, ask) {
			if more = err == nil && q.Limit > 0 && n == q.Limit; more {
				return
			}
			n, last = n+1, r.ID
			if !yield(r, err) {
				return
			}
		}
	})
	if err == nil && output == "text" && last == "" {
		p.Empty(0, "no record is like that")
	}
	if err == nil && more {
		cli.Printf(p.Stderr, "powerbox: there are more; continue with --before %s\n", last)
	}
	return err
}

// WriteRecords writes a table with a line for each record.
func WriteRecords(out io.Writer, records iter.Seq2[evidence.Record, error]) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	cli.Printf(w, "TIME\tDECISION\tAGENT\tREQUESTER\tOPERATION\tOUTCOME\tRECORD\n")
	n := 0
	for r, err := range records {
		if err != nil {
			return err
		}
		cli.Printf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Time.Format(time.RFC3339), r.Decision, r.AgentID,
			r.Details.Requester, ListedAs(r), r.OutcomeStatus, r.ID)
		if n++; n%audit.RecordPage != 0 {
			continue
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return w.Flush()
}

// ListedAs names the subject of a record in a list: its action, if it is not about a call.
func ListedAs(r evidence.Record) string {
	if !audit.DecidesCall(r) && r.Intent.Operation == issuer.OperationCapability {
		return r.ActionType
	}
	return audit.SubjectOf(r)
}

// recordJSON is a record with its time as in the stored form.
type recordJSON struct {
	evidence.Record
	Time time.Time `json:"timestamp_utc"`
}

// writeRecordsJSON writes an array, one element after the other.
func writeRecordsJSON(w io.Writer, records iter.Seq2[evidence.Record, error]) error {
	before := "["
	for r, err := range records {
		if err != nil {
			return err
		}
		data, err := json.Marshal(recordJSON{r, r.Time})
		if err == nil {
			_, err = io.WriteString(w, before+string(data))
		}
		if err != nil {
			return err
		}
		before = ",\n"
	}
	if before == "[" {
		before = "[]"
	} else {
		before = "]"
	}
	cli.Printf(w, "%s\n", before)
	return nil
}
