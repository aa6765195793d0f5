package e2e

import (
	"net/http"
	"sync"
	"testing"
)

// TestAAPE4_JobsAreOverOnce has a job polled by its agent several times at once, at one
// node and at two that share a database, while the service holds its answers back until
// all have asked: each is told the result, and the outcome is on record once (EXT-25).
func TestAAPE4_JobsAreOverOnce(t *testing.T) {
	t.Run("one node", func(t *testing.T) {
		b := newBank(t, bankOptions{})
		b.overOnce(t, b.url, b.url, b.url)
	})
	t.Run("two nodes", func(t *testing.T) {
		b := newBank(t, bankOptions{database: databases.Database(t)})
		n := b.split(2)
		b.overOnce(t, n.each[0].url, n.each[1].url, n.each[0].url, n.each[1].url)
	})
}

// overOnce polls a job at nodes at once.
func (b *bank) overOnce(t *testing.T, nodes ...string) {
	t.Helper()
	m := b.active("alice", "slow_job")
	r := b.want("execute", m.execute("slow_job", nil), http.StatusAccepted, "")
	path := r.text("status_url")[len(b.url):]
	all := make(chan struct{})
	var mu sync.Mutex
	left := len(nodes)
	b.mu.Lock()
	b.polls = 1 // it is done when it is asked about next
	b.asked = func() {
		mu.Lock()
		if left--; left == 0 {
			close(all)
		}
		mu.Unlock()
		<-all
	}
	b.mu.Unlock()
	answers := make([]reply, len(nodes))
	var wg sync.WaitGroup
	for i, node := range nodes {
		token := m.token(b.url + "/capability/execute")
		wg.Go(func() { answers[i] = b.ask(http.MethodGet, node+path, token, nil) })
	}
	wg.Wait()
	for _, a := range answers {
		if a.Status != http.StatusOK || a.text("status") != "completed" {
			t.Errorf("AAP-E4: %d %s", a.Status, a.Raw)
		}
	}
	if out := b.records("outcome_of=" + r.Header.Get("Powerbox-Decision")); len(out) != 1 || out[0].Status != "ACHIEVED" {
		t.Errorf("EXT-25: the outcome is on record %d times: %+v", len(out), out)
	}
}
