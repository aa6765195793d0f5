package postgres

import (
	"bytes"
	"errors"
	"io"
	"maps"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/store/rows"
)

// end is where a chain ends.
type end struct{ head evidence.Head }

// tail is what this node remembers of the end of the log, so that it need not be
// read for every batch. It is good while the signed checkpoint is the one that this
// node wrote last: that names the root of the tree, and so everything below it.
type tail struct {
	note   []byte
	ends   map[rows.Chain]end  // rowSet chains
	hashes map[int64]tlog.Hash // those of the tree's right edge, from which it grows
}

// maxEnds is the number of chains that a tail holds, about.
const maxEnds = 1 << 16

// at forgets everything where someone else has written.
func (k *tail) at(head logHead) {
	if k.ends == nil || head.size == 0 || !bytes.Equal(k.note, head.note) || len(k.ends) > maxEnds {
		*k = tail{ends: map[rows.Chain]end{}}
	}
}

// follow takes over what a batch that has committed did.
func (k *tail) follow(t *transaction) {
	if len(t.pending) == 0 {
		return
	}
	maps.Copy(k.ends, t.ends)
	k.hashes = rows.Edge(t.head.size, t.head.size+int64(len(t.pending)), t.grown, k.hashes)
	k.note = t.note
}

// headOf returns where the next record of a chain goes.
func (t *transaction) headOf(name rows.Chain) (evidence.Head, error) {
	if e, ok := t.ends[name]; ok {
		return e.head, nil
	}
	if e, ok := t.tail.ends[name]; ok {
		return e.head, nil
	}
	head, err := t.storedHead(name)
	if errors.Is(err, rows.ErrNone) {
		var id evidence.ChainID
		if _, err := io.ReadFull(t.config.Random, id[:]); err != nil {
			return evidence.Head{}, err
		}
		return evidence.Genesis(id), t.found(name, id)
	}
	return head, err
}

// ChainEnd implements [issuer.Tx].
func (t *transaction) ChainEnd(agent, recorder string) (evidence.Head, error) {
	chain := rows.Chain{Agent: agent, Recorder: recorder}
	begun, err := t.Begun(chain)
	if err != nil {
		return evidence.Head{}, err
	}
	if begun {
		return t.headOf(chain)
	}
	return evidence.Head{}, issuer.ErrNotFound
}

func (t *transaction) storedHead(name rows.Chain) (head evidence.Head, err error) {
	var id, hash []byte
	err = t.db.QueryRow("SELECT chain, sequence, hash FROM chain WHERE agent = ? AND recorder = ?", name.Agent, name.Recorder).Scan(&id, &head.Sequence, &hash)
	if err != nil {
		return head, err
	}
	if len(id) != len(head.ChainID) || len(hash) != len(head.Hash) {
		return head, errDamagedChain
	}
	head.ChainID, head.Hash = evidence.ChainID(id), evidence.Hash(hash)
	return head, nil
}

// found starts a chain.
func (t *transaction) found(name rows.Chain, id evidence.ChainID) error {
	genesis := evidence.Genesis(id)
	_, err := t.db.Exec("INSERT INTO chain (agent, recorder, chain, sequence, hash) VALUES (?, ?, ?, 0, ?)", name.Agent, name.Recorder, id[:], genesis.Hash[:])
	return err
}

// putHeads has every row of a chain that moved say where it ends.
func (t *transaction) putHeads(batch *pgx.Batch) {
	var agents, recorders, hashes [][]byte
	var sequences []int64
	for name, e := range t.ends {
		agents, recorders = append(agents, []byte(name.Agent)), append(recorders, []byte(name.Recorder))
		sequences, hashes = append(sequences, e.head.Sequence), append(hashes, bytes.Clone(e.head.Hash[:]))
	}
	if len(agents) == 0 {
		return
	}
	batch.Queue(`UPDATE chain SET sequence = moved.sequence, hash = moved.hash
		FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bytea[]) AS moved (agent, recorder, sequence, hash)
		WHERE chain.agent = moved.agent AND chain.recorder = moved.recorder`, agents, recorders, sequences, hashes)
}
