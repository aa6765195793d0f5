package spool

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
)

// recordKey is the key by which records of [config] verify.
func recordKey(t *testing.T) evidence.Key {
	t.Helper()
	key, err := evidence.NewKey(ed25519.NewKeyFromSeed(make([]byte, 32)).Public(), "gw_1")
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// parts are the segments of a spool.
func parts(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil || len(names) < 3 {
		t.Fatalf("%v %v", names, err)
	}
	return names
}

// edit changes a file.
func edit(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, change(data), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// faults break a spool of many segments, each in another way.
var faults = map[string]func(t *testing.T, dir string){
	"a bit is flipped in the middle": func(t *testing.T, dir string) {
		edit(t, parts(t, dir)[1], func(d []byte) []byte { d[len(d)/2] ^= 1; return d })
	},
	"a block is zeroed": func(t *testing.T, dir string) {
		edit(t, parts(t, dir)[1], func(d []byte) []byte { clear(d[100:2000]); return d })
	},
	"a segment is missing": func(t *testing.T, dir string) {
		if err := os.Remove(parts(t, dir)[1]); err != nil {
			t.Fatal(err)
		}
	},
	"the first segment is missing": func(t *testing.T, dir string) {
		if err := os.Remove(parts(t, dir)[0]); err != nil {
			t.Fatal(err)
		}
	},
	"a segment is cut off": func(t *testing.T, dir string) {
		edit(t, parts(t, dir)[1], func(d []byte) []byte { return d[:len(d)/2] })
	},
	"the last segment is cut off": func(t *testing.T, dir string) {
		all := parts(t, dir)
		edit(t, all[len(all)-1], func(d []byte) []byte { return d[:len(d)/3] })
	},
	"the last segment is missing": func(t *testing.T, dir string) {
		all := parts(t, dir)
		if err := os.Remove(all[len(all)-1]); err != nil {
			t.Fatal(err)
		}
	},
	"the name of the chain is zeroed": func(t *testing.T, dir string) {
		edit(t, filepath.Join(dir, "chain"), func(d []byte) []byte { clear(d); return d })
	},
}

// broken is a spool with so many records at the server, which was closed and then
// broken.
func broken(t *testing.T, shipped int, fault func(*testing.T, string)) (c Config, to *server, all []string) {
	t.Helper()
	c = config(t, filepath.Join(t.TempDir(), "spool"))
	s := open(t, c)
	to = &server{}
	all = fill(t, s, shipped)
	if shipped > 0 {
		drained(t, s, to)
	}
	if err := s.Shipped(int64(shipped)); err != nil {
		t.Fatal(err)
	}
	all = append(all, fill(t, s, 40)...)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	fault(t, c.Dir)
	return c, to, all
}

func salvaged(t *testing.T, c Config, to *server) Salvaged {
	t.Helper()
	s, err := Salvage(SalvageConfig{Spool: c, Key: recordKey(t), Server: to.head, Now: noon, NewID: func() (string, error) { return "rec_loss", nil }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestATK74_DamagedSpoolIsSalvaged breaks spools in many ways. Each is refused with a
// message, and salvaged: every whole record is sent, and the loss is on record.
func TestATK74_DamagedSpoolIsSalvaged(t *testing.T) {
	for name, fault := range faults {
		for _, shipped := range []int{0, 3} {
			t.Run(name, func(t *testing.T) {
				c, to, all := broken(t, shipped, fault)
				if _, err := Open(c); err == nil {
					t.Fatal("it was opened")
				} else if name != "the name of the chain is zeroed" && !errors.Is(err, ErrDamaged) {
					t.Errorf("%v", err)
				}
				found, err := Check(c.Dir, recordKey(t))
				if err != nil || found.Whole() {
					t.Fatalf("%+v %v", found, err)
				}
				done := salvaged(t, c, to)
				s := open(t, c)
				drained(t, s, to)
				got := to.got()
				var missing []string
				for _, id := range all {
					if !slices.Contains(got, id) {
						missing = append(missing, id)
					}
				}
				lost := int64(0)
				for _, l := range done.Lost {
					lost += l.To - l.From
				}
				if lost != int64(len(missing)) || (done.Record != "") != (lost > 0) || slices.Contains(got, "rec_loss") != (lost > 0) {
					t.Errorf("%d are missing, %d are said to be: %+v", len(missing), lost, done.Lost)
				}
				if name != "the name of the chain is zeroed" && name != "the first segment is missing" && lost == 0 {
					t.Error("nothing is lost")
				}
				if len(done.Aside) == 0 {
					t.Error("the damaged files are gone")
				}
				more := fill(t, s, 2)
				drained(t, s, to)
				if got := to.got(); !slices.Contains(got, more[1]) {
					t.Error("the chain does not go on")
				}
			})
		}
	}
}

// TestATK74_SalvageAsksWhatTheServerHas damages records that the server has already:
// nothing is lost.
func TestATK74_SalvageAsksWhatTheServerHas(t *testing.T) {
	c := config(t, filepath.Join(t.TempDir(), "spool"))
	s := open(t, c)
	all := fill(t, s, 40)
	to := &server{fail: 1} // the answer is lost: what the server has is not noted
	if _, err := s.shipOnce(t.Context(), to.send); err == nil {
		t.Fatal("the answer came")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	faults["a bit is flipped in the middle"](t, c.Dir)
	if done := salvaged(t, c, to); len(done.Lost) != 0 {
		t.Errorf("lost: %+v", done.Lost)
	}
	again := open(t, c)
	all = append(all, fill(t, again, 1)...)
	drained(t, again, to)
	if got := to.got(); !slices.Equal(got, all) {
		t.Errorf("%v", got)
	}
}

// TestATK74_LossIsSaid reads the record of a loss, and finishes a salvage that a crash
// interrupted.
func TestATK74_LossIsSaid(t *testing.T) {
	c, to, _ := broken(t, 0, faults["a segment is missing"])
	done := salvaged(t, c, to)
	if err := os.Rename(c.Dir, c.Dir+salvagedName); err != nil { // the crash
		t.Fatal(err)
	}
	s := open(t, c)
	waiting, err := s.Waiting()
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Lost []Lost `json:"lost"`
		Anew int    `json:"sealed_anew"`
	}
	for _, data := range waiting {
		sealed, err := evidence.ParseSealed(data)
		if err != nil || sealed.CheckSignature(recordKey(t)) != nil {
			t.Fatalf("%v %v", err, sealed.CheckSignature(recordKey(t)))
		}
		if action.EvidenceSalvage.Is(sealed.Record().ActionType) {
			if err := json.Unmarshal(sealed.Record().Intent.Details, &said); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(said.Lost) != 1 || said.Lost[0].To <= said.Lost[0].From || said.Anew == 0 || int64(said.Anew) != done.Sealed {
		t.Errorf("%+v", said)
	}
	if len(done.Damage) == 0 || !strings.Contains(done.Damage[0].String(), "are lost") {
		t.Errorf("%v", done.Damage)
	}
	if _, err := Salvage(SalvageConfig{Spool: c, Key: recordKey(t), Now: noon}); err == nil {
		t.Error("an open spool was salvaged")
	}
}
