package postgres

import (
	"bytes"
	"io"
	"maps"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/powerbox-project/powerbox/evidence"
)

// chainName names a chain: there is one for an agent and a recorder.
type chainName struct{ agent, recorder string }

func chainKey(record evidence.Record) chainName {
	return chainName{record.AgentID, record.Details.Recorder}
}

// end is where a chain ends.
type end struct{ head evidence.Head }

// tail is what this node remembers of the end of the log, so that it need not be
// read for every batch. It is good while the signed checkpoint is the one that this
// node wrote last: that names the root of the tree, and so everything below it.
type tail struct {
	note   []byte
	ends   map[chainName]end   // some chains
	hashes map[int64]tlog.Hash // those of the tree's right edge, from which it grows
}

// maxEnds is the number of chains that a tail holds, about.
const maxEnds = 1 << 16

// at forgets everything where someone else has written.
func (k *tail) at(head logHead) {
	if k.ends == nil || head.size == 0 || !bytes.Equal(k.note, head.note) || len(k.ends) > maxEnds {
		*k = tail{ends: map[chainName]end{}}
	}
}

// follow takes over what a batch that has committed did.
func (k *tail) follow(t *transaction) {
	if len(t.pending) == 0 {
		return
	}
	first := tlog.StoredHashCount(t.head.size)
	maps.Copy(k.ends, t.ends)
	hashes := map[int64]tlog.Hash{}
	for _, index := range evidence.Edge(t.head.size + int64(len(t.pending))) {
		if index >= first {
			hashes[index] = t.grown[index-first]
		} else if hash, ok := k.hashes[index]; ok {
			hashes[index] = hash
		}
	}
	k.hashes, k.note = hashes, t.note
}

// headOf returns where the next record of a chain goes.
func (t *transaction) headOf(name chainName) (evidence.Head, error) {
	if e, ok := t.ends[name]; ok {
		return e.head, nil
	}
	if e, ok := t.tail.ends[name]; ok {
		return e.head, nil
	}
	head, err := t.storedHead(name)
	if noRows(err) {
		var id evidence.ChainID
		if _, err := io.ReadFull(t.config.Random, id[:]); err != nil {
			return evidence.Head{}, err
		}
		return evidence.Genesis(id), t.found(name, id)
	}
	return head, err
}

func (r reader) storedHead(name chainName) (head evidence.Head, err error) {
	var id, hash []byte
	err = r.row("SELECT chain, sequence, hash FROM chain WHERE agent = $1 AND recorder = $2", name.agent, name.recorder).Scan(&id, &head.Sequence, &hash)
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
func (t *transaction) found(name chainName, id evidence.ChainID) error {
	genesis := evidence.Genesis(id)
	_, err := t.exec("INSERT INTO chain (agent, recorder, chain, sequence, hash) VALUES ($1, $2, $3, 0, $4)", name.agent, name.recorder, id[:], genesis.Hash[:])
	return err
}

// putHeads has every row of a chain that moved say where it ends.
func (t *transaction) putHeads(batch *pgx.Batch) {
	var agents, recorders, hashes [][]byte
	var sequences []int64
	for name, e := range t.ends {
		agents, recorders = append(agents, []byte(name.agent)), append(recorders, []byte(name.recorder))
		sequences, hashes = append(sequences, e.head.Sequence), append(hashes, bytes.Clone(e.head.Hash[:]))
	}
	if len(agents) == 0 {
		return
	}
	batch.Queue(`UPDATE chain SET sequence = moved.sequence, hash = moved.hash
		FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bytea[]) AS moved (agent, recorder, sequence, hash)
		WHERE chain.agent = moved.agent AND chain.recorder = moved.recorder`, agents, recorders, sequences, hashes)
}
