package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

func newRevoke(p *program) *cobra.Command {
	var h holderFlags
	var file string
	cmd := &cobra.Command{
		Use:   "revoke TARGET | revoke --capability FILE --key FILE --session-file FILE",
		Short: "End a capability and everything that descends from it",
		Long: "An operator names a capability id, a revocation id, the id of a token or the hash of a derived link.\n" +
			"A holder gives back what it has, with its key and the user's session.",
		Args: cobra.MaximumNArgs(1),
	}
	output := outputFlag(cmd)
	o := addOperatorFlags(cmd)
	cmd.Flags().StringVar(&file, "capability", "", "capability `file` to give back, as its holder")
	h.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 1 && file == "":
			return p.revokeAsOperator(cmd.Context(), o, args[0], *output)
		case len(args) == 0 && file != "":
			return p.revokeAsHolder(cmd.Context(), h, file, *output)
		}
		return usage(errors.New("want either TARGET, as an operator, or --capability FILE, as the holder"))
	}
	return cmd
}

// revocation is the server's answer.
type revocation struct {
	Target   string    `json:"target"`
	Sequence int64     `json:"sequence"`
	At       time.Time `json:"at"`
}

func (p *program) revokeAsOperator(ctx context.Context, o *operatorFlags, target, output string) error {
	op, err := p.operator(o)
	if err != nil {
		return err
	}
	var r revocation
	if err := op.call(ctx, http.MethodPost, "/v1/revocations", map[string]string{"target": target}, &r); err != nil {
		return fmt.Errorf("revoke %s: %w", target, err)
	}
	if output == "json" {
		return p.printJSON(r)
	}
	fmt.Fprintf(p.stdout, "revoked %s (revocation %d)\n", r.Target, r.Sequence)
	return nil
}

func (p *program) revokeAsHolder(ctx context.Context, h holderFlags, file, output string) error {
	client, err := p.holderClient(h)
	if err != nil {
		return err
	}
	held, err := p.readCapabilities(file)
	if err != nil {
		return err
	}
	for _, c := range held {
		agent, err := client.Discover(ctx, c.Agent)
		if err != nil {
			return err
		}
		if err := client.Revoke(ctx, agent, c); err != nil {
			return p.denied(err, output)
		}
		if output == "json" {
			err = p.printJSON(map[string]string{"target": c.ID})
		} else {
			_, err = fmt.Fprintf(p.stdout, "revoked %s\n", c.ID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
