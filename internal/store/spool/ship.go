package spool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Bounds of one shipment.
const (
	shipRecords = 256
	shipBytes   = 1 << 20
	maxHalved   = 8 // to a single record
	cameOften   = 16
)

// Next is the sequence of the record that comes next.
func (s *Spool) Next() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head.Sequence
}

// Unsent is how many records the server does not have.
func (s *Spool) Unsent() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head.Sequence - s.shipped
}

// Sent is the number of the first record that the server does not have.
func (s *Spool) Sent() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shipped
}

// Waiting returns the records that the server does not have, in order: as many
// as go into one shipment.
func (s *Spool) Waiting() ([][]byte, error) {
	s.mu.Lock()
	from, halved, segments := s.shipped, s.halved, append([]segment(nil), s.segments...)
	s.mu.Unlock()
	var out [][]byte
	size := 0
	for _, g := range segments {
		if g.first+g.count <= from {
			continue
		}
		data, err := os.ReadFile(g.path)
		if err != nil {
			return nil, fmt.Errorf("spool: %w", err)
		}
		for i, at := int64(0), 0; i < g.count; i++ {
			f, ok := readFrame(data[at:])
			if !ok {
				return nil, fmt.Errorf("spool: %s: %w at byte %d", g.path, ErrDamaged, at)
			}
			at += f.size
			if g.first+i < from {
				continue
			}
			if len(out) == max(1, shipRecords>>halved) || size > 0 && size+len(f.payload) > shipBytes>>halved {
				return out, nil
			}
			out, size = append(out, f.payload), size+len(f.payload)
		}
	}
	return out, nil
}

// Shipped notes that the server has every record before a sequence, and deletes
// the segments that hold nothing else. A segment stays until one behind it has a
// record: the chain continues from the last record.
func (s *Spool) Shipped(next int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if next < s.shipped && s.config.WentBack != nil {
		s.config.WentBack(s.shipped, next)
	}
	if next < s.segmentsBegin() || next > s.head.Sequence {
		return fmt.Errorf("spool: the server says that record %d comes next; here are %d to %d", next, s.segmentsBegin(), s.head.Sequence)
	}
	s.shipped = next
	noted := s.note(next)
	noted = errors.Join(noted, s.forgetBodies(next))
	for len(s.segments) > 1 && s.segments[1].count > 0 && s.segments[0].first+s.segments[0].count <= next {
		if err := os.Remove(s.segments[0].path); err != nil {
			return fmt.Errorf("spool: %w", err)
		}
		s.segments = s.segments[1:]
	}
	if noted != nil { // a full disk has room now; without a note, more is sent again than needed
		noted = s.note(next)
	}
	return noted
}

func (s *Spool) note(next int64) error {
	if err := replace(filepath.Join(s.config.Dir, "shipped"), []byte(strconv.FormatInt(next, 10))); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	return nil
}

// segmentsBegin is the sequence of the first record that is still here.
func (s *Spool) segmentsBegin() int64 {
	if len(s.segments) == 0 {
		return s.head.Sequence
	}
	return s.segments[0].first
}

// readShipped reads what Shipped noted. Where it is lost everything that is
// here is sent again, which the server takes for what it is.
func (s *Spool) readShipped() error {
	n, noted, err := readNumber(filepath.Join(s.config.Dir, "shipped"))
	switch {
	case err != nil:
		return err
	case !noted:
		s.shipped = s.segmentsBegin()
		return nil
	case n > s.head.Sequence:
		return fmt.Errorf("%w: the server has the records before %d, and here record %d comes next", ErrDamaged, n, s.head.Sequence)
	case n < s.segmentsBegin():
		return fmt.Errorf("%w: the server has the records before %d, and here the first is record %d", ErrDamaged, n, s.segmentsBegin())
	}
	s.shipped = n
	return nil
}

// Send carries records to the server and returns the sequence of the first one
// that the server does not have.
type Send func(ctx context.Context, records [][]byte) (next int64, err error)

// Ship sends what waits, in order, until ctx ends, over whatever goes wrong.
func (s *Spool) Ship(ctx context.Context, send Send, log *slog.Logger) {
	const shortest, longest = 50 * time.Millisecond, 5 * time.Second
	for wait := shortest; ctx.Err() == nil; {
		s.mu.Lock()
		appended := s.appended
		s.mu.Unlock()
		sent, err := s.shipOnce(ctx, send)
		if err == nil && sent {
			wait = shortest
			continue
		}
		var again <-chan time.Time
		var timer *time.Timer
		if err != nil {
			log.WarnContext(ctx, "records wait for the server", slog.Any("error", err))
			timer = time.NewTimer(wait)
			again, wait, appended = timer.C, min(2*wait, longest), nil
		}
		select {
		case <-ctx.Done():
		case <-appended:
		case <-again:
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

// ShipRest sends all waiting records, and gives up at the first error: the rest
// is sent when the spool is opened again.
func (s *Spool) ShipRest(ctx context.Context, send Send) error {
	for {
		if sent, err := s.shipOnce(ctx, send); err != nil || !sent {
			return err
		}
	}
}

func (s *Spool) shipOnce(ctx context.Context, send Send) (sent bool, err error) {
	records, err := s.Waiting()
	if err != nil || len(records) == 0 {
		return false, err
	}
	next, err := send(ctx, records)
	before := s.paced(err == nil)
	if err != nil {
		return false, err
	}
	if next == before {
		return false, fmt.Errorf("spool: the server took none of %d records from %d on", len(records), before)
	}
	return true, s.Shipped(next)
}

// paced halves the next shipment after one that failed: over a slow link a whole one may never
// arrive in its time. After some that came the next is twice as large. It returns how far
// records were sent before.
func (s *Spool) paced(came bool) (shipped int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !came {
		s.halved, s.came = min(s.halved+1, maxHalved), 0
		return s.shipped
	}
	if s.came++; s.came == cameOften {
		s.halved, s.came = max(0, s.halved-1), 0
	}
	return s.shipped
}
