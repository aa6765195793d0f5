package tile

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/powerbox-project/powerbox/evidence"
)

// width is how many hashes or entries a full tile has.
const width = 1 << Height

// checkpointName is the file with the signed checkpoint, written last.
const checkpointName = "checkpoint"

// Folder writes the tiles of a log as files, from its beginning or from where the folder
// ends. It holds the right edge of the tree in memory, and nothing else. A file that exists
// is never changed, except the checkpoint.
type Folder struct {
	root    *os.Root
	size    int64
	edge    [][]tlog.Hash // by level, the hashes of the tile that is not full
	entries [][]byte      // of the tile of entries that is not full
}

// Open reads where the log in a folder ends. An empty folder has a log of no entries.
func Open(root *os.Root) (*Folder, error) {
	f := &Folder{root: root}
	signed, err := root.ReadFile(checkpointName)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	end, err := evidence.ReadCheckpoint(signed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", checkpointName, err)
	}
	if err := f.readEdge(end.Size); err != nil {
		return nil, err
	}
	if f.Root() != end.Root {
		return nil, fmt.Errorf("the last tiles of the folder do not give the root of its checkpoint of %d entries: a file was changed", end.Size)
	}
	return f, nil
}

func (f *Folder) readEdge(size int64) error {
	f.size = size
	for level := 0; size>>(level*Height) > 0; level++ {
		hashes := size >> (level * Height)
		f.edge = append(f.edge, nil)
		last := tlog.Tile{H: Height, L: level, N: hashes >> Height, W: int(hashes & (width - 1))}
		if last.W == 0 {
			continue
		}
		data, err := f.root.ReadFile(Path(last))
		if err != nil {
			return err
		}
		if len(data) != last.W*tlog.HashSize {
			return fmt.Errorf("%s has %d bytes; want %d", Path(last), len(data), last.W*tlog.HashSize)
		}
		for ; len(data) > 0; data = data[tlog.HashSize:] {
			f.edge[level] = append(f.edge[level], tlog.Hash(data[:tlog.HashSize]))
		}
	}
	return f.readEntries(tlog.Tile{H: Height, L: -1, N: size >> Height, W: int(size & (width - 1))})
}

// readEntries reads the entries of the last tile, which must be those of its hashes.
func (f *Folder) readEntries(last tlog.Tile) error {
	if last.W == 0 {
		return nil
	}
	data, err := f.root.ReadFile(Path(last))
	if err != nil {
		return err
	}
	for n := range last.W {
		if len(data) < 2 || len(data)-2 < int(binary.BigEndian.Uint16(data)) {
			return fmt.Errorf("%s ends within entry %d", Path(last), n)
		}
		end := 2 + int(binary.BigEndian.Uint16(data))
		if tlog.RecordHash(data[2:end]) != f.edge[0][n] {
			return fmt.Errorf("entry %d of %s is not that of its hash: a file was changed", n, Path(last))
		}
		f.entries = append(f.entries, bytes.Clone(data[2:end]))
		data = data[end:]
	}
	if len(data) > 0 {
		return fmt.Errorf("%s has %d bytes behind its last entry", Path(last), len(data))
	}
	return nil
}

// Size is how many entries the log in the folder has.
func (f *Folder) Size() int64 { return f.size }

// Append adds an entry, and writes the tiles that are full with it.
func (f *Folder) Append(leaf []byte) error {
	f.size++
	f.entries = append(f.entries, bytes.Clone(leaf))
	if len(f.entries) == width {
		if err := f.write(tlog.Tile{H: Height, L: -1, N: f.size>>Height - 1, W: width}, Entries(f.entries)); err != nil {
			return err
		}
		f.entries = f.entries[:0]
	}
	hash := tlog.RecordHash(leaf)
	for level := 0; ; level++ {
		if level == len(f.edge) {
			f.edge = append(f.edge, nil)
		}
		f.edge[level] = append(f.edge[level], hash)
		if len(f.edge[level]) < width {
			return nil
		}
		full := tlog.Tile{H: Height, L: level, N: f.size>>((level+1)*Height) - 1, W: width}
		if err := f.write(full, join(f.edge[level])); err != nil {
			return err
		}
		hash = fold(f.edge[level])
		f.edge[level] = f.edge[level][:0]
	}
}

// Root is the root of the tree of all entries (RFC 6962).
func (f *Folder) Root() tlog.Hash {
	var root *tlog.Hash
	for _, rest := range f.edge {
		// The tree of each bit is left of those of the lower ones.
		for chunk := 1; chunk <= len(rest); chunk *= 2 {
			if len(rest)&chunk == 0 {
				continue
			}
			hash := fold(rest[len(rest)-chunk:])
			if root != nil {
				hash = tlog.NodeHash(hash, *root)
			}
			root, rest = &hash, rest[:len(rest)-chunk]
		}
	}
	if root == nil {
		return sha256.Sum256(nil)
	}
	return *root
}

// Finish writes the tiles that are not full, and then the checkpoint, which must be that of
// the entries.
func (f *Folder) Finish(signed []byte) error {
	end, err := evidence.ReadCheckpoint(signed)
	if err != nil {
		return err
	}
	if root := f.Root(); end.Size != f.size || end.Root != root {
		return fmt.Errorf("the entries give the root %v of %d; the checkpoint has %v of %d", root, f.size, end.Root, end.Size)
	}
	if n := len(f.entries); n > 0 {
		if err := f.write(tlog.Tile{H: Height, L: -1, N: f.size >> Height, W: n}, Entries(f.entries)); err != nil {
			return err
		}
	}
	for level, hashes := range f.edge {
		if n := len(hashes); n > 0 {
			last := tlog.Tile{H: Height, L: level, N: f.size >> ((level + 1) * Height), W: n}
			if err := f.write(last, join(hashes)); err != nil {
				return err
			}
		}
	}
	return f.replace(checkpointName, signed)
}

// write makes the file of a tile. One that is there must have the same bytes.
func (f *Folder) write(t tlog.Tile, data []byte) error {
	name := Path(t)
	switch old, err := f.root.ReadFile(name); {
	case err == nil && !bytes.Equal(old, data):
		return fmt.Errorf("%s exists with other bytes; tiles never change", name)
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := f.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	return f.replace(name, data)
}

// replace gives a file its bytes, or leaves it as it is.
func (f *Folder) replace(name string, data []byte) error {
	const unfinished = ".unfinished"
	file, err := f.root.OpenFile(unfinished, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return errors.Join(err, f.root.Remove(unfinished))
	}
	return f.root.Rename(unfinished, name)
}

func join(hashes []tlog.Hash) []byte {
	out := make([]byte, 0, len(hashes)*tlog.HashSize)
	for _, hash := range hashes {
		out = append(out, hash[:]...)
	}
	return out
}

// fold is the root of a full tree of hashes, whose number is a power of two.
func fold(hashes []tlog.Hash) tlog.Hash {
	if len(hashes) == 1 {
		return hashes[0]
	}
	half := len(hashes) / 2
	return tlog.NodeHash(fold(hashes[:half]), fold(hashes[half:]))
}
