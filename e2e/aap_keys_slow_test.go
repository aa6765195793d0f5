package e2e

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// TestAAPN2_SomebodyElseGoesAway has a stranger name the key set of a host and go away while
// it is fetched: the host itself is served from that fetch all the same.
func TestAAPN2_SomebodyElseGoesAway(t *testing.T) {
	b := newBank(t, bankOptions{})
	host := newOKP(t)
	good := newKeySet(t, map[string]okp{"one": host})
	arrived, gone := make(chan struct{}, 8), make(chan struct{})
	var fetches atomic.Int32
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fetches.Add(1)
		arrived <- struct{}{}
		<-gone
		select { // a set that takes a second
		case <-r.Context().Done():
		case <-time.After(time.Second):
			good.Config.Handler.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(slow.Close)

	ctx, goAway := context.WithCancel(t.Context())
	defer goAway()
	stranger := newOKP(t)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+"/agent/status?agent_id=agt_x", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+b.signedBy(stranger, "one", slow.URL, fact{"agent_public_key": newOKP(t).jwk}))
	left := make(chan error)
	go func() {
		response, err := http.DefaultClient.Do(r)
		if err == nil {
			_ = response.Body.Close()
		}
		left <- err
	}()
	<-arrived
	goAway()
	if err := <-left; err == nil {
		t.Fatal("the stranger stayed")
	}
	close(gone)
	own := b.ask(http.MethodPost, "/agent/register", b.signedBy(host, "one", slow.URL, fact{"agent_public_key": newOKP(t).jwk}), map[string]any{"name": "x"})
	if own.Status != http.StatusOK {
		t.Errorf("AAP-N2 the host itself: HTTP %d %s after %d fetches; want 200", own.Status, own.Raw, fetches.Load())
	}
}
