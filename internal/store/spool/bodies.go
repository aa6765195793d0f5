package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/powerbox-project/powerbox/evidence"
)

// Bodies that records commit to stand in their own files, by the record's sequence:
// segments stay on the disk for a while after the server has them, and a body that was
// sent must be gone, so that it can be erased at the server.

// maxShippedBodies is how many bytes of bodies go into one shipment.
const maxShippedBodies = 2 << 20

func (s *Spool) bodiesDir() string { return filepath.Join(s.config.Dir, "bodies") }

func (s *Spool) bodyPath(sequence int64) string {
	return filepath.Join(s.bodiesDir(), fmt.Sprintf("%020d", sequence))
}

// keepBodies makes the bodies of a batch durable, before its records are.
func (s *Spool) keepBodies(sealed []evidence.Sealed) error {
	for _, one := range sealed {
		r := one.Record()
		if r.Detached == nil {
			continue
		}
		data, err := json.Marshal(r.Detached)
		if err != nil {
			return err
		}
		if waiting := s.waiting() + int64(len(data)); waiting > s.config.Limit {
			return fmt.Errorf("%d bytes would wait for the server; want at most %d: is the server reached?", waiting, s.config.Limit)
		}
		if err := os.MkdirAll(s.bodiesDir(), 0o700); err != nil {
			return err
		}
		if err := replace(s.bodyPath(r.Details.Sequence), data); err != nil {
			return err
		}
		s.mu.Lock()
		s.bodies[r.Details.Sequence] = int64(len(data))
		s.mu.Unlock()
	}
	return nil
}

// recoverBodies forgets bodies of records that the server has, and of records that were
// never written.
func (s *Spool) recoverBodies() error {
	s.bodies = map[int64]int64{}
	entries, err := os.ReadDir(s.bodiesDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		n, wrong := strconv.ParseInt(e.Name(), 10, 64)
		if wrong != nil || n < s.shipped || n >= s.head.Sequence {
			err = errors.Join(err, os.Remove(filepath.Join(s.bodiesDir(), e.Name())))
			continue
		}
		info, stat := e.Info()
		if err = errors.Join(err, stat); stat == nil {
			s.bodies[n] = info.Size()
		}
	}
	return err
}

// Bodies returns the bodies of records that wait, by their places in the list, and how
// many of the records go into one shipment with them. A body that cannot be read is left
// out: its record shows the loss.
func (s *Spool) Bodies(records [][]byte) (bodies map[int]*evidence.Body, n int, err error) {
	s.mu.Lock()
	none := len(s.bodies) == 0
	s.mu.Unlock()
	if none {
		return nil, len(records), nil
	}
	bodies = map[int]*evidence.Body{}
	size := 0
	for n, data := range records {
		sealed, err := evidence.ParseSealed(data)
		if err != nil {
			return nil, 0, fmt.Errorf("spool: %w", err)
		}
		d := sealed.Record().Details
		if d.BodyCommitment == "" {
			continue
		}
		text, err := os.ReadFile(s.bodyPath(d.Sequence))
		var b evidence.Body
		if err != nil || json.Unmarshal(text, &b) != nil || b.Opens(d.BodyCommitment) != nil {
			continue
		}
		if size += len(text); len(bodies) > 0 && size > maxShippedBodies {
			return bodies, n, nil
		}
		bodies[n] = &b
	}
	return bodies, len(records), nil
}

// forgetBodies deletes the bodies of records that the server has. It is called with the
// lock.
func (s *Spool) forgetBodies(next int64) error {
	var err error
	for n := range s.bodies {
		if n >= next {
			continue
		}
		if wrong := os.Remove(s.bodyPath(n)); wrong != nil && !errors.Is(wrong, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("spool: %w", wrong))
			continue
		}
		delete(s.bodies, n)
	}
	return err
}
