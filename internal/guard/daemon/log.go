package daemon

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/store/keyring"
	"github.com/powerbox-project/powerbox/internal/store/spool"
)

// The names under which the log's records are signed.
const (
	agentID  = "coding"
	recorder = "guard"
	origin   = "powerbox.local/guard"
)

// Log is the evidence of one user's coding agents.
type Log struct {
	signer evidence.Signer

	mu      sync.Mutex
	journal *spool.Journal
	head    evidence.Head
}

func journalPath(state string) string { return filepath.Join(state, "log", "journal") }

// openLog opens the log in a folder. It belongs to one process.
func openLog(state string, keys *keyring.Ring, random io.Reader) (*Log, error) {
	if err := os.MkdirAll(filepath.Join(state, "log"), 0o700); err != nil {
		return nil, err
	}
	signer, _, err := keys.Evidence(evidence.Ed25519, recorder)
	if err != nil {
		return nil, err
	}
	journal, entries, err := spool.OpenJournal(journalPath(state))
	if err != nil {
		return nil, err
	}
	l := &Log{signer: signer, journal: journal}
	if len(entries) == 0 {
		var id evidence.ChainID
		if _, err := io.ReadFull(random, id[:]); err != nil {
			return nil, err
		}
		l.head = evidence.Genesis(id)
		return l, nil
	}
	last, err := evidence.ParseSealed(entries[len(entries)-1])
	if err != nil {
		return nil, fmt.Errorf("the log's last record: %w", err)
	}
	l.head = last.Head()
	return l, nil
}

// append records one decision. It returns when the record is on the disk.
func (l *Log) append(r evidence.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.AgentID, r.Details.Recorder = agentID, recorder
	sealed, err := evidence.Seal(l.head, r, l.signer)
	if err != nil {
		return fmt.Errorf("%w: %w", evidence.ErrNotWritten, err)
	}
	err = l.journal.Append(1, uint64(sealed.Head().Sequence), func(to []byte, _ int) []byte { return sealed.AppendTo(to) })
	if err != nil {
		return fmt.Errorf("%w: %w", evidence.ErrNotWritten, err)
	}
	l.head = sealed.Head()
	return nil
}

func (l *Log) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.journal.Close()
}

// Records returns the records of the log in a folder, oldest first. A daemon may be running.
func Records(state string) ([]evidence.Record, error) {
	entries, err := entries(state)
	if err != nil {
		return nil, err
	}
	out := make([]evidence.Record, 0, len(entries))
	for i, e := range entries {
		s, err := evidence.ParseSealed(e)
		if err != nil {
			return nil, fmt.Errorf("record %d of the log: %w", i, err)
		}
		out = append(out, s.Record())
	}
	return out, nil
}

func entries(state string) ([][]byte, error) {
	read, err := spool.ReadJournal(journalPath(state))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(read.Holes) > 0 {
		return nil, fmt.Errorf("the log is damaged at byte %d: %w", read.Holes[0].At, spool.ErrDamaged)
	}
	var out [][]byte
	for _, e := range read.Entries {
		out = append(out, e.Payload)
	}
	return out, nil
}

// Export writes the log as a bundle, and what a verifier pins. Both verifiers check it.
func Export(state string, random io.Reader, bundle, trust io.Writer) error {
	stored, err := entries(state)
	if err != nil {
		return err
	}
	keys, err := keyring.Open(filepath.Join(state, "keys"), random, nil)
	if err != nil {
		return err
	}
	_, key, err := keys.Evidence(evidence.Ed25519, recorder)
	if err != nil {
		return err
	}
	signer, vkey, err := keys.Checkpoint(origin)
	if err != nil {
		return err
	}
	leaves := make([][]byte, 0, len(stored))
	for _, b := range stored {
		s, err := evidence.ParseSealed(b)
		if err != nil {
			return err
		}
		leaves = append(leaves, evidence.Leaf(s))
	}
	hashes, size, root, err := evidence.Grow(0, evidence.Hashes(nil), leaves)
	if err != nil {
		return err
	}
	checkpoint, err := evidence.SignCheckpoint(evidence.Checkpoint{Origin: origin, Size: size, Root: root}, signer)
	if err != nil {
		return err
	}
	export := evidence.Export{Keys: []evidence.Key{key}, Hashes: evidence.Hashes(hashes), Checkpoint: checkpoint, Records: func(yield func([]byte, error) bool) {
		for _, b := range stored {
			if !yield(b, nil) {
				return
			}
		}
	}}
	if err := evidence.WriteBundle(bundle, export); err != nil {
		return err
	}
	enc := json.NewEncoder(trust)
	enc.SetIndent("", "  ")
	return enc.Encode(evidence.Trust{CheckpointKeys: []string{vkey}, RecordKeys: []evidence.PinnedKey{key.Pin(time.Time{}, time.Time{}, agentID)}})
}
