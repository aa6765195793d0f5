package spool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
)

var errClosed = fmt.Errorf("spool: it is closed: %w", evidence.ErrNotWritten)

// errBusy is what a record ends with whose turn did not come in time. It is not written.
var errBusy = fmt.Errorf("spool: the disk is busy: %w: %w", evidence.ErrNotWritten, evidence.ErrUnavailable)

// Record implements gate.Recorder: it returns when the record is on the disk.
func (s *Spool) Record(ctx context.Context, r evidence.Record) (evidence.Sealed, error) {
	return s.ask(&request{ctx: ctx, record: r, result: make(chan result, 1)})
}

// Probe writes bytes that are never read, in its turn among records, and returns when it is
// on the disk. It says whether records can be written.
func (s *Spool) Probe(ctx context.Context) error {
	_, err := s.ask(&request{ctx: ctx, probe: true, result: make(chan result, 1)})
	return err
}

func (s *Spool) ask(q *request) (evidence.Sealed, error) {
	ctx := q.ctx
	var over <-chan time.Time // never
	if s.config.Patience > 0 {
		timer := time.NewTimer(s.config.Patience)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case s.requests <- q:
	case <-s.closing:
		return evidence.Sealed{}, errClosed
	case <-ctx.Done():
		return evidence.Sealed{}, ctx.Err()
	case <-over:
		return evidence.Sealed{}, errBusy
	}
	// From here on it may be written, so its true result is awaited even when
	// the caller has gone, for as long as the disk may take.
	select {
	case <-over:
		return evidence.Sealed{}, q.late()
	case out := <-q.result:
		return out.sealed, out.err
	case <-s.done:
		select {
		case out := <-q.result:
			return out.sealed, out.err
		default:
			return evidence.Sealed{}, errClosed
		}
	}
}

// late is the error of a record that the disk may still take.
func (q *request) late() error {
	q.gone.Store(true) // waiting records are not written any more
	written := make(chan error, 1)
	go func() { written <- (<-q.result).err }()
	return &evidence.LateError{Result: written}
}

func (s *Spool) write() {
	defer close(s.done)
	for {
		select {
		case <-s.closing:
			return
		case first := <-s.requests:
			batch := []*request{first}
			for more := true; more && len(batch) < maxBatch; {
				select {
				case q := <-s.requests:
					batch = append(batch, q)
				default:
					more = false
				}
			}
			s.commit(batch)
		}
	}
}

// commit writes a batch, waits for the disk, and answers.
func (s *Spool) commit(batch []*request) {
	results := make([]result, len(batch))
	head := s.head // only this goroutine moves it
	var payloads [][]byte
	var written []evidence.Sealed
	for i, q := range batch {
		if q.probe {
			results[i].err = s.probe()
			continue
		}
		sealed, err := s.seal(head, q)
		if err != nil {
			results[i].err = fmt.Errorf("spool: %w: %w", evidence.ErrNotWritten, err)
			continue
		}
		results[i].sealed, head = sealed, sealed.Head()
		payloads, written = append(payloads, sealed.Bytes()), append(written, sealed)
	}
	err := s.keepBodies(written)
	if err == nil {
		err = s.append(payloads)
	}
	for i, q := range batch {
		if results[i].err == nil && err != nil && !q.probe {
			results[i] = result{err: fmt.Errorf("spool: %w: %w", evidence.ErrNotWritten, err)}
		}
		q.result <- results[i]
	}
}

// probe writes a file beside the segments, as large as a record.
func (s *Spool) probe() error {
	if s.fault != nil {
		return s.fault
	}
	return replace(filepath.Join(s.config.Dir, "probe"), make([]byte, probeBytes))
}

// probeBytes is more than a record has as a rule.
const probeBytes = 8 << 10

func (s *Spool) seal(head evidence.Head, q *request) (evidence.Sealed, error) {
	if err := q.ctx.Err(); err != nil {
		return evidence.Sealed{}, err
	}
	if q.gone.Load() {
		return evidence.Sealed{}, errBusy
	}
	if q.record.AgentID != s.config.Agent || q.record.Details.Recorder != s.config.Recorder {
		return evidence.Sealed{}, fmt.Errorf("a record of %s by %s does not belong into the chain of %s by %s",
			q.record.AgentID, q.record.Details.Recorder, s.config.Agent, s.config.Recorder)
	}
	sealed, err := evidence.Seal(head, q.record, s.config.Signer)
	if err == nil && len(sealed.Bytes()) > maxRecord {
		err = fmt.Errorf("a record of %d bytes; want at most %d", len(sealed.Bytes()), maxRecord)
	}
	return sealed, err
}

// append makes records durable. A part that a full disk took is cut off again: all
// before it was synced, and nothing behind it was acknowledged. After any other
// failure the state of the disk is unknown, so that nothing is written any more
// until the spool is opened anew.
func (s *Spool) append(payloads [][]byte) error {
	if s.fault != nil || len(payloads) == 0 {
		return s.fault
	}
	var data []byte
	for i, p := range payloads {
		data = appendFrame(data, s.batch, i == len(payloads)-1, p)
	}
	if waiting := s.waiting() + int64(len(data)); waiting > s.config.Limit {
		return fmt.Errorf("%d bytes would wait for the server; want at most %d: is the server reached?", waiting, s.config.Limit)
	}
	file, err := s.current()
	if err != nil {
		return fmt.Errorf("the spool cannot be written: %w", err) // and has nothing of it
	}
	if _, err = file.Write(data); err != nil && s.cutBack(file) == nil {
		return fmt.Errorf("the spool cannot be written: %w", err)
	}
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		s.fault = fmt.Errorf("the spool cannot be written and has to be opened anew: %w", err)
		return s.fault
	}
	last, err := evidence.ParseSealed(payloads[len(payloads)-1])
	if err != nil {
		s.fault = err
		return err
	}
	s.took(len(payloads), len(data), last.Head())
	s.mark(file)
	s.batch++
	return nil
}

// took notes the records on the disk.
func (s *Spool) took(records, size int, head evidence.Head) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := &s.segments[len(s.segments)-1]
	g.count, g.size = g.count+int64(records), g.size+int64(size)
	s.head = head
	close(s.appended)
	s.appended = make(chan struct{})
}

// mark says that the last batch is on the disk. It is whether or not there is room to
// say so; an incomplete mark is cut off.
func (s *Spool) mark(file *os.File) {
	data := appendMark(nil, mark{s.batch, uint64(s.head.Sequence)})
	if _, err := file.Write(data); err != nil {
		if err := s.cutBack(file); err != nil {
			s.fault = fmt.Errorf("the spool cannot be written and has to be opened anew: %w", err)
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.segments[len(s.segments)-1].size += int64(len(data))
}

// cutBack cuts a file back to its synced length.
func (s *Spool) cutBack(file *os.File) error {
	s.mu.Lock()
	size := s.segments[len(s.segments)-1].size
	s.mu.Unlock()
	return errors.Join(file.Truncate(size), file.Sync())
}

// current is the file that is written to: a new one where the last is full.
func (s *Spool) current() (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.segments)
	if s.file != nil && s.segments[n-1].size < s.config.Segment {
		return s.file, nil
	}
	if s.file == nil && n > 0 && s.segments[n-1].size < s.config.Segment {
		var err error
		s.file, err = os.OpenFile(s.segments[n-1].path, os.O_WRONLY|os.O_APPEND, 0o600)
		return s.file, err
	}
	path := filepath.Join(s.config.Dir, s.nextSegment())
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syncDir(s.config.Dir); err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(path))
	}
	if s.file != nil {
		old := s.file
		s.file = nil
		if err := old.Close(); err != nil {
			return nil, errors.Join(err, file.Close(), os.Remove(path))
		}
	}
	s.file = file
	s.segments = append(s.segments, segment{first: s.head.Sequence, path: path})
	return file, nil
}

// nextSegment is the name of the file that begins with the next record.
func (s *Spool) nextSegment() string { return fmt.Sprintf("%020d%s", s.head.Sequence, suffix) }

// waiting is how many bytes the segments hold that the server does not have all
// of.
func (s *Spool) waiting() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n int64
	for _, g := range s.segments {
		if g.first+g.count > s.shipped {
			n += g.size
		}
	}
	for _, size := range s.bodies {
		n += size
	}
	return n
}
