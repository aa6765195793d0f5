package postgres

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/powerbox-project/powerbox/internal/store/pgtest"
	"github.com/powerbox-project/powerbox/internal/store/storetest"
)

var shared pgtest.Shared

func TestMain(m *testing.M) {
	code := m.Run()
	if err := shared.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// migrated makes a database with the schema, and returns its URL.
func migrated(t *testing.T) string {
	t.Helper()
	return shared.Prepared(t, func(url string) error {
		_, err := Migrate(t.Context(), url)
		return err
	})
}

// place is a database with the schema and nothing else.
func place(t *testing.T) func(context.Context, storetest.Keys) (storetest.Store, error) {
	url := migrated(t)
	return func(ctx context.Context, k storetest.Keys) (storetest.Store, error) {
		return Open(ctx, configOf(url, k))
	}
}

func configOf(url string, k storetest.Keys) Config {
	return Config{URL: url, Signer: k.Signer, Batches: k.Batches, Origin: k.Origin, Checkpoint: k.Checkpoint, Random: k.Random, Connections: 6}
}

func TestStore(t *testing.T) { storetest.Run(t, place) }

// Capabilities of an older schema are found by their parents, names and single use.
func TestTreesOfOlderSchemas(t *testing.T) {
	url := shared.Database(t)
	if _, err := Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	storetest.MigratedTrees(t, func(*testing.T) func(context.Context, storetest.Keys) (storetest.Store, error) {
		return func(ctx context.Context, k storetest.Keys) (storetest.Store, error) {
			return Open(ctx, configOf(url, k))
		}
	}, func(t *testing.T) {
		err := withProvider(url, func(p *goose.Provider) error {
			if _, err := p.DownTo(t.Context(), 6); err != nil {
				return err
			}
			_, err := p.Up(t.Context())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
