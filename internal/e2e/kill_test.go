package e2e

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
)

// TestEXT27_KilledWhileManyAppend kills the binary, again and again, while 64
// clients call. Every answer names its record: whatever was answered must be in
// the evidence afterwards, and the evidence must verify.
func TestEXT27_KilledWhileManyAppend(t *testing.T) { onStores(t, tryEXT27KilledWhileManyAppend) }

func tryEXT27KilledWhileManyAppend(t *testing.T) {
	const clients, kills = 64, 5
	w := start(t, options{extra: "defaults: {request_rate: 0}\n"})
	var mu sync.Mutex
	var acknowledged []string
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	call := func(ctx context.Context) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.agentURL("documents"), bytes.NewReader(data("search_documents", nil)))
		if err != nil {
			return
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "A2a-Version": {"1.0"}}
		response, err := client.Do(r)
		if err != nil {
			return // it was killed before it answered
		}
		defer response.Body.Close()
		if _, err := io.ReadAll(response.Body); err != nil {
			return
		}
		if id := response.Header.Get("Powerbox-Decision"); id != "" {
			mu.Lock()
			acknowledged = append(acknowledged, id)
			mu.Unlock()
		}
	}
	for round := range kills {
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				for ctx.Err() == nil {
					call(ctx)
				}
			})
		}
		target := (round + 1) * 150
		for enough := false; !enough; {
			runtime.Gosched()
			mu.Lock()
			enough = len(acknowledged) >= target
			mu.Unlock()
		}
		if err := w.process.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		stop()
		wg.Wait()
		for syscall.Kill(w.process.Process.Pid, 0) == nil {
			runtime.Gosched() // it holds the lock of the store until it is gone
		}
		began := time.Now()
		w.boot()
		t.Logf("killed after %d answers; ready again after %v, the rest of the second in which old proofs are refused among it", len(acknowledged), time.Since(began).Round(time.Millisecond))
	}
	bundle := w.operator(http.MethodGet, "/v1/evidence/bundle", nil)
	trust, err := evidence.ParseTrust(bytes.TrimSpace(w.operator(http.MethodGet, "/v1/evidence/trust", nil)))
	if err != nil {
		t.Fatal(err)
	}
	report, err := evidence.Verify(bytes.NewReader(bundle), trust)
	if err != nil || report.Verdict() != evidence.OK {
		t.Fatalf("the evidence does not verify: %v %v", err, report.Problems)
	}
	for _, id := range acknowledged {
		if !strings.Contains(string(bundle), `"`+id+`"`) {
			t.Fatalf("record %s was acknowledged and is lost", id)
		}
	}
	t.Logf("%d answers, %d records, none lost", len(acknowledged), report.Records)
}
