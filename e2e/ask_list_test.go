package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// listing is a page of tasks with what it says of itself.
type listing struct {
	Tasks []listedTask `json:"tasks"`
	Next  string       `json:"nextPageToken"`
}

type listedTask struct {
	ID      string `json:"id"`
	Context string `json:"contextId"`
	Status  struct {
		State string `json:"state"`
	} `json:"status"`
	Artifacts []any `json:"artifacts"`
}

func (l listing) ids() []string {
	var out []string
	for _, t := range l.Tasks {
		out = append(out, t.ID)
	}
	return out
}

// lists asks for tasks under a capability.
func (c *caller) lists(held granted, params map[string]any) (listing, answer) {
	c.w.t.Helper()
	arguments := map[string]any{}
	if context, ok := params["contextId"]; ok {
		arguments["context"] = context
	}
	a := c.present("documents", rpc("ListTasks", params), proven{chain: []string{held.Token}, operation: "a2a.task.read", arguments: arguments})
	var l listing
	_ = json.Unmarshal(a.Result, &l)
	return l, a
}

// TestGATE3_HeldTasksAreListed lists tasks of which some stand for calls that wait for
// a person, at the server's own gateway and at one apart, on every binding and version
// that has lists: only their owner sees them, once over all pages, and found by state
// and context.
func TestGATE3_HeldTasksAreListed(t *testing.T) {
	everywhere(t, func(t *testing.T, on wire) {
		if on == (wire{"JSON-RPC", "0.3"}) {
			return // in which the agent behind has no such method
		}
		w := start(t, options{on: on, agent: "    enforces: context", search: ", approval: true"})
		heldTasksAreListed(t, w)
	})
	t.Run("apart", func(t *testing.T) {
		w, _ := startRemote(t, 2, options{agent: "    enforces: context", search: ", approval: true"})
		heldTasksAreListed(t, w)
	})
}

func heldTasksAreListed(t *testing.T, w *town) {
	alice, bob := w.caller(aliceToken), w.caller(bobToken)
	held, other := alice.reports(), bob.reports()
	var agents, waits []string
	for n := range 3 {
		task, _ := alice.open(held)
		agents = append(agents, task)
		a, _ := alice.asksToSearch(held, fmt.Sprint("query ", n))
		waits = append(waits, heldIn(t, a).ID)
	}
	bobs, _ := bob.open(other)
	all, a := alice.lists(held, map[string]any{})
	got := all.ids()
	if len(got) != 6 || a.Error != nil {
		t.Fatalf("GATE-3 listed %v\n%s", got, a.Raw)
	}
	if first := slices.Sorted(slices.Values(got[:3])); !slices.Equal(first, slices.Sorted(slices.Values(waits))) {
		t.Errorf("GATE-3 what waits is not listed first: %v; want %v", got, waits)
	}
	// Page by page, whatever their size: each once.
	want := slices.Sorted(slices.Values(slices.Concat(agents, waits)))
	for _, size := range []int{1, 2, 3, 50} {
		var seen []string
		params, own := map[string]any{"pageSize": size}, ""
		for range 12 {
			page, a := alice.lists(held, params)
			if a.Error != nil || len(page.Tasks) > size {
				t.Fatalf("GATE-3 pages of %d: %s", size, a.Raw)
			}
			if seen = append(seen, page.ids()...); page.Next == "" {
				break
			}
			own = page.Next
			params = map[string]any{"pageSize": size, "pageToken": page.Next}
		}
		slices.Sort(seen)
		if !slices.Equal(seen, want) {
			t.Errorf("GATE-3 pages of %d have %v; want %v", size, seen, want)
		}
		if own == "" {
			continue
		}
		if page, a := bob.lists(other, map[string]any{"pageSize": size, "pageToken": own}); a.reason() != "page_token" || len(page.Tasks) > 0 {
			t.Errorf("ATK-18 somebody else goes on with the list: %s", a.Raw)
		}
	}
	if page, a := bob.lists(other, map[string]any{}); !slices.Equal(page.ids(), []string{bobs}) {
		t.Errorf("ATK-18 somebody else lists %v: %s", page.ids(), a.Raw)
	}
	if page, a := alice.lists(held, map[string]any{"status": "TASK_STATE_AUTH_REQUIRED"}); len(page.Tasks) != 3 || !strings.HasPrefix(page.Tasks[0].ID, "task_pb_") {
		t.Errorf("GATE-3 by state: %v %s", page.ids(), a.Raw)
	}
	if page, a := alice.lists(held, map[string]any{"contextId": all.Tasks[0].Context}); !slices.Equal(page.ids(), got[:1]) {
		t.Errorf("GATE-3 by context: %v %s", page.ids(), a.Raw)
	}
	// One is answered, and one is withdrawn.
	shown := heldIn(t, alice.aboutTask(held, "documents", "GetTask", waits[0]))
	w.answers("alice", shown.asked(), map[string]any{})
	done := w.polled(alice, held, "documents", waits[0])
	alice.aboutTask(held, "documents", "CancelTask", waits[1])
	states := map[string]string{}
	page, a := alice.lists(held, map[string]any{"includeArtifacts": true})
	for _, task := range page.Tasks {
		states[task.ID] = strings.ReplaceAll(task.Status.State, "CANCELLED", "CANCELED")
		if task.ID == waits[0] && len(task.Artifacts) == 0 {
			t.Errorf("GATE-3 asked for artifacts, there is none: %s", a.Raw)
		}
	}
	if states[waits[0]] != "TASK_STATE_"+done.State || done.State != "COMPLETED" || states[waits[1]] != "TASK_STATE_CANCELED" || states[waits[2]] != "TASK_STATE_AUTH_REQUIRED" {
		t.Errorf("GATE-3 the list says %v; GetTask says %s\n%s", states, done.State, a.Raw)
	}
	page, a = alice.lists(held, map[string]any{})
	for _, task := range page.Tasks {
		if task.ID == waits[0] && len(task.Artifacts) > 0 {
			t.Errorf("GATE-3 nobody asked for artifacts: %s", a.Raw)
		}
	}
}

// TestGATE3_HeldTasksAreFollowed subscribes to a task that stands for a call which
// waits, on every binding and version: the stream tells its state, then its outcome
// once a person has answered, and ends with it. An ended task cannot be followed,
// and a revocation ends the stream.
func TestGATE3_HeldTasksAreFollowed(t *testing.T) {
	everywhere(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on, agent: "    enforces: context", search: ", approval: true"})
		alice := w.caller(aliceToken)
		held := alice.reports()
		a, _ := alice.asksToSearch(held, "figures")
		task := heldIn(t, a)
		// follow returns once the stream has begun, which is with the task as it is then.
		follow := func() chan answer {
			body := rpc("SubscribeToTask", map[string]any{"id": task.ID})
			h := alice.proof("documents", body, proven{chain: []string{held.Token}, operation: "a2a.task.read", arguments: map[string]any{"task": task.ID}})
			return w.begins(w.agentURL("documents"), body, h)
		}
		told := follow()
		select {
		case a := <-told:
			t.Fatalf("GATE-3 the stream is over before anybody has answered: %s", a.Raw)
		case <-time.After(300 * time.Millisecond):
		}
		w.answers("alice", task.asked(), map[string]any{})
		got := soon(t, "the stream does not end with the call", told)
		if first := heldIn(t, got); first.State != "AUTH_REQUIRED" || first.ID != task.ID {
			t.Errorf("GATE-3 the stream begins with %+v\n%s", first, got.Raw)
		}
		if !strings.Contains(string(got.Raw), "echo: ") {
			t.Errorf("GATE-3 the stream does not end with the answer: %s", got.Raw)
		}
		if again := soon(t, "what is over is followed", follow()); again.reason() != "task_over" {
			t.Errorf("GATE-3 what is over is followed: %s", again.Raw)
		}
		a, _ = alice.asksToSearch(held, "more")
		task = heldIn(t, a)
		told = follow()
		select {
		case a := <-told:
			t.Fatalf("GATE-3 the stream is over: %s", a.Raw)
		case <-time.After(300 * time.Millisecond):
		}
		if a := alice.call("documents", "a2a/capabilities/revoke", map[string]any{"revocationId": held.RevocationID}); a.Error != nil {
			t.Fatalf("%s", a.Raw)
		}
		if got := soon(t, "ATK-23 the stream goes on with a capability that was revoked", told); !strings.Contains(string(got.Raw), "revoked") && !strings.Contains(fmt.Sprint(got.Header), "revoked") && got.reason() != "revoked" {
			t.Errorf("ATK-23 the stream ended without a reason: %s %v", got.Raw, got.Error)
		}
	})
}

// begins sends a call that is answered by a stream. It returns once the stream has begun.
func (w *town) begins(url string, body []byte, h http.Header) chan answer {
	w.t.Helper()
	if w.on == (wire{}) {
		h.Set("A2A-Version", "1.0")
	}
	r, _ := w.encode(url, body)
	res := w.send(r, h)
	told := make(chan answer, 1)
	go func() {
		defer res.Body.Close()
		told <- w.read(r, res)
	}()
	return told
}
