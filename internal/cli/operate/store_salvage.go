package operate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/app"
	"github.com/powerbox-project/powerbox/internal/app/proxy"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/store/keyring"
	"github.com/powerbox-project/powerbox/internal/store/sqlite"
)

func newStoreSalvage(p *cli.Program) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "salvage", Args: cobra.NoArgs,
		Short:   "Recover a damaged journal while the server is stopped",
		Example: "  powerbox store salvage -c powerbox.yaml",
		Long: "The journal (powerbox.db-spool) contains the records that are not in the store yet. Stop the server first. Salvage stores\n" +
			"every intact record. In place of the damage it writes a record that lists the losses. Later records are sealed\n" +
			"again. The damaged journal is kept.",
	}
	cmd.Flags().StringVarP(&file, "config", "c", cli.DefaultConfig, "configuration `file`")
	output := cli.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := p.LoadConfig(file)
		if err != nil {
			return err
		}
		if c.Store.Shared() {
			return errors.New("store.postgres is set: a database has no journal here")
		}
		done, err := salvageStore(cmd.Context(), p, c)
		if err != nil {
			return err
		}
		if *output == "json" {
			return p.PrintJSON(done)
		}
		if done.Aside == "" {
			cli.Printf(p.Stdout, "the journal is not damaged\n")
			return nil
		}
		cli.Printf(p.Stdout, "taken in: %d records as they were, %d behind the damage, sealed anew\nlost: %d records, %d bytes from byte %d\n", done.Kept, done.Sealed, done.Lost, done.Bytes, done.At)
		if done.Record != "" {
			cli.Printf(p.Stdout, "on record: %s\n", done.Record)
		}
		cli.Printf(p.Stdout, "the damaged journal is %s\n", done.Aside)
		return nil
	}
	return cmd
}

func salvageStore(ctx context.Context, p *cli.Program, c *config.Config) (sqlite.Salvaged, error) {
	path := app.StorePath(c)
	if _, err := os.Stat(path); err != nil {
		return sqlite.Salvaged{}, fmt.Errorf("the store to salvage: %w", err)
	}
	ring, err := proxy.OpenRing(app.KeysOf(c), p.Now)
	if err != nil {
		return sqlite.Salvaged{}, err
	}
	ring.Advice = app.AdviseReplacing
	if err := ring.Expect(map[string]string{"checkpoint.secret": "", keyring.EvidenceName(c.Evidence.Algorithm) + ".secret": ""}); err != nil {
		return sqlite.Salvaged{}, err
	}
	signer, _, err := ring.Evidence(c.Evidence.Algorithm, app.RecorderID)
	if err != nil {
		return sqlite.Salvaged{}, err
	}
	checkpoint, _, err := ring.Checkpoint(c.Evidence.Origin)
	if err != nil {
		return sqlite.Salvaged{}, err
	}
	return sqlite.Salvage(ctx, sqlite.Config{
		Path: path, Batches: c.Evidence.Signatures == "batch", Signer: signer, Origin: c.Evidence.Origin, Checkpoint: checkpoint, Random: rand.Reader,
	}, app.RecorderID, p.Now(), proxy.RecordIDs(p.Now))
}
