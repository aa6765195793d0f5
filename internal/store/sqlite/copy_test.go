package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Committed records get from the log into the file while the store continues.
func TestTheLogIsCopiedBesideTheWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "powerbox.db")
	s := openStore(t, newFixture(path).config)
	size := func() int64 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := size()
	for i := range 2 * copyEvery {
		if err := appendOne(t, s, record(fmt.Sprintf("rec_%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	for size() == before {
		runtime.Gosched() // it ends, or the test's time does
	}
}
