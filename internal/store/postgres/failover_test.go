package postgres

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/store/pgtest"
)

// cluster starts a server that ends with the test.
func cluster(t *testing.T, c *pgtest.Cluster, err error) *pgtest.Cluster {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func strict(c *Config) { c.Strict, c.Patience = true, 60*time.Second }

// Strict refuses a database that acknowledges what one machine has alone: at the
// start, when it is asked, and at the commit after an operator has changed its mind.
func TestEXT27_StrictRefusesAsynchronousReplication(t *testing.T) {
	j := newJoint(t)
	for name, c := range map[string]struct{ setting, want string }{
		"no standby":      {"", "synchronous_standby_names"},
		"not waited for":  {"synchronous_commit=off", "synchronous_commit"},
		"written locally": {"synchronous_commit=local", "synchronous_commit"},
		"not flushed":     {"synchronous_commit=remote_write", "synchronous_commit"},
	} {
		config := configOf(j.url, j.keys)
		config.Strict = true
		if c.setting != "" {
			config.URL += "&" + c.setting
		}
		if s, err := Open(t.Context(), config); !errors.Is(err, ErrNotDurable) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				_ = s.Close()
			}
		}
	}
}

// A node of a strict store continues only for as long as its database waits for a
// standby; a commit whose wait is cancelled is never acknowledged. When the standby
// is back everything continues.
func TestEXT27_WhatTheStandbyLacksIsNotAcknowledged(t *testing.T) {
	primary, err := pgtest.New("fsync=on")
	primary = cluster(t, primary, err)
	standby, err := primary.Standby("b1", "fsync=on")
	standby = cluster(t, standby, err)
	ctx := t.Context()
	settle := func(names string) {
		t.Helper()
		if err := primary.Exec(ctx, "postgres", "ALTER SYSTEM SET synchronous_standby_names = '"+names+"'", "SELECT pg_reload_conf()"); err != nil {
			t.Fatal(err)
		}
	}
	settle("FIRST 1 (b1)")
	j := newJoint(t)
	if j.url, err = primary.Database(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := Migrate(ctx, j.url); err != nil {
		t.Fatal(err)
	}
	var s *Store
	eventually(t, "the setting to be read", func() bool {
		s, err = Open(ctx, withPatience(configOf(j.url, j.keys), 3*time.Second))
		return err == nil
	})
	t.Cleanup(func() { _ = s.Close() })
	ids := map[string]bool{"rec_1": true}
	// A try whose answer does not come may have been written: the next is another record.
	tries := 0
	goesOn := func() bool {
		tries++
		id := fmt.Sprint("rec_again_", tries)
		if appendTo(ctx, s, record(id, "documents")) != nil {
			return false
		}
		ids[id] = true
		return true
	}
	if err := appendTo(ctx, s, record("rec_1", "documents")); err != nil {
		t.Fatal(err)
	}
	// A standby may be behind: it does not say where the log ends.
	name := j.url[strings.Index(j.url, "@/")+2 : strings.Index(j.url, "?")]
	pool, err := pgxpool.New(ctx, standby.URL(name))
	if err != nil {
		t.Fatal(err)
	}
	if v, err := (&Store{pool: pool}).Versions(ctx); err == nil {
		t.Errorf("a standby says %+v", v)
	}
	pool.Close()
	standby.Stop()
	// A caller that gives up does not end the wait: no reader sees a commit that only one machine has.
	givenUp, ok := errors.AsType[*evidence.LateError](appendTo(ctx, s, record("rec_given_up", "documents")))
	if !ok {
		t.Fatal("a commit that waits for the standby is not late")
	}
	for range 20 {
		<-time.After(100 * time.Millisecond)
		var size, waiting int64
		err := s.pool.QueryRow(ctx, "SELECT (SELECT size FROM log), (SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep')").Scan(&size, &waiting)
		if err != nil || size != 1 || waiting != 1 {
			t.Fatalf("%d records can be seen and %d commits wait; want 1 of each (%v)", size, waiting, err)
		}
	}
	select {
	case err := <-givenUp.Result:
		t.Fatalf("what became of a commit that waits for the standby is said to be known: %v", err)
	default:
	}
	done := make(chan error, 1)
	go func() { done <- appendTo(ctx, s, record("rec_2", "documents")) }()
	// An operator loses patience and cancels what waits for the standby.
	for answered := false; !answered; {
		select {
		case err := <-done:
			// It is late, or its turn never came.
			if answered = true; !errors.Is(err, evidence.ErrUnavailable) {
				t.Errorf("a commit that one machine has was answered with %v", err)
			}
		case <-time.After(50 * time.Millisecond):
			if err := primary.Exec(ctx, "postgres", "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := standby.Start("fsync=on"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the standby to be followed again", goesOn)
	if err := <-givenUp.Result; err != nil {
		t.Errorf("the commit that waited for the standby: %v", err)
	}
	ids["rec_given_up"] = true
	j.wantLog(t, s, 1, ids)
	settle("")
	eventually(t, "the database to be asynchronous", func() bool { return errors.Is(s.Durable(ctx), ErrNotDurable) })
	if err := appendTo(ctx, s, record("rec_4", "documents")); !errors.Is(err, ErrNotDurable) || !errors.Is(err, evidence.ErrNotWritten) {
		t.Errorf("an asynchronous commit was answered with %v", err)
	}
	settle("FIRST 1 (b1)")
	eventually(t, "the database to be synchronous again", func() bool { return s.Durable(ctx) == nil })
	eventually(t, "a commit", goesOn)
	j.wantLog(t, s, 1, ids)
}

func withPatience(c Config, d time.Duration) Config {
	c.Strict, c.Patience = true, d
	return c
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 600 {
		if is() {
			return
		}
		<-time.After(50 * time.Millisecond)
	}
	t.Fatalf("waited for %s in vain", what)
}

// The primary is killed while two nodes write, and its standby takes over with another one
// behind it: anything that was acknowledged is there, the log verifies, and the nodes
// continue without a restart.
func TestEXT27_AFailoverLosesNothingAcknowledged(t *testing.T) {
	primary, err := pgtest.New("fsync=on")
	primary = cluster(t, primary, err)
	ctx := t.Context()
	standby, err := primary.Standby("b1", "fsync=on", "synchronous_standby_names=FIRST 1 (c1)")
	standby = cluster(t, standby, err)
	if err := primary.Exec(ctx, "postgres", "CREATE DATABASE joint", "ALTER SYSTEM SET synchronous_standby_names = 'FIRST 1 (b1)'", "SELECT pg_reload_conf()"); err != nil {
		t.Fatal(err)
	}
	j := newJoint(t)
	j.url = primary.Both(standby, "joint")
	if _, err := Migrate(ctx, j.url); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the setting to be read", func() bool {
		s, err := Open(ctx, withPatience(configOf(j.url, j.keys), time.Second))
		if err == nil {
			_ = s.Close()
		}
		return err == nil
	})
	nodes := []*Store{j.node(t, strict), j.node(t, strict)}
	var mu sync.Mutex
	acknowledged, failed := map[string]bool{}, 0
	stop := make(chan struct{})
	var all sync.WaitGroup
	for n, s := range nodes {
		for p := range 8 {
			all.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					id := fmt.Sprintf("rec_%d_%d_%d", n, p, i)
					err := s.Update(ctx, func(tx issuer.Tx) error {
						_, err := tx.Append(record(id, fmt.Sprint("agent-", p%3)))
						return err
					})
					mu.Lock()
					if err == nil {
						acknowledged[id] = true
					} else {
						failed++
						t.Log(err)
					}
					mu.Unlock()
				}
			})
		}
	}
	have := func(n int) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(acknowledged) >= n
		}
	}
	eventually(t, "records", have(200))
	primary.Kill()
	if err := standby.Promote(ctx); err != nil {
		t.Fatal(err)
	}
	next, err := standby.Standby("c1", "fsync=on")
	cluster(t, next, err)
	mu.Lock()
	before := len(acknowledged)
	mu.Unlock()
	eventually(t, "records after the failover", have(before+200))
	close(stop)
	all.Wait()
	for _, s := range nodes {
		j.wantLog(t, s, 3, acknowledged)
	}
	n, err := nodes[0].Records(ctx)
	t.Logf("%d acknowledged, %d of them before the failover, %d records, %d changes failed: %v", len(acknowledged), before, n, failed, err)
}
