package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
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
	now := time.Now().UTC().Truncate(time.Second)
	if err := revocations(ctx, filepath.Join(t.dir, "state", "powerbox.db"), t.have.revocations, want.revocations, now); err != nil {
		return err
	}
	store, err := fill.Open(ctx, t.dir, sqlite.Config{Origin: origin})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	f := filling{store, now}
	if err := errors.Join(f.capabilities(ctx, t.have.capabilities, want), t.records(ctx, f, want)); err != nil {
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

// revocations are of tokens that have not expired, in rows as the store writes them. One
// statement makes many, because there may be millions.
func revocations(ctx context.Context, path string, from, to int, now time.Time) (err error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=synchronous(OFF)&_pragma=cache_size(-200000)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for ; from < to; from += revokedAtOnce {
		_, err := db.ExecContext(ctx, `WITH RECURSIVE n(i) AS (SELECT ? UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?)
			INSERT INTO revocation (sequence, kind, target, by, reason, at, until)
			SELECT (SELECT COALESCE(MAX(sequence), 0) FROM revocation) + i - ? + 1, 'revoke', printf('rv_01kb%022d', i), 'user:carol', '', ?, ? FROM n`,
			from, min(to, from+revokedAtOnce), from, now.Unix(), now.Add(20*time.Hour).Unix())
		if err != nil {
			return err
		}
	}
	return nil
}

// revokedAtOnce is how many revocations are written in one transaction.
const revokedAtOnce = 200_000

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
