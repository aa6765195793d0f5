package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// with starts a town again with further lines of configuration.
func (w *town) with(lines string) {
	w.t.Helper()
	w.again(func() {
		name := filepath.Join(w.dir, "powerbox.yaml")
		data, err := os.ReadFile(name)
		if err != nil {
			w.t.Fatal(err)
		}
		text := strings.Replace(string(data), "limits: {denials: 0}\n", "", 1)
		w.write("powerbox.yaml", text+"\n"+lines)
	})
}

// fourPlaces are limits under which a test can fill the queue.
const fourPlaces = "limits: {deciding: 4, queue_time: 50ms, dependency_time: 30s, denials: 0}\n"

// Executions of Agent Auth wait in the queue of all calls. What would wait for longer than
// its time is turned away, did nothing, and leaves no record.
func TestATK81_ExecutionsThatWouldWaitAreTurnedAway(t *testing.T) {
	aboutTheFile(t)
	const places, calls = 4, 12
	b := newBank(t, bankOptions{})
	b.with(fourPlaces)
	d := b.onDisk()
	m := b.active("alice", "transfer_money")
	b.want("one", m.execute("transfer_money", map[string]any{"amount": 1}), http.StatusOK, "")
	before := len(b.records("agent=bank&limit=1000"))
	d.hold()
	defer d.release()
	all := make(chan reply, calls)
	for range calls {
		token := m.token(b.url + "/capability/execute")
		go func() {
			all <- b.ask(http.MethodPost, "/capability/execute", token, map[string]any{"capability": "transfer_money", "arguments": map[string]any{"amount": 1}})
		}()
	}
	refused := func(r reply) {
		t.Helper()
		if b.want("a call that waits for too long", r, http.StatusServiceUnavailable, "unavailable"); r.Header.Get("Retry-After") == "" || r.Header.Get("Powerbox-Decision") != "" {
			t.Errorf("ATK-81 %v %s", r.Header, r.Raw)
		}
	}
	for range calls - places {
		refused(<-all)
	}
	batch := m.token(b.url + "/capability/batch-execute")
	refused(b.ask(http.MethodPost, "/capability/batch-execute", batch, map[string]any{"requests": []any{map[string]any{"capability": "transfer_money"}}}))
	d.release()
	for range places {
		b.want("a call with a place", <-all, http.StatusOK, "")
	}
	if n := b.did("transfer_money"); n != places+1 {
		t.Errorf("ATK-81 %d calls reached the service; want %d", n, places+1)
	}
	if n := len(b.records("agent=bank&limit=1000")) - before; n != 2*places {
		t.Errorf("ATK-81 %d records of decisions and outcomes; want %d", n, 2*places)
	}
}

// A service that does not answer takes no place of other executions.
func TestATK81_ASlowServiceTakesNoPlace(t *testing.T) {
	b := newBank(t, bankOptions{})
	b.with(fourPlaces)
	m := b.active("alice", "transfer_money", "check_balance")
	release, arrived := make(chan struct{}), make(chan struct{}, 8)
	b.mu.Lock()
	b.works = func() {
		arrived <- struct{}{}
		<-release
	}
	b.mu.Unlock()
	all := make(chan reply, 4)
	for range 4 {
		token := m.token(b.url + "/capability/execute")
		go func() {
			all <- b.ask(http.MethodPost, "/capability/execute", token, map[string]any{"capability": "transfer_money", "arguments": map[string]any{"amount": 1}})
		}()
	}
	for range 4 {
		<-arrived
	}
	if r := m.execute("transfer_money", map[string]any{"amount": 1_000_000}); r.Status != http.StatusForbidden {
		t.Errorf("ATK-81 while the service holds four calls: %d %s", r.Status, r.Raw)
	}
	close(release)
	for range 4 {
		b.want("a call that the service held", <-all, http.StatusOK, "")
	}
}

// Questions of guards wait in the same queue. Outcomes do not: they are always accepted.
func TestATK81_QuestionsThatWouldWaitAreTurnedAway(t *testing.T) {
	aboutTheFile(t)
	const places, calls = 4, 12
	w := guardTown(t, "scoped")
	w.with(fourPlaces)
	d := w.onDisk()
	const question = `{"subject":{"type":"user","id":"alice"},"action":{"name":"read"},"resource":{"type":"record","id":"record-1"}}`
	if s := w.asks("evaluation", guardToken, question); s.Decision == nil || !*s.Decision {
		t.Fatalf("ATK-81 %d %s", s.status, s.raw)
	}
	d.hold()
	defer d.release()
	all := make(chan opinion, calls)
	for range calls {
		go func() { all <- w.asks("evaluation", guardToken, question) }()
	}
	for range calls - places {
		if s := <-all; s.status != http.StatusServiceUnavailable || s.header.Get("Retry-After") == "" || s.Decision != nil {
			t.Errorf("ATK-81 a question that waits for too long: %d %v %s", s.status, s.header, s.raw)
		}
	}
	d.release()
	for range places {
		if s := <-all; s.Decision == nil || !*s.Decision {
			t.Errorf("ATK-81 a question with a place: %d %s", s.status, s.raw)
		}
	}
}
