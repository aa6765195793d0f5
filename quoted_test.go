package powerbox_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox"
)

// TestStringsAreEscapedWhereverAByteStands puts every byte of ASCII at every place of a
// string, since eight plain bytes are written at once.
func TestStringsAreEscapedWhereverAByteStands(t *testing.T) {
	for c := range byte(0x80) {
		for before := range 18 {
			for _, filler := range []string{"a", "\x7f", "é", "\U0001f600", " "} {
				want := strings.Repeat(filler, before) + string(rune(c)) + strings.Repeat(filler, 17-before)
				written := powerbox.String(want).AppendJSON(nil)
				var got string
				if err := json.Unmarshal(written, &got); err != nil || got != want {
					t.Fatalf("byte %#x after %d of %q: %s, %v", c, before, filler, written, err)
				}
			}
		}
	}
}
