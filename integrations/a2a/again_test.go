package powerboxa2a_test

import (
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/powerbox-project/powerbox/internal/freeport"
)

// TestATK83_SignedAgainAfterAKill kills the gateway while a call is under way. The call was
// signed before the gateway began again, and is signed anew once.
func TestATK83_SignedAgainAfterAKill(t *testing.T) {
	w := newTown(t, options{})
	c := w.caller()
	c.reports()
	client := c.over("documents", a2a.TransportProtocolJSONRPC)
	search := func() error {
		_, err := client.SendMessage(c.ctx, skillCall("search_documents", map[string]any{"query": "q1"}))
		return err
	}
	if err := search(); err != nil {
		t.Fatal(err)
	}
	if err := w.process.Kill(); err != nil {
		t.Fatal(err)
	}
	answers := make(chan error, 1)
	// The connections of before are noticed as dead by calls that fail.
	for range 2 {
		if err := search(); err == nil {
			t.Error("a call was answered while the gateway is down")
		}
	}
	w.documents.forget()
	held := freeport.Hold(t, strings.TrimPrefix(w.url, "http://"), func() { answers <- search() })
	w.boot()
	held.Pass()
	if err := <-answers; err != nil {
		t.Errorf("ATK-83 the call was not signed again: %v", err)
	}
	w.documents.last(t)
}
