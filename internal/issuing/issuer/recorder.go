package issuer

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/identity"
)

// Recorder is a key by which this server signs records of all agents.
type Recorder struct {
	Key      evidence.Key
	Enrolled time.Time // zero where it signed before that was recorded
	Closed   time.Time // from when it signs no more; zero while it does
}

// Pinned is what a verifier should pin of the key. What it signed before another
// came has no first moment: a clock that was set back would make tampering of it.
func (r Recorder) Pinned() evidence.PinnedKey {
	return r.Key.Pin(time.Time{}, r.Closed, "*")
}

// Pinned is what a verifier should pin of a gateway: its key for its agent alone.
func (g Gateway) Pinned() evidence.PinnedKey { return g.Record.Pin(time.Time{}, time.Time{}, g.Agent) }

// Signs records that the server signs records with a key, once: when it begins
// to, or when it does with another algorithm than before. The key before is closed
// with that, and anyone who has the evidence knows which key may have signed when
// (EXT-29, EXT-33).
func (i *Issuer) Signs(ctx context.Context, key evidence.Key) error {
	known, err := i.OwnRecorders(ctx)
	if err != nil || slices.ContainsFunc(known, func(r Recorder) bool { return r.Key.ID == key.ID && r.Closed.IsZero() }) {
		return err
	}
	now := i.config.Now().UTC().Truncate(time.Second)
	next := Recorder{Key: key}
	if len(known) > 0 {
		next.Enrolled = now
	}
	return i.config.Store.Update(ctx, func(tx Tx) error {
		for _, r := range known {
			if !r.Closed.IsZero() {
				continue
			}
			r.Closed = now.Add(time.Second) // what it signed in this second is its own
			if err := i.putRecorder(tx, action.RecorderClose, r); err != nil {
				return err
			}
		}
		return i.putRecorder(tx, action.RecorderEnroll, next)
	})
}

// recorderWriter is how much of a transaction putRecorder uses.
type recorderWriter interface {
	PutRecorder(r Recorder) error
	Append(record evidence.Record) (evidence.Sealed, error)
}

func (i *Issuer) putRecorder(tx recorderWriter, of action.Type, r Recorder) error {
	if err := tx.PutRecorder(r); err != nil {
		return err
	}
	record, err := i.newRecord(issuerItself, identity.Caller{Agent: issuerItself}, of, evidence.Intent{
		Operation: OperationCapability,
		Details:   details(map[string]any{"recorder": r.Key.Recorder, "record_key": r.Key.ID, "algorithm": r.Key.Algorithm}),
	})
	if err != nil {
		return err
	}
	record.OutcomeStatus = evidence.Achieved
	_, err = tx.Append(record)
	return err
}

// OwnRecorders returns every key by which this server ever signed records.
func (i *Issuer) OwnRecorders(ctx context.Context) ([]Recorder, error) {
	var out []Recorder
	err := i.config.Store.View(ctx, func(r Reader) error {
		var err error
		out, err = r.Recorders()
		return err
	})
	return out, err
}

// Recorders is the list of an agent: who may sign its records, with validity, and
// the chains that have begun, with that of the issuer itself (EXT-33).
func (i *Issuer) Recorders(ctx context.Context, agent string) (evidence.Recorders, error) {
	if _, ok := i.all()[agent]; !ok {
		return evidence.Recorders{}, ErrNotFound
	}
	var list evidence.Recorders
	err := i.config.Store.View(ctx, func(r Reader) error {
		own, errOwn := r.Recorders()
		gateways, errGateways := r.Gateways()
		chains, errChains := r.Chains(agent)
		issuers, errIssuer := r.Chains(issuerItself)
		var keys []evidence.PinnedKey
		for _, o := range own {
			keys = append(keys, o.Key.Pin(o.Enrolled, o.Closed, "*"))
		}
		for _, g := range gateways {
			if g.Agent == agent {
				keys = append(keys, g.Record.Pin(g.Enrolled, g.Closed, g.Agent))
			}
		}
		list = evidence.NewRecorders(agent, keys, append(chains, issuers...))
		return errors.Join(errOwn, errGateways, errChains, errIssuer)
	})
	return list, err
}

// left returns the chain that a gateway leaves behind, taken from its end on record.
func left(tx RecordWriter, g Gateway) ([]evidence.ListedChain, error) {
	head, err := tx.ChainEnd(g.Agent, g.ID)
	if errors.Is(err, ErrNotFound) || err == nil && head.Sequence == 0 {
		return nil, nil
	}
	return []evidence.ListedChain{{AgentID: g.Agent, Recorder: g.ID, Chain: head.ChainID, Records: head.Sequence}}, err
}
