package sqlite

import (
	"bytes"
	"crypto/ed25519"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

func otherLogKey() note.Signer {
	signer, _, err := evidence.NewLogSigner("example.org/log", ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, 32)))
	return must(signer, err)
}

func capability(id string) issuer.Capability {
	clause := powerbox.Clause{Pattern: powerbox.ExactPattern(must(powerbox.ParseOperation("documents/documents:read/retrieve"))), Shape: powerbox.AnyArguments()}
	window := powerbox.Window{From: noon, Until: noon.Add(time.Hour)}
	return issuer.Capability{
		ID: id, Root: id, Agent: "documents", Grant: "documents:read", Principal: "user:alice", Holder: "key:abc", Requester: "planner",
		Purpose: "a report", Authority: must(powerbox.NewAuthority(window, 2, clause)),
		Handles:      []issuer.Handle{{Handle: "h-1", Name: "Q1", Resource: "/q1"}},
		RevocationID: "rv_" + id, Attenuable: true, PolicyDigest: "sha256:0", Created: noon, Expires: noon.Add(time.Hour),
	}
}

func put(t *testing.T, s *Store, c issuer.Capability) {
	t.Helper()
	if err := s.Update(t.Context(), func(tx issuer.Tx) error { return tx.PutCapability(c) }); err != nil {
		t.Fatal(err)
	}
}

func newStore(t *testing.T) *Store {
	t.Helper()
	return openStore(t, newFixture(filepath.Join(t.TempDir(), "powerbox.db")).config)
}
