//go:build unix

package sqlite

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Files on the disk are for their owner alone, regardless of the umask.
func TestTheFilesAreForTheirOwnerAlone(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	dir := filepath.Join(t.TempDir(), "data")
	s := openStore(t, newFixture(filepath.Join(dir, "powerbox.db")).config)
	put(t, s, capability("cap_1"))
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 4 {
		t.Fatalf("%v, %v; want the file, its log, its index of the log and its lock", entries, err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s is %v, %v; want 0600", e.Name(), info.Mode(), err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is %v, %v; want 0700", info.Mode(), err)
	}
}

// Signs of a path that mean something in a URI belong to the name of the file.
func TestFileIsWhereThePathSays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a#b?mode=memory&c%41d+e f")
	path := filepath.Join(dir, "powerbox.db")
	s := openStore(t, newFixture(path).config)
	put(t, s, capability("cap_1"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		t.Errorf("%s: %v, %v; want the database", path, info, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(entries) != 1 {
		t.Errorf("beside the folder of the file: %v, %v", entries, err)
	}
}
