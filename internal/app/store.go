package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/mod/sumdb/note"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/app/serve"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/credential"
	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/issuing/registry"
	"github.com/powerbox-project/powerbox/internal/store/postgres"
	"github.com/powerbox-project/powerbox/internal/store/spool"
	"github.com/powerbox-project/powerbox/internal/store/sqlite"
	"github.com/powerbox-project/powerbox/internal/web/api"
)

// storage is the interface of an instance to its store: internal/store/storetest tests
// both kinds.
type storage interface {
	issuer.Store
	provider.Store
	approval.Store
	registry.Store
	credential.Consents
	api.Exporter
	api.PublicLog
	api.RecordLog
	api.LedgerStore
	KeepCosigned(ctx context.Context, signed []byte) error
	Empty(ctx context.Context) (bool, error)
	Probe(ctx context.Context) error
	// Index adds some records to the index of searches, and reports whether there are more.
	Index(ctx context.Context) (more bool, err error)
	Close() error
}

// StorePath is the file of a store that is one process's.
func StorePath(c *config.Config) string {
	return filepath.Join(string(c.Issuer.Directory), "powerbox.db")
}

// openStore opens the store that is configured. It refuses keys that were used
// without the store that belongs to them: modes that an operator set, revocations and
// evidence would be gone without a word.
func (i *Instance) openStore(ctx context.Context, a Assembly, used bool, signer evidence.Signer, checkpoint note.Signer) error {
	e := i.Config.Evidence
	if i.Config.Store.Shared() {
		var err error
		i.shared, err = OpenShared(ctx, i.Config, postgres.Config{
			Batches: e.Signatures == "batch", Signer: signer, Origin: e.Origin, Checkpoint: checkpoint, Now: a.Now, Committed: i.committed(), Patience: i.Config.Limits.DependencyTime,
			Replaced: a.replacesCheckpoint(),
		})
		if err != nil {
			return err
		}
		i.Store = i.shared
	} else {
		if err := i.checkFile(used); err != nil {
			return err
		}
		file, err := sqlite.Open(ctx, sqlite.Config{
			Path: StorePath(i.Config), Spool: true, Batches: e.Signatures == "batch",
			Signer: signer, Origin: e.Origin, Checkpoint: checkpoint, Random: rand.Reader, Now: a.Now, Committed: i.committed(), Patience: i.Config.Limits.DependencyTime,
			Replaced: a.replacesCheckpoint(),
			Behind:   func(err error) { a.Log.Error("records wait for the store", slog.Any("error", err)) },
		})
		if err != nil {
			return adviseJournal(err)
		}
		i.Store = file
	}
	i.writes = &serve.Dependency{Name: "store", Down: "nothing can be written durably: the disk, the database or a standby of it", Try: i.Store.Probe, Now: a.Now}
	var err error
	if i.unused, err = i.Store.Empty(ctx); err != nil {
		return err
	}
	if i.shared != nil && i.unused && used {
		return fmt.Errorf("the keys in %s have been used and the store has no records: restore it from its backup, or begin a new one with --new-store: modes, revocations and evidence of the old one are lost", i.Config.Issuer.Directory)
	}
	return nil
}

// checkFile refuses used keys without their file.
func (i *Instance) checkFile(used bool) error {
	if !used {
		return nil
	}
	path := StorePath(i.Config)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the keys in %s have been used and the store %s is gone: restore both from one backup, or begin a new one with --new-store: modes, revocations and evidence of the old one are lost", i.Config.Issuer.Directory, path)
	}
	return nil
}

// OpenShared opens the database that is configured.
func OpenShared(ctx context.Context, c *config.Config, p postgres.Config) (*postgres.Store, error) {
	url, err := c.Store.URL(os.ReadFile)
	if err != nil {
		return nil, fmt.Errorf("store.postgres_file: %w", err)
	}
	p.URL, p.Strict, p.Connections, p.Random = url, c.Store.Durability == "strict", c.Store.Connections, rand.Reader
	s, err := postgres.Open(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("store.postgres: %w", err)
	}
	return s, nil
}

// adviseJournal says what to do about a damaged journal.
func adviseJournal(err error) error {
	if !errors.Is(err, spool.ErrDamaged) {
		return err
	}
	return fmt.Errorf("%w. First look for an undamaged copy of the directory. Where there is none, keep what is whole, and put on record what is lost: powerbox store salvage", err)
}
