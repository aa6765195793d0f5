package e2e

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
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
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	answers := &answered{client: &http.Client{Transport: transport, Timeout: 10 * time.Second}}
	for round := range kills {
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				for ctx.Err() == nil {
					answers.call(ctx, w.agentURL("documents"))
				}
			})
		}
		await(func() bool { return answers.count() >= (round+1)*150 })
		killed(t, w.process)
		stop()
		wg.Wait()
		began := time.Now()
		w.boot()
		t.Logf("killed after %d answers; ready again after %v, the rest of the second in which old proofs are refused among it", answers.count(), time.Since(began).Round(time.Millisecond))
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
	if lost := answers.missing(bundle); len(lost) > 0 {
		t.Fatalf("%d of %d records were acknowledged and are lost, %s among them", len(lost), answers.count(), lost[0])
	}
	t.Logf("%d answers, %d records, none lost", answers.count(), report.Records)
}

// answered are the decisions that callers were told of.
type answered struct {
	client *http.Client
	mu     sync.Mutex
	ids    []string
}

// call makes a call and notes the answer, if there is one.
func (a *answered) call(ctx context.Context, url string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(data("search_documents", nil)))
	if err != nil {
		return
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "A2a-Version": {"1.0"}}
	response, err := a.client.Do(r)
	if err != nil {
		return // the server was killed before it answered
	}
	defer response.Body.Close()
	if _, err := io.ReadAll(response.Body); err != nil {
		return
	}
	if id := response.Header.Get("Powerbox-Decision"); id != "" {
		a.mu.Lock()
		a.ids = append(a.ids, id)
		a.mu.Unlock()
	}
}

func (a *answered) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.ids)
}

// missing are the decisions that a bundle does not have.
func (a *answered) missing(bundle []byte) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(a.ids), func(id string) bool { return bytes.Contains(bundle, []byte(`"`+id+`"`)) })
}
