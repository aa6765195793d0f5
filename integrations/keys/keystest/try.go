// Package keystest tries a program that keeps keys.
package keystest

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/sha256"
	"math/big"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/integrations/keys"
)

// Try makes a key by every algorithm of a store, and verifies a signature of it.
func Try(t *testing.T, s keys.Store) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for _, algorithm := range s.Algorithms() {
		key, err := s.Create(ctx, "evidence", algorithm)
		if err != nil {
			t.Fatalf("%s: %v", algorithm, err)
		}
		public, err := s.Public(ctx, key)
		if err != nil {
			t.Fatalf("%s: %v", algorithm, err)
		}
		message := sha256.Sum256([]byte("a record"))
		signature, err := s.Sign(ctx, key, algorithm, message[:])
		if err != nil || !verifies(public, message[:], signature) {
			t.Errorf("%s: %v, a signature of %d bytes", algorithm, err, len(signature))
		}
	}
	if _, err := s.Create(ctx, "evidence", "ML-DSA-87"); err == nil || !strings.Contains(err.Error(), "ML-DSA-87") {
		t.Errorf("a key was made by an algorithm that is not offered: %v", err)
	}
}

func verifies(public crypto.PublicKey, message, signature []byte) bool {
	if len(signature) != 64 {
		return false
	}
	switch public := public.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(public, message, signature)
	case *ecdsa.PublicKey:
		return ecdsa.Verify(public, message, new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:]))
	}
	return false
}
