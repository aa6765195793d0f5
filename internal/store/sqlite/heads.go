package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/store/rows"
)

// head returns where the next record of a chain goes.
func (t *transaction) head(name rows.Chain) (evidence.Head, error) {
	if e, ok := t.ends[name]; ok {
		return e.head, nil
	}
	if head, ok := t.store.ahead.heads[name]; ok {
		return head, nil
	}
	if err := t.enter(); err != nil {
		return evidence.Head{}, err
	}
	if err := t.loadTail(); err != nil {
		return evidence.Head{}, err
	}
	if e, ok := t.behind[name]; ok {
		return e.head, nil
	}
	if e, ok := t.tail.ends[name]; ok {
		return e.head, nil
	}
	var chain []byte
	var last int64
	err := t.raw.QueryRowContext(t.ctx, "SELECT chain, last FROM chain WHERE agent = ? AND recorder = ?", name.Agent, name.Recorder).Scan(&chain, &last)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return t.found(name)
	case err != nil:
		return evidence.Head{}, err
	case last < 0:
		return evidence.Genesis(evidence.ChainID(chain)), nil
	}
	sealed, err := t.stored().RecordAt(last)
	if errors.Is(err, issuer.ErrNotFound) {
		var kept evidence.Head
		if kept, err = t.keptHead(name, evidence.ChainID(chain)); err == nil {
			return kept, nil
		}
	}
	if err != nil {
		return evidence.Head{}, fmt.Errorf("record %d, the last of a chain: %w", last, err)
	}
	return sealed.Head(), nil
}

// ChainEnd implements [issuer.Tx].
func (t *transaction) ChainEnd(agent, recorder string) (evidence.Head, error) {
	chain := rows.Chain{Agent: agent, Recorder: recorder}
	begun, err := t.Begun(chain)
	if err != nil {
		return evidence.Head{}, err
	}
	if begun {
		return t.head(chain)
	}
	return evidence.Head{}, issuer.ErrNotFound
}

// found starts a chain.
func (t *transaction) found(name rows.Chain) (evidence.Head, error) {
	var id evidence.ChainID
	if _, err := io.ReadFull(t.config.Random, id[:]); err != nil {
		return evidence.Head{}, err
	}
	_, err := t.db.Exec("INSERT INTO chain (agent, recorder, chain, last) VALUES (?, ?, ?, -1)", name.Agent, name.Recorder, id[:])
	return evidence.Genesis(id), err
}

// end is where a chain ends.
type end struct {
	head  evidence.Head // of its next record
	place int64         // of its last record in the log
}

// tail is what the writer knows of the end of its file, so that it need not be
// read for every batch.
type tail struct {
	known  bool // whether the rest was read; the zero tail knows nothing
	size   int64
	noted  int64               // records of which the rows of the chains tell the last
	ends   map[rows.Chain]end  // some chains; all that have a record behind noted
	hashes map[int64]tlog.Hash // those of the tree's right edge, from which it grows
}

const (
	// maxEnds is the number of chains that a tail holds, about.
	maxEnds = 1 << 16
	// maxBehind is the number of records after which the rows of the chains are
	// brought up to date. They are read at a start, which takes less time than
	// writing a row for every record would.
	maxBehind = 1 << 12
)

// loadTail reads the end of the file unless it is known. What it reads has
// committed.
func (t *transaction) loadTail() error {
	if t.tail.known {
		return nil
	}
	c, err := readCheckpoint(t.ctx, t.raw)
	if err != nil {
		return err
	}
	k := tail{known: true, size: c.size, noted: c.heads, ends: map[rows.Chain]end{}}
	behind, err := t.stored().RecordsFrom(c.heads)
	for i, sealed := range behind {
		k.ends[rows.ChainOf(sealed.Record())] = end{sealed.Head(), c.heads + int64(i)}
	}
	if err == nil {
		*t.tail = k
	}
	return err
}

// note brings the rows of the chains up to date when there is enough to do, for
// a log that will have size records. It returns how many they know.
func (t *transaction) note(size int64) (int64, error) {
	if size-t.tail.noted < maxBehind && !t.settled {
		return t.tail.noted, nil
	}
	for _, ends := range []map[rows.Chain]end{t.tail.ends, t.ends} {
		for name, e := range ends {
			if e.place < t.tail.noted {
				continue
			}
			if _, err := t.raw.ExecContext(t.ctx, "UPDATE chain SET last = ? WHERE agent = ? AND recorder = ?", e.place, name.Agent, name.Recorder); err != nil {
				return 0, err
			}
		}
	}
	return size, nil
}

// follow takes over what a batch that has committed did.
func (k *tail) follow(t *transaction) {
	if len(t.pending) == 0 {
		return
	}
	before := k.size
	k.size, k.noted = k.size+int64(len(t.pending)), t.noted
	maps.Copy(k.ends, t.ends)
	if len(k.ends) > maxEnds {
		// The records behind noted are known from nowhere else.
		maps.DeleteFunc(k.ends, func(_ rows.Chain, e end) bool { return e.place < k.noted })
	}
	k.hashes = rows.Edge(before, k.size, t.grown, k.hashes)
}
