package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/holder"
)

// WaitFlags say whether a command waits for a person, and how long.
type WaitFlags struct {
	wait    bool
	timeout time.Duration
}

// Add adds --wait and --timeout to a command.
func (w *WaitFlags) Add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&w.wait, "wait", false, "if a person must approve, wait for the answer")
	cmd.Flags().DurationVar(&w.timeout, "timeout", 0, "with --wait, how long to wait, such as 5m; default: until the question ends")
}

// Waits reports whether the command waits.
func (w *WaitFlags) Waits() bool { return w.wait }

// Waiting returns what tells the user where a person answers, and nil if the command does
// not wait. The context ends when the wait is over.
func (p *Program) Waiting(ctx context.Context, w WaitFlags) (asked func(*holder.Pending), bounded context.Context, stop context.CancelFunc, err error) {
	switch {
	case w.timeout < 0:
		return nil, ctx, func() {}, Usage(fmt.Errorf("--timeout is %s; want how long to wait, such as 5m", w.timeout))
	case !w.wait && w.timeout > 0:
		return nil, ctx, func() {}, Usage(errors.New("--timeout goes with --wait"))
	case !w.wait:
		return nil, ctx, func() {}, nil
	}
	stop = func() {}
	if w.timeout > 0 {
		ctx, stop = context.WithTimeout(ctx, w.timeout)
	}
	return func(asked *holder.Pending) {
		Printf(p.Stderr, "powerbox: a person has to approve this, at %s; waiting\n", asked.ApprovalURL)
	}, ctx, stop, nil
}

// pendingJSON is a question that waits for a person on standard output.
type pendingJSON struct {
	Pending     bool   `json:"pending"`
	ID          string `json:"id"`
	ApprovalURL string `json:"approval_url"`
	Interval    int    `json:"interval"`
}

// pending prints the question that a request or a call waits for, which is an answer. Beside
// it err can have why the command waits no longer.
func (p *Program) pending(q *holder.Pending, err error, output string) error {
	if output == "json" {
		if err := p.PrintJSON(pendingJSON{true, q.ID, q.ApprovalURL, q.Interval}); err != nil {
			return err
		}
		return Exit(ExitPending, nil)
	}
	Printf(p.Stdout, "pending: a person has to approve this\n  page      %s\n  waits as  %s\n", q.ApprovalURL, q.ID)
	if errors.Is(err, context.DeadlineExceeded) {
		Printf(p.Stderr, "powerbox: no person answered within the --timeout\n")
	} else if _, why, beside := strings.Cut(err.Error(), q.Error()+"\n"); beside {
		Document(p.Stderr, "powerbox: it waits no longer: "+why)
	}
	return Exit(ExitPending, nil)
}
