package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/store/keyring"
	"github.com/powerbox-project/powerbox/internal/store/sqlite"
)

// The parts of the data.
const (
	recorder = "serve" // the name under which the server signs records
	origin   = "growth.example.org/log"
	batch    = 5000 // of one commit
	users    = 500
)

// filling is one opening of the store, with the ids that it makes.
type filling struct {
	store   *sqlite.Store
	entropy *ulid.MonotonicEntropy
	now     time.Time
}

func (f *filling) id(kind string, at time.Time) string {
	return kind + strings.ToLower(ulid.MustNew(ulid.Timestamp(at), f.entropy).String())
}

// fill brings the store to the amounts that are wanted, through the packages of the store.
func (t *town) fill(ctx context.Context, want amounts) (err error) {
	if t.agents == nil {
		if err := t.begin(ctx); err != nil {
			return err
		}
	}
	if err := t.configure(want.agents); err != nil {
		return err
	}
	ring, err := keyring.Open(filepath.Join(t.dir, "state", "keys"), rand.Reader, nil)
	if err != nil {
		return err
	}
	signer, _, err := ring.Evidence(evidence.Ed25519, recorder)
	if err != nil {
		return err
	}
	checkpoint, _, err := ring.Checkpoint(origin)
	if err != nil {
		return err
	}
	f := filling{entropy: ulid.Monotonic(rand.Reader, 0), now: time.Now().UTC().Truncate(time.Second)}
	if f.store, err = sqlite.Open(ctx, sqlite.Config{
		Path: filepath.Join(t.dir, "state", "powerbox.db"), Signer: signer, Origin: origin, Checkpoint: checkpoint, Random: rand.Reader, Patience: time.Minute,
	}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.store.Close()) }()
	if err := errors.Join(f.capabilities(ctx, t.have.capabilities, want), f.revocations(ctx, t.have.revocations, want.revocations), t.records(ctx, f, want)); err != nil {
		return err
	}
	t.have = want
	return nil
}

// inBatches runs put for every number from one to another, in few commits.
func (f *filling) inBatches(ctx context.Context, from, to int, put func(tx issuer.Tx, i int) error) error {
	for ; from < to; from += batch {
		err := f.store.Update(ctx, func(tx issuer.Tx) error {
			for i := from; i < min(to, from+batch); i++ {
				if err := put(tx, i); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// capabilities are roots, as the issuer makes them, without a token.
func (f *filling) capabilities(ctx context.Context, from int, want amounts) error {
	return f.inBatches(ctx, from, want.capabilities, func(tx issuer.Tx, i int) error {
		agent := agentName(i % want.agents)
		c := issuer.Capability{
			ID: f.id("cap_", f.now), RevocationID: f.id("rv_", f.now), Agent: agent, Grant: "data:use", Holder: fmt.Sprintf("client:caller-%d", i%users), Principal: fmt.Sprintf("user:person-%03d", i%users),
			Purpose: "prepare the report of the quarter", PolicyDigest: "sha256:" + strings.Repeat("0", 64), Created: f.now, Expires: f.now.Add(20 * time.Hour),
		}
		c.Root = c.ID
		op, err := powerbox.ParseOperation(agent + "/data:use/search")
		if err != nil {
			return err
		}
		clause := powerbox.Clause{Pattern: powerbox.ExactPattern(op), Shape: powerbox.AnyArguments()}
		if c.Authority, err = powerbox.NewAuthority(powerbox.Window{From: c.Created, Until: c.Expires}, 1, clause); err != nil {
			return err
		}
		return tx.PutCapability(c)
	})
}

// revocations are of tokens that have not expired.
func (f *filling) revocations(ctx context.Context, from, to int) error {
	return f.inBatches(ctx, from, to, func(tx issuer.Tx, _ int) error {
		_, err := tx.Revoke(issuer.Revocation{Kind: issuer.KindRevoke, Target: f.id("rv_", f.now), By: "user:carol", At: f.now, Until: f.now.Add(20 * time.Hour)})
		return err
	})
}

// records are calls with their outcomes.
func (t *town) records(ctx context.Context, f filling, want amounts) error {
	var call evidence.Record
	return f.inBatches(ctx, t.have.records, want.records, func(tx issuer.Tx, i int) (err error) {
		at := time.Now().UTC()
		var r evidence.Record
		if call.OutcomeStatus == evidence.Pending {
			if r, err = evidence.Outcome(call, f.id("rec_", at), at, evidence.Achieved, []byte(`{"state":"completed"}`)); err != nil {
				return err
			}
		} else {
			r = f.call(i, at, want.agents)
		}
		call = r
		if i == want.records/2 {
			t.middle = r.ID
		}
		_, err = tx.Append(r)
		return err
	})
}

// call is the decision about one call that is allowed.
func (f *filling) call(n int, at time.Time, agents int) evidence.Record {
	from, to := agentName(n*31%agents), agentName((n*31+1+n%5)%agents)
	operation := to + "/data:use/search"
	return evidence.Record{
		ID: f.id("rec_", at), AgentID: to, TaskID: fmt.Sprintf("task-%08d", n), ActionType: "a2a.SendMessage", Decision: evidence.Allow, OutcomeStatus: evidence.Pending, Time: at,
		Intent: evidence.Intent{Operation: operation, Purpose: "prepare the report of the quarter", Details: []byte(`{"skill":"search"}`)},
		Details: evidence.Details{
			Recorder: recorder, Requester: from, Principal: fmt.Sprintf("pair:%040d", n%users), TraceID: fmt.Sprintf("%032x", n+1), Attempt: "invocation", Mode: "require",
			Gate: &evidence.Gate{Origin: from, Target: to, Required: []string{operation}, Allowed: []string{operation}}, Granted: []string{operation}, Exercised: []string{operation},
			PolicyDigest: "sha256:" + strings.Repeat("0", 64), Arguments: []byte(`{"query":"sales of the quarter"}`),
		},
	}
}
