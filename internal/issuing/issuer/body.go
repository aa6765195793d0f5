package issuer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/shed"
)

// Body is a detached body as it is listed: what it says is not part of it.
type Body struct {
	Record    string // id of the record that commits to it
	Agent     string
	Principal string    // pseudonym, "" for none
	Time      time.Time // of the record
	Size      int       // in bytes
}

// BodyQuery selects detached bodies; empty members select every one.
type BodyQuery struct {
	Records    []string
	Agent      string
	Principals []string  // pseudonyms
	Until      time.Time // those of records up to then
	Limit      int       // 0 for no limit
}

// Erasure says which bodies are to be erased. Two selectors together select
// less: a principal and an agent are that principal's bodies at that agent. At
// least one member is set.
type Erasure struct {
	Records   []string
	Agent     string
	Principal string    // a user, such as user:alice, or a pseudonym
	Until     time.Time // those of records up to then
}

// eraseAtOnce is how many bodies are erased in one transaction, under one record
// that names them.
const eraseAtOnce = 500

// query is what an erasure selects. A user is one pseudonym at every agent, also
// at those that are protected no more.
func (i *Issuer) query(ctx context.Context, e Erasure) (BodyQuery, error) {
	q := BodyQuery{Records: e.Records, Agent: e.Agent, Until: e.Until}
	if len(q.Records) == 0 && q.Agent == "" && e.Principal == "" && q.Until.IsZero() {
		return q, noTarget("nothing says which bodies to erase; want records, an agent, a principal or an age")
	}
	if len(q.Records) > eraseAtOnce {
		return q, noTarget("%d records are named; want at most %d at a time", len(q.Records), eraseAtOnce)
	}
	if err := i.wereRecorded(ctx, q.Records); err != nil {
		return q, err
	}
	switch {
	case e.Principal == "":
	case pseudonym.MatchString(e.Principal):
		q.Principals = []string{e.Principal}
	case isPrincipal(e.Principal):
		agents, err := i.bodyAgents(ctx)
		if err != nil {
			return q, err
		}
		// None may not become any: there is always one.
		q.Principals = []string{i.Pseudonym(issuerItself, e.Principal)}
		for _, id := range agents {
			q.Principals = append(q.Principals, i.Pseudonym(id, e.Principal))
		}
	default:
		return q, noTarget("%q is no user; want one such as user:alice, or a pseudonym such as records have it (pw_...)", e.Principal)
	}
	return q, nil
}

// wereRecorded refuses an id that neither a record nor a body has: an erasure that does nothing
// would look like one that was done.
func (i *Issuer) wereRecorded(ctx context.Context, ids []string) error {
	return i.config.Store.View(ctx, func(r Reader) error {
		for _, id := range ids {
			_, err := r.Record(id)
			if errors.Is(err, ErrNotFound) {
				var bodies []Body
				if bodies, err = r.Bodies(BodyQuery{Records: []string{id}}); err == nil && len(bodies) == 0 {
					return fmt.Errorf("record %q: %w", id, ErrNotFound)
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// BodiesOf returns the bodies that an erasure would erase, oldest first.
func (i *Issuer) BodiesOf(ctx context.Context, e Erasure) ([]Body, error) {
	q, err := i.query(ctx, e)
	if err != nil {
		return nil, err
	}
	var out []Body
	err = i.config.Store.View(ctx, func(r Reader) error {
		out, err = r.Bodies(q)
		return err
	})
	return out, err
}

// Erased is what an erasure did.
type Erased struct {
	Bodies  int
	Records []string // ids of the records that say so
	// Scrubbed reports that nothing is left in the store's files. False means that
	// a reader kept an older state from being cut off: it goes with the next
	// erasure, or when the store is closed.
	Scrubbed bool
}

// Erase erases bodies with their keys, and records that it did. The records that
// committed to them stay, with whatever else they say.
func (i *Issuer) Erase(ctx context.Context, by string, e Erasure) (Erased, error) {
	var done Erased
	q, err := i.query(ctx, e)
	if err != nil {
		return done, err
	}
	q.Limit = eraseAtOnce
	for {
		n, record, err := i.eraseSome(ctx, by, e, q)
		if err != nil {
			return done, err
		}
		if n == 0 {
			break
		}
		done.Bodies, done.Records = done.Bodies+n, append(done.Records, record)
		shed.Progress(ctx)
	}
	done.Scrubbed, err = i.config.Store.Scrub(ctx)
	return done, err
}

// eraseSome erases what one record can name.
func (i *Issuer) eraseSome(ctx context.Context, by string, e Erasure, q BodyQuery) (n int, record string, err error) {
	said := map[string]any{}
	if e.Agent != "" {
		said["agent"] = e.Agent
	}
	if !e.Until.IsZero() {
		said["until"] = e.Until.UTC().Format(time.RFC3339)
	}
	r, err := i.newRecord(issuerItself, identity.Caller{Agent: by}, action.EvidenceErase, evidence.Intent{Operation: action.EvidenceErase.String(), Details: details(said)})
	if err != nil {
		return 0, "", err
	}
	r.OutcomeStatus = evidence.Achieved
	if r.Details.Principal = e.Principal; isPrincipal(e.Principal) {
		r.Details.Principal = i.Pseudonym(issuerItself, e.Principal)
	}
	err = i.config.Store.Update(ctx, func(tx Tx) error {
		n = 0
		bodies, err := tx.Bodies(q)
		if err != nil || len(bodies) == 0 {
			return err
		}
		record := r
		for _, b := range bodies {
			if err := tx.EraseBody(b.Record); err != nil {
				return err
			}
			record.Details.Erased = append(record.Details.Erased, b.Record)
		}
		n = len(bodies)
		_, err = tx.Append(record)
		return err
	})
	return n, r.ID, err
}

// Retention is the requester of automatic erasures.
const Retention = "retention"

// PruneBodies erases the bodies that have been kept for as long as their agents
// have it, and returns how many those were. keep returns how long that is. The
// records stay.
func (i *Issuer) PruneBodies(ctx context.Context, keep func(agent string) time.Duration) (int, error) {
	agents, err := i.bodyAgents(ctx)
	if err != nil {
		return 0, err
	}
	pruned := 0
	for _, agent := range agents {
		e := Erasure{Agent: agent, Until: i.config.Now().Add(-keep(agent))}
		due, err := i.anyBody(ctx, e)
		if err != nil {
			return pruned, err
		}
		if !due {
			continue
		}
		done, err := i.Erase(ctx, Retention, e)
		pruned += done.Bodies
		if err != nil {
			return pruned, err
		}
	}
	return pruned, nil
}

// bodyAgents returns the agents of which there are bodies.
func (i *Issuer) bodyAgents(ctx context.Context) (agents []string, err error) {
	err = i.config.Store.View(ctx, func(r Reader) error {
		agents, err = r.BodyAgents()
		return err
	})
	return agents, err
}

// anyBody reports whether there is a body to erase.
func (i *Issuer) anyBody(ctx context.Context, e Erasure) (found bool, err error) {
	q, err := i.query(ctx, e)
	if err != nil {
		return false, err
	}
	q.Limit = 1
	err = i.config.Store.View(ctx, func(r Reader) error {
		some, err := r.Bodies(q)
		found = len(some) > 0
		return err
	})
	return found, err
}
