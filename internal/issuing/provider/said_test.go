package provider_test

import (
	"bytes"
	"testing"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
)

// AAP-Z4: a digest says nothing to who has not its key, which is made of the secret
// and of the record.
func TestAAPZ4_KeysOfDigests(t *testing.T) {
	one, other := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	keys := map[string]bool{}
	for _, secret := range [][]byte{one, other} {
		for _, record := range []string{"rec_a", "rec_b"} {
			key := provider.ArgumentsKey(secret, record)
			if len(key) != 32 || !bytes.Equal(key, provider.ArgumentsKey(secret, record)) {
				t.Errorf("the key of %s: %x", record, key)
			}
			keys[provider.ArgumentsDigest(key, []byte(`{"pin":1}`))] = true
		}
	}
	if len(keys) != 4 {
		t.Errorf("%d digests of one text under four keys", len(keys))
	}
}
