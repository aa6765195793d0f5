package tile

import (
	"bytes"
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/powerbox-project/powerbox/evidence"
)

// A folder that grows in steps, opened anew for each, has the tiles that x/mod's tlog makes
// of its stored hashes, and a client of tlog reads every entry through them.
func TestEXT35_AFolderHasTheTilesOfTheLog(t *testing.T) {
	dir := t.TempDir()
	root := must(os.OpenRoot(dir))
	var stored evidence.Hashes
	leaf := func(n int64) []byte { return binary.BigEndian.AppendUint64([]byte("entry "), uint64(n)) }
	for _, to := range []int64{1, 2, 255, 256, 257, 512, 700, 65535, 65536, 66050} {
		folder := must(Open(root))
		first := folder.Size()
		for n := first; n < to; n++ {
			if err := folder.Append(leaf(n)); err != nil {
				t.Fatal(err)
			}
			stored = append(stored, must(tlog.StoredHashes(n, leaf(n), stored))...)
		}
		tree := tlog.Tree{N: to, Hash: must(tlog.TreeHash(to, stored))}
		signed := []byte(evidence.Checkpoint{Origin: "log.example", Size: to, Root: tree.Hash}.String() + "\n\u2014 log.example c2lnbmF0dXJl\n")
		if err := folder.Finish(signed); err != nil {
			t.Fatalf("%d entries: %v", to, err)
		}
		for _, one := range tlog.NewTiles(Height, first, to) {
			if want := must(tlog.ReadTileData(one, stored)); !bytes.Equal(must(root.ReadFile(Path(one))), want) {
				t.Fatalf("%d entries: %s is not that of the log", to, Path(one))
			}
		}
		places := []int64{tlog.StoredHashIndex(0, 0), tlog.StoredHashIndex(0, to-1), tlog.StoredHashIndex(0, to/2)}
		hashes, err := tlog.TileHashReader(tree, reader{t, root}).ReadHashes(places)
		if err != nil || hashes[1] != tlog.RecordHash(leaf(to-1)) {
			t.Fatalf("%d entries, read by a client: %v", to, err)
		}
	}
	entries := must(root.ReadFile("tile/entries/000"))
	if want := 256 * (2 + len(leaf(0))); len(entries) != want || !bytes.Equal(entries[2:2+len(leaf(0))], leaf(0)) {
		t.Errorf("the first tile of entries has %d bytes, want %d", len(entries), want)
	}
}

// A folder with a changed file is never continued.
func TestEXT35_AFolderThatWasChangedIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"a hash":         {"tile/0/001.p/44", "a file was changed"},
		"an upper hash":  {"tile/1/000.p/1", "a file was changed"},
		"an entry":       {"tile/entries/001.p/44", "a file was changed"},
		"the checkpoint": {"checkpoint", ""},
	} {
		dir := t.TempDir()
		root := must(os.OpenRoot(dir))
		folder := must(Open(root))
		for n := range 300 {
			if err := folder.Append([]byte{byte(n), byte(n >> 8)}); err != nil {
				t.Fatal(err)
			}
		}
		signed := evidence.Checkpoint{Origin: "log.example", Size: 300, Root: folder.Root()}.String() + "\n\u2014 log.example c2lnbmF0dXJl\n"
		if err := folder.Finish([]byte(strings.Replace(signed, "\n300\n", "\n299\n", 1))); err == nil {
			t.Fatal("a checkpoint of another size is written")
		}
		if err := folder.Finish([]byte(signed)); err != nil {
			t.Fatal(err)
		}
		data := must(root.ReadFile(c.file))
		if c.file == checkpointName {
			data = bytes.Replace(data, []byte("\n300\n"), []byte("\n299\n"), 1)
		} else {
			data[len(data)-1] ^= 1
		}
		if err := root.WriteFile(c.file, data, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(root); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s was changed, and the folder is opened: %v", name, err)
		}
	}
}

// A tile that is there with other bytes is not written over.
func TestEXT35_TilesNeverChange(t *testing.T) {
	root := must(os.OpenRoot(t.TempDir()))
	folder := must(Open(root))
	if err := root.MkdirAll("tile/entries", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := root.WriteFile("tile/entries/000", []byte("another"), 0o644); err != nil {
		t.Fatal(err)
	}
	var err error
	for n := 0; n < 256 && err == nil; n++ {
		err = folder.Append([]byte{byte(n)})
	}
	if err == nil || !strings.Contains(err.Error(), "tiles never change") {
		t.Errorf("%v", err)
	}
}

// reader is how a client of tlog reads the files.
type reader struct {
	t    *testing.T
	root *os.Root
}

func (r reader) Height() int { return Height }

func (r reader) ReadTiles(all []tlog.Tile) ([][]byte, error) {
	var out [][]byte
	for _, one := range all {
		data, err := r.root.ReadFile(Path(one))
		if err != nil {
			return nil, err
		}
		out = append(out, data)
	}
	return out, nil
}

func (reader) SaveTiles([]tlog.Tile, [][]byte) {}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
