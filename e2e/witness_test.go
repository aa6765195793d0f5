package e2e

import (
	"bytes"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
	_ "modernc.org/sqlite" // what the store is in

	"github.com/powerbox-project/powerbox/evidence"
)

// tiles reads the log of a town as anybody can.
type tiles struct{ w *town }

func (r tiles) Height() int { return 8 } // C2SP tlog-tiles

func (r tiles) ReadTiles(all []tlog.Tile) ([][]byte, error) {
	var out [][]byte
	for _, tile := range all {
		out = append(out, r.w.get(r.w.url+"/"+strings.Replace(tile.Path(), "tile/8/", "tile/", 1)))
	}
	return out, nil
}

func (tiles) SaveTiles([]tlog.Tile, [][]byte) {}

// hashes reads all leaf hashes through tiles that were checked against the
// checkpoint.
func (w *town) hashes() ([]tlog.Hash, error) {
	c := w.shown()
	var places []int64
	for n := range c.Size {
		places = append(places, tlog.StoredHashIndex(0, n))
	}
	return tlog.TileHashReader(tlog.Tree{N: c.Size, Hash: c.Root}, tiles{w}).ReadHashes(places)
}

// The log of a running server is read by golang.org/x/mod as it reads any other,
// and its leaves hold no body.
func TestEXT35_TilesAreServed(t *testing.T) {
	w := watched(t)
	w.denied(600)
	key, err := note.NewVerifier(w.logKey())
	if err != nil {
		t.Fatal(err)
	}
	c, err := evidence.OpenCheckpoint(w.get(w.url+"/checkpoint"), key)
	if err != nil || c.Size < 600 || c.Origin != logName {
		t.Fatalf("%v %+v", err, c)
	}
	hashes, err := w.hashes()
	if err != nil {
		t.Fatal(err)
	}
	for first := int64(0); first < c.Size; first += 256 {
		name := fmt.Sprintf("%s/tile/entries/%03d", w.url, first/256)
		width := min(c.Size-first, 256)
		if width < 256 {
			name += fmt.Sprintf(".p/%d", width)
		}
		bundle, n := w.get(name), first
		for ; len(bundle) > 0; n++ {
			length := int(bundle[0])<<8 | int(bundle[1])
			if tlog.RecordHash(bundle[2:2+length]) != hashes[n] {
				t.Fatalf("entry %d is not that of its tile", n)
			}
			bundle = bundle[2+length:]
		}
		if n != first+width {
			t.Fatalf("%s has %d entries", name, n-first)
		}
	}
	for path, want := range map[string]struct {
		code         int
		kind, caches string
	}{
		"/checkpoint":          {200, "text/plain; charset=utf-8", "no-cache"},
		"/tile/0/000":          {200, "application/octet-stream", "public, max-age=31536000, immutable"},
		"/tile/0/000.p/3":      {200, "application/octet-stream", "public, max-age=31536000, immutable"},
		"/tile/1/000.p/2":      {200, "application/octet-stream", "public, max-age=31536000, immutable"},
		"/tile/entries/001":    {200, "application/octet-stream", "public, max-age=31536000, immutable"},
		"/tile/0/002":          {404, "application/problem+json", ""}, // it is not full
		"/tile/1/000":          {404, "application/problem+json", ""},
		"/tile/2/000.p/1":      {404, "application/problem+json", ""},
		"/tile/63/000.p/1":     {404, "application/problem+json", ""},
		"/tile/0/x999/999":     {404, "application/problem+json", ""},
		"/tile/data/000":       {404, "application/problem+json", ""},
		"/tile/0/0":            {404, "application/problem+json", ""},
		"/tile/entries/000.p/": {404, "application/problem+json", ""},
	} {
		r, err := http.Get(w.url + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil || r.StatusCode != want.code || r.Header.Get("Content-Type") != want.kind || r.Header.Get("Cache-Control") != want.caches {
			t.Errorf("%s: %s %v %v\n%.200s", path, r.Status, r.Header, err, body)
		}
		if r.StatusCode == 200 && bytes.Contains(body, []byte("documents")) {
			t.Errorf("%s names an agent", path)
		}
	}
}

// A leaf hash that was changed in the store is found by anyone who reads the tiles.
func TestATK44_TamperedTilesAreFound(t *testing.T) {
	aboutTheFile(t)
	w := watched(t)
	w.denied(16)
	if _, err := w.hashes(); err != nil {
		t.Fatal(err)
	}
	w.again(func() {
		db, err := sql.Open("sqlite", filepath.Join(w.kept(), "powerbox.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var hashes []byte
		if err := db.QueryRowContext(t.Context(), "SELECT hashes FROM tree WHERE place = 0").Scan(&hashes); err != nil {
			t.Fatal(err)
		}
		hashes[5] ^= 1
		if _, err := db.ExecContext(t.Context(), "UPDATE tree SET hashes = ? WHERE place = 0", hashes); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := w.hashes(); err == nil || !strings.Contains(err.Error(), "inconsistent") {
		t.Errorf("the tiles are believed: %v", err)
	}
}

// One record goes to a stranger with its proof, and is verified with pinned keys
// and no server, by us and by another implementation.
func TestEXT35_OneRecordWithItsProof(t *testing.T) {
	w := watched(t)
	one, two := newWatcher(t, "one.example/w", w.logKey()), newWatcher(t, "two.example/w", w.logKey())
	w.again(func() { w.under("", one, two) })
	w.denied(40)
	all := w.records("limit=1000")
	id := all[len(all)/2].ID
	dir := t.TempDir()
	record, proofs, trust := filepath.Join(dir, "record.json"), filepath.Join(dir, "record.tlog-proof"), filepath.Join(dir, "trust.json")
	if err := os.WriteFile(record, []byte(w.run("evidence", "show", id)), 0o600); err != nil {
		t.Fatal(err)
	}
	w.run("evidence", "proof", id, "--out", proofs)
	w.run("evidence", "trust", "--out", trust)
	killed(t, w.process)
	verify := func(more ...string) (string, int) {
		out, talk, code := ran(t, append([]string{"evidence", "verify", record, "--proof", proofs, "--trust", trust}, more...)...)
		return out + talk, code
	}
	said, code := verify("--witness", one.key.String(), "--witness", two.key.String())
	if code != 0 || !strings.Contains(said, id) || !strings.Contains(said, "cosigned by two.example/w") {
		t.Errorf("%d %s", code, said)
	}
	text, err := os.ReadFile(proofs)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := evidence.ParseProof(text)
	if err != nil {
		t.Fatal(err)
	}
	c, err := evidence.ReadCheckpoint(parsed.Checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := evidence.ParseSealed(bytes.TrimSpace(stored))
	if err != nil {
		t.Fatal(err)
	}
	path := make([][]byte, len(parsed.Hashes))
	for i, hash := range parsed.Hashes {
		path[i] = hash[:]
	}
	if err := proof.VerifyInclusion(rfc6962.DefaultHasher, uint64(parsed.Index), uint64(c.Size), rfc6962.DefaultHasher.HashLeaf(evidence.Leaf(sealed)), path, c.Root[:]); err != nil {
		t.Errorf("transparency-dev/merkle: %v", err)
	}
}

// A store that was restored from a backup is behind what the witnesses have
// cosigned, and is not served; neither is a new one under the name of the old.
func TestATK43_ARestoredBackupIsNotServed(t *testing.T) {
	aboutTheFile(t)
	w := watched(t)
	one, two, three := newWatcher(t, "one.example/w", w.logKey()), newWatcher(t, "two.example/w", w.logKey()), newWatcher(t, "three.example/w", w.logKey())
	w.again(func() { w.under("", one, two, three) })
	w.denied(16)
	backup, live := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "live")
	w.again(func() { copied(t, w.kept(), backup) })
	w.denied(16)
	// The log has ended, so the shown checkpoint is the one that every witness has cosigned.
	w.covers(int64(len(w.records("limit=1000"))))
	size := w.shown().Size
	killed(t, w.process)
	copied(t, w.kept(), live)

	copied(t, backup, w.kept())
	for _, want := range []string{"the store is behind", fmt.Sprintf("it has cosigned %d entries", size), "restore the newest copy"} {
		if said := w.notServed(); !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
	// That only one of them has seen the end is enough.
	killed(t, one.process)
	killed(t, three.process)
	w.under(", start_unwitnessed: unsafe", one, two, three)
	if said := w.notServed(); !strings.Contains(said, "the store is behind") {
		t.Errorf("it does not say why:\n%s", said)
	}
	// No witness answers: the state is unknown, and nothing is served.
	killed(t, two.process)
	w.under("", one, two, three)
	if said := w.notServed(); !strings.Contains(said, "start_unwitnessed") {
		t.Errorf("it does not say what to set:\n%s", said)
	}
	// The operator's word lets it start, until the witnesses are back.
	w.under(", start_unwitnessed: unsafe", one, two, three)
	w.boot()
	pid := w.process.Process.Pid
	one.boot()
	two.boot()
	eventually(t, 20*time.Second, func() string { return "it goes on\n" + w.log.String() }, func() bool {
		return syscall.Kill(pid, 0) != nil && strings.Contains(w.log.String(), "the store is behind")
	})
	three.boot()

	w.under("", one, two, three)
	for _, name := range []string{"powerbox.db", "powerbox.db-wal", "powerbox.db-shm"} {
		_ = os.Remove(filepath.Join(w.kept(), name)) // the last two need not be there
	}
	if said := w.notServed("--new-store"); !strings.Contains(said, "another evidence.origin") {
		t.Errorf("a new log under an old name:\n%s", said)
	}
	copied(t, live, w.kept())
	w.boot()
	w.denied(8)
	w.covers(size + 8)
}

// Two servers with the same keys show two histories. A witness cosigns one of
// them; anyone who holds one against the other's checkpoint, or asks for both
// witnesses, finds out.
func TestATK44_ASplitViewIsFound(t *testing.T) {
	aboutTheFile(t)
	w := watched(t)
	one, two := newWatcher(t, "one.example/w", w.logKey()), newWatcher(t, "two.example/w", w.logKey())
	w.denied(16)
	twin := watched(t)
	killed(t, w.process)
	twin.again(func() { copied(t, w.kept(), twin.kept()) })
	w.under("", one)
	w.boot()
	w.denied(16)
	w.covers(32)
	twin.again(func() { twin.under("", two) })
	twin.denied(40)
	twin.covers(56)

	for _, side := range []struct {
		w        *town
		own, far *watcher
	}{{w, one, two}, {twin, two, one}} {
		bundle, trust := side.w.exported()
		verify := func(want int, say string, more ...string) {
			t.Helper()
			out, talk, code := ran(t, append([]string{"evidence", "verify", bundle, "--trust", trust}, more...)...)
			if code != want || !strings.Contains(out+talk, say) {
				t.Errorf("%v: %d; want %d and %q\n%s%s", more, code, want, say, out, talk)
			}
		}
		verify(0, "cosigned by "+side.own.key.Name(), "--witness", side.own.key.String(), "--quorum", "1")
		verify(4, "not_witnessed", "--witness", side.far.key.String())
		verify(4, "not_witnessed", "--witness", one.key.String(), "--witness", two.key.String(), "--quorum", "2")
		verify(0, "ok", "--seen", side.own.cosigned(logName))
		verify(2, "twice", "--witness", one.key.String(), "--witness", one.key.String())
	}
	bundle, trust := w.exported()
	if out, _, code := ran(t, "evidence", "verify", bundle, "--trust", trust, "--seen", two.cosigned(logName)); code != 4 || !strings.Contains(out, "cut back") {
		t.Errorf("%d %s", code, out)
	}
	bundle, trust = twin.exported()
	if out, _, code := ran(t, "evidence", "verify", bundle, "--trust", trust, "--seen", one.cosigned(logName)); code != 4 || !strings.Contains(out, "fork") {
		t.Errorf("%d %s", code, out)
	}
	// The longer history asks the witness of the shorter one.
	killed(t, twin.process)
	twin.under("", one)
	if said := twin.notServed(); !strings.Contains(said, "shows different histories") {
		t.Errorf("it does not say why:\n%s", said)
	}
	if !strings.Contains(one.log.String(), "asks to cosign a checkpoint that does not continue") {
		t.Errorf("the witness keeps it to itself:\n%s", one.log.String())
	}
}
