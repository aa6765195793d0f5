package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/store/sqlite"
)

const (
	producers = 64
	agents    = 200
	recorder  = "serve"
	logOrigin = "example.org/log"
)

// ledger is the evidence of one run: keys, and what a stranger pins.
type ledger struct {
	signer     evidence.Signer
	checkpoint note.Signer
	key        evidence.Key
	trust      evidence.Trust
}

func newLedger() (*ledger, error) {
	_, recordKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	_, logKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	l := &ledger{}
	if l.signer, err = evidence.NewEd25519Signer(recordKey); err != nil {
		return nil, err
	}
	if l.key, err = evidence.NewKey(recordKey.Public(), recorder); err != nil {
		return nil, err
	}
	var verifier string
	if l.checkpoint, verifier, err = evidence.NewLogSigner(logOrigin, logKey); err != nil {
		return nil, err
	}
	l.trust = evidence.Trust{CheckpointKeys: []string{verifier}, RecordKeys: []evidence.PinnedKey{{Key: l.key, Agents: []string{"*"}}}}
	return l, nil
}

// decisionRecord is a record of the usual size, about 1 KiB sealed.
func decisionRecord(n int64, at time.Time) evidence.Record {
	return evidence.Record{
		ID: fmt.Sprintf("rec_%016x", n), AgentID: fmt.Sprintf("trade-executor-agent-%04d", n%agents), TaskID: fmt.Sprintf("task-%08d", n),
		ActionType: "trade.execute", Decision: evidence.Allow, OutcomeStatus: evidence.Pending, Time: at,
		Intent: evidence.Intent{
			Operation: "trade.execute", Purpose: "rebalance quarterly portfolio",
			Details: []byte(`{"order_type":"market","quantity":100,"side":"buy","symbol":"AAPL"}`),
		},
		Details: evidence.Details{
			Recorder: recorder, Requester: "planner", Principal: "user:1", Attempt: "invocation",
			Capability: "cap_7f3a9b", Granted: []string{"trade.execute", "trade.read"}, Exercised: []string{"trade.execute"}, Mode: "require",
		},
	}
}

// appender makes records durable.
type appender interface {
	Append(record evidence.Record) error
	Close() error
}

// storeTrial has 64 producers append to a new store, each waiting for its
// record to be durable. It finds records a second, CPU a record and latency. It
// runs so long that both stores must move their write-ahead log into the
// database meanwhile. A short trial would not include that cost.
func storeTrial(name, dir string, open func(dir string) (appender, error)) trial {
	return trial{name, func(into round, cell time.Duration) (err error) {
		folder, err := os.MkdirTemp(dir, "bench")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
		a, err := open(folder)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, a.Close()) }()
		cpu, err := processCPU()
		if err != nil {
			return err
		}
		start := time.Now()
		latencies, err := appendFor(a, 40*cell)
		if err != nil {
			return err
		}
		// Anything that was acknowledged ahead of the tree is in it before the clock stops.
		if s, ok := a.(interface{ settle() error }); ok {
			if err := s.settle(); err != nil {
				return err
			}
		}
		elapsed := time.Since(start)
		end, err := processCPU()
		n := float64(len(latencies))
		into[name] = float64(end-cpu) / n
		into[name+" per second"] = n / elapsed.Seconds()
		into[name+" p50 ms"] = quantile(latencies, 0.5)
		into[name+" p99 ms"] = quantile(latencies, 0.99)
		return err
	}}
}

// appendFor returns the latencies in milliseconds.
func appendFor(a appender, d time.Duration) ([]float64, error) {
	var (
		wg     sync.WaitGroup
		next   atomic.Int64
		mu     sync.Mutex
		all    []float64
		failed error
	)
	start := time.Now()
	for range producers {
		wg.Go(func() {
			var mine []float64
			var err error
			for err == nil && (len(mine) == 0 || time.Since(start) < d) { // at least one, however late it begins
				began := time.Now()
				err = a.Append(decisionRecord(next.Add(1), began))
				mine = append(mine, time.Since(began).Seconds()*1e3)
			}
			mu.Lock()
			defer mu.Unlock()
			all, failed = append(all, mine...), errors.Join(failed, err)
		})
	}
	wg.Wait()
	return all, failed
}

// ourStore is the store of the product: chain, tree and checkpoint.
type ourStore struct{ *sqlite.Store }

func (l *ledger) open(dir string) (appender, error) {
	s, err := sqlite.Open(context.Background(), sqlite.Config{
		Path: filepath.Join(dir, "powerbox.db"), Spool: true, Signer: l.signer, Origin: logOrigin, Checkpoint: l.checkpoint, Random: rand.Reader,
	})
	return ourStore{s}, err
}

// settle returns when the tree and a signed checkpoint cover all that was
// acknowledged.
func (s ourStore) settle() error {
	_, err := s.LatestCheckpoint(context.Background())
	return err
}

// Append implements appender.
func (s ourStore) Append(record evidence.Record) error {
	return s.Update(context.Background(), func(tx issuer.Tx) error {
		_, err := tx.Append(record)
		return err
	})
}

// bundle returns n records as a bundle.
func (l *ledger) bundle(dir string, n int64, now time.Time) (b []byte, err error) {
	folder, err := os.MkdirTemp(dir, "bench")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	a, err := l.open(folder)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	store := a.(ourStore)
	err = store.Update(context.Background(), func(tx issuer.Tx) error {
		for i := range n {
			if _, err := tx.Append(decisionRecord(i, now)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = store.Export(context.Background(), &out, []evidence.Key{l.key})
	return out.Bytes(), err
}

// verifyTrial verifies a bundle of n records offline. Its number is for one
// record.
func (l *ledger) verifyTrial(name string, bundle []byte, n int) trial {
	return trial{name, func(into round, cell time.Duration) error {
		ns, err := repeat(func() error {
			report, err := evidence.Verify(bytes.NewReader(bundle), l.trust)
			if err == nil && (report.Verdict() != evidence.OK || report.Records != n) {
				err = fmt.Errorf("the bundle of %d records is %s with %d", n, report.Verdict(), report.Records)
			}
			return err
		}).cpu(cell)
		into[name] = ns / float64(n)
		return err
	}}
}

// fsyncTrial is the floor of everything durable: 4 KiB written and on the disk.
func fsyncTrial(name, dir string) trial {
	return trial{name, func(into round, cell time.Duration) (err error) {
		f, err := os.CreateTemp(dir, "bench")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
		block, latencies := make([]byte, 4096), []float64{}
		for start := time.Now(); time.Since(start) < cell; {
			began := time.Now()
			if _, err := f.Write(block); err != nil {
				return err
			}
			if err := f.Sync(); err != nil {
				return err
			}
			latencies = append(latencies, time.Since(began).Seconds()*1e3)
		}
		into[name+" p50 ms"] = quantile(latencies, 0.5)
		into[name+" p99 ms"] = quantile(latencies, 0.99)
		return nil
	}}
}
