package sqlite

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// killedStore is the environment variable that makes this test binary the
// process that is killed; its value is the store's path.
const killedStore = "POWERBOX_TEST_KILLED_STORE"

// killedSpool is the one that has it write ahead of its file; its value begins the
// ids of the records, which then grow as those of the product do.
const killedSpool = "POWERBOX_TEST_KILLED_SPOOL"

func TestMain(m *testing.M) {
	if path := os.Getenv(killedStore); path != "" {
		appendUntilKilled(path)
	}
	os.Exit(m.Run())
}

// appendUntilKilled appends from 64 goroutines and writes the id of every
// record that was acknowledged, one in a line.
func appendUntilKilled(path string) {
	f := newFixture(path)
	name, spooled := os.LookupEnv(killedSpool)
	f.config.Spool = spooled
	var made atomic.Int64
	s, err := Open(context.Background(), f.config)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	acknowledged := make(chan string)
	for p := range 64 {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("rec_%d_%d_%d", os.Getpid(), p, i)
				if spooled {
					id = fmt.Sprintf("rec_%s_%09d", name, made.Add(1))
				}
				err := s.Update(context.Background(), func(tx issuer.Tx) error {
					if spooled && p == 0 && i%20 == 0 { // what writes state brings the file up to date
						if err := tx.SetMode("documents", "require"); err != nil {
							return err
						}
					}
					_, err := tx.Append(record(id))
					return err
				})
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				acknowledged <- id
			}
		}()
	}
	for id := range acknowledged {
		fmt.Println(id)
	}
}

// A process that is killed while it appends loses nothing that it
// acknowledged, and what it leaves behind verifies.
func TestEXT27_AKilledProcessLosesNoAcknowledgedRecord(t *testing.T) {
	t.Run("into the file", func(t *testing.T) { loseNothing(t, newFixture(t.TempDir()+"/powerbox.db")) })
	t.Run("ahead of the file", func(t *testing.T) {
		f := newFixture(t.TempDir() + "/powerbox.db")
		f.config.Spool = true
		loseNothing(t, f)
	})
}

func loseNothing(t *testing.T, f fixture) {
	random := mathrand.New(mathrand.NewPCG(1, 2))
	acknowledged := map[string]bool{}
	for n := range 10 {
		for _, id := range f.killed(t, n, 1+random.IntN(300)) {
			acknowledged[id] = true
		}
		f.checkAfterKill(t, n, acknowledged)
	}
	if len(acknowledged) < 10 {
		t.Errorf("only %d records were acknowledged: nothing was shown", len(acknowledged))
	}
}

// killed starts a process that appends, kills it after it has acknowledged n
// records, and returns all that it acknowledged.
func (f fixture) killed(t *testing.T, round, n int) []string {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), killedStore+"="+f.config.Path)
	if f.config.Spool {
		c.Env = append(c.Env, fmt.Sprintf("%s=%02d", killedSpool, round))
	}
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var ids []string
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break // a line that was cut off acknowledges nothing
		}
		if ids = append(ids, line[:len(line)-1]); len(ids) == n {
			if err := c.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.Wait(); err == nil || c.ProcessState.Exited() {
		t.Fatalf("the process was not killed: %v", err)
	}
	return ids
}

func (f fixture) checkAfterKill(t *testing.T, n int, acknowledged map[string]bool) {
	t.Helper()
	s := openStore(t, f.config)
	report := f.verify(t, s)
	if report.Verdict() != evidence.OK {
		t.Fatalf("kill %d: %+v", n, report.Problems)
	}
	for id := range acknowledged {
		if err := s.View(t.Context(), func(r issuer.Reader) error { _, err := r.Record(id); return err }); err != nil {
			t.Fatalf("kill %d: %s was acknowledged and is lost: %v", n, id, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// fixture is a store with keys that depend on nothing, so that another process
// has the same, and what a stranger pins to verify its evidence.
type fixture struct {
	config Config
	key    evidence.Key
	trust  evidence.Trust
}

func newFixture(path string) fixture {
	recordKey := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32))
	logKey := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, 32))
	signer := must(evidence.NewEd25519Signer(recordKey))
	key := must(evidence.NewKey(recordKey.Public(), "serve"))
	checkpoint, verifier, err := evidence.NewLogSigner("example.org/log", logKey)
	if err != nil {
		panic(err)
	}
	return fixture{
		config: Config{Path: path, Signer: signer, Origin: "example.org/log", Checkpoint: checkpoint, Random: rand.Reader},
		key:    key,
		trust: evidence.Trust{
			CheckpointKeys: []string{verifier}, RecordKeys: []evidence.PinnedKey{{Key: key, Agents: []string{"*"}}},
		},
	}
}

// verify exports the store's evidence and verifies it as a stranger would.
func (f fixture) verify(t *testing.T, s *Store) evidence.Report {
	t.Helper()
	var out bytes.Buffer
	if err := s.Export(t.Context(), &out, []evidence.Key{f.key}); err != nil {
		t.Fatal(err)
	}
	return must(evidence.Verify(&out, f.trust))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
