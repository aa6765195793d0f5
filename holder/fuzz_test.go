package holder_test

import (
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/holder"
)

// For every header, the wallet accepts only capabilities of the holder's
// key, and after an error none.
func FuzzReceiveHeader(f *testing.F) {
	for _, s := range []string{"", ";", "a.b.c", "a.b.c,d.e.f;g.h.i", strings.Repeat(";", 100)} {
		f.Add(s)
	}
	key := newKey(f).Public()
	f.Fuzz(func(t *testing.T, value string) {
		w := holder.NewWallet(key)
		err := w.ReceiveHeader(value, now)
		if held := w.All(now); (err != nil || value != "") && len(held) > 0 {
			t.Errorf("%q: %v, and %d are held of a key that nobody knows", value, err, len(held))
		}
	})
}
