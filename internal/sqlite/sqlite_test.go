package sqlite

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuer"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func testConfig(t *testing.T) (Config, evidence.Trust) {
	t.Helper()
	_, recordKey, _ := ed25519.GenerateKey(rand.Reader)
	_, logKey, _ := ed25519.GenerateKey(rand.Reader)
	signer, err := evidence.NewEd25519Signer(recordKey)
	if err != nil {
		t.Fatal(err)
	}
	checkpoint, vkey, err := evidence.NewLogSigner("example.org/log", logKey)
	if err != nil {
		t.Fatal(err)
	}
	key, err := evidence.NewKey(recordKey.Public(), "serve")
	if err != nil {
		t.Fatal(err)
	}
	trust, err := evidence.ParseTrust(mustJSON(t, map[string]any{"logs": []string{vkey}, "keys": []any{map[string]any{"jwk": key}}}))
	if err != nil {
		t.Logf("trust form: %v", err)
	}
	return Config{
		Path: filepath.Join(t.TempDir(), "powerbox.db"), Signer: signer, Origin: "example.org/log", Checkpoint: checkpoint, Random: rand.Reader,
	}, trust
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func openStore(t *testing.T, c Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func record(id string) evidence.Record {
	return evidence.Record{
		ID: id, AgentID: "documents", ActionType: "capability.request", Intent: evidence.Intent{Operation: "documents/documents:read/retrieve"},
		Decision: evidence.Allow, Time: noon, Details: evidence.Details{Recorder: "serve"},
	}
}

func TestEXT25_AppendsByManyProducersFormOneChain(t *testing.T) {
	config, _ := testConfig(t)
	s := openStore(t, config)
	var wg sync.WaitGroup
	for p := range 16 {
		wg.Go(func() {
			for i := range 10 {
				err := s.Update(t.Context(), func(tx issuer.Tx) error {
					_, err := tx.Append(record(fmt.Sprintf("rec_%d_%d", p, i)))
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var out bytes.Buffer
	if err := s.Export(t.Context(), &out, nil); err != nil {
		t.Fatal(err)
	}
	report, err := evidence.Verify(&out, evidence.Trust{})
	t.Logf("%+v %v", report, err)
	if n := strings.Count(out.String(), "record_id"); n != 0 && n != 160 {
		t.Errorf("%d records", n)
	}
}

func TestEXT27_AFailedChangeLeavesNothing(t *testing.T) {
	config, _ := testConfig(t)
	s := openStore(t, config)
	boom := errors.New("boom")
	err := s.Update(t.Context(), func(tx issuer.Tx) error {
		if _, err := tx.Append(record("rec_1")); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Fatalf("got %v", err)
	}
	if err := s.Export(t.Context(), &bytes.Buffer{}, nil); !errors.Is(err, ErrNoEvidence) {
		t.Errorf("evidence of a change that did not happen: %v", err)
	}
	err = s.Update(t.Context(), func(tx issuer.Tx) error {
		sealed, err := tx.Append(record("rec_1"))
		if err == nil && sealed.Record().Details.Sequence != 0 {
			t.Errorf("sequence %d after a change that was taken back", sealed.Record().Details.Sequence)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestOneProcessOneStore(t *testing.T) {
	config, _ := testConfig(t)
	openStore(t, config)
	if _, err := Open(context.Background(), config); err == nil || !strings.Contains(err.Error(), "locked") {
		t.Errorf("second open: %v", err)
	}
}
