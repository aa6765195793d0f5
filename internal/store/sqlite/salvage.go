package sqlite

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/store/spool"
)

// Salvaged is what became of the journal of a store.
type Salvaged struct {
	Kept   int64  `json:"kept"`             // records that the file did not have and that are as they were
	Sealed int64  `json:"sealed"`           // records behind the damage, sealed anew behind its record
	Bytes  int64  `json:"bytes"`            // that hold no whole record
	At     int64  `json:"at"`               // byte of the first of them
	Lost   int64  `json:"lost"`             // records that are missing
	Record string `json:"record,omitempty"` // id of the record of the loss, "" where nothing was damaged
	Aside  string `json:"aside,omitempty"`  // where the damaged journal is
}

// Salvage has the file of a store take in every whole record of a damaged journal. A
// record of the loss replaces the damage; those behind it are sealed
// anew, since they cannot follow records that are gone. The damaged journal stays.
func Salvage(ctx context.Context, c Config, recorder string, now time.Time, newID func() (string, error)) (Salvaged, error) {
	var done Salvaged
	path := c.Path + spoolSuffix
	read, err := spool.ReadJournal(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(read.Holes) == 0 {
		return done, nil
	}
	if err != nil {
		return done, err
	}
	c.Spool = false
	s, err := Open(ctx, c)
	if err != nil {
		return done, err
	}
	done.At = read.Holes[0].At
	for _, h := range read.Holes {
		done.Bytes += h.Bytes
	}
	err = s.update(ctx, func(t *transaction) error {
		return done.takeIn(t, read, recorder, now, newID)
	})
	if err == nil {
		done.Aside = path + ".damaged-" + strconv.FormatInt(now.Unix(), 10)
		err = os.Rename(path, done.Aside)
	}
	return done, errors.Join(err, s.Close())
}

// takeIn appends the records that the file does not have.
func (d *Salvaged) takeIn(t *transaction, read spool.JournalRead, recorder string, now time.Time, newID func() (string, error)) error {
	if err := t.enter(); err != nil {
		return err
	}
	var sure [][]byte
	var behind []evidence.Sealed
	place := t.tail.size // of the record that comes next
	for _, e := range read.Entries {
		if len(e.Payload) < 8 {
			return errors.New("an entry has no place")
		}
		at := int64(binary.BigEndian.Uint64(e.Payload))
		if at < t.tail.size {
			continue
		}
		if e.Sure {
			sure, place = append(sure, e.Payload), at+1
			continue
		}
		sealed, err := evidence.ParseSealed(e.Payload[8:])
		if err == nil {
			err = sealed.CheckHash()
		}
		if err != nil {
			return fmt.Errorf("record %d of the log: %w", at, err)
		}
		if _, there, err := t.Logged(sealed.Record().ID); there || err != nil { // a salvage before this one took it in
			if err != nil {
				return err
			}
			continue
		}
		d.Lost += at - place
		behind, place = append(behind, sealed), at+1
	}
	if until := int64(read.Until); until > place {
		d.Lost += until - place // and nothing behind them is whole
	}
	before := len(t.pending)
	if err := t.restore(sure); err != nil {
		return err
	}
	d.Kept, d.Sealed = int64(len(t.pending)-before), int64(len(behind))
	if d.Lost == 0 && d.Sealed == 0 {
		return nil
	}
	return d.again(t, behind, recorder, now, newID)
}

// again appends the record of the loss, and the records behind it.
func (d *Salvaged) again(t *transaction, behind []evidence.Sealed, recorder string, now time.Time, newID func() (string, error)) error {
	id, err := newID()
	if err != nil {
		return err
	}
	said, err := json.Marshal(map[string]any{"lost": []map[string]any{{"file": "journal", "at": d.At, "bytes": d.Bytes, "records": d.Lost}}, "sealed_anew": len(behind)})
	if err != nil {
		return err
	}
	loss := evidence.Record{
		ID: id, AgentID: issuer.Itself, ActionType: action.EvidenceSalvage.String(), Intent: evidence.Intent{Operation: action.EvidenceSalvage.String(), Details: said},
		Decision: evidence.Abstain, Time: now, Details: evidence.Details{Recorder: recorder},
	}
	if _, err := t.Append(loss); err != nil {
		return err
	}
	for _, s := range behind {
		if r := s.Record(); r.Details.Recorder != recorder {
			return fmt.Errorf("record %q is of recorder %q, and only %q seals anew", r.ID, r.Details.Recorder, recorder)
		}
		if _, err := t.Append(s.Record()); err != nil {
			return err
		}
	}
	d.Record = id
	return nil
}
