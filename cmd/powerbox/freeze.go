package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

func newFreeze(p *program) *cobra.Command {
	return p.stopVerb(&cobra.Command{
		Use:   "freeze [TARGET --reason TEXT]",
		Short: "Stop an agent, a user, a holder or a capability until it is thawed; without TARGET, list what is frozen",
		Long: "A freeze is the reversible form of revocation. It is in force at once and in every mode, observe too: calls\n" +
			"are denied with code frozen, streams are cut, nothing new is issued. It stays over restarts.\n\n" +
			"TARGET is agent:NAME (nothing goes on at it, and it can do nothing elsewhere), a principal such as\n" +
			"user:alice or its pseudonym pw_..., a holder such as key:THUMBPRINT, or a capability cap_... with all that\n" +
			"descends from it.",
		Example: "  powerbox freeze agent:documents --reason 'it answers with other users data'\n" +
			"  powerbox freeze user:alice --reason 'laptop stolen'\n" +
			"  powerbox freeze",
		Args: cobra.MaximumNArgs(1),
	}, "freezes", "frozen")
}

func newThaw(p *program) *cobra.Command {
	return p.stopVerb(&cobra.Command{
		Use:     "thaw TARGET --reason TEXT",
		Short:   "Let go on what was frozen",
		Long:    "TARGET is named as powerbox freeze lists it. What was revoked or has expired meanwhile stays so.",
		Example: "  powerbox thaw agent:documents --reason 'fixed in 1.4.2'",
		Args:    cobra.ExactArgs(1),
	}, "thaws", "thawed")
}

// freezeEvent is the server's answer.
type freezeEvent struct {
	Target   string    `json:"target"`
	By       string    `json:"by"`
	Reason   string    `json:"reason"`
	Sequence int64     `json:"sequence"`
	At       time.Time `json:"at"`
}

// stopVerb completes a verb that posts a target and a reason.
func (p *program) stopVerb(cmd *cobra.Command, path, done string) *cobra.Command {
	var reason string
	output := outputFlag(cmd)
	o := addOperatorFlags(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "`why`, for the record; required with TARGET")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 && reason == "" {
			return usage(errors.New("--reason is missing; want why it is done, for the record"))
		}
		op, err := p.operator(o)
		if err != nil {
			return err
		}
		if len(args) == 0 {
			return p.showFreezes(cmd.Context(), op, *output)
		}
		var e freezeEvent
		if err := op.call(cmd.Context(), http.MethodPost, "/v1/"+path, map[string]string{"target": args[0], "reason": reason}, &e); err != nil {
			return fmt.Errorf("%s %s: %w", cmd.Name(), args[0], err)
		}
		if *output == "json" {
			return p.printJSON(e)
		}
		fmt.Fprintf(p.stdout, "%s %s (revocation %d)\n", done, e.Target, e.Sequence)
		return nil
	}
	return cmd
}

func (o *operator) freezes(ctx context.Context) ([]freezeEvent, error) {
	frozen := []freezeEvent{}
	err := o.get(ctx, "/v1/freezes", &frozen)
	return frozen, err
}

func (p *program) showFreezes(ctx context.Context, op *operator, output string) error {
	frozen, err := op.freezes(ctx)
	if err != nil {
		return err
	}
	if output == "json" {
		return p.printJSON(frozen)
	}
	if len(frozen) == 0 {
		fmt.Fprintln(p.stdout, "nothing is frozen")
		return nil
	}
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FROZEN\tSINCE\tBY\tREASON")
	for _, f := range frozen {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.Target, shortTime(f.At), f.By, printable(f.Reason))
	}
	return w.Flush()
}

// printable is a text of somebody's on one line of a terminal.
func printable(s string) string {
	q := fmt.Sprintf("%q", s)
	return q[1 : len(q)-1]
}

// unescaped is printable text that stands in no quotation marks, so that those in it need
// no backslash.
func unescaped(s string) string {
	return strings.NewReplacer(`\\`, `\\`, `\"`, `"`).Replace(printable(s))
}
