package e2e

import (
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/token"
)

// TestATK24_NothingGoesOnThatEndedMeanwhile has the record of a decision wait for the
// database, as in a failover, until the capability has ended: the call does not continue.
func TestATK24_NothingGoesOnThatEndedMeanwhile(t *testing.T) {
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
