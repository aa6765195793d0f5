package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// inParts answers with events in pieces. Each piece waits until the one before it was sent, and
// for wait.
func inParts(t *testing.T, pieces []string, sent chan<- struct{}, wait <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for n, piece := range pieces {
			if n > 0 {
				sent <- struct{}{}
				select {
				case <-wait:
				case <-r.Context().Done():
					return
				}
			}
			_, _ = io.WriteString(w, piece)
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestATK164_NoPartOfAnEventPasses has an agent send all of an event except its end, and then
// what has the gateway cut the stream. The end that the gateway gives the stream would end
// that event, and the caller's kit would read it.
func TestATK164_NoPartOfAnEventPasses(t *testing.T) {
	for _, on := range []wire{{}, {overREST, "1.0"}} {
		t.Run(on.String(), func(t *testing.T) {
			w := start(t, options{on: on})
			alice, bob := w.caller(aliceToken), w.caller(bobToken)
			held, of := alice.reports(), bob.reports()
			event := func(result string) string {
				if on.binding == overREST {
					return result
				}
				return `{"jsonrpc":"2.0","id":1,"result":` + result + `}`
			}
			const task = `{"task":{"id":"READ","contextId":"READ","status":{"state":"TASK_STATE_COMPLETED"}}}`
			allowed(t, bob.said(of, "SendMessage", "application/json", event(task)))
			good := "data: " + event(readEvent)
			for what, one := range map[string]struct {
				pieces []string
				want   string
			}{
				"another caller's task":   {[]string{"data: " + event(task), "\n\n"}, "PARTIAL"},
				"two readings":            {[]string{`data: {"message":1,"message":` + readText + "}", "\n\n"}, "PARTIAL"},
				"a line that some see":    {[]string{good, "\x1c\n\n"}, "PARTIAL"},
				"a type of its own":       {[]string{good + "\nevent: error\n", "\n"}, "PARTIAL"},
				"an event that ends":      {[]string{good, "\n\n"}, "ACHIEVED"},
				"an event that ends late": {[]string{good[:9], good[9:] + "\n", "\n"}, "ACHIEVED"},
				"the end of the stream":   {[]string{good, ""}, "ACHIEVED"},
				"a comment before":        {[]string{": a\n", good + "\n\n"}, "ACHIEVED"},
			} {
				sent, wait := make(chan struct{}, len(one.pieces)), make(chan struct{})
				go func() {
					for range len(one.pieces) - 1 {
						<-sent
						<-time.After(100 * time.Millisecond) // the piece gets as far as it can
						wait <- struct{}{}
					}
				}()
				w.documents.answers(inParts(t, one.pieces, sent, wait))
				call := []byte(strings.Replace(string(data("search_documents", nil)), `"SendMessage"`, `"SendStreamingMessage"`, 1))
				a := alice.present("documents", call, proven{chain: []string{held.Token}, operation: opSearch})
				if got := w.outcome(a); got != one.want || strings.Contains(string(a.Raw), "READ") != (one.want == "ACHIEVED") {
					t.Errorf("ATK-164 %s is %s; want %s: %s", what, got, one.want, a.Raw)
				}
			}
		})
	}
}

// TestATK164_NoEventEndsByARevocation has an agent send all of an event except its end. The
// capability is revoked, and the caller reads no event except that of the revocation.
func TestATK164_NoEventEndsByARevocation(t *testing.T) {
	w := start(t, options{})
	alice := w.caller(aliceToken)
	held := alice.reports()
	sent, wait := make(chan struct{}, 1), make(chan struct{})
	w.documents.answers(inParts(t, []string{`data: {"jsonrpc":"2.0","id":1,"result":` + readEvent + `}`, "\n\n"}, sent, wait))
	failed := make(chan error, 1)
	go func() {
		<-sent
		<-time.After(100 * time.Millisecond)
		if a := alice.call("documents", "a2a/capabilities/revoke", map[string]any{"revocationId": held.RevocationID}); a.Error != nil {
			failed <- fmt.Errorf("%s", a.Raw)
		}
		close(failed)
	}()
	call := []byte(strings.Replace(string(data("search_documents", nil)), `"SendMessage"`, `"SendStreamingMessage"`, 1))
	a := alice.present("documents", call, proven{chain: []string{held.Token}, operation: opSearch})
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	if s := string(a.Raw); strings.Contains(s, "READ") || !strings.Contains(s, `"revoked"`) {
		t.Errorf("ATK-164 after a revocation: %s", s)
	}
}
