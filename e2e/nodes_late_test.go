package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/store/pgtest"
	"github.com/powerbox-project/powerbox/token"
)

// TestATK24_NothingGoesOnThatEndedMeanwhile has the record of a decision wait for the
// database, as in a failover, until the capability has ended: the call does not continue.
func TestATK24_NothingGoesOnThatEndedMeanwhile(t *testing.T) {
	asGiven(t)
	w := start(t, options{database: databases.Database(t)})
	alice := w.caller(aliceToken)
	c := alice.reports()
	allowed(t, alice.searches(c))
	reached := len(w.documents.got())
	free := make(chan error, 1)
	go func() {
		free <- databases.Cluster().Exec(t.Context(), nameOf(w.database), "DO $$ BEGIN PERFORM 1 FROM log FOR UPDATE; PERFORM pg_sleep(4); END $$")
	}()
	const sleeps = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"
	eventually(t, atOnce, func() string { return "the row is not held" }, func() bool {
		return databases.Cluster().Exec(t.Context(), nameOf(w.database), "DO $$ BEGIN IF NOT EXISTS ("+sleeps+") THEN RAISE 'not yet'; END IF; END $$") == nil
	})
	ends := time.Now().Add(2 * time.Second)
	link := alice.derive("documents", []string{c.Token}, token.Narrowing{Holder: alice.key.Public(), Expires: ends})
	body := data("search_documents", nil)
	a := w.post(w.agentURL("documents"), body, alice.proof("documents", body, proven{chain: link, operation: opSearch}))
	if err := <-free; err != nil {
		t.Fatal(err)
	}
	if time.Now().Before(ends) {
		t.Fatal("the record did not wait")
	}
	if a.reason() != "expired" {
		t.Errorf("ATK-24 after it had ended: %q %s", a.reason(), a.Raw)
	}
	if n := len(w.documents.got()) - reached; n > 0 {
		t.Errorf("ATK-24 %d calls reached the agent", n)
	}
}

// TestATK86_ADatabaseThatWaits has the database wait for a standby that is away. A call
// is refused after the deadline. When the wait ends its record is there, followed by an
// outcome that says that the call was not made.
func TestATK86_ADatabaseThatWaits(t *testing.T) {
	asGiven(t)
	cluster, err := pgtest.New("fsync=on")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Close() })
	database, err := cluster.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	waitsFor := func(standby string) {
		t.Helper()
		if err := cluster.Exec(t.Context(), "postgres", "ALTER SYSTEM SET synchronous_standby_names = '"+standby+"'", "SELECT pg_reload_conf()"); err != nil {
			t.Fatal(err)
		}
	}
	w := start(t, options{database: database, extra: aSecond, mode: "prefer"})
	body := invoke("search_documents", nil, "")
	allowed(t, w.bearer(aliceToken, "documents", body)) // no proof that would be written before the record
	waitsFor("FIRST 1 (away)")
	probing, stop := context.WithCancel(t.Context())
	var probes sync.WaitGroup
	probes.Go(func() {
		for n := 0; probing.Err() == nil; n++ {
			_ = cluster.Exec(probing, "postgres", fmt.Sprintf("CREATE TABLE probe%d ()", n))
		}
	})
	eventually(t, stepTime, func() string { return "the database waits for nothing" }, func() bool {
		return cluster.Exec(t.Context(), "postgres", "DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep') THEN RAISE 'not yet'; END IF; END $$") == nil
	})
	stop()
	probes.Wait()
	late := w.bearer(aliceToken, "documents", body)
	refusedLate(t, "a call", late)
	if n := len(w.documents.got()); n != 1 {
		t.Errorf("ATK-86 %d calls reached the agent; want the one that was on record", n)
	}
	waitsFor("")
	w.corrected("a call", late)
	eventually(t, stepTime, func() string { return "ATK-86 calls do not continue" }, func() bool {
		return w.bearer(aliceToken, "documents", body).Error == nil
	})
}
