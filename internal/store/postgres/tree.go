package postgres

import (
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// ReadHashes implements tlog.HashReader over the stored tree, the edge of
// which this node remembers if no other node has written.
func (t *transaction) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	stored := treeReader{reader: t.reader}
	hashes := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		hash, ok := t.tail.hashes[index]
		if !ok {
			var err error
			if hash, err = stored.hash(index); err != nil {
				return nil, err
			}
		}
		hashes[i] = hash
	}
	return hashes, nil
}

// treeReader reads the stored tree. It keeps the row that it read last, since
// neighbours are asked for together.
type treeReader struct {
	reader
	first  int64 // place of the first hash of the row
	hashes []byte
}

// ReadHashes implements tlog.HashReader.
func (r *treeReader) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		var err error
		if hashes[i], err = r.hash(index); err != nil {
			return nil, err
		}
	}
	return hashes, nil
}

func (r *treeReader) hash(index int64) (tlog.Hash, error) {
	hash, ok := r.inRow(index)
	if ok {
		return hash, nil
	}
	err := r.row("SELECT place, hashes FROM tree WHERE place <= $1 ORDER BY place DESC LIMIT 1", index).Scan(&r.first, &r.hashes)
	if hash, ok = r.inRow(index); err == nil && !ok {
		err = errors.New("it is missing")
	}
	if err != nil {
		return tlog.Hash{}, fmt.Errorf("postgres: stored hash %d: %w", index, err)
	}
	return hash, nil
}

func (r *treeReader) inRow(index int64) (tlog.Hash, bool) {
	at := (index - r.first) * tlog.HashSize
	if at < 0 || at+tlog.HashSize > int64(len(r.hashes)) {
		return tlog.Hash{}, false
	}
	return tlog.Hash(r.hashes[at : at+tlog.HashSize]), true
}
