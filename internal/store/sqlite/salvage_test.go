package sqlite

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// TestATK74_DamagedJournalIsSalvaged damages one of the records that are ahead of the
// file: the store takes in all others, and the loss is on record.
func TestATK74_DamagedJournalIsSalvaged(t *testing.T) {
	for name, damage := range map[string]func(journal []byte, at int) []byte{
		"a flipped bit":  func(d []byte, at int) []byte { d[at] ^= 1; return d },
		"a zeroed block": func(d []byte, at int) []byte { clear(d[at-40 : at+40]); return d },
		"bytes are gone": func(d []byte, at int) []byte { return append(d[:at], d[at+16:]...) },
	} {
		t.Run(name, func(t *testing.T) {
			live := spooling(t)
			s := openStore(t, live.config)
			free := ahead(t, s, 0, 10)
			f := live.crash(t, "", "-wal", spoolSuffix)
			free()
			journal, err := os.ReadFile(f.config.Path + spoolSuffix)
			if err == nil {
				err = os.WriteFile(f.config.Path+spoolSuffix, damage(journal, bytes.Index(journal, []byte(`"`+number(5)+`"`))), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Open(t.Context(), f.config); err == nil || !strings.Contains(err.Error(), "damaged") {
				t.Fatalf("it was opened: %v", err)
			}
			id := func() (string, error) { return "rec_loss", nil }
			recorder := record(number(0)).Details.Recorder
			done, err := Salvage(t.Context(), f.config, recorder, record(number(0)).Time, id)
			if err != nil || done.Lost != 1 || done.Kept != 4 || done.Sealed != 4 || done.Record != "rec_loss" || done.Bytes == 0 {
				t.Fatalf("%+v %v", done, err)
			}
			again, err := Salvage(t.Context(), f.config, recorder, record(number(0)).Time, id)
			if err != nil || again.Aside != "" {
				t.Errorf("a second time: %+v %v", again, err)
			}
			s = openStore(t, f.config)
			err = s.View(t.Context(), func(r issuer.Reader) error {
				page, err := r.Records(issuer.RecordQuery{Limit: 100})
				if len(page.Records) != 10 {
					t.Errorf("%d records", len(page.Records))
				}
				for n := range 10 {
					if _, err := r.Record(number(n)); (err == nil) != (n != 5) {
						t.Errorf("record %d: %v", n, err)
					}
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestATK88_DamageInTheLastBatchIsNotATear damages the last record that was acknowledged
// before a kill: the store is not opened, and a salvage puts the loss on record.
func TestATK88_DamageInTheLastBatchIsNotATear(t *testing.T) {
	live := spooling(t)
	s := openStore(t, live.config)
	free := ahead(t, s, 0, 10)
	f := live.crash(t, "", "-wal", spoolSuffix)
	free()
	journal, err := os.ReadFile(f.config.Path + spoolSuffix)
	if err != nil {
		t.Fatal(err)
	}
	journal[bytes.Index(journal, []byte(`"`+number(9)+`"`))] ^= 1
	if err := os.WriteFile(f.config.Path+spoolSuffix, journal, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), f.config); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Fatalf("it was opened: %v", err)
	}
	id := func() (string, error) { return "rec_loss", nil }
	done, err := Salvage(t.Context(), f.config, record(number(0)).Details.Recorder, record(number(0)).Time, id)
	if err != nil || done.Lost != 1 || done.Kept != 8 || done.Sealed != 0 || done.Record != "rec_loss" {
		t.Fatalf("%+v %v", done, err)
	}
	s = openStore(t, f.config)
	err = s.View(t.Context(), func(r issuer.Reader) error {
		page, err := r.Records(issuer.RecordQuery{Limit: 100})
		if len(page.Records) != 10 {
			t.Errorf("%d records", len(page.Records))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestATK74_ASalvageSkipsWhatTheFileHas damages a journal whose first records the file had
// taken in before the kill.
func TestATK74_ASalvageSkipsWhatTheFileHas(t *testing.T) {
	live := spooling(t)
	s := openStore(t, live.config)
	ahead(t, s, 0, 4)()
	if err := s.View(t.Context(), func(r issuer.Reader) error { // a reader sees every record, so the file takes them in
		_, err := r.Record(number(3))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	free := ahead(t, s, 4, 10)
	f := live.crash(t, "", "-wal", spoolSuffix)
	free()
	journal, err := os.ReadFile(f.config.Path + spoolSuffix)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(journal, []byte(`"`+number(1)+`"`)) {
		t.Fatal("the journal was begun anew, so this test shows nothing")
	}
	journal[bytes.Index(journal, []byte(`"`+number(7)+`"`))] ^= 1
	if err := os.WriteFile(f.config.Path+spoolSuffix, journal, 0o600); err != nil {
		t.Fatal(err)
	}
	done, err := Salvage(t.Context(), f.config, record(number(0)).Details.Recorder, record(number(0)).Time, func() (string, error) { return "rec_loss", nil })
	if err != nil || done.Lost != 1 || done.Kept != 2 || done.Sealed != 2 {
		t.Errorf("%+v %v; want one lost, two kept, two sealed anew", done, err)
	}
}
