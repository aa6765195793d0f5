package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
)

//go:embed migrations/*.sql
var migrations embed.FS

func newProvider(db *sql.DB) (*goose.Provider, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectSQLite3, db, files)
}

func migrate(ctx context.Context, db *sql.DB) error {
	provider, err := newProvider(db)
	if err != nil {
		return err
	}
	if made, err := makeSchema(ctx, db, provider.ListSources()); made || err != nil {
		return err
	}
	current, target, err := provider.GetVersions(ctx)
	switch {
	case err != nil:
		return err
	case current > target:
		return fmt.Errorf("schema version %d is newer than %d, the newest that this program knows; use a newer powerbox", current, target)
	}
	_, err = provider.Up(ctx)
	return err
}

// makeSchema runs all migrations of an empty file in one transaction, and so with one wait for
// the disk. It leaves what goose leaves after it ran them one by one. It reports false for
// a file that is not empty.
func makeSchema(ctx context.Context, db *sql.DB, sources []*goose.Source) (bool, error) {
	var objects int
	if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM sqlite_schema").Scan(&objects); err != nil || objects > 0 {
		return false, err
	}
	versions, err := database.NewStore(database.DialectSQLite3, goose.DefaultTablename)
	if err != nil {
		return false, err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }() // without effect after Commit
	if err := versions.CreateVersionTable(ctx, tx); err != nil {
		return false, err
	}
	if err := versions.Insert(ctx, tx, database.InsertRequest{Version: 0}); err != nil {
		return false, err
	}
	for _, source := range sources {
		file, err := migrations.ReadFile("migrations/" + source.Path)
		if err != nil {
			return false, err
		}
		statements, err := upward(string(file))
		if err != nil {
			return false, fmt.Errorf("%s: %w", source.Path, err)
		}
		if _, err := tx.ExecContext(ctx, statements); err != nil {
			return false, fmt.Errorf("%s: %w", source.Path, err)
		}
		if err := versions.Insert(ctx, tx, database.InsertRequest{Version: source.Version}); err != nil {
			return false, err
		}
	}
	return true, tx.Commit()
}

// upward returns the statements of a migration that lead to its version. It refuses
// annotations of goose other than Up and Down, because they change how statements run.
func upward(migration string) (string, error) {
	const mark = "-- +goose "
	_, statements, found := strings.Cut(migration, mark+"Up\n")
	if !found {
		return "", fmt.Errorf("a migration without %qUp", mark)
	}
	statements, _, _ = strings.Cut(statements, mark+"Down\n")
	if strings.Contains(statements, mark) {
		return "", fmt.Errorf("a migration with an annotation other than %[1]qUp and %[1]qDown", mark)
	}
	return statements, nil
}
