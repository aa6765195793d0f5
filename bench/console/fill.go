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
	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/store/sqlite"
)

// The parts of the data.
const (
	days    = 30 // that the records are spread over
	family  = 10 // capabilities of an ordinary tree
	users   = 500
	largest = 50 // one capability in so many is in the largest tree
	busiest = 20 // one in so many is held by the busiest caller
)

// landmarks are things in the store that pages are about.
type landmarks struct {
	largestTree string // root of the largest tree
	small       string // root of an ordinary tree
	leaf        string // a leaf of the largest tree
	allowed     string // a record of a call that was allowed
	denied      string // one of a call that was denied
	question    string
}

// fill puts everything that is missing into the store. What a run before has put there
// stays; of questions, which end soon, new ones are made.
func (t *town) fill(ctx context.Context) (err error) {
	store, err := fill.Open(ctx, t.dir, sqlite.Config{Batches: true, Origin: origin})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	f := filling{town: t, store: store, now: time.Now().UTC().Truncate(time.Second)}
	return errors.Join(f.capabilities(ctx), f.records(ctx), f.questions(ctx))
}

// filling is one run of fill.
type filling struct {
	town  *town
	store *fill.Store
	now   time.Time
}

// inBatches writes a number of things, and reports how long it took.
func (f *filling) inBatches(ctx context.Context, what string, n int, put func(tx issuer.Tx, i int) error) error {
	start := time.Now()
	if err := f.store.InBatches(ctx, 0, n, put); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	fmt.Fprintf(f.town.progress, "%d %s in %s\n", n, what, time.Since(start).Round(time.Second))
	return nil
}

// capability is one capability, as the issuer makes it, without a token.
func (f *filling) capability(agent, holder int, parent *issuer.Capability, at time.Time) (issuer.Capability, error) {
	id := agentName(agent)
	c := issuer.Capability{
		ID: f.store.ID("cap_", at), RevocationID: f.store.ID("rv_", at), Agent: id, Grant: "data:use", Holder: "client:" + agentName(holder), Requester: agentName(holder),
		Purpose: "prepare the report of the quarter", Attenuable: true, PolicyDigest: "sha256:" + strings.Repeat("0", 64), Created: at, Expires: f.now.Add(20 * time.Hour),
	}
	if parent != nil {
		c.Root, c.Ancestors, c.Rooted, c.Through = parent.Root, parent.Lineage(), parent.Issued(), append(parent.Through[:len(parent.Through):len(parent.Through)], parent.Holder)
		c.Principal = parent.Principal
	} else {
		c.Root, c.Principal = c.ID, fmt.Sprintf("user:person-%03d", holder%users)
	}
	var clauses []powerbox.Clause
	for _, name := range []string{"export", "search"} {
		op, err := powerbox.ParseOperation(id + "/data:use/" + name)
		if err != nil {
			return c, err
		}
		clauses = append(clauses, powerbox.Clause{Pattern: powerbox.ExactPattern(op), Shape: powerbox.AnyArguments()})
	}
	var err error
	c.Authority, err = powerbox.NewAuthority(powerbox.Window{From: c.Created, Until: c.Expires}, 4, clauses...)
	return c, err
}

// capabilities are trees of ten, and one large one.
func (f *filling) capabilities(ctx context.Context) error {
	t, n := f.town, f.town.sizes.capabilities
	if have, err := f.have(ctx); err != nil || have {
		return err
	}
	var root, middle, big issuer.Capability
	at := f.now.Add(-time.Hour)
	return f.inBatches(ctx, "capabilities", n, func(tx issuer.Tx, i int) (err error) {
		tree, place := i/family, i%family
		agent, holder := tree%t.sizes.agents, (tree/7+place)%t.sizes.agents
		if i%busiest == 0 {
			holder = 0
		}
		var parent *issuer.Capability
		switch {
		case i > 0 && i%largest == 0 && place != 0, i > 0 && i%largest == 1:
			agent, parent = 0, &big
		case place >= 7:
			parent = &middle
		case place > 0:
			parent = &root
		}
		if parent != nil && parent.Agent != "" {
			agent = 0
			_, _ = fmt.Sscanf(parent.Agent, "agent-%d", &agent) // a name of agentName
		}
		c, err := f.capability(agent, holder, parent, at.Add(time.Duration(i)*time.Hour/time.Duration(n)))
		switch {
		case i == 0:
			root, big = c, c
		case place == 0:
			root = c
		case place == 3:
			middle = c
		}
		if err != nil {
			return err
		}
		return tx.PutCapability(c)
	})
}

// have reports whether the store has capabilities that live.
func (f *filling) have(ctx context.Context) (have bool, err error) {
	err = f.store.View(ctx, func(r issuer.Reader) error {
		found, err := r.LiveBefore(issuer.LiveQuery{After: f.now.Add(time.Hour), Limit: 1})
		have = len(found) > 0
		return err
	})
	return have, err
}

// decided are the decisions of ten calls, with the reason of each that is denied.
var decided = []struct {
	decision evidence.Decision
	reason   string
}{
	{evidence.Allow, ""},
	{evidence.Allow, ""},
	{evidence.Deny, "scope"},
	{evidence.Allow, ""},
	{evidence.Allow, ""},
	{evidence.Deny, "capability_required"},
	{evidence.Allow, ""},
	{evidence.Allow, ""},
	{evidence.Deny, "capability_expired"},
	{evidence.Abstain, "approval_required"},
}

// records are calls with their outcomes, evenly spread over some days.
func (f *filling) records(ctx context.Context) error {
	n := f.town.sizes.records
	have, err := f.store.Records(ctx)
	if err != nil || have >= int64(n) {
		return err
	}
	step := days * 24 * time.Hour / time.Duration(n)
	var call evidence.Record
	calls := 0
	return f.inBatches(ctx, "records", n, func(tx issuer.Tx, i int) (err error) {
		at := f.now.Add(-days*24*time.Hour + time.Duration(i)*step)
		var r evidence.Record
		if call.OutcomeStatus == evidence.Pending {
			if r, err = evidence.Outcome(call, f.store.ID("rec_", at), at, evidence.Achieved, []byte(`{"state":"completed"}`)); err != nil {
				return err
			}
		} else {
			r = f.call(calls, at)
			calls++
		}
		call = r
		_, err = tx.Append(r)
		return err
	})
}

// call is the decision about one call.
func (f *filling) call(n int, at time.Time) evidence.Record {
	t := f.town
	caller := n * 31 % t.sizes.agents
	from, to := agentName(caller), agentName(t.callee(caller, n/t.sizes.agents%edges))
	one := decided[n%len(decided)]
	operation := to + "/data:use/search"
	r := evidence.Record{
		ID: f.store.ID("rec_", at), AgentID: to, TaskID: fmt.Sprintf("task-%08d", n), ActionType: "a2a.SendMessage", Decision: one.decision, Time: at,
		Intent: evidence.Intent{Operation: operation, Purpose: "prepare the report of the quarter", Details: []byte(`{"skill":"search"}`)},
		Details: evidence.Details{
			Recorder: fill.Recorder, Requester: from, Principal: fmt.Sprintf("pair:%040d", n%users), TraceID: fmt.Sprintf("%032x", n/3+1), Attempt: "invocation", Mode: "scoped",
			Gate: &evidence.Gate{Origin: from, Target: to, Required: []string{operation}, Allowed: []string{operation}}, Granted: []string{operation},
			PolicyDigest: "sha256:" + strings.Repeat("0", 64), Arguments: []byte(`{"query":"sales of the quarter"}`),
		},
	}
	if one.decision == evidence.Allow {
		r.OutcomeStatus, r.Details.Exercised = evidence.Pending, []string{operation}
	} else {
		r.Details.Reasons = []evidence.Reason{{Code: one.reason, Operation: operation, Message: "the call is not permitted"}}
	}
	return r
}

// questions are requests for capabilities that wait for an operator.
func (f *filling) questions(ctx context.Context) error {
	n := f.town.sizes.questions
	return f.store.UpdateApprovals(ctx, func(tx approval.Tx) error {
		waiting, err := tx.Questions(issuer.StatePending)
		if err != nil {
			return err
		}
		for i := range n - len(waiting) {
			at := f.now.Add(-time.Duration(i) * time.Second)
			q := approval.Question{
				ID: f.store.ID("ask_", at), Kind: approval.ForCapability, Key: fmt.Sprintf("%v-%d", f.now, i), Agent: agentName(i % f.town.sizes.agents), Principal: fmt.Sprintf("user:person-%03d", i%users),
				Holder: "client:" + agentName((i+3)%f.town.sizes.agents), Requester: agentName((i + 3) % f.town.sizes.agents), Purpose: fmt.Sprintf("prepare report %d of the quarter", i),
				Matters: []issuer.Matter{{
					Grant: "data:use", Says: "Use the data", Operations: []issuer.Operation{{Name: "export"}, {Name: "search"}, {Name: "delete", Write: true}},
					Resources: []issuer.Resource{{ID: fmt.Sprintf("/data/%d", i), Name: fmt.Sprintf("Data of team %d", i)}}, Until: f.now.Add(20 * time.Hour),
				}},
				Until: f.now.Add(20 * time.Hour), Needs: []approval.Need{{Who: []string{"user:carol"}, People: 1}}, State: issuer.StatePending, Created: at, Expires: f.now.Add(20 * time.Hour),
			}
			if err := tx.PutQuestion(q); err != nil {
				return err
			}
		}
		return nil
	})
}
