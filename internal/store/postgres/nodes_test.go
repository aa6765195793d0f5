package postgres

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/store/storetest"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// joint is a database for several nodes, and what a stranger pins.
type joint struct {
	url   string
	keys  storetest.Keys
	key   evidence.Key
	trust evidence.Trust
}

func newJoint(t *testing.T) joint {
	t.Helper()
	url := migrated(t)
	own := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32))
	key, err := evidence.NewKey(own.Public(), "serve")
	signer, errSigner := evidence.NewEd25519Signer(own)
	checkpoint, verifier, errLog := evidence.NewLogSigner("example.org/log", ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, 32)))
	if err := errors.Join(err, errSigner, errLog); err != nil {
		t.Fatal(err)
	}
	return joint{
		url: url, key: key, keys: storetest.Keys{Signer: signer, Origin: "example.org/log", Checkpoint: checkpoint, Random: rand.Reader},
		trust: evidence.Trust{CheckpointKeys: []string{verifier}, RecordKeys: []evidence.PinnedKey{{Key: key, Agents: []string{"*"}}}},
	}
}

func (j joint) node(t *testing.T, change ...func(*Config)) *Store {
	t.Helper()
	c := configOf(j.url, j.keys)
	for _, f := range change {
		f(&c)
	}
	s, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// wantLog verifies the log that all nodes wrote, and that it has these records.
func (j joint) wantLog(t *testing.T, s *Store, chains int, ids map[string]bool) {
	t.Helper()
	var out bytes.Buffer
	if err := s.Export(t.Context(), &out, []evidence.Key{j.key}); err != nil {
		t.Fatal(err)
	}
	missing := 0
	for id := range ids {
		if !strings.Contains(out.String(), `"record_id":"`+id+`"`) {
			missing++
		}
	}
	report, err := evidence.Verify(&out, j.trust)
	if err != nil || report.Verdict() != evidence.OK || len(report.Chains) != chains || missing > 0 {
		t.Errorf("%v, %d chains, %d of %d acknowledged records are missing, %+v", err, len(report.Chains), missing, len(ids), report.Problems)
	}
}

func record(id, agent string) evidence.Record {
	return evidence.Record{
		ID: id, AgentID: agent, ActionType: "capability.request", Intent: evidence.Intent{Operation: "documents/documents:read/retrieve"},
		Decision: evidence.Allow, Time: noon, Details: evidence.Details{Recorder: "serve"},
	}
}

func appendTo(ctx context.Context, s *Store, r evidence.Record) error {
	return s.Update(ctx, func(tx issuer.Tx) error { _, err := tx.Append(r); return err })
}

// EXT-25: nodes that write to the same chains at one time make one log, in which
// every record that was acknowledged stands once.
func TestEXT25_NodesWriteOneLog(t *testing.T) {
	j := newJoint(t)
	nodes := []*Store{j.node(t), j.node(t), j.node(t)}
	var mu sync.Mutex
	acknowledged := map[string]bool{}
	var all sync.WaitGroup
	for n, s := range nodes {
		for p := range 6 {
			all.Go(func() {
				for i := range 20 {
					id := fmt.Sprintf("rec_%d_%d_%d", n, p, i)
					if err := appendTo(t.Context(), s, record(id, fmt.Sprint("agent-", p%2))); err != nil {
						t.Error(err)
						continue
					}
					mu.Lock()
					acknowledged[id] = true
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	if len(acknowledged) != 360 {
		t.Errorf("%d records were acknowledged", len(acknowledged))
	}
	for _, s := range nodes {
		j.wantLog(t, s, 2, acknowledged)
	}
}

// What one node has changed, the other changes from there: sequence, modes, budgets.
func TestNodesSeeEachOther(t *testing.T) {
	j := newJoint(t)
	a, b := j.node(t), j.node(t)
	var all sync.WaitGroup
	for n, s := range []*Store{a, b} {
		all.Go(func() {
			for i := range 15 {
				err := s.Update(t.Context(), func(tx issuer.Tx) error {
					_, err := tx.Revoke(issuer.Revocation{Kind: issuer.KindRevoke, Target: fmt.Sprint("cap_", n, "_", i), At: noon, Until: noon.Add(time.Hour)})
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	before, err := b.Versions(t.Context())
	if err != nil || before.Stops != 30 {
		t.Errorf("%+v %v", before, err)
	}
	err = a.Update(t.Context(), func(tx issuer.Tx) error { return tx.SetMode("documents", "require") })
	after, errAfter := b.Versions(t.Context())
	if err != nil || errAfter != nil || after.Modes != before.Modes+1 || after.Stops != before.Stops {
		t.Errorf("%v %v: %+v after %+v", err, errAfter, after, before)
	}
	err = b.View(t.Context(), func(r issuer.Reader) error {
		events, err := r.Revocations(0)
		for n, e := range events {
			if e.Sequence != int64(n+1) {
				t.Errorf("event %d has number %d", n+1, e.Sequence)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	if err := a.Update(t.Context(), func(tx issuer.Tx) error { return errors.Join(tx.SetMode("documents", "observe"), boom) }); !errors.Is(err, boom) {
		t.Error(err)
	}
	if again, err := b.Versions(t.Context()); err != nil || again != after {
		t.Errorf("a change that did not happen is counted: %+v %v", again, err)
	}
}

// Values that nodes keep for each other: one node can use each once, and a taken one is gone.
func TestNodesKeepForEachOther(t *testing.T) {
	j := newJoint(t)
	nodes := []*Store{j.node(t), j.node(t)}
	var mu sync.Mutex
	won := 0
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			ok, err := nodes[i%2].Once(t.Context(), "proof", "p", noon.Add(time.Minute), noon)
			if err != nil {
				t.Error(err)
			}
			if ok {
				mu.Lock()
				won++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	later, err := nodes[0].Once(t.Context(), "proof", "p", noon.Add(3*time.Minute), noon.Add(2*time.Minute))
	other, errOther := nodes[0].Once(t.Context(), "login", "p", noon.Add(time.Minute), noon)
	if won != 1 || !later || !other || err != nil || errOther != nil {
		t.Errorf("%d used it; later %t, another kind %t, %v %v", won, later, other, err, errOther)
	}
	a, b := nodes[0], nodes[1]
	if err := errors.Join(a.Keep(t.Context(), "login", "x", []byte("one"), noon.Add(time.Minute)), a.Keep(t.Context(), "login", "x", []byte("two"), noon.Add(time.Minute)),
		a.Keep(t.Context(), "login", "y", nil, noon.Add(time.Minute)), a.Keep(t.Context(), "login", "old", []byte("z"), noon.Add(-time.Second))); err != nil {
		t.Fatal(err)
	}
	if v, err := b.Kept(t.Context(), "login", "x", noon); err != nil || string(v) != "two" {
		t.Errorf("%q %v", v, err)
	}
	list, err := b.AllKept(t.Context(), "login", noon)
	if err != nil || len(list) != 3 { // p, x and y
		t.Errorf("%v %v", list, err)
	}
	if v, err := b.Take(t.Context(), "login", "x", noon); err != nil || string(v) != "two" {
		t.Errorf("%q %v", v, err)
	}
	for name, look := range map[string]func() error{
		"taken":         func() error { _, err := a.Take(t.Context(), "login", "x", noon); return err },
		"over":          func() error { _, err := a.Take(t.Context(), "login", "old", noon); return err },
		"looked at":     func() error { _, err := a.Kept(t.Context(), "login", "x", noon); return err },
		"at the end":    func() error { _, err := a.Kept(t.Context(), "login", "y", noon.Add(time.Hour)); return err },
		"was forgotten": func() error { return errors.Join(b.Forget(t.Context(), "login", "y"), look(t, a, "y")) },
	} {
		if err := look(); !errors.Is(err, issuer.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := a.ForgetKept(t.Context(), noon.Add(time.Hour)); err != nil {
		t.Error(err)
	}
}

func look(t *testing.T, s *Store, id string) error {
	t.Helper()
	_, err := s.Kept(t.Context(), "login", id, noon)
	return err
}

// cut is a way to the database on which connections can be cut.
type cut struct {
	net.Listener
	to string

	mu    sync.Mutex
	conns map[net.Conn]bool
	// lose has what the database answers to the next COMMIT lost on its way.
	lose bool
	lost int
}

func newCut(t *testing.T) *cut {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cut{Listener: l, to: shared.Cluster().Folder() + "/.s.PGSQL.5432", conns: map[net.Conn]bool{}}
	t.Cleanup(func() { _ = l.Close(); c.all() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go c.serve(in)
		}
	}()
	return c
}

func (c *cut) all() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.conns {
		_ = conn.Close()
	}
}

// serve passes bytes on. Where an answer is to be lost it hangs up on the client
// when the database has been told to commit and has answered.
func (c *cut) serve(in net.Conn) {
	out, err := (&net.Dialer{}).DialContext(context.Background(), "unix", c.to)
	if err != nil {
		_ = in.Close()
		return
	}
	c.mu.Lock()
	c.conns[in], c.conns[out] = true, true
	c.mu.Unlock()
	committing := make(chan struct{}, 64)
	go func() {
		b := make([]byte, 1<<16)
		for {
			n, err := in.Read(b)
			c.mu.Lock()
			lose := c.lose && bytes.Contains(b[:n], []byte("COMMIT\x00")) // not READ COMMITTED
			if lose {
				c.lose = false
				c.lost++
			}
			c.mu.Unlock()
			if lose {
				committing <- struct{}{}
			}
			if _, errWrite := out.Write(b[:n]); err != nil || errWrite != nil {
				_ = out.Close()
				return
			}
		}
	}()
	b := make([]byte, 1<<16)
	for {
		n, err := out.Read(b)
		select {
		case <-committing:
			_, _ = in.Close(), out.Close()
			return
		default:
		}
		if _, errWrite := in.Write(b[:n]); err != nil || errWrite != nil {
			_, _ = in.Close(), out.Close()
			return
		}
	}
}

func (c *cut) url(database string) string {
	return "postgres://powerbox@" + c.Addr().String() + "/" + database + "?sslmode=disable"
}

// EXT-27: where the answer to a commit is lost the node finds out what became of it:
// the change happens once, and is acknowledged.
func TestEXT27_ALostAnswerIsFoundOut(t *testing.T) {
	j := newJoint(t)
	way := newCut(t)
	name := j.url[strings.Index(j.url, "@/")+2 : strings.Index(j.url, "?")]
	j.url = way.url(name)
	s := j.node(t)
	ids := map[string]bool{}
	ran := 0
	for i := range 12 {
		way.mu.Lock()
		way.lose = i%3 == 1
		way.mu.Unlock()
		id := fmt.Sprint("rec_", i)
		err := s.Update(t.Context(), func(tx issuer.Tx) error {
			ran++
			modes, err := tx.Modes()
			mode := modes["documents"]
			if err == nil {
				err = tx.SetMode("documents", mode+"x")
			}
			if err == nil {
				_, err = tx.Append(record(id, "documents"))
			}
			return err
		})
		if err != nil {
			t.Fatalf("change %d: %v", i, err)
		}
		ids[id] = true
	}
	j.wantLog(t, s, 1, ids)
	var mode string
	if err := s.View(t.Context(), func(r issuer.Reader) error { modes, err := r.Modes(); mode = modes["documents"]; return err }); err != nil {
		t.Fatal(err)
	}
	if mode != strings.Repeat("x", 12) || way.lost != 4 || ran != 12 {
		t.Errorf("mode %q after 12 changes, %d answers lost, %d runs", mode, way.lost, ran)
	}
}

// EXT-27: connections that are cut at any moment lose no change and double none.
func TestEXT27_LostConnectionsLoseNothing(t *testing.T) {
	j := newJoint(t)
	way := newCut(t)
	name := j.url[strings.Index(j.url, "@/")+2 : strings.Index(j.url, "?")]
	j.url = way.url(name)
	s := j.node(t)
	stop := make(chan struct{})
	var mu sync.Mutex
	ids := map[string]bool{}
	var cutting sync.WaitGroup
	cutting.Go(func() {
		const often = 15 * time.Millisecond
		for had, wait := 0, often; ; {
			select {
			case <-stop:
				return
			case <-time.After(wait):
				way.all()
			}
			mu.Lock()
			has := len(ids)
			mu.Unlock()
			// Where nothing was written since, a connection lives longer the next time: on
			// a machine that is busy none would ever do for a change.
			if wait *= 2; has > had {
				had, wait = has, often
			}
		}
	})
	var all sync.WaitGroup
	for p := range 8 {
		all.Go(func() {
			for i := range 15 {
				id := fmt.Sprintf("rec_%d_%d", p, i)
				if err := appendTo(t.Context(), s, record(id, "documents")); err != nil {
					t.Errorf("%s: %v", id, err)
					continue
				}
				mu.Lock()
				ids[id] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	close(stop)
	cutting.Wait()
	j.wantLog(t, s, 1, ids)
	if n, err := s.Records(t.Context()); err != nil || n != 120 {
		t.Errorf("%d records, %v; want 120", n, err)
	}
}

// A writer whose epoch is no longer that of the row does not commit.
func TestEXT25_AnotherEpochDoesNotCommit(t *testing.T) {
	j := newJoint(t)
	s := j.node(t)
	if err := appendTo(t.Context(), s, record("rec_1", "documents")); err != nil {
		t.Fatal(err)
	}
	// As where the database's lock does not hold: the row moves under the writer. It is
	// tried once here, as the writer tries it again and again.
	_, _, err := s.try(t.Context(), []*change{{ctx: t.Context(), run: func(tx *transaction) error {
		tx.head.epoch--
		_, err := tx.Append(record("rec_2", "documents"))
		return err
	}}}, false)
	if !errors.Is(err, errMoved) || !again(err) {
		t.Errorf("%v", err)
	}
	j.wantLog(t, s, 1, map[string]bool{"rec_1": true})
	if n, err := s.Records(t.Context()); err != nil || n != 1 {
		t.Errorf("%d records, %v", n, err)
	}
}

func TestMigrations(t *testing.T) {
	url := shared.Database(t)
	if s, err := Status(t.Context(), url); err != nil || s.Has != 0 || s.Wants < 1 {
		t.Errorf("%+v %v", s, err)
	}
	c := newJoint(t)
	c.url = url
	if _, err := Open(t.Context(), configOf(url, c.keys)); !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), "powerbox migrate up") {
		t.Errorf("an empty database: %v", err)
	}
	for range 2 {
		if s, err := Migrate(t.Context(), url); err != nil || s.Has != s.Wants {
			t.Errorf("%+v %v", s, err)
		}
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, true)"); err != nil {
		t.Fatal(err)
	}
	_, errMigrate := Migrate(t.Context(), url)
	_, errOpen := Open(t.Context(), configOf(url, c.keys))
	if !errors.Is(errMigrate, ErrSchema) || !errors.Is(errOpen, ErrSchema) || !strings.Contains(errOpen.Error(), "newer") {
		t.Errorf("a newer schema: %v, %v", errMigrate, errOpen)
	}
}

// Another machine is reached in the clear, or under any name, by no URL.
func TestWhatLeavesTheMachineIsEncrypted(t *testing.T) {
	for url, ok := range map[string]bool{
		"postgres://u:secret@db.example.org/x":                                  false,
		"postgres://u:secret@db.example.org/x?sslmode=disable":                  false,
		"postgres://u:secret@db.example.org/x?sslmode=require":                  false,
		"postgres://u:secret@db.example.org/x?sslmode=verify-full":              true,
		"postgres://u:secret@localhost,db.example.org/x?sslmode=prefer":         false,
		"postgres://u:secret@a.example.org,b.example.org/x?sslmode=verify-full": true,
		"postgres://u:secret@127.0.0.1/x":                                       true,
		"postgres://u:secret@localhost:5433/x":                                  true,
		"postgres://u:secret@/x?host=/run/postgresql":                           true,
		"postgres://u:secret@10.0.0.1/x?sslmode=disable":                        false,
		"postgres://u:secret@localhost/x?sslmode=nonsense":                      false,
	} {
		_, err := parse(url)
		if (err == nil) != ok {
			t.Errorf("%s: %v", url, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the password is in the error: %v", err)
		}
	}
}
