package eddsa_test

import (
	"crypto/ed25519"
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/powerbox-project/powerbox/eddsa"
)

// signer returns the n-th of some keys, with a message that it signed.
func signer(n int) (public [32]byte, message, signature []byte) {
	var seed [ed25519.SeedSize]byte
	binary.BigEndian.PutUint64(seed[:], uint64(n))
	private := ed25519.NewKeyFromSeed(seed[:])
	message = []byte("read the report")
	return [32]byte(private[32:]), message, ed25519.Sign(private, message)
}

// use verifies with a key until it could have a table, and reports whether it has one.
func use(t *testing.T, n int) *eddsa.Key {
	t.Helper()
	public, message, signature := signer(n)
	key := eddsa.NewKey(public)
	for i := range eddsa.TableEvery {
		if key.Tabulated() {
			t.Fatalf("key %d has a table after %d uses", n, i)
		}
		if !key.Verify(message, signature) {
			t.Fatalf("use %d of key %d refuses a good signature", i+1, n)
		}
	}
	return key
}

// TestTableOfAKey uses a key until it has a table, and beyond.
func TestTableOfAKey(t *testing.T) {
	key := use(t, 0)
	if !key.Tabulated() {
		t.Fatalf("no table after %d uses", eddsa.TableEvery)
	}
	_, message, signature := signer(0)
	if !key.Verify(message, signature) {
		t.Error("the table refuses a good signature")
	}
	if key.Verify([]byte("write the report"), signature) {
		t.Error("the table accepts a signature of another message")
	}
	_, _, other := signer(1)
	if key.Verify(message, other) {
		t.Error("the table accepts a signature of another key")
	}
	runtime.KeepAlive(key)
}

// TestNoTableOfNoPoint uses bytes that are no key: they take no place.
func TestNoTableOfNoPoint(t *testing.T) {
	before, none := eddsa.Tables(), eddsa.NewKey([32]byte{2})
	for range 2 * eddsa.TableEvery {
		if none.Verify(nil, make([]byte, 64)) {
			t.Fatal("what is no key verifies")
		}
	}
	if none.Tabulated() || eddsa.Tables() > before {
		t.Errorf("what is no key has a table, or a place: %d before, %d after", before, eddsa.Tables())
	}
}

// TestTablesAreBounded keeps more keys in use than there may be tables, lets them
// go, and uses another.
func TestTablesAreBounded(t *testing.T) {
	keys := make([]*eddsa.Key, eddsa.MaxTables+8)
	with := 0
	for i := range keys {
		if keys[i] = use(t, i); keys[i].Tabulated() {
			with++
		}
	}
	if with == 0 || with > eddsa.MaxTables || eddsa.Tables() > eddsa.MaxTables || keys[len(keys)-1].Tabulated() {
		t.Errorf("%d of %d keys have a table, %d places are taken; want %d", with, len(keys), eddsa.Tables(), eddsa.MaxTables)
	}
	_, message, signature := signer(len(keys) - 1)
	for range eddsa.TableEvery {
		if !keys[len(keys)-1].Verify(message, signature) {
			t.Fatal("a key without a table refuses a good signature")
		}
	}
	runtime.KeepAlive(keys)
	for eddsa.Tables() > eddsa.MaxTables/2 { // a collection frees their places
		runtime.GC()
		runtime.Gosched()
	}
	if !use(t, 1<<20).Tabulated() {
		t.Error("places that are free again are not taken")
	}
}
