package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/filelock"
)

// The names of the folder that takes the place of a damaged one, beside it: while it
// is written, and when it is whole.
const (
	writingName  = ".salvaging"
	salvagedName = ".salvaged"
)

// SalvageConfig says by what a spool is salvaged.
type SalvageConfig struct {
	Spool Config
	Key   evidence.Key // by which its records are verified
	// Server is where the chain stands at the server: the head of a chain without
	// records where it has none.
	Server evidence.Head
	Now    time.Time
	NewID  func() (string, error)
	// Older has a spool that is whole follow a server that lacks records which it had:
	// those that are here are sent again, and the others are on record as lost.
	Older  bool
	Reason string // of the operator, for the record
}

// Salvaged is what became of a damaged spool.
type Salvaged struct {
	Found
	Kept   int64  `json:"kept"`             // records that the server does not have and that are as they were
	Sealed int64  `json:"sealed"`           // records behind the loss, sealed anew behind its record
	Lost   []Lost `json:"lost,omitempty"`   // the missing records
	Record string `json:"record,omitempty"` // id of the record of the loss
	Aside  string `json:"aside,omitempty"`  // where the damaged files are

	atServer int64 // records that are kept although the server has them
}

// Lost is a loss, as it continues record.
type Lost struct {
	From  int64  `json:"from"`         // number of the first record that is missing
	To    int64  `json:"to,omitempty"` // number of the first one behind; absent where that is not known
	File  string `json:"file,omitempty"`
	At    int64  `json:"at"`    // byte of the file
	Bytes int64  `json:"bytes"` // that hold no whole record
}

// Salvage replaces a damaged spool by a folder that holds every whole record
// which the server does not have. Records behind a loss cannot follow records that are
// gone: they are sealed anew, behind a record of the loss. The damaged files stay.
func Salvage(c SalvageConfig) (Salvaged, error) {
	dir := filepath.Clean(c.Spool.Dir)
	lock, err := filelock.Take(filepath.Join(dir, "lock"))
	if err != nil {
		return Salvaged{}, fmt.Errorf("spool: %w", err)
	}
	s, err := salvage(c, dir)
	return s, errors.Join(err, lock.Close())
}

func salvage(c SalvageConfig, dir string) (Salvaged, error) {
	found, err := Check(dir, c.Key)
	s := Salvaged{Found: found}
	if err != nil || found.Whole() && !c.Older {
		return s, err
	}
	head := c.Server
	if found.chain != (evidence.ChainID{}) && found.chain != head.ChainID {
		if head.Sequence > 0 {
			return s, fmt.Errorf("spool: its records are of chain %s, and the server has chain %s of this gateway: they are not of one enrolment", found.chain, head.ChainID)
		}
		head = evidence.Genesis(found.chain)
	}
	payloads, err := s.rebuild(c, head)
	if err != nil {
		return s, err
	}
	if err := writeSpool(dir+writingName, head, s.atServer, payloads); err != nil {
		return s, fmt.Errorf("spool: %w", err)
	}
	s.Aside = dir + ".damaged-" + strconv.FormatInt(c.Now.Unix(), 10)
	err = errors.Join(os.RemoveAll(dir+salvagedName), os.Rename(dir+writingName, dir+salvagedName))
	if err == nil {
		err = os.Rename(dir, s.Aside)
	}
	if err == nil {
		err = finishSalvage(dir)
	}
	if err != nil {
		return s, fmt.Errorf("spool: %w", err)
	}
	return s, nil
}

// finishSalvage puts a salvaged folder in place where the damaged one has gone.
func finishSalvage(dir string) error {
	dir = filepath.Clean(dir)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(dir + salvagedName); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := os.Rename(dir+salvagedName, dir); err != nil {
		return err
	}
	return syncDir(filepath.Dir(dir))
}

// rebuild returns the records that follow the server's: those that are as they
// were, the record of the loss, and those behind it.
func (s *Salvaged) rebuild(c SalvageConfig, head evidence.Head) ([][]byte, error) {
	var out [][]byte
	for {
		r, ok := s.records[head.Sequence]
		if !ok || r.Prev() != head.Hash {
			break
		}
		out, head = append(out, r.Bytes()), r.Head()
	}
	s.Kept = int64(len(out))
	behind := slices.DeleteFunc(slices.Sorted(maps.Keys(s.records)), func(n int64) bool { return n < head.Sequence })
	s.lose(head.Sequence, behind)
	if len(s.Lost) == 0 && (len(out) > 0 || head.Sequence == 0) && !c.Older {
		return out, nil
	}
	// A chain continues from its last record. Where that is at the server alone, the
	// record of the loss says that nothing is missing.
	if last, ok := s.records[head.Sequence-1]; len(s.Lost) == 0 && ok && last.Hash() == head.Hash && !c.Older {
		s.atServer = 1
		return [][]byte{last.Bytes()}, nil
	}
	loss, err := s.loss(c, len(behind))
	if err != nil {
		return nil, err
	}
	for _, r := range append([]evidence.Record{loss}, s.recordsOf(behind)...) {
		sealed, err := evidence.Seal(head, r, c.Spool.Signer)
		if err != nil {
			return nil, fmt.Errorf("spool: record %q: %w", r.ID, err)
		}
		out, head = append(out, sealed.Bytes()), sealed.Head()
	}
	s.Sealed = int64(len(behind))
	return out, nil
}

// lose notes the missing records from one on.
func (s *Salvaged) lose(from int64, behind []int64) {
	next := from
	for _, n := range behind {
		if n > next {
			s.Lost = append(s.Lost, s.lost(next, n))
		}
		next = n + 1
	}
	end := max(s.end, s.Shipped, s.marked)
	switch {
	case end > next:
		s.Lost = append(s.Lost, s.lost(next, end))
	case end < 0 && s.unread(next):
		s.Lost = append(s.Lost, s.lost(next, -1))
	case len(behind) > 0 && len(s.Lost) == 0:
		// They do not follow what the server has: it ends in another record.
		s.Lost = append(s.Lost, Lost{From: from, To: behind[0]})
	}
}

// unread reports whether bytes behind the last whole record may hold acknowledged
// ones.
func (s *Salvaged) unread(next int64) bool {
	return slices.ContainsFunc(s.Damage, func(h Hole) bool { return h.To < 0 && h.From >= next })
}

// lost is a loss with the damage that it came from.
func (s *Salvaged) lost(from, to int64) Lost {
	l := Lost{From: from, To: max(to, 0)}
	for _, h := range s.Damage {
		if h.From <= from && (h.To > from || h.To < 0) {
			l.File, l.At, l.Bytes = h.File, h.At, l.Bytes+h.Bytes
		}
	}
	return l
}

// loss is the record of the lost records.
func (s *Salvaged) loss(c SalvageConfig, behind int) (evidence.Record, error) {
	id, err := c.NewID()
	if err != nil {
		return evidence.Record{}, err
	}
	details := map[string]any{"lost": s.Lost, "sealed_anew": behind}
	if c.Older {
		details["older_server"], details["reason"] = c.Server.Sequence, c.Reason
	}
	said, err := json.Marshal(details)
	if err != nil {
		return evidence.Record{}, err
	}
	s.Record = id
	return evidence.Record{
		ID: id, AgentID: c.Spool.Agent, ActionType: action.EvidenceSalvage.String(), Intent: evidence.Intent{Operation: action.EvidenceSalvage.String(), Details: said},
		Decision: evidence.Abstain, Time: c.Now, Details: evidence.Details{Recorder: c.Spool.Recorder},
	}, nil
}

func (s *Salvaged) recordsOf(numbers []int64) []evidence.Record {
	out := make([]evidence.Record, len(numbers))
	for i, n := range numbers {
		out[i] = s.records[n].Record()
	}
	return out
}

// writeSpool writes a spool of records that follow a head, each a batch of its own.
// The first of them may be ones that the server has.
func writeSpool(dir string, head evidence.Head, atServer int64, payloads [][]byte) error {
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return err
	}
	var data []byte
	for i, p := range payloads {
		data = appendFrame(data, uint64(i)+1, true, p)
	}
	if len(payloads) > 0 {
		if err := replace(filepath.Join(dir, fmt.Sprintf("%020d%s", head.Sequence-atServer, suffix)), data); err != nil {
			return err
		}
	}
	next := head.Sequence - atServer + int64(len(payloads))
	return errors.Join(replace(filepath.Join(dir, "chain"), []byte(head.ChainID.String())),
		replace(filepath.Join(dir, "shipped"), []byte(strconv.FormatInt(head.Sequence, 10))),
		replace(filepath.Join(dir, endName), []byte(strconv.FormatInt(next, 10))))
}
