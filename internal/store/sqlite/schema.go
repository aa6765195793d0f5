package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/powerbox-project/powerbox/internal/filelock"
)

// Schema tells how far a file is, and how far this program would bring it. It changes
// nothing.
func Schema(ctx context.Context, path string) (has, wants int64, err error) {
	if _, err := os.Stat(path); err != nil {
		return 0, 0, fmt.Errorf("sqlite: %w", err)
	}
	db, err := open(path, "ro")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	provider, err := newProvider(db)
	if err != nil {
		return 0, 0, err
	}
	for _, source := range provider.ListSources() {
		wants = max(wants, source.Version)
	}
	if err := db.QueryRowContext(ctx, "SELECT COALESCE(MAX(version_id), 0) FROM goose_db_version WHERE is_applied = 1").Scan(&has); err != nil {
		return 0, 0, fmt.Errorf("sqlite: %s: its schema: %w", path, err)
	}
	return has, wants, nil
}

// Migrate brings a closed file up to date, as [Open] does.
func Migrate(ctx context.Context, path string) (err error) {
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	lock, err := filelock.Take(path + ".lock")
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	db, err := open(path, "rw")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := migrate(ctx, db); err != nil {
		return fmt.Errorf("sqlite: %s: %w", path, err)
	}
	return nil
}
