package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
)

// steps are what one client was told before the program was killed.
type steps struct {
	m          *member
	approved   bool
	revoked    bool
	executions []string // records that were named to it
}

// AAP-M1, AAP-E10, EXT-27: the program is killed, again and again, while hosts
// register, people approve and revoke, and agents execute. Whatever was answered
// holds afterwards, nothing is half done, and the evidence verifies.
func TestAAPM1_Killed(t *testing.T) { onStores(t, tryAAPM1Killed) }

func tryAAPM1Killed(t *testing.T) {
	b := newBank(t, bankOptions{})
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	var mu sync.Mutex
	var all []*steps
	acknowledged := 0
	noted := func(f func()) {
		mu.Lock()
		defer mu.Unlock()
		acknowledged++
		f()
	}
	for round := range 3 {
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for life(t, b, client, noted, &all, stop) {
				}
			})
		}
		working := make(chan struct{})
		go func() { wg.Wait(); close(working) }()
		for enough := false; !enough; {
			select {
			case <-working:
				t.Fatalf("AAP-M1: every client has stopped, after %d answers in all", acknowledged)
			case <-time.After(time.Millisecond):
			}
			mu.Lock()
			enough = acknowledged >= (round+1)*60
			mu.Unlock()
		}
		if err := b.process.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		close(stop)
		wg.Wait()
		client.CloseIdleConnections()
		// It holds the lock of the store until it is gone.
		eventually(t, atOnce, func() string { return "the program is there after it was killed" }, func() bool { return syscall.Kill(b.process.Process.Pid, 0) != nil })
		b.boot()
	}
	bundle := string(b.operator(http.MethodGet, "/v1/evidence/bundle", nil))
	trust, err := evidence.ParseTrust(bytes.TrimSpace(b.operator(http.MethodGet, "/v1/evidence/trust", nil)))
	if err != nil {
		t.Fatal(err)
	}
	if report, err := evidence.Verify(strings.NewReader(bundle), trust); err != nil || report.Verdict() != evidence.OK {
		t.Fatalf("the evidence does not verify: %v %v", err, report.Problems)
	}
	for _, s := range all {
		held(t, b, s, bundle)
	}
	t.Logf("%d answers about %d agents", acknowledged, len(all))
}

// life runs one agent from its registration to its end, and returns false
// once the server is gone.
func life(t *testing.T, b *bank, client *http.Client, noted func(func()), all *[]*steps, stop chan struct{}) bool {
	call := func(path, token, user string, body any) (reply, bool) {
		data, _ := json.Marshal(body)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+path, bytes.NewReader(data))
		if err != nil {
			return reply{}, false
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		if user != "" {
			req.Header.Set("Powerbox-Dev-User", user)
		}
		res, err := client.Do(req)
		if err != nil {
			return reply{}, false
		}
		defer res.Body.Close()
		raw, err := io.ReadAll(res.Body)
		out := reply{Status: res.StatusCode, Header: res.Header}
		if err != nil || json.Unmarshal(raw, &out.Body) != nil {
			return reply{}, false // it was killed before it had answered
		}
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", path, res.StatusCode, raw)
		}
		return out, res.StatusCode == http.StatusOK
	}
	select {
	case <-stop:
		return false
	default:
	}
	s := &steps{m: &member{b: b, host: newOKP(t), key: newOKP(t)}}
	r, ok := call("/agent/register", b.host(s.m.host, fact{"agent_public_key": s.m.key.jwk}), "", fact{"name": "Tester", "capabilities": []string{"check_balance", "list_accounts"}})
	if !ok {
		return false
	}
	s.m.id = r.text("agent_id")
	noted(func() { *all = append(*all, s) })
	if _, ok = call("/v1/approvals/"+codeOf(r), "", "alice", fact{}); !ok {
		return false
	}
	noted(func() { s.approved = true })
	for range 2 {
		if r, ok = call("/capability/execute", s.m.token(b.url+"/capability/execute"), "", fact{"capability": "list_accounts"}); !ok {
			return false
		}
		noted(func() { s.executions = append(s.executions, r.Header.Get("Powerbox-Decision")) })
	}
	if _, ok = call("/agent/revoke", b.host(s.m.host), "", fact{"agent_id": s.m.id}); !ok {
		return false
	}
	noted(func() { s.revoked = true })
	return true
}

// held fails unless an agent is as its client was told, or one step further, and
// in no state between two.
func held(t *testing.T, b *bank, s *steps, bundle string) {
	t.Helper()
	r := s.m.state()
	state, grants := r.text("status"), grantsOf(r)
	may := []string{"pending", "active"}
	switch {
	case s.revoked:
		may = []string{"revoked"}
	case s.approved:
		may = []string{"active", "revoked"}
	}
	if r.Status != http.StatusOK || !slices.Contains(may, state) {
		t.Errorf("AAP-M1: an agent that was approved: %t, revoked: %t, is %d %s", s.approved, s.revoked, r.Status, r.Raw)
	}
	for _, name := range []string{"check_balance", "list_accounts"} {
		if grants[name] != state {
			t.Errorf("AAP-M3: %s is %s under an agent that is %s", name, grants[name], state)
		}
	}
	for _, id := range s.executions {
		if !strings.Contains(bundle, fmt.Sprintf("%q", id)) {
			t.Errorf("EXT-27: record %s was acknowledged and is lost", id)
		}
	}
	want, code := http.StatusForbidden, "agent_"+state
	if state == "active" {
		want, code = http.StatusOK, ""
	}
	if state == "pending" {
		code = "host_pending"
	}
	b.want("AAP-M1: an execution of an agent that is "+state, s.m.execute("list_accounts", nil), want, code)
}
