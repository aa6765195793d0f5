package nodes

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/app/remote"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/store/spool"
)

func newGatewayAcceptOlder(p *cli.Program) *cobra.Command {
	var state, passphrase, reason string
	cmd := &cobra.Command{
		Use: "accept-older --reason TEXT", Args: cobra.NoArgs,
		Short:   "Accept a server that was restored from an older copy",
		Example: "  powerbox gateway accept-older --reason 'restored from the backup of Monday'",
		Long: "A gateway rejects a server that lacks records or revocations which the gateway has. After accept-older it follows the server\n" +
			"in its present state. Stop the gateway first. It sends again the records that it still has. The record evidence.salvage lists\n" +
			"the lost ones with the reason. Revocations since the copy are lost: revoke again first.",
	}
	cmd.Flags().StringVar(&state, "state", remote.DefaultState, "`directory` of the gateway's keys and records")
	cmd.Flags().StringVar(&passphrase, "passphrase-file", "", "`file` with the passphrase of its keys")
	cmd.Flags().StringVar(&reason, "reason", "", "`reason` for the record (required)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if strings.TrimSpace(reason) == "" {
			return cli.Usage(errors.New("--reason is missing: the record says why an older state is accepted"))
		}
		s, err := remote.OpenSpoolOf(state, passphrase, p.Now)
		if err != nil {
			return err
		}
		done, err := acceptOlder(cmd.Context(), p, s, reason)
		if err != nil {
			return err
		}
		printSalvaged(p, done)
		return nil
	}
	return cmd
}

func acceptOlder(ctx context.Context, p *cli.Program, s *remote.SpoolOf, reason string) (spool.Salvaged, error) {
	done, err := salvage(ctx, p, s, reason)
	if err != nil {
		return done, err
	}
	return done, errors.Join(remote.ReachedFile(filepath.Join(s.Keys.State, "feed")).Forget(), remote.ReachedFile(filepath.Join(s.Keys.State, remote.OlderName)).Forget())
}
