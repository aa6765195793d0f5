package keysets

import "testing"

// Whatever is read as a key set has keys that are found by both of their names
// (AAP-N2).
func FuzzKeySet(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"a"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"oct","k":"AAAA","kid":"a"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := parse(data)
		if err != nil {
			return
		}
		if len(s.byID) == 0 || len(s.byID) > maxKeys {
			t.Fatalf("a set of %d keys", len(s.byID))
		}
		for id, key := range s.byID {
			if found, ok := s.find(key.Thumbprint()); !ok || id == "" || found.IsZero() {
				t.Fatalf("key %q is not found by its thumbprint", id)
			}
		}
	})
}
