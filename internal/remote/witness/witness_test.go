package witness_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/remote/witness"
)

const origin = "a.example/log"

var moment = time.Date(2026, 3, 4, 12, 1, 15, 0, time.UTC)

func key(fill byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune(fill)), 32)))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// memory is a log in memory.
type memory struct {
	t      testing.TB
	signer note.Signer
	key    note.Verifier

	mu     sync.Mutex
	hashes evidence.Hashes
	size   int64
	root   tlog.Hash
	kept   []byte
}

func newLog(t testing.TB) *memory {
	t.Helper()
	signer, vkey, err := evidence.NewLogSigner(origin, key(1))
	must(t, err)
	verifier, err := note.NewVerifier(vkey)
	must(t, err)
	root, err := tlog.TreeHash(0, nil)
	must(t, err)
	return &memory{t: t, signer: signer, key: verifier, root: root}
}

// grow adds entries, which a history's name tells from those of others.
func (m *memory) grow(n int, history string) *memory {
	m.t.Helper()
	for range n {
		stored, size, root, err := evidence.Grow(m.size, m.hashes, [][]byte{[]byte(fmt.Sprint(history, m.size))})
		must(m.t, err)
		m.hashes, m.size, m.root = append(m.hashes, stored...), size, root
	}
	return m
}

func (m *memory) checkpoint() evidence.Checkpoint {
	return evidence.Checkpoint{Origin: origin, Size: m.size, Root: m.root}
}

func (m *memory) LatestCheckpoint(context.Context) ([]byte, error) {
	return evidence.SignCheckpoint(m.checkpoint(), m.signer)
}

func (m *memory) Tree(context.Context) tlog.HashReader { return m.hashes }

func (m *memory) KeepCosigned(_ context.Context, signed []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept = signed
	return nil
}

func (m *memory) submission(old int64) witness.Submission {
	m.t.Helper()
	signed, err := m.LatestCheckpoint(m.t.Context())
	must(m.t, err)
	s, err := witness.NewSubmission(old, m.hashes, signed)
	must(m.t, err)
	return s
}

func cosigner(t testing.TB, name string, fill byte) evidence.Cosigner {
	t.Helper()
	c, err := evidence.NewCosigner(name, key(fill))
	must(t, err)
	return c
}

func config(t testing.TB, dir string, log *memory) witness.BookConfig {
	t.Helper()
	return witness.BookConfig{
		Directory: dir, Cosigner: cosigner(t, "one.example", 11), Logs: map[string][]note.Verifier{origin: {log.key}},
		Now: func() time.Time { return moment },
	}
}

func open(t testing.TB, c witness.BookConfig) *witness.Book {
	t.Helper()
	b, err := witness.Open(c)
	must(t, err)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// A cosigned checkpoint is on the disk before the witness hands out the
// cosignature: a second witness on a copy of the folder, taken at that moment,
// has it.
func TestEXT35_WhatIsCosignedIsKeptFirst(t *testing.T) {
	dir := t.TempDir()
	must(t, witness.Begin(dir))
	log := newLog(t)
	b := open(t, config(t, dir, log))
	for _, step := range []int{3, 1, 9} {
		old := log.size
		log.grow(step, "a")
		line, err := b.Add(log.submission(old))
		must(t, err)
		signed, err := log.LatestCheckpoint(t.Context())
		must(t, err)
		if _, err := evidence.TakeCosignature(signed, []byte(line), cosigner(t, "one.example", 11).Key()); err != nil {
			t.Error(err)
		}
		copied := t.TempDir()
		must(t, os.CopyFS(copied, os.DirFS(dir)))
		again := open(t, config(t, copied, log))
		if again.Size(origin) != log.size || again.Cosigned(origin) != string(signed)+line {
			t.Fatalf("%d of %d is on the disk: %q", again.Size(origin), log.size, again.Cosigned(origin))
		}
	}
}

// Where nothing can be kept, nothing is cosigned, and the witness stays at what it
// has kept.
func TestEXT35_WhatCannotBeKeptIsNotCosigned(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	must(t, os.Mkdir(dir, 0o700))
	must(t, witness.Begin(dir))
	log := newLog(t).grow(4, "a")
	b := open(t, config(t, dir, log))
	must(t, os.RemoveAll(dir))
	if line, err := b.Add(log.submission(0)); err == nil || line != "" || b.Size(origin) != 0 || b.Cosigned(origin) != "" {
		t.Errorf("%q %v", line, err)
	}
	server := httptest.NewServer(witness.Handler(b, slog.New(slog.DiscardHandler)))
	defer server.Close()
	status, _, err := outbound.New(outbound.Policy{AllowLoopback: true}).Post(t.Context(), server.URL+"/add-checkpoint", "text/plain", []byte(log.submission(0).String()))
	if err != nil || status != http.StatusInternalServerError {
		t.Errorf("%d %v", status, err)
	}
	must(t, os.Mkdir(dir, 0o700))
	if _, err := b.Add(log.submission(0)); err != nil || b.Size(origin) != 4 {
		t.Error(err)
	}
}

func TestATK43_AWitnessDoesNotForget(t *testing.T) {
	log := newLog(t).grow(4, "a")
	fresh := func() string {
		dir := t.TempDir()
		must(t, witness.Begin(dir))
		b, err := witness.Open(config(t, dir, log))
		must(t, err)
		_, err = b.Add(log.submission(0))
		must(t, errors.Join(err, b.Close()))
		return dir
	}
	for name, test := range map[string]struct {
		spoil func(file string) error
		want  string
	}{
		"its book is gone":    {os.Remove, "is gone"},
		"its book is cut off": {func(file string) error { return os.Truncate(file, 20) }, "damaged"},
		"its book was rewritten": {func(file string) error {
			signed, err := newLog(t).grow(2, "a").LatestCheckpoint(t.Context())
			data, _ := json.Marshal(map[string]string{origin: string(signed)})
			return errors.Join(err, os.WriteFile(file, data, 0o600))
		}, "not witnessed"},
		"one log stands for another": {func(file string) error {
			data, err := os.ReadFile(file)
			return errors.Join(err, os.WriteFile(file, []byte(strings.Replace(string(data), `"`+origin, `"b.example`, 1)), 0o600))
		}, "it is of"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := fresh()
			must(t, test.spoil(filepath.Join(dir, "cosigned.json")))
			if _, err := witness.Open(config(t, dir, log)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Error(err)
			}
		})
	}
	dir := fresh()
	must(t, witness.Begin(dir)) // changes nothing
	b := open(t, config(t, dir, log))
	if b.Size(origin) != 4 {
		t.Error(b.Size(origin))
	}
	if _, err := witness.Open(config(t, dir, log)); err == nil || !strings.Contains(err.Error(), "locked") {
		t.Errorf("two witnesses have one book: %v", err)
	}
	// What strangers put under a checkpoint is not kept.
	s := log.grow(1, "a").submission(4)
	s.Checkpoint = append(s.Checkpoint, cosigner(t, "stranger.example", 12).Cosign(log.checkpoint(), moment)...)
	if _, err := b.Add(s); err != nil || strings.Contains(b.Cosigned(origin), "stranger") {
		t.Errorf("%v\n%s", err, b.Cosigned(origin))
	}
}

// watchers are witnesses that a log asks.
type watchers struct {
	books []*witness.Book
	asked []witness.Asked
	deaf  []*atomic.Bool // that do not answer
}

func watch(t *testing.T, log *memory, n int) *watchers {
	t.Helper()
	all := &watchers{}
	for i := range n {
		c := config(t, t.TempDir(), log)
		c.Cosigner = cosigner(t, fmt.Sprintf("w%d.example", i), byte(20+i))
		must(t, witness.Begin(c.Directory))
		b, deaf := open(t, c), new(atomic.Bool)
		h := witness.Handler(b, slog.New(slog.DiscardHandler))
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if deaf.Load() {
				http.Error(w, "later", http.StatusServiceUnavailable)
				return
			}
			h.ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		all.books, all.deaf = append(all.books, b), append(all.deaf, deaf)
		all.asked = append(all.asked, witness.Asked{URL: server.URL, Key: c.Cosigner.Key()})
	}
	return all
}

func (v *watchers) asker(t *testing.T, log *memory, quorum int, unsafe bool) *witness.Asker {
	t.Helper()
	a, err := witness.NewAsker(v.config(log, quorum, unsafe))
	must(t, err)
	return a
}

func (v *watchers) config(log *memory, quorum int, unsafe bool) witness.AskerConfig {
	return witness.AskerConfig{
		Log: log, Key: log.key, Call: outbound.New(outbound.Policy{AllowLoopback: true}), Witnesses: v.asked, Quorum: quorum,
		Period: time.Millisecond, UnsafeStart: unsafe, Slog: slog.New(slog.DiscardHandler),
	}
}

func TestEXT35_ALogKeepsWhatAQuorumCosigned(t *testing.T) {
	log := newLog(t)
	v := watch(t, log, 3)
	a := v.asker(t, log, 2, false)
	must(t, a.Start(t.Context())) // of the empty tree nothing is kept
	if log.kept != nil {
		t.Errorf("%s", log.kept)
	}
	q := evidence.Quorum{Number: 3}
	for _, w := range v.asked {
		q.Witnesses = append(q.Witnesses, w.Key)
	}
	log.grow(5, "a")
	must(t, a.Cosign(t.Context()))
	if _, err := q.Check(log.kept); err != nil {
		t.Errorf("%v\n%s", err, log.kept)
	}
	if _, err := evidence.OpenCheckpoint(log.kept, log.key); err != nil {
		t.Error(err)
	}
	log.grow(5, "a")
	v.deaf[1].Store(true)
	must(t, a.Cosign(t.Context()))
	if have, err := q.Check(log.kept); !errors.Is(err, evidence.ErrNotWitnessed) || len(have) != 2 {
		t.Errorf("%v %v", have, err)
	}
	before := string(log.kept)
	v.deaf[2].Store(true)
	log.grow(5, "a")
	if err := a.Cosign(t.Context()); !errors.Is(err, witness.ErrUnwitnessed) || string(log.kept) != before {
		t.Errorf("%v\n%s", err, log.kept)
	}
	v.deaf[1].Store(false)
	v.deaf[2].Store(false)
	must(t, v.asker(t, log, 3, false).Start(t.Context())) // it knows no size and is told each
	if _, err := q.Check(log.kept); err != nil || v.books[1].Size(origin) != 15 {
		t.Errorf("%v %d", err, v.books[1].Size(origin))
	}
}

func TestATK43_AStoreThatIsBehindIsFoundAtTheStart(t *testing.T) {
	log := newLog(t).grow(9, "a")
	v := watch(t, log, 3)
	must(t, v.asker(t, log, 3, false).Start(t.Context()))
	for name, old := range map[string]*memory{
		"behind": newLog(t).grow(4, "a"), "empty": newLog(t), "other entries, and more": newLog(t).grow(12, "b"), "other entries": newLog(t).grow(9, "b"),
	} {
		for _, unsafe := range []bool{false, true} {
			if err := v.asker(t, old, 2, unsafe).Start(t.Context()); !errors.Is(err, witness.ErrContradicted) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	// One that has seen the end is enough at the start.
	lone := watch(t, log, 3)
	_, err := lone.books[2].Add(log.submission(0))
	must(t, err)
	behind := newLog(t).grow(4, "a")
	if err := lone.asker(t, behind, 2, false).Start(t.Context()); !errors.Is(err, witness.ErrContradicted) {
		t.Error(err)
	}
	// Later it is not: one of three cannot stop a log, two can.
	if err := lone.asker(t, behind, 2, false).Cosign(t.Context()); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // it would continue
	defer cancel()
	if err := v.asker(t, behind, 2, false).Run(ctx); !errors.Is(err, witness.ErrContradicted) {
		t.Error(err)
	}
}

func TestEXT35_WitnessesThatDoNotAnswer(t *testing.T) {
	log := newLog(t).grow(9, "a")
	v := watch(t, log, 3)
	v.deaf[0].Store(true)
	must(t, v.asker(t, log, 2, false).Start(t.Context()))
	v.deaf[1].Store(true)
	if err := v.asker(t, log, 2, false).Start(t.Context()); !errors.Is(err, witness.ErrUnwitnessed) {
		t.Error(err)
	}
	must(t, v.asker(t, log, 2, true).Start(t.Context()))
}

func TestATK44_AQuorumIsMoreThanHalf(t *testing.T) {
	log := newLog(t)
	v := watch(t, log, 4)
	for quorum, want := range map[int]bool{-1: false, 0: false, 1: false, 2: false, 3: true, 4: true, 5: false} {
		if _, err := witness.NewAsker(v.config(log, quorum, false)); (err == nil) != want {
			t.Errorf("%d of 4: %v", quorum, err)
		}
	}
	v.asked[1] = v.asked[0]
	if _, err := witness.NewAsker(v.config(log, 3, false)); err == nil {
		t.Error("one witness counts twice")
	}
}

// A witness whose answers are not its own is not believed.
func TestATK44_AnswersAreVerified(t *testing.T) {
	log := newLog(t).grow(5, "a")
	v := watch(t, log, 1)
	other := cosigner(t, "w0.example", 99)
	for name, answer := range map[string]struct {
		status int
		body   string
	}{
		"another key":         {200, other.Cosign(log.checkpoint(), moment)},
		"no cosignature":      {200, "ok"},
		"no size":             {409, "hello"},
		"below zero":          {409, "-4\n"},
		"one after the other": {409, "2\n"},
		"a redirect":          {302, ""},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(answer.status)
			fmt.Fprint(w, answer.body)
		}))
		v.asked[0].URL = server.URL
		if err := v.asker(t, log, 1, false).Cosign(t.Context()); !errors.Is(err, witness.ErrUnwitnessed) || log.kept != nil {
			t.Errorf("%s: %v", name, err)
		}
		server.Close()
	}
}
