package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/powerbox-project/powerbox/internal/store/pgtest"
)

// databases are those of the tests that run on PostgreSQL.
var databases pgtest.Shared

// onPostgres is the name of the part of a test that runs on PostgreSQL.
const onPostgres = "postgres"

// onStores runs a test on both stores. E2E_STORE=postgres has every town of this
// package on PostgreSQL, as in the second of the two runs of make test, which leaves out tests that
// choose their stores.
func onStores(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if os.Getenv("E2E_STORE") != onPostgres {
		t.Run("sqlite", test)
	}
	t.Run(onPostgres, test)
}

// aboutTheFile has the towns of a test on SQLite in both runs: its subject is the file
// itself, or what one process remembers that has its store alone.
func aboutTheFile(t *testing.T) {
	t.Helper()
	t.Setenv("E2E_STORE", "sqlite")
}

// givenStores is the value of E2E_STORE in a test that is marked with asGiven.
const givenStores = "given"

// asGiven marks a test that does the same with every E2E_STORE: it starts no server, or it
// writes the configuration of each server. make test runs it once. The test fails if E2E_STORE
// would choose the store of one of its servers.
func asGiven(t *testing.T) {
	t.Helper()
	t.Setenv("E2E_STORE", givenStores)
}

// storeLines has a town keep its state where the options, the name of the part of its
// test, or E2E_STORE say.
func (w *town) storeLines(o options) string {
	w.t.Helper()
	if os.Getenv("E2E_STORE") == givenStores && o.database == "" && !strings.Contains(o.extra, "store:") {
		w.t.Fatal("E2E_STORE chooses the store of this server: remove asGiven(t) from the test")
	}
	here := os.Getenv("E2E_STORE") == onPostgres || slices.Contains(strings.Split(w.t.Name(), "/"), onPostgres)
	if o.database == "" && here && !strings.Contains(o.extra, "store:") {
		o.database = databases.Prepared(w.t, migrated)
		w.prepared = o.database
	}
	if covers := os.Getenv("E2E_COVER"); covers != "" { // see tools/house/stores.go
		w.t.Setenv("GOCOVERDIR", w.coverIn(covers))
	}
	if o.database == "" {
		return ""
	}
	w.database = o.database
	return fmt.Sprintf("store: {postgres: %q, durability: single}\n", o.database)
}

// coverIn is the folder of this test in that of what all servers covered.
func (w *town) coverIn(folder string) string {
	w.t.Helper()
	name, _, _ := strings.Cut(w.t.Name(), "/")
	folder = filepath.Join(folder, name)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		w.t.Fatal(err)
	}
	return folder
}

// migrated makes the schema of a database with the program.
func migrated(url string) error {
	dir, err := os.MkdirTemp("", "powerbox-migrated")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return migrateUp(dir, fmt.Sprintf("store: {postgres: %q, durability: single}\n", url))
}

// migrateUp makes the schema of a store with the program, under a configuration in a folder.
func migrateUp(dir, store string) error {
	file := filepath.Join(dir, "powerbox.yaml")
	if err := os.WriteFile(file, []byte("issuer: {url: http://127.0.0.1:8700}\n"+store), 0o600); err != nil {
		return err
	}
	if out, err := exec.Command(binary, "migrate", "up", "-c", file).CombinedOutput(); err != nil {
		return fmt.Errorf("powerbox migrate up: %w\n%s", err, out)
	}
	return nil
}

// emptyFile is a file of SQLite that has the schema and no rows, made once with the program.
var emptyFile = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "powerbox-migrated")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file, err := storeFile(dir, nil)
	if err == nil {
		err = migrateUp(dir, "")
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(file)
})

// storeFile writes the file of SQLite of a configuration in a folder, and returns its path.
func storeFile(dir string, content []byte) (string, error) {
	file := filepath.Join(dir, "powerbox-data", "powerbox.db")
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		return "", err
	}
	return file, os.WriteFile(file, content, 0o600)
}

// migrate makes the schema of a town's store, unless it has one. A town on SQLite gets a copy
// of a file with the schema: making it would take most of the time of a start.
func (w *town) migrate() {
	w.t.Helper()
	switch w.database {
	case "":
		empty, err := emptyFile()
		if err == nil {
			_, err = storeFile(w.dir, empty)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	case w.prepared:
	default:
		out, err := exec.CommandContext(w.t.Context(), binary, "migrate", "up", "-c", filepath.Join(w.dir, "powerbox.yaml")).CombinedOutput()
		if err != nil {
			w.t.Fatalf("powerbox migrate up: %v\n%s", err, out)
		}
	}
}
