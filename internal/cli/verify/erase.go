package verify

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/cli"
)

// erasure is what the server is asked to erase.
type erasure struct {
	Records   []string  `json:"records,omitempty"`
	Agent     string    `json:"agent,omitempty"`
	Principal string    `json:"principal,omitempty"`
	Until     time.Time `json:"until,omitzero"`
	DryRun    bool      `json:"dry_run,omitempty"`
}

func newEvidenceErase(p *cli.Program) *cobra.Command {
	var e erasure
	var older string
	var yes bool
	cmd := &cobra.Command{
		Use:   "erase [--record ID]... [--for USER] [--agent AGENT] [--older-than DURATION]",
		Short: "Erase stored bodies, and keep the records",
		Long: "Erase deletes stored bodies (agents[].bodies) together with the keys of their commitments. The bodies can then no longer be\n" +
			"read or guessed. Records, chains and proofs stay, and still verify. Several flags together select fewer bodies. The\n" +
			"erasure is recorded, with the ids of the records.\n" +
			"\n" +
			"Erase lists the bodies first. --yes, or the answer yes on a terminal, erases them. Erase does not reach copies: backups,\n" +
			"exports with --bodies, and data that the agents keep.",
		Example: "  powerbox evidence erase --for user:alice --dry-run\n  powerbox evidence erase --record rec_01j8 --yes\n  powerbox evidence erase --agent documents --older-than 240h --yes",
		Args:    cobra.NoArgs,
	}
	output := cli.OutputFlag(cmd)
	o := cli.AddOperatorFlags(cmd)
	cmd.Flags().StringArrayVar(&e.Records, "record", nil, "the body of this record, by its `id`; more than once for several")
	cmd.Flags().StringVar(&e.Principal, "for", "", "bodies of calls for this `user`, such as user:alice, or its pseudonym pw_...")
	cmd.Flags().StringVar(&e.Agent, "agent", "", "bodies of calls to this agent")
	cli.AgentFlag(cmd, "agent")
	cmd.Flags().StringVar(&older, "older-than", "", "only bodies of calls before this time: how long ago, such as 240h, or a time in RFC 3339")
	cmd.Flags().BoolVar(&e.DryRun, "dry-run", false, "list what would be erased, and erase nothing")
	cmd.Flags().BoolVar(&yes, "yes", false, "erase without asking")
	cmd.MarkFlagsMutuallyExclusive("dry-run", "yes")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if e.Until, err = p.Moment("older-than", older); err != nil {
			return err
		}
		if len(e.Records) == 0 && e.Principal == "" && e.Agent == "" && older == "" {
			return cli.Usage(errors.New("nothing says which bodies to erase; want --record, --for, --agent or --older-than"))
		}
		op, err := p.Operator(o)
		if err != nil {
			return err
		}
		return erase(cmd.Context(), p, op, e, yes, *output)
	}
	return cmd
}

// erasable is what the server says that it would erase.
type erasable struct {
	DryRun bool `json:"dry_run"`
	Count  int  `json:"count"`
	// Until is up to when: what comes after it was listed is not erased with it.
	Until  time.Time `json:"until"`
	Bodies []struct {
		Record    string    `json:"record_id"`
		Agent     string    `json:"agent"`
		Principal string    `json:"principal,omitempty"`
		Time      time.Time `json:"time"`
		Size      int       `json:"size"`
	} `json:"bodies"`
}

func erase(ctx context.Context, p *cli.Program, op *cli.Operator, e erasure, yes bool, output string) error {
	dry := e.DryRun
	e.DryRun = true
	var would erasable
	if err := op.Call(ctx, http.MethodPost, "/v1/evidence/erasures", e, &would); err != nil {
		return err
	}
	if dry && output == "json" {
		return p.PrintJSON(would)
	}
	if err := listErasable(p, would, dry); err != nil || dry {
		return err
	}
	if would.Count > 0 && !yes && !confirmed(p) {
		return cli.Usage(errors.New("nothing is erased: say yes, or give --yes"))
	}
	e.DryRun, e.Until = false, would.Until
	var done struct {
		Erased   int      `json:"erased"`
		Records  []string `json:"records"`
		Scrubbed bool     `json:"scrubbed"`
	}
	if err := op.Call(ctx, http.MethodPost, "/v1/evidence/erasures", e, &done); err != nil {
		return err
	}
	if !done.Scrubbed {
		cli.Printf(p.Stderr, "powerbox: another process was reading the store: older pages are left in its write-ahead log until the next erasure, or until the server ends\n")
	}
	if output == "json" {
		return p.PrintJSON(done)
	}
	cli.Printf(p.Stdout, "erased %s", cli.Bodies(done.Erased))
	if len(done.Records) > 0 {
		cli.Printf(p.Stdout, ", recorded as %s", strings.Join(done.Records, ", "))
	}
	cli.Printf(p.Stdout, "\n")
	return nil
}

// listErasable says what dies: on standard error where more is to come.
func listErasable(p *cli.Program, would erasable, dry bool) error {
	out := p.Stderr
	if dry {
		out = p.Stdout
	}
	for _, b := range would.Bodies {
		cli.Printf(out, "%s  %s  %s  %s  %d bytes\n", b.Time.Format(time.RFC3339), b.Record, b.Agent, b.Principal, b.Size)
	}
	cli.Printf(out, "%s to erase; their records stay\n", cli.Bodies(would.Count))
	return nil
}

// confirmed asks the person at the terminal.
func confirmed(p *cli.Program) bool {
	cli.Printf(p.Stderr, "Erase them? There is no way back. [yes/no] ")
	line, _ := bufio.NewReader(io.LimitReader(p.Stdin, 16)).ReadString('\n') // no answer is no
	return strings.TrimSpace(line) == "yes"
}

// showArguments says whether the arguments of an execution were those in a file.
func showArguments(ctx context.Context, p *cli.Program, op *cli.Operator, id, file string) error {
	data, err := p.ReadFile(file)
	if err != nil {
		return err
	}
	var kept struct {
		Digest string `json:"arguments_digest"`
		Key    []byte `json:"key"`
	}
	if err := op.Get(ctx, "/v1/records/"+url.PathEscape(id)+"/arguments-key", &kept); err != nil {
		return fmt.Errorf("record %s: %w", id, err)
	}
	if err := (&evidence.Body{Key: kept.Key, Bytes: data}).Opens(kept.Digest); err != nil {
		return cli.Invalid(fmt.Errorf("record %s: the arguments were not the %d bytes of %s", id, len(data), file))
	}
	cli.Printf(p.Stdout, "the arguments were the %d bytes of %s\n", len(data), file)
	return nil
}

// showBody prints the body of a record, after it opened the commitment.
func showBody(ctx context.Context, p *cli.Program, op *cli.Operator, id string) error {
	r, err := op.Record(ctx, id)
	if err != nil {
		return fmt.Errorf("record %s: %w", id, err)
	}
	var kept evidence.Body
	var answer json.RawMessage
	if err := op.Get(ctx, "/v1/records/"+url.PathEscape(id)+"/body", &answer); err != nil {
		return err
	}
	if err := json.Unmarshal(answer, &struct {
		Key  *[]byte `json:"key"`
		Body *[]byte `json:"body"`
	}{&kept.Key, &kept.Bytes}); err != nil {
		return fmt.Errorf("the body of record %s is not understood: %w", id, err)
	}
	if err := kept.Opens(r.Details.BodyCommitment); err != nil {
		return cli.Invalid(fmt.Errorf("record %s: %w", id, err))
	}
	cli.Document(p.Stdout, kept.Bytes)
	return nil
}
