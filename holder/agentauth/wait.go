package agentauth

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	wire "github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// Bounds of polling for an answer of a person.
const (
	minInterval     = time.Second
	defaultInterval = 5 * time.Second
	maxInterval     = time.Minute
	maxApproval     = time.Hour // what expires_in may say
	slower          = 5 * time.Second
)

// outcome is how a request came out.
type outcome int

const (
	waits outcome = iota
	given
	denied
	ended // without an answer: the agent expired, or was revoked
)

// open is a request that people have to answer.
type open struct {
	What   string  `json:"what,omitempty"` // digest, "" for one whose denial is not remembered
	Asks   []Ask   `json:"asks,omitempty"`
	Whole  bool    `json:"whole,omitempty"`  // a registration or a reactivation: of the agent itself
	Before []Grant `json:"before,omitempty"` // of one for more: the earlier grants
	Claim  bool    `json:"claim,omitempty"`  // who takes over
}

// denialMemory is how long a denial is remembered.
const denialMemory = 90 * 24 * time.Hour

func (o open) names(capability string) bool {
	return slices.ContainsFunc(o.Asks, func(a Ask) bool { return a.Capability == capability })
}

// outcome says how it came out, as an agent stands now.
func (o open) outcome(now standing) outcome {
	is := func(status wire.Status) func(Grant) bool {
		return func(g Grant) bool { return g.Status == string(status) }
	}
	if o.Claim {
		return claimed(now)
	}
	switch wire.Status(now.Status) {
	case wire.Pending:
		return waits
	case wire.Active:
	case wire.Rejected:
		return denied
	default:
		return ended
	}
	if o.Whole {
		if len(o.Asks) > 0 && len(now.Grants) > 0 && !slices.ContainsFunc(now.Grants, func(g Grant) bool { return !is(wire.Denied)(g) }) {
			return denied
		}
		return given
	}
	of := slices.DeleteFunc(slices.Clone(now.Grants), func(g Grant) bool { return !o.names(g.Capability) })
	if slices.ContainsFunc(of, is(wire.Pending)) {
		return waits
	}
	no := slices.ContainsFunc(of, is(wire.Denied))
	of = slices.DeleteFunc(of, func(g Grant) bool {
		return slices.ContainsFunc(o.Before, func(b Grant) bool { return same(b, g) })
	})
	switch {
	case slices.ContainsFunc(of, is(wire.Active)):
		return given
	case no:
		return denied
	}
	return ended
}

// over says whether it is answered, and with what error.
func (o open) over(now standing, a Agent) (bool, error) {
	switch o.outcome(now) {
	case given:
		return true, nil
	case denied:
		return true, reasonOf(a)
	case ended:
		return true, fmt.Errorf("agentauth: no person answered, and agent %q is %s now", a.ID, now.Status)
	case waits:
	}
	return false, nil
}

func same(a, b Grant) bool {
	return a.Status == b.Status && digest("", []Ask{{a.Capability, a.Constraints}}) == digest("", []Ask{{b.Capability, b.Constraints}})
}

// settle notes what people have answered: a denial is remembered, so that no person is
// asked the same again (AAP-A5, AAP-CL13).
func (k *kept) settle(p *provided, now standing, at time.Time) {
	k.Open = slices.DeleteFunc(k.Open, func(o open) bool {
		how := o.outcome(now)
		if how == waits || p == nil {
			return how != waits
		}
		if o.Whole {
			delete(p.Drafts, k.Draft)
		}
		maps.DeleteFunc(p.Denied, func(_ string, then time.Time) bool { return !at.Before(then.Add(denialMemory)) })
		delete(p.Denied, o.What)
		if how == denied && o.What != "" {
			if p.Denied == nil {
				p.Denied = map[string]time.Time{}
			}
			p.Denied[o.What] = at
		}
		return true
	})
}

// Wait waits for the answer of a person to what an agent has asked for.
func (c *Client) Wait(ctx context.Context, id string) (Agent, error) {
	var waiting []open
	err := c.Store.view(func(st *state) error {
		if k := st.Agents[id]; k != nil {
			waiting = k.Open
		}
		return nil
	})
	if err != nil {
		return Agent{}, err
	}
	a, err := c.Status(ctx, id)
	for _, o := range waiting {
		if err == nil {
			a, err = c.await(ctx, a, false, o)
		}
	}
	return a, err
}

// await polls until a person has answered, or the time to do so is over.
func (c *Client) await(ctx context.Context, a Agent, noWait bool, o open) (Agent, error) {
	if over, err := o.over(standing{Status: a.Status, Grants: a.Grants, Claim: a.Claim}, a); over {
		return a, err
	}
	if a.Approval != nil && c.Approve != nil {
		c.Approve(a.ID, *a.Approval)
	}
	if noWait {
		return a, &Pending{Agent: a.ID, Approval: a.Approval}
	}
	interval, until := timing(a.Approval)
	limited, cancel := context.WithTimeout(ctx, until)
	defer cancel()
	answered := c.notified(limited, a)
	for {
		if waitOr(limited, interval, answered) != nil {
			return a, &Pending{Agent: a.ID, Approval: a.Approval, Ended: ctx.Err() == nil}
		}
		now, err := c.poll(limited, a.ID)
		if err != nil {
			next, again := backoff(interval, err)
			if !again && limited.Err() == nil {
				return a, err
			}
			interval = next
			continue
		}
		kept, err := c.keep(now, nil)
		if err != nil {
			return a, err
		}
		kept.Approval = a.Approval
		if over, err := o.over(now, kept); over {
			kept.Approval = nil
			return kept, err
		}
	}
}

// notified returns a channel from which one thing comes when the provider says that a
// person has answered, where it does (section 10.10.2). It is a hint to look: what
// became of it is what the status says, and polling continues beside it (AAP-Y1).
func (c *Client) notified(ctx context.Context, a Agent) <-chan struct{} {
	if a.Approval == nil || a.Approval.Notify == "" || !sameOrigin(a.Approval.Notify, a.Issuer) {
		return nil
	}
	out := make(chan struct{}, 1)
	go func() {
		answer, err := c.once(ctx, &call{method: http.MethodGet, url: a.Approval.Notify, stream: true})
		if err != nil || answer.stream == nil {
			return
		}
		defer func() { _ = answer.stream.Close() }() // the rest is useless
		stop := context.AfterFunc(ctx, func() { _ = answer.stream.Close() })
		defer stop()
		lines := bufio.NewScanner(answer.stream)
		for lines.Scan() {
			if name, ok := strings.CutPrefix(lines.Text(), "event:"); ok && strings.TrimSpace(name) == "status" {
				out <- struct{}{}
				return
			}
		}
	}()
	return out
}

// waitOr waits, or until something comes, or returns the error of ctx.
func waitOr(ctx context.Context, d time.Duration, come <-chan struct{}) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-come:
	case <-t.C:
	}
	return nil
}

// poll asks once, with its own token (AAP-CL6).
func (c *Client) poll(ctx context.Context, id string) (standing, error) {
	a, err := c.agent(ctx, id)
	if err != nil {
		return standing{}, err
	}
	return c.seen(ctx, a)
}

// timing is how often and how long a person is waited for.
func timing(a *Approval) (interval, until time.Duration) {
	if a == nil {
		return defaultInterval, maxApproval
	}
	interval, until = time.Duration(a.Interval)*time.Second, time.Duration(a.Expires)*time.Second
	if a.Interval == 0 {
		interval = defaultInterval
	}
	if until <= 0 || until > maxApproval {
		until = maxApproval
	}
	return min(max(interval, minInterval), maxInterval), until
}

// backoff is when to ask again after an error: slower when the provider says so,
// ever slower when it does not answer, and not at all otherwise (AAP-CL5).
func backoff(interval time.Duration, err error) (next time.Duration, again bool) {
	var e *Error
	switch {
	case has(err, "authorization_pending"):
		return interval, true
	case has(err, "slow_down"):
		return min(interval+slower, maxInterval), true
	case errors.As(err, &e) && e.Status == http.StatusTooManyRequests:
		return max(min(2*interval, maxInterval), e.RetryAfter), true
	case unreachable(err):
		return min(2*interval, maxInterval), true
	}
	return 0, false
}

// reasonOf is the denial of an agent, with the first reason that a person gave.
func reasonOf(a Agent) *Denied {
	d := &Denied{Agent: a.ID}
	for _, g := range a.Grants {
		if g.Status == string(wire.Denied) && g.Reason != "" {
			d.Reason = g.Reason
			break
		}
	}
	return d
}
