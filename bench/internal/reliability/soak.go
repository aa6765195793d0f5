package reliability

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"
)

// Soak has nodes and gateways killed, stopped and ended at random for a time, and
// judges at its end. Each is replaced. In the second half the first node and the first
// gateway are only stopped for moments, to see at the end whether they hold more than
// those that have just begun.
func (t *Town) Soak(ctx context.Context, length time.Duration) (Result, error) {
	r := Result{Times: 1}
	t.ledger = newLedger()
	if err := t.start(ctx); err != nil {
		return r, err
	}
	done := map[string]int{}
	began := t.Now()
	until, half := began.Add(length), began.Add(length/2)
	for t.Now().Before(until) {
		spared := 0
		if t.Now().After(half) {
			spared = 1
		}
		what, err := t.harm(ctx, spared)
		if err != nil {
			t.load.stop()
			return r, err
		}
		done[what]++
		if !pause(ctx, time.Duration(500+rand.IntN(2500))*time.Millisecond) { //nolint:gosec // no secret
			t.load.stop()
			return r, ctx.Err()
		}
	}
	err := t.whole(ctx)
	t.load.stop()
	if err != nil {
		return r, err
	}
	r.Without = append(r.Without, t.ledger.longest(began))
	held, err := t.leaks(ctx)
	if err != nil {
		return r, err
	}
	r.Notes = append(r.Notes, held)
	j, _, err := t.judgeAll(ctx, nil)
	r.Lost, r.Records = j.Lost, j.Records
	r.conclude(t.ledger)
	r.Notes = append(r.Notes, fmt.Sprintf("%d nodes and %d gateways killed, %d nodes stopped for a second, %d nodes restarted. %d capabilities issued, %d revoked, %d agents registered",
		done["node killed"], done["gateway killed"], done["node stopped"], done["node ended"], r.Counts.Issued, r.Counts.Revoked, r.Counts.Registered))
	return r, err
}

// harm does one thing, to any but the first so many where it ends them.
func (t *Town) harm(ctx context.Context, spared int) (string, error) {
	switch rand.IntN(4) { //nolint:gosec // no secret
	case 0:
		_, err := killOne(ctx, t, some(t.nodes[spared:]))
		return "node killed", err
	case 1:
		_, err := killOneGateway(ctx, t, some(t.gateways[spared:]))
		return "gateway killed", err
	case 2:
		n := some(t.nodes)
		n.signal(syscall.SIGSTOP)
		ok := pause(ctx, time.Second)
		n.signal(syscall.SIGCONT)
		if !ok {
			return "", ctx.Err()
		}
		return "node stopped", nil
	default:
		n := some(t.nodes[spared:])
		return "node ended", errors.Join(n.process.stop(30*time.Second), t.boot(ctx, n))
	}
}

// Upgrade replaces all nodes by a newer program, one by one, under load in which no call
// and no request may fail. The schema is migrated ahead.
func (t *Town) Upgrade(ctx context.Context, newer string) (Result, error) {
	r, err := t.Play(ctx, Trial{Do: func(ctx context.Context, t *Town) (string, error) {
		out, err := t.run(ctx, newer, "migrate", "up", "-c", t.nodes[0].file)
		if err != nil {
			return "", fmt.Errorf("migrate up: %w\n%s", err, out)
		}
		for _, n := range t.nodes {
			n.binary = newer
			if err := n.process.stop(30 * time.Second); err != nil {
				return "", err
			}
			if err := t.boot(ctx, n); err != nil {
				return "", err
			}
			if !pause(ctx, 500*time.Millisecond) { // until the balancer knows
				return "", ctx.Err()
			}
		}
		return "migrate up said: " + strings.Join(strings.Fields(out), " "), nil
	}}, 1)
	if failed := r.Counts.Unanswered + r.Counts.Unavailable; failed > 0 {
		r.Wrong = append(r.Wrong, fmt.Sprintf("%d calls and requests failed", failed))
	}
	return r, err
}
