package rows

import (
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// Tree reads the stored tree, for one goroutine; it implements [tlog.HashReader]. It keeps the
// row that it read last, since neighbours are asked for together.
type Tree struct {
	reader Reader
	edge   map[int64]tlog.Hash // hashes that need not be read
	first  int64               // place of the first hash of the row
	hashes []byte
}

// NewTree returns the stored tree. A writer remembers its right edge, from which it grows; nil
// for a reader that remembers nothing.
func NewTree(r Reader, edge map[int64]tlog.Hash) *Tree { return &Tree{reader: r, edge: edge} }

// ReadHashes implements tlog.HashReader.
func (t *Tree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		var err error
		if hashes[i], err = t.hash(index); err != nil {
			return nil, err
		}
	}
	return hashes, nil
}

// hash returns one stored hash.
func (t *Tree) hash(index int64) (tlog.Hash, error) {
	if hash, ok := t.edge[index]; ok {
		return hash, nil
	}
	hash, ok := t.inRow(index)
	if ok {
		return hash, nil
	}
	err := t.reader.db.QueryRow("SELECT place, hashes FROM tree WHERE place <= ? ORDER BY place DESC LIMIT 1", index).Scan(&t.first, &t.hashes)
	if hash, ok = t.inRow(index); err == nil && !ok {
		err = errors.New("it is missing")
	}
	if err != nil {
		return tlog.Hash{}, fmt.Errorf("store: stored hash %d: %w", index, err)
	}
	return hash, nil
}

func (t *Tree) inRow(index int64) (tlog.Hash, bool) {
	at := (index - t.first) * tlog.HashSize
	if at < 0 || at+tlog.HashSize > int64(len(t.hashes)) {
		return tlog.Hash{}, false
	}
	return tlog.Hash(t.hashes[at : at+tlog.HashSize]), true
}
