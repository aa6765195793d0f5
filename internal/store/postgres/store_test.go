package postgres

import (
	"context"
	"fmt"
	"os"
	"testing"

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

// place is an empty database.
func place(t *testing.T) func(context.Context, storetest.Keys) (storetest.Store, error) {
	url := shared.Database(t)
	if _, err := Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, k storetest.Keys) (storetest.Store, error) {
		return Open(ctx, configOf(url, k))
	}
}

func configOf(url string, k storetest.Keys) Config {
	return Config{URL: url, Signer: k.Signer, Batches: k.Batches, Origin: k.Origin, Checkpoint: k.Checkpoint, Random: k.Random, Connections: 6}
}

func TestStore(t *testing.T) { storetest.Run(t, place) }
