package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/bench/internal/fill"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/store/sqlite"
)

// The parts of the data.
const (
	origin = "growth.example.org/log"
	users  = 500
)

// filling is one opening of the store.
type filling struct {
	*fill.Store

	now time.Time
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
	store, err := fill.Open(ctx, t.dir, sqlite.Config{Origin: origin})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	f := filling{store, time.Now().UTC().Truncate(time.Second)}
	if err := errors.Join(f.capabilities(ctx, t.have.capabilities, want), f.revocations(ctx, t.have.revocations, want.revocations), t.records(ctx, f, want)); err != nil {
		return err
	}
	t.have = want
	return nil
}

// capabilities are roots, as the issuer makes them, without a token.
func (f *filling) capabilities(ctx context.Context, from int, want amounts) error {
	return f.InBatches(ctx, from, want.capabilities, func(tx issuer.Tx, i int) error {
		agent := agentName(i % want.agents)
		c := issuer.Capability{
			ID: f.ID("cap_", f.now), RevocationID: f.ID("rv_", f.now), Agent: agent, Grant: "data:use", Holder: fmt.Sprintf("client:caller-%d", i%users), Principal: fmt.Sprintf("user:person-%03d", i%users),
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
	return f.InBatches(ctx, from, to, func(tx issuer.Tx, _ int) error {
		_, err := tx.Revoke(issuer.Revocation{Kind: issuer.KindRevoke, Target: f.ID("rv_", f.now), By: "user:carol", At: f.now, Until: f.now.Add(20 * time.Hour)})
		return err
	})
}

// records are calls with their outcomes.
func (t *town) records(ctx context.Context, f filling, want amounts) error {
	var call evidence.Record
	return f.InBatches(ctx, t.have.records, want.records, func(tx issuer.Tx, i int) (err error) {
		at := time.Now().UTC()
		var r evidence.Record
		if call.OutcomeStatus == evidence.Pending {
			if r, err = evidence.Outcome(call, f.ID("rec_", at), at, evidence.Achieved, []byte(`{"state":"completed"}`)); err != nil {
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
		ID: f.ID("rec_", at), AgentID: to, TaskID: fmt.Sprintf("task-%08d", n), ActionType: "a2a.SendMessage", Decision: evidence.Allow, OutcomeStatus: evidence.Pending, Time: at,
		Intent: evidence.Intent{Operation: operation, Purpose: "prepare the report of the quarter", Details: []byte(`{"skill":"search"}`)},
		Details: evidence.Details{
			Recorder: fill.Recorder, Requester: from, Principal: fmt.Sprintf("pair:%040d", n%users), TraceID: fmt.Sprintf("%032x", n+1), Attempt: "invocation", Mode: "require",
			Gate: &evidence.Gate{Origin: from, Target: to, Required: []string{operation}, Allowed: []string{operation}}, Granted: []string{operation}, Exercised: []string{operation},
			PolicyDigest: "sha256:" + strings.Repeat("0", 64), Arguments: []byte(`{"query":"sales of the quarter"}`),
		},
	}
}
