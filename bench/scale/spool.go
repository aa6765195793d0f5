package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/store/spool"
)

// record is one as a gateway writes for a call.
func record(gateway, n int, at time.Time) evidence.Record {
	return evidence.Record{
		ID: fmt.Sprintf("rec_%06d%020d", gateway, n), AgentID: "documents", TaskID: fmt.Sprintf("0197a5f2-0000-7000-8000-%012d", n),
		ActionType: "a2a.SendMessage", Decision: evidence.Allow, OutcomeStatus: evidence.Pending, Time: at,
		Intent: evidence.Intent{Operation: "documents/documents:read/retrieve", Purpose: "Summarize quarterly reports"},
		Details: evidence.Details{
			Recorder: fmt.Sprintf("gw_%026d", gateway), Requester: "summarizer", Principal: "pw_3b5d52a6bd5f1b4c9a3e8d4f", Attempt: "invocation",
			Capability: "cap_01m828m29sf4nfrxzf0jzjkzbx", Granted: []string{"documents/documents:read/retrieve", "documents/documents:read/search", "a2a.message", "a2a.task.read", "a2a.task.cancel"},
			Exercised: []string{"documents/documents:read/retrieve"}, Mode: "require/capability", RevocationSequence: 4711,
			Gate: &evidence.Gate{Origin: "summarizer", Target: "documents", Required: []string{"documents/documents:read/retrieve"}, Allowed: []string{"documents/documents:read/retrieve"}},
		},
	}
}

// shop takes what gateways ship and holds each to its order.
type shop struct {
	mu    sync.Mutex
	next  map[string]int64
	taken int64
	bytes int64
}

func (s *shop) send(name string) spool.Send {
	return func(_ context.Context, records [][]byte) (int64, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, raw := range records {
			var r struct {
				Powerbox struct {
					Sequence int64 `json:"sequence"`
				} `json:"powerbox"`
			}
			if err := json.Unmarshal(raw, &r); err != nil {
				return 0, err
			}
			if r.Powerbox.Sequence != s.next[name] {
				return 0, fmt.Errorf("%s ships record %d; want %d", name, r.Powerbox.Sequence, s.next[name])
			}
			s.next[name]++
			s.taken, s.bytes = s.taken+1, s.bytes+int64(len(raw))
		}
		return s.next[name], nil
	}
}

// atOnce is how many gateways write at a time: what the disk has to bear here is
// not what a thousand disks have to.
const atOnce = 32

// spools has every gateway write its records and ship them.
func (s simulation) spools(ctx context.Context, m *measured) (err error) {
	dir := s.dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "powerbox-scale"); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
	}
	all := make([]*spool.Spool, s.gateways)
	defer func() {
		for _, one := range all {
			if one != nil {
				_ = one.Close()
			}
		}
	}()
	for n := range all {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return err
		}
		signer, err := evidence.NewEd25519Signer(key)
		if err != nil {
			return err
		}
		if all[n], err = spool.Open(spool.Config{
			Dir: filepath.Join(dir, fmt.Sprint(n)), Agent: "documents", Recorder: fmt.Sprintf("gw_%026d", n), Signer: signer, Random: rand.Reader,
		}); err != nil {
			return err
		}
	}
	total := float64(s.gateways * s.records)
	before, began := spent(), time.Now()
	if err := s.each(all, func(n int, one *spool.Spool) error {
		for i := range s.records {
			if _, err := one.Record(ctx, record(n, i, time.Now())); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	m.appendCPU = float64((spent() - before).Microseconds()) / total
	wall := time.Since(began)
	m.recordBytes = sizeOf(dir) / total
	receiver := &shop{next: map[string]int64{}}
	before = spent()
	if err := s.each(all, func(n int, one *spool.Spool) error { return ship(ctx, one, receiver.send(fmt.Sprint(n))) }); err != nil {
		return err
	}
	m.shipCPU = float64((spent() - before).Microseconds()) / total
	if receiver.taken != int64(s.gateways*s.records) {
		return fmt.Errorf("%d records arrived; want %d", receiver.taken, s.gateways*s.records)
	}
	fmt.Fprintf(s.out, "%d spools wrote %d records, one after the other in each and %d at a time, in %.1f s, each on the disk before it was answered; "+
		"all arrived, in order. %.0f B of each were shipped.\n\n", s.gateways, receiver.taken, atOnce, wall.Seconds(), float64(receiver.bytes)/total)
	return nil
}

// each does the same with every spool, so many at a time.
func (s simulation) each(all []*spool.Spool, do func(n int, one *spool.Spool) error) error {
	room := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	failed := make([]error, len(all))
	for n, one := range all {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			failed[n] = do(n, one)
		})
	}
	wg.Wait()
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}

// ship sends everything that waits, as a gateway does.
func ship(ctx context.Context, one *spool.Spool, send spool.Send) error {
	for {
		waiting, err := one.Waiting()
		if err != nil || len(waiting) == 0 {
			return err
		}
		next, err := send(ctx, waiting)
		if err == nil {
			err = one.Shipped(next)
		}
		if err != nil {
			return err
		}
	}
}

func sizeOf(dir string) float64 {
	total := int64(0)
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil {
				total += info.Size()
			}
		}
		return nil
	})
	return float64(total)
}
