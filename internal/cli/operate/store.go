package operate

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/app"
	"github.com/powerbox-project/powerbox/internal/app/proxy"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/store/postgres"
	"github.com/powerbox-project/powerbox/internal/store/sqlite"
)

// copiedSuffix is appended to the name of a copied file, so that no server continues with it.
const copiedSuffix = ".copied"

func newStore(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use: "store", Short: "Copy the store to PostgreSQL, and salvage a damaged journal",
		Example: "  powerbox store copy --from sqlite --to postgres",
	}
	var file, from, to string
	copying := &cobra.Command{
		Use: "copy --from sqlite --to postgres", Args: cobra.NoArgs,
		Short:   "Copy the SQLite store to PostgreSQL, and verify the copy",
		Example: "  powerbox store copy --from sqlite --to postgres -c powerbox.yaml",
		Long: "Copy writes everything from a SQLite file into an empty database, in one transaction. Stop the server first. Then it\n" +
			"compares the signed checkpoint, the recomputed root of the tree, and the bundle of evidence byte for byte. Finally it\n" +
			"renames the SQLite file, because two stores that continue one log are a fork.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from != "sqlite" || to != "postgres" {
				return cli.Usage(fmt.Errorf("--from %q --to %q: want --from sqlite --to postgres", from, to))
			}
			c, err := p.LoadConfig(file)
			if err != nil {
				return err
			}
			return copyStore(cmd.Context(), p, c)
		},
	}
	copying.Flags().StringVarP(&file, "config", "c", cli.DefaultConfig, "configuration `file`")
	copying.Flags().StringVar(&from, "from", "", "store to copy from: sqlite (required)")
	copying.Flags().StringVar(&to, "to", "", "store to copy to: postgres (required)")
	cli.Required(copying, "from", "to")
	cmd.AddCommand(copying, newStoreSalvage(p))
	return cmd
}

// stores are the two ends of a copy.
type stores struct {
	file     *sqlite.Store
	database *postgres.Store
	keys     []evidence.Key
}

func copyStore(ctx context.Context, p *cli.Program, c *config.Config) error {
	if !c.Store.Shared() {
		return errors.New("store.postgres is not set: it says where to copy to")
	}
	path := app.StorePath(c)
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("the store to copy: %w", err)
	}
	s, err := openBoth(ctx, p, c, path)
	if err != nil {
		return err
	}
	n, err := s.copy(ctx, p.Now())
	if err := errors.Join(err, s.file.Close(), s.database.Close()); err != nil {
		return err
	}
	if err := os.Rename(path, path+copiedSuffix); err != nil {
		return err
	}
	cli.Printf(p.Stdout, "copied and verified: %d records\n", n)
	cli.Printf(p.Stderr, "The file is now %s: keep it as a backup, and start no server with it.\n", path+copiedSuffix)
	return nil
}

func openBoth(ctx context.Context, p *cli.Program, c *config.Config, path string) (*stores, error) {
	ring, err := proxy.OpenRing(app.KeysOf(c), p.Now)
	if err != nil {
		return nil, err
	}
	if used, err := ring.InUse(); err != nil || !used {
		return nil, errors.Join(err, fmt.Errorf("there are no keys in %s that belong to the store", c.Issuer.Directory))
	}
	ring.Advice = app.AdviseReplacing
	ring.Hold()
	signer, key, err := ring.Evidence(c.Evidence.Algorithm, app.RecorderID)
	if err != nil {
		return nil, err
	}
	checkpoint, _, err := ring.Checkpoint(c.Evidence.Origin)
	if err != nil {
		return nil, err
	}
	s := &stores{keys: []evidence.Key{key}}
	if s.database, err = app.OpenShared(ctx, c, postgres.Config{Signer: signer, Origin: c.Evidence.Origin, Checkpoint: checkpoint}); err != nil {
		return nil, err
	}
	if s.file, err = openFile(ctx, path, signer, c.Evidence.Origin, checkpoint); err != nil {
		return nil, errors.Join(err, s.database.Close())
	}
	known, err := app.KeysOnRecord(ctx, s.file)
	if err == nil {
		err = ring.Expect(known)
	}
	if err != nil {
		return nil, errors.Join(err, s.file.Close(), s.database.Close())
	}
	return s, nil
}

func openFile(ctx context.Context, path string, signer evidence.Signer, origin string, checkpoint note.Signer) (*sqlite.Store, error) {
	return sqlite.Open(ctx, sqlite.Config{Path: path, Spool: true, Signer: signer, Origin: origin, Checkpoint: checkpoint, Random: rand.Reader})
}

// copy copies and verifies, and returns how many records there are.
func (s *stores) copy(ctx context.Context, now time.Time) (int64, error) {
	n, err := s.file.Records(ctx)
	if err != nil {
		return 0, err
	}
	signed, err := s.file.LatestCheckpoint(ctx)
	if err != nil {
		return 0, err
	}
	cosigned, err := s.file.CosignedCheckpoint(ctx)
	if err != nil {
		return 0, err
	}
	if err := s.database.Import(ctx, s.file.Tables, signed, cosigned, now); err != nil {
		return 0, err
	}
	if err := s.same(ctx, signed, n); err != nil {
		return 0, fmt.Errorf("the copy is not the same: %w; drop the database, and continue with the file", err)
	}
	return n, nil
}

// same compares what a stranger would verify of both.
func (s *stores) same(ctx context.Context, signed []byte, n int64) error {
	if n == 0 {
		return nil
	}
	got, err := s.database.LatestCheckpoint(ctx)
	if err != nil || !bytes.Equal(got, signed) {
		return errors.Join(errors.New("the checkpoints differ"), err)
	}
	if err := s.database.CheckTree(ctx); err != nil {
		return err
	}
	var sums [2]hash.Hash
	for i, export := range []func(context.Context, io.Writer, []evidence.Key) error{s.file.ExportBodies, s.database.ExportBodies} {
		sums[i] = sha256.New()
		if err := export(ctx, sums[i], s.keys); err != nil {
			return err
		}
	}
	if !bytes.Equal(sums[0].Sum(nil), sums[1].Sum(nil)) {
		return errors.New("the bundles of evidence differ")
	}
	return nil
}
