package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestATK151_MarkupStopsNoRecord calls a remote gateway with characters that some writers of
// JSON escape. The server has these records, and those behind them.
func TestATK151_MarkupStopsNoRecord(t *testing.T) {
	w, all := startRemote(t, 1, options{})
	alice := w.caller(aliceToken)
	held := alice.reports()
	for name, purpose := range map[string]string{"markup": "R&D <b>", "separators": "a\u2028b\u2029c"} {
		body := data("search_documents", map[string]any{})
		h := alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch})
		h.Set("Powerbox-Purpose", purpose)
		a := w.post(w.agentURL("documents"), body, h)
		allowed(t, a)
		stranger := w.post(w.agentURL("documents"), data(purpose, map[string]any{purpose: 1}), nil)
		behind := alice.looksUp(held)
		allowed(t, behind)
		for what, id := range map[string]string{"the call": a.Header.Get("Powerbox-Decision"), "the next": behind.Header.Get("Powerbox-Decision")} {
			eventually(t, atOnce, func() string {
				return fmt.Sprintf("ATK-151 %s: %s has no outcome at the server (a stranger had %s)\n%s", name, what, stranger.reason(), all[0].log)
			}, func() bool { return w.onRecord(id, "") })
		}
	}
}

// memory is how much memory a process has resident, in bytes.
func memory(t *testing.T, p *exec.Cmd) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// inState is an event of a stream that says of a task in which state it is.
func inState(task, state string) string {
	return fmt.Sprintf(`data: {"jsonrpc":"2.0","id":1,"result":{"statusUpdate":{"taskId":%q,"contextId":"c","status":{"state":%q}}}}`+"\n\n", task, state)
}

// streamed has an agent stream what next returns, and returns how many bytes the caller got
// until the stream ended, and the last of them.
func (c *caller) streamed(agent *rawAgent, held granted, next func(n int) string) (n int64, last string) {
	c.w.t.Helper()
	agent.call = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for n := 0; r.Context().Err() == nil; n++ {
			event := next(n)
			if _, err := io.WriteString(w, event); err != nil || event == "" {
				return
			}
		}
	}
	body := streaming()
	r, err := http.NewRequestWithContext(c.w.t.Context(), http.MethodPost, c.w.agentURL("documents"), bytes.NewReader(body))
	if err != nil {
		c.w.t.Fatal(err)
	}
	r.Header = c.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch})
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("A2A-Version", "1.0")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		c.w.t.Fatal(err)
	}
	defer response.Body.Close()
	end := make([]byte, 0, 64<<10)
	piece := make([]byte, 32<<10)
	for err == nil {
		var k int
		k, err = response.Body.Read(piece)
		n += int64(k)
		end = append(end, piece[:k]...)
		end = end[max(0, len(end)-4096):]
	}
	return n, string(end)
}

// TestATK152_AStreamThatNeverEnds has an agent say over and over that its task has ended, and
// name new tasks without end. The gateway keeps neither.
func TestATK152_AStreamThatNeverEnds(t *testing.T) {
	for _, gateways := range []int{0, 1} {
		t.Run(fmt.Sprintf("%d remote gateways", gateways), func(t *testing.T) {
			agent := newRawAgent(t)
			var w *town
			var p *exec.Cmd
			if gateways == 0 {
				w = start(t, options{upstream: agent.url})
				p = w.process
			} else {
				var all []*replica
				w, all = startRemote(t, 1, options{upstream: agent.url}, "--upstream", agent.url)
				p = all[0].process
			}
			alice := w.caller(aliceToken)
			held := alice.reports()
			const events = 128 << 10
			name := strings.Repeat("t", 1000)
			before := memory(t, p)
			n, _ := alice.streamed(agent, held, func(n int) string {
				if n == events {
					return ""
				}
				return inState(name, "TASK_STATE_COMPLETED")
			})
			if n < events*int64(len(name)) {
				t.Errorf("ATK-152 the caller got %d bytes", n)
			}
			if more := memory(t, p) - before; more > 128<<20 {
				t.Errorf("ATK-152 after %d MiB the process has %d MiB more", n>>20, more>>20)
			}
			n, last := alice.streamed(agent, held, func(n int) string { return inState(fmt.Sprintf("task-%d-%s", n, name[:64]), "TASK_STATE_WORKING") })
			if n > 1<<20 || !strings.Contains(last, "authorization_unavailable") {
				t.Errorf("ATK-152 a stream of new tasks ends after %d bytes with %s", n, last[max(0, len(last)-600):])
			}
		})
	}
}

// TestATK153_ALargeAnswerToAHeldCall has an agent answer an approved call at a remote gateway
// with characters that take more room where they are escaped.
func TestATK153_ALargeAnswerToAHeldCall(t *testing.T) {
	w, all, alice, held := searchingApart(t, 1, options{})
	w.documents.answers(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(rw, `{"jsonrpc":"2.0","id":1,"result":{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":%q}]}}}`, strings.Repeat("<", 4<<20))
	})
	first, _ := alice.asksToSearch(held, "figures")
	task := heldIn(t, first)
	w.answers("alice", task.asked(), map[string]any{})
	if done := w.polled(alice, held, "documents", task.ID); done.State != "COMPLETED" || !bytes.Contains(done.Answer, []byte(strings.Repeat("<", 4<<20))) && !bytes.Contains(done.Answer, []byte(`\u003c\u003c`)) {
		t.Errorf("ATK-153 the task is %s, with %d bytes: %s\n%s", done.State, len(done.Answer), done.Text, all[0].log)
	}
}

// copied copies the state of a gateway.
func (r *replica) copied() string {
	r.w.t.Helper()
	to := filepath.Join(r.w.t.TempDir(), "state")
	if out, err := exec.CommandContext(r.w.t.Context(), "cp", "-a", r.state, to).CombinedOutput(); err != nil {
		r.w.t.Fatalf("%v %s", err, out)
	}
	return to
}

func (r *replica) stopped() {
	r.w.t.Helper()
	if err := r.process.Process.Signal(syscall.SIGTERM); err != nil {
		r.w.t.Fatal(err)
	}
	eventually(r.w.t, patience, func() string { return "the gateway does not end" }, func() bool { return syscall.Kill(r.process.Process.Pid, 0) != nil })
}

// TestATK154_AStateThatDoesNotContinue starts a gateway with an older copy of its state, with
// the spool of another gateway, and twice with one state. The server takes none of its
// records, so that it serves no call.
func TestATK154_AStateThatDoesNotContinue(t *testing.T) {
	w, all := startRemote(t, 2, options{})
	alice := w.caller(aliceToken)
	held := alice.reports()
	one, other := all[0], all[1]
	refused := func(name, state string) {
		t.Helper()
		said := notStarted(t, "gateway", "--state", state, "--listen", one.address, "--dev")
		if !strings.Contains(said, "do not continue") && !strings.Contains(said, "and this is the spool of") {
			t.Errorf("ATK-154 %s: %s", name, said)
		}
	}
	calls := func(n int) {
		for range n {
			allowed(t, alice.looksUp(held))
		}
	}
	calls(2)
	one.stopped()
	older := one.copied()
	one.boot()
	calls(4)
	// A second process with a copy: it has the same chain, and both write.
	second := &replica{w: w, state: older, address: "127.0.0.1:" + freePort(t)}
	one.stopped()
	newest := one.copied()
	one.boot()
	refused("an older copy", older)
	second.state = newest
	second.boot()
	calls(4)
	eventually(t, atOnce, func() string { return "ATK-154 a second gateway of one state goes on\n" + second.log.String() }, func() bool {
		body := data("search_documents", map[string]any{})
		a := w.post("http://"+second.address+"/agents/documents", body, alice.proof("documents", body, proven{chain: []string{held.Token}, operation: opSearch}))
		return a.reason() == "revocations_stale"
	})
	if r, err := http.Get("http://" + second.address + "/readyz"); err != nil {
		t.Error(err)
	} else {
		said, _ := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if r.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(said), "do not continue") {
			t.Errorf("ATK-154 it says of itself: %s %s", r.Status, said)
		}
	}
	second.stopped()
	calls(2)
	// The spool of the other gateway.
	one.stopped()
	other.stopped()
	mixed := one.copied()
	if err := os.RemoveAll(filepath.Join(mixed, "spool")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(other.copied(), "spool"), filepath.Join(mixed, "spool")); err != nil {
		t.Fatal(err)
	}
	refused("the spool of another gateway", mixed)
	one.boot()
	other.boot()
	last := ""
	eventually(t, atOnce, func() string { return "ATK-154 calls do not go on: " + last }, func() bool { last = alice.looksUp(held).reason(); return last == "" })
}
