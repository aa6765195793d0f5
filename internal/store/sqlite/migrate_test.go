package sqlite

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// layout returns every object of a file with the statement that makes it, and the versions
// that were applied, in order.
func layout(t *testing.T, db *sql.DB) (out []string) {
	t.Helper()
	for _, query := range []string{
		"SELECT type || ' ' || name || ' of ' || tbl_name || ': ' || COALESCE(sql, '') FROM sqlite_schema ORDER BY type, name",
		"SELECT id || ' ' || version_id || ' ' || is_applied || ' ' || (tstamp IS NOT NULL) FROM goose_db_version ORDER BY id",
	} {
		rows, err := db.QueryContext(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				t.Fatal(err)
			}
			out = append(out, line)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func opened(t *testing.T, name string) *sql.DB {
	t.Helper()
	db, err := open(filepath.Join(t.TempDir(), name), "rwc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestEmptyFileGetsTheSchemaThatMigrationsMakeOneByOne(t *testing.T) {
	single, together := opened(t, "single.db"), opened(t, "together.db")
	provider, err := newProvider(single)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := migrate(t.Context(), together); err != nil {
		t.Fatal(err)
	}
	want := layout(t, single)
	if len(want) < 2*len(provider.ListSources()) {
		t.Fatalf("only %d objects and versions in a migrated file", len(want))
	}
	if diff := cmp.Diff(want, layout(t, together)); diff != "" {
		t.Errorf("migrations in one transaction (-one by one +together):\n%s", diff)
	}
	if err := migrate(t.Context(), together); err != nil {
		t.Errorf("a second migration: %v", err)
	}
}

func TestFileOfEveryOlderVersionIsMigrated(t *testing.T) {
	latest := opened(t, "latest.db")
	if err := migrate(t.Context(), latest); err != nil {
		t.Fatal(err)
	}
	want := layout(t, latest)
	provider, err := newProvider(latest)
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range provider.ListSources() {
		db := opened(t, fmt.Sprintf("%d.db", source.Version))
		provider, err := newProvider(db)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := provider.UpTo(t.Context(), source.Version); err != nil {
			t.Fatal(err)
		}
		if err := migrate(t.Context(), db); err != nil {
			t.Fatalf("from version %d: %v", source.Version, err)
		}
		if diff := cmp.Diff(want, layout(t, db)); diff != "" {
			t.Errorf("from version %d (-want +got):\n%s", source.Version, diff)
		}
	}
}

func TestEmptyFileStaysEmptyIfAMigrationFails(t *testing.T) {
	db := opened(t, "failing.db")
	provider, err := newProvider(db)
	if err != nil {
		t.Fatal(err)
	}
	// The first migration a second time makes tables that exist.
	sources := provider.ListSources()
	if made, err := makeSchema(t.Context(), db, append(sources, sources[0])); made || err == nil {
		t.Fatalf("made %v, error %v", made, err)
	}
	var objects int
	if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM sqlite_schema").Scan(&objects); err != nil || objects != 0 {
		t.Errorf("%d objects are left, error %v", objects, err)
	}
	if err := migrate(t.Context(), db); err != nil {
		t.Errorf("after the failure: %v", err)
	}
}

func TestMigrationWithAnotherAnnotationIsRefused(t *testing.T) {
	for _, migration := range []string{
		"CREATE TABLE a (b);\n",
		"-- +goose Up\n-- +goose StatementBegin\nSELECT 1;\n-- +goose StatementEnd\n-- +goose Down\n",
	} {
		if statements, err := upward(migration); err == nil {
			t.Errorf("%q has the statements %q", migration, statements)
		}
	}
}
