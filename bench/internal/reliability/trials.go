package reliability

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/powerbox-project/powerbox/evidence"
)

// Result is the result of a trial, over all times that it was made.
type Result struct {
	Name     string
	Times    int
	Counts   Counts
	Compared Compared
	Lost     int
	Records  int             // in the evidence at the end
	Without  []time.Duration // the longest time without a call that went through, each time
	Wrong    []string        // the findings
	Notes    []string
	Excuses  map[string]int // reasons of calls without a definite answer
}

// OK reports whether nothing was lost and nothing wrong.
func (r Result) OK() bool { return r.Lost == 0 && len(r.Wrong) == 0 }

// conclude takes the counts. Events that never happened were not tried, so none of them
// could have been lost.
func (r *Result) conclude(l *ledger) {
	r.Counts, r.Compared, r.Wrong, r.Excuses = l.counts, l.compared, l.findings(), l.excuses
	for _, c := range []struct {
		n    int
		what string
	}{
		{r.Counts.Allowed, "call was allowed"},
		{r.Counts.Denied, "call was denied"},
		{r.Counts.Issued, "capability was issued"},
		{r.Counts.Revoked, "capability was given back"},
		{r.Counts.Registered, "agent was registered"},
	} {
		if c.n == 0 {
			r.Wrong = append(r.Wrong, "not one "+c.what)
		}
	}
}

// Add adds the result of another trial of the same name.
func (r *Result) Add(o Result) {
	a, b := &r.Counts, o.Counts
	for n, from := range map[*int]int{
		&r.Times: o.Times, &r.Lost: o.Lost, &r.Records: o.Records, &a.Answered: b.Answered, &a.Allowed: b.Allowed, &a.Denied: b.Denied,
		&a.Unavailable: b.Unavailable, &a.Unanswered: b.Unanswered, &a.Issued: b.Issued, &a.Revoked: b.Revoked, &a.Registered: b.Registered,
		&a.WrongAllow: b.WrongAllow, &a.WrongDeny: b.WrongDeny,
		&r.Compared.Answers: o.Compared.Answers, &r.Compared.Refusals: o.Compared.Refusals, &r.Compared.Executed: o.Compared.Executed, &r.Compared.Wrong: o.Compared.Wrong,
	} {
		*n += from
	}
	r.Without, r.Wrong = append(r.Without, o.Without...), append(r.Wrong, o.Wrong...)
	for _, n := range o.Notes {
		if !slices.Contains(r.Notes, n) {
			r.Notes = append(r.Notes, n)
		}
	}
	for what, n := range o.Excuses {
		if r.Excuses == nil {
			r.Excuses = map[string]int{}
		}
		r.Excuses[what] += n
	}
}

// Trial is one thing that is done to a town under load.
type Trial struct {
	Name  string
	Brief bool // takes seconds, and is among the tests of the tree
	// Do does it and returns when the town is whole again, with notes for the report.
	Do func(ctx context.Context, t *Town) (string, error)
}

// Trials are those that leave a town as it was. pause is for how long a node is
// stopped.
func Trials(pause time.Duration) []Trial {
	away := max(min(pause, 30*time.Second), 10*time.Second)
	return []Trial{
		{"kill -9 of a node", true, killNode},
		{"kill -9 of the primary, the standby is promoted", true, killPrimary},
		{"kill -9 of the standby, then of the primary", false, killAhead},
		{fmt.Sprintf("a node is stopped for %v (SIGSTOP)", pause), true, func(ctx context.Context, t *Town) (string, error) { return stopNode(ctx, t, pause) }},
		{"kill -9 of a gateway", false, killGateway},
		{"a gateway is cut off from the server", false, cutGateway},
		{"the disk of a gateway is full", false, fillDisk},
		{"replication becomes asynchronous", true, asynchronous},
		{fmt.Sprintf("another session locks the log's table for %v", away), false, func(ctx context.Context, t *Town) (string, error) { return lockTable(ctx, t, away) }},
		{fmt.Sprintf("the standby stands still for %v (SIGSTOP)", away), false, func(ctx context.Context, t *Town) (string, error) { return pauseStandby(ctx, t, away) }},
	}
}

// Play makes a trial so often: load, the trial, load, and then judgement.
func (t *Town) Play(ctx context.Context, trial Trial, times int) (Result, error) {
	r := Result{Name: trial.Name, Times: times}
	t.ledger = newLedger()
	var seen []evidence.Checkpoint
	told := map[string]bool{}
	for n := range times {
		began := t.Now()
		note, err := t.once(ctx, trial)
		if err != nil {
			return r, fmt.Errorf("%s: %w", trial.Name, err)
		}
		if note != "" && !told[note] {
			told[note] = true
			r.Notes = append(r.Notes, note)
		}
		r.Without = append(r.Without, t.ledger.longest(began))
		j, checkpoint, err := t.judgeAll(ctx, seen)
		if err != nil {
			return r, fmt.Errorf("%s: %w", trial.Name, err)
		}
		seen = append(seen, checkpoint)
		r.Lost, r.Records = r.Lost+j.Lost, j.Records
		t.Log("%s, %d of %d: %d records, %d lost, without an allowed call for %v, %d findings", trial.Name, n+1, times, j.Records, j.Lost, r.Without[n].Round(time.Millisecond), len(t.ledger.findings()))
	}
	r.conclude(t.ledger)
	return r, nil
}

// settle is for how long there is load before a trial and after it.
const calm = 700 * time.Millisecond

// once makes a trial, with load before, meanwhile and after. Every worker must get an
// answer again at the end.
func (t *Town) once(ctx context.Context, trial Trial) (string, error) {
	if err := t.start(ctx); err != nil {
		return "", err
	}
	if !pause(ctx, calm) {
		return "", ctx.Err()
	}
	note, err := trial.Do(ctx, t)
	if err == nil {
		err = t.whole(ctx)
	}
	if err == nil && !pause(ctx, calm) {
		err = ctx.Err()
	}
	t.load.stop()
	if err == nil {
		err = t.whole(ctx)
	}
	return note, err
}

// whole waits until everything is ready, and calls go through at each agent.
func (t *Town) whole(ctx context.Context) error {
	for _, n := range t.nodes {
		if err := n.await(ctx, n.address); err != nil {
			return err
		}
	}
	for _, g := range t.gateways {
		if err := g.await(ctx, g.address); err != nil {
			return err
		}
	}
	return nil
}

// some is one of several.
func some[T any](all []T) T { return all[rand.IntN(len(all))] } //nolint:gosec // no secret

func killNode(ctx context.Context, t *Town) (string, error) { return killOne(ctx, t, some(t.nodes)) }

func killOne(ctx context.Context, t *Town, n *node) (string, error) {
	n.kill()
	if !pause(ctx, 300*time.Millisecond) {
		return "", ctx.Err()
	}
	return "", t.boot(ctx, n)
}

func killGateway(ctx context.Context, t *Town) (string, error) {
	return killOneGateway(ctx, t, some(t.gateways))
}

func killOneGateway(ctx context.Context, t *Town, g *gateway) (string, error) {
	g.kill()
	if !pause(ctx, 300*time.Millisecond) {
		return "", ctx.Err()
	}
	return "", t.open(ctx, g)
}

// killAhead kills a primary whose standby is behind: writes since then must not have
// been acknowledged.
func killAhead(ctx context.Context, t *Town) (string, error) {
	if err := t.leaveBehind(ctx); err != nil {
		return "", err
	}
	return killPrimary(ctx, t)
}

// leaveBehind kills the standby, a while later the primary, and starts the standby
// again.
func (t *Town) leaveBehind(ctx context.Context) error {
	t.standby.Kill()
	ok := pause(ctx, ahead)
	t.primary.Kill()
	if !ok {
		return ctx.Err()
	}
	return t.standby.Start("fsync=on")
}

// ahead is for how long the primary continues without its standby.
const ahead = 2 * time.Second

// killPrimary kills the primary and promotes the standby. The former primary comes back
// as the standby, since nothing is acknowledged before there is one.
func killPrimary(ctx context.Context, t *Town) (string, error) {
	t.primary.Kill()
	if err := t.standby.Promote(ctx); err != nil {
		return "", err
	}
	t.primary, t.standby = t.standby, t.primary
	if err := t.standby.Follow(t.primary, "standby", "fsync=on"); err != nil {
		return "", err
	}
	return "the old primary returns as the standby; until then nothing is acknowledged", t.writes(ctx)
}

// writes waits until something can be written.
func (t *Town) writes(ctx context.Context) error {
	return until(ctx, time.Minute, func() error {
		return t.operate(ctx, http.MethodPost, "/v1/gateway-tokens", map[string]any{"agent": "documents", "ttl": 1}, nil)
	})
}

// stopNode stops a node for a time. It continues in the middle of its work, and must not
// write behind the progress of the others.
func stopNode(ctx context.Context, t *Town, length time.Duration) (string, error) {
	n := some(t.nodes)
	n.signal(syscall.SIGSTOP)
	defer n.signal(syscall.SIGCONT)
	if !pause(ctx, length) {
		return "", ctx.Err()
	}
	// It may have held a lock that all the others wait for.
	stopped := t.Now()
	return "", until(ctx, time.Minute, func() error {
		if t.ledger.lastWent().Before(stopped) {
			return fmt.Errorf("nothing goes through while one node of %d is stopped", len(t.nodes))
		}
		return nil
	})
}

// cutGateway cuts a gateway off from the server. It continues until its lease is over.
func cutGateway(ctx context.Context, t *Town) (string, error) {
	g := some(t.gateways)
	direct, err := t.newDirect(ctx, g)
	if err != nil {
		return "", err
	}
	// This search fills the gateway's caches of the server's answers.
	if code, err := direct.search(ctx); err != nil || code != "" {
		return "", fmt.Errorf("before it is cut off: %q %w", code, err)
	}
	t.front.partition(g.id, true)
	cut := t.Now()
	defer t.front.partition(g.id, false)
	went, denied := 0, time.Time{}
	other := map[string]int{}
	err = until(ctx, t.Lease+time.Minute, func() error {
		asked := t.Now()
		switch code, err := direct.search(ctx); {
		case err != nil:
			other[err.Error()]++
			return err
		case code == "":
			went++
			if late := asked.Sub(cut); late > t.Lease {
				return &over{fmt.Errorf("%s allows a call that began %v after it was cut off, its lease is %v", g.name, late, t.Lease)}
			}
			return errors.New("it goes on")
		case code != "revocations_stale":
			other[code]++
			return fmt.Errorf("denied with %s", code)
		}
		denied = t.Now()
		return nil
	})
	if err != nil {
		return "", err
	}
	if went == 0 {
		return "", fmt.Errorf("the gateway did not go on within its lease: denied after %v, before %v", denied.Sub(cut), other)
	}
	t.Log("cut off: %d calls went through, denied after %v with a lease of %v", went, denied.Sub(cut).Round(10*time.Millisecond), t.Lease)
	t.front.partition(g.id, false)
	return fmt.Sprintf("it continued within its lease of %v, and denied afterwards", t.Lease), until(ctx, 20*time.Second, func() error {
		code, err := direct.search(ctx)
		if code != "" {
			err = errors.New(code)
		}
		return err
	})
}

// fillDisk has a gateway with its records on its own disk, and fills it.
func fillDisk(ctx context.Context, t *Town) (string, error) {
	d, err := newDisk(filepath.Join(t.Dir, fmt.Sprint("disk-", t.Now().UnixNano())))
	if err != nil {
		return "", err
	}
	name := filepath.Base(d.path)
	g, err := t.newGateway(ctx, name, filepath.Join(d.path, "state"))
	if err != nil {
		return "", errors.Join(err, d.close())
	}
	err = t.onFullDisk(ctx, g, d)
	if err == nil {
		// Its spool is at the server before its disk goes.
		err = t.shipped(ctx)
	}
	err = errors.Join(err, g.process.stop(20*time.Second))
	t.retire(g)
	return d.how, errors.Join(err, d.close())
}

func (t *Town) onFullDisk(ctx context.Context, g *gateway, d *disk) error {
	direct, err := t.newDirect(ctx, g)
	if err != nil {
		return err
	}
	want := func(code string) error {
		return until(ctx, 20*time.Second, func() error {
			got, err := direct.search(ctx)
			if err == nil && got != code {
				err = fmt.Errorf("the answer is %q, want %q", got, code)
			}
			return err
		})
	}
	if err := want(""); err != nil {
		return err
	}
	if err := d.fill(); err != nil {
		return err
	}
	if err := want("evidence_unavailable"); err != nil {
		return err
	}
	for range 20 { // it stays so
		if got, err := direct.search(ctx); err == nil && got == "" {
			t.ledger.finding("a call went through on a full disk")
		}
	}
	if err := d.free(); err != nil {
		return err
	}
	return want("")
}

// asynchronous takes the standby out of the primary's settings, and puts it back.
func asynchronous(ctx context.Context, t *Town) (string, error) {
	if err := t.synchronous(ctx, ""); err != nil {
		return "", err
	}
	note, err := t.whileAsynchronous(ctx)
	return note, errors.Join(err, t.synchronous(ctx, "*"))
}

func (t *Town) whileAsynchronous(ctx context.Context) (string, error) {
	client := &http.Client{Timeout: 5 * time.Second}
	for _, n := range t.nodes {
		err := until(ctx, 20*time.Second, func() error {
			if probe(ctx, client, n.address) == nil {
				return fmt.Errorf("%s says that it is ready though replication is asynchronous", n.name)
			}
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	late, err := t.newNode("late", t.primary.Both(t.standby, t.database))
	if err != nil {
		return "", err
	}
	limited, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := t.run(limited, t.Binary, "serve", "-c", late.file, "--dev")
	if err == nil || limited.Err() != nil || !strings.Contains(out, "synchronous_standby_names is empty") {
		return "", fmt.Errorf("a node on asynchronous replication starts: %w\n%s", err, out)
	}
	return "a node that starts refuses, those that run say that they are not ready, and nothing is acknowledged", nil
}

// lockTable has another session hold the table of the log.
func lockTable(ctx context.Context, t *Town, length time.Duration) (string, error) {
	locker, err := pgx.Connect(ctx, t.primary.URL(t.database))
	if err != nil {
		return "", err
	}
	defer func() { _ = locker.Close(context.WithoutCancel(ctx)) }() // which gives the lock back
	if _, err := locker.Exec(ctx, "BEGIN; LOCK TABLE log IN EXCLUSIVE MODE", pgx.QueryExecModeSimpleProtocol); err != nil {
		return "", err
	}
	return t.unready(ctx, length, "store")
}

// pauseStandby stops the standby, for which every commit waits.
func pauseStandby(ctx context.Context, t *Town, length time.Duration) (string, error) {
	resume := t.standby.Pause()
	defer resume()
	return t.unready(ctx, length, "store")
}
