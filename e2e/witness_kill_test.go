package e2e

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/remote/witness"
)

// branch is one history of a log. Two of one log agree up to some size.
type branch struct {
	origin string
	signer note.Signer
	hashes evidence.Hashes
	roots  []tlog.Hash // by size
}

// twoBranches are two histories of a log that agree in the first entries.
func twoBranches(t *testing.T, origin string, shared, size int) (both [2]*branch, key string) {
	t.Helper()
	signer, key, err := evidence.NewLogSigner(origin, ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	for side := range both {
		b := &branch{origin: origin, signer: signer, roots: make([]tlog.Hash, 1, size+1)}
		for n := range size {
			leaf := fmt.Sprintf("%s %d", origin, n)
			if n >= shared {
				leaf += fmt.Sprint(" of ", side)
			}
			stored, _, root, err := evidence.Grow(int64(n), b.hashes, [][]byte{[]byte(leaf)})
			if err != nil {
				t.Fatal(err)
			}
			b.hashes, b.roots = append(b.hashes, stored...), append(b.roots, root)
		}
		both[side] = b
	}
	return both, key
}

func (b *branch) checkpoint(size int64) evidence.Checkpoint {
	return evidence.Checkpoint{Origin: b.origin, Size: size, Root: b.roots[size]}
}

// submission asks for a cosignature at size, from old.
func (b *branch) submission(t *testing.T, old, size int64) string {
	t.Helper()
	signed, err := evidence.SignCheckpoint(b.checkpoint(size), b.signer)
	if err != nil {
		t.Fatal(err)
	}
	s, err := witness.NewSubmission(old, b.hashes, signed)
	if err != nil {
		t.Fatal(err)
	}
	return s.String()
}

// submit posts to a witness; status 0 says that it did not answer.
func (v *watcher) submit(ctx context.Context, body string) (status int, answer string, header http.Header) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, v.url+"/add-checkpoint", strings.NewReader(body))
	if err != nil {
		return 0, "", nil
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", nil
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, "", nil
	}
	return response.StatusCode, string(data), response.Header
}

// The answers of C2SP tlog-witness, one by one.
func TestEXT35_WitnessProtocol(t *testing.T) {
	asGiven(t)
	both, key := twoBranches(t, "a.example/log", 5, 20)
	other, _ := twoBranches(t, "b.example/log", 5, 20)
	a, b := both[0], both[1]
	v := newWatcher(t, "one.example/w", key)
	stranger := *a
	stranger.signer, _, _ = evidence.NewLogSigner(a.origin, ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, 32)))
	spoilt := func(s string) string { return strings.Replace(s, "\n\n", "\n"+tlog.Hash{1}.String()+"\n\n", 1) }
	for _, step := range []struct {
		name, body string
		status     int
		answer     string // of a conflict
	}{
		{"it is no submission", "hello\n\n", 400, ""},
		{"the log is not known", other[0].submission(t, 0, 3), 404, ""},
		{"another key", stranger.submission(t, 0, 3), 403, ""},
		{"no signature", a.checkpoint(3).String(), 400, ""},
		{"the first cannot be a step from somewhere", a.submission(t, 2, 3), 409, "0\n"},
		{"the first needs no proof", spoilt(a.submission(t, 0, 3)), 422, ""},
		{"the first", a.submission(t, 0, 8), 200, ""},
		{"from the beginning again", a.submission(t, 0, 10), 409, "8\n"},
		{"going back", a.submission(t, 3, 6), 409, "8\n"},
		{"the old size is the larger one", strings.Replace(a.submission(t, 3, 6), "old 3", "old 8", 1), 400, ""},
		{"the same again", a.submission(t, 8, 8), 200, ""},
		{"another tree of that size", b.submission(t, 8, 8), 409, "8\n"},
		{"another tree that goes on", b.submission(t, 8, 12), 422, ""},
		{"a proof of something else", strings.Replace(a.submission(t, 7, 12), "old 7", "old 8", 1), 422, ""},
		{"a step", a.submission(t, 8, 12), 200, ""},
		{"its repetition", a.submission(t, 8, 12), 409, "12\n"},
	} {
		status, answer, header := v.submit(t.Context(), step.body)
		if status != step.status || step.answer != "" && (answer != step.answer || header.Get("Content-Type") != "text/x.tlog.size") {
			t.Errorf("%s: %d %q %v; want %d %q", step.name, status, answer, header, step.status, step.answer)
		}
		if status == 200 {
			_, signed, _ := strings.Cut(step.body, "\n\n")
			if _, err := evidence.TakeCosignature([]byte(signed), []byte(answer), v.key); err != nil || strings.Count(answer, "\n") != 1 {
				t.Errorf("%s: %v in %q", step.name, err, answer)
			}
		}
	}
	r, err := http.Get(v.url + "/add-checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	if r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: %s", r.Status)
	}
}

// acknowledged is what a witness has cosigned.
type acknowledged struct {
	mu  sync.Mutex
	all map[string][]evidence.Checkpoint // by origin
	n   int
}

func (k *acknowledged) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.n
}

// press brings one branch of a log forward, in small steps, until ctx ends or the
// other branch has won.
func (k *acknowledged) press(ctx context.Context, t *testing.T, v *watcher, b *branch) {
	for old, step := int64(0), int64(1); ctx.Err() == nil; {
		size := min(old+step, int64(len(b.roots)-1))
		body := b.submission(t, old, size)
		status, answer, _ := v.submit(ctx, body)
		switch status {
		case http.StatusOK:
			_, signed, _ := strings.Cut(body, "\n\n")
			if _, err := evidence.TakeCosignature([]byte(signed), []byte(answer), v.key); err != nil {
				t.Error(err)
				return
			}
			k.mu.Lock()
			k.all[b.origin], k.n = append(k.all[b.origin], b.checkpoint(size)), k.n+1
			k.mu.Unlock()
			if old = size; old == int64(len(b.roots)-1) {
				return
			}
		case http.StatusConflict:
			known, err := strconv.ParseInt(strings.TrimSpace(answer), 10, 64)
			if err != nil || known >= int64(len(b.roots)-1) || known == old && old == size {
				return
			}
			old = known
		case http.StatusUnprocessableEntity:
			return // the other branch has won
		default:
			return
		}
	}
}

// TestEXT35_WitnessKilled kills a witness, again and again, while two histories of
// each of several logs press for its cosignature. Whatever it has cosigned must lie
// on one of the two, and nothing that it answered may be forgotten.
func TestEXT35_WitnessKilled(t *testing.T) {
	asGiven(t)
	const rounds, each, shared, size = 8, 3, 6, 400
	var logs [][2]*branch
	var keys []string
	for n := range rounds * each {
		both, key := twoBranches(t, fmt.Sprintf("log%d.example", n), shared, size)
		logs, keys = append(logs, both), append(keys, key)
	}
	v := newWatcher(t, "one.example/w", keys...)
	k := &acknowledged{all: map[string][]evidence.Checkpoint{}}
	for round := range rounds {
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, both := range logs[:each*(round+1)] { // some are new, some continue
			for _, b := range both {
				for range 2 {
					wg.Go(func() { k.press(ctx, t, v, b) })
				}
			}
		}
		ended := make(chan struct{})
		go func() { wg.Wait(); close(ended) }()
		before := k.count()
		await(func() bool {
			select {
			case <-ended:
				t.Fatalf("nothing presses any more after %d answers\n%s", k.count()-before, v.log)
			default:
			}
			return k.count() >= before+40+17*round
		})
		killed(t, v.process)
		stop()
		<-ended
		v.boot()
		for _, both := range logs[:each*(round+1)] {
			k.check(t, v, both)
		}
	}
	t.Logf("%d cosignatures over %d kills", k.count(), rounds)
}

// check compares the cosigned checkpoints of a log with its branches, and
// the checkpoints that the witness shows with its answers.
func (k *acknowledged) check(t *testing.T, v *watcher, both [2]*branch) {
	t.Helper()
	all := slices.Clone(k.all[both[0].origin])
	if len(all) == 0 {
		return
	}
	shown, err := evidence.ReadCheckpoint((&town{t: t}).get(v.url + witness.CheckpointPath(both[0].origin)))
	if err != nil {
		t.Fatal(err)
	}
	on := [2]bool{true, true}
	for _, c := range append(all, shown) {
		for side, b := range both {
			on[side] = on[side] && b.roots[c.Size] == c.Root
		}
		if c.Size > shown.Size {
			t.Errorf("%s: %d was cosigned, and after the kill it is %d", c.Origin, c.Size, shown.Size)
		}
	}
	if !on[0] && !on[1] {
		t.Errorf("%s: both histories were cosigned: %v", both[0].origin, all)
	}
}
