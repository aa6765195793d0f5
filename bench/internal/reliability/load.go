package reliability

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/internal/wire/signed"
	"github.com/powerbox-project/powerbox/token"
)

// load is the traffic of a town.
type load struct {
	leave   context.CancelFunc
	running sync.WaitGroup
	workers []*worker
}

func (l *load) stop() {
	l.leave()
	l.running.Wait()
}

// patience is how long a caller waits for an answer.
const patience = 5 * time.Second

// start begins the traffic.
func (t *Town) start(ctx context.Context) error {
	ctx, leave := context.WithCancel(ctx)
	l := &load{leave: leave}
	for n := range t.Workers {
		w, err := t.newWorker(ctx, n)
		if err != nil {
			leave()
			return err
		}
		l.workers = append(l.workers, w)
	}
	t.load = l
	for _, w := range l.workers {
		l.running.Go(func() { w.run(ctx) })
	}
	l.running.Go(func() { t.registrar.run(ctx) })
	return nil
}

// worker is a caller with a key and a user of its own, who does one thing after the
// other. So it knows of every capability which answer must come.
type worker struct {
	town   *Town
	n      int
	base   string // the agent's URL
	client *holder.Client
	agent  holder.Agent

	held   *holder.Capability
	handle string
	unsure bool    // whether the held one was given back is not known
	given  []taken // capabilities that were given back
	steps  int
}

// taken is a capability that was given back, and when that was acknowledged.
type taken struct {
	capability holder.Capability
	handle     string
	at         time.Time
}

// noting keeps the decisions that answers name.
type noting struct {
	to     http.RoundTripper
	ledger *ledger
}

// RoundTrip implements [http.RoundTripper].
func (n noting) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := n.to.RoundTrip(r)
	if err == nil {
		n.ledger.answered(response.Header)
	}
	return response, err
}

func (t *Town) newWorker(ctx context.Context, n int) (*worker, error) {
	key, err := token.GenerateKey(token.Ed25519, t.Random)
	if err != nil {
		return nil, err
	}
	w := &worker{town: t, n: n, base: t.doors.url + "/agents/documents"}
	if n%2 == 1 || t.Gateways == 0 {
		w.base = t.front.url + "/agents/notes"
	}
	w.client = &holder.Client{
		Key: key, HTTP: &http.Client{Transport: noting{&http.Transport{}, t.ledger}, Timeout: patience}, Now: t.Now, Random: t.Random,
		Session: func(context.Context, string) (string, error) { return session(n), nil },
	}
	err = until(ctx, 20*time.Second, func() error {
		w.agent, err = w.client.Discover(ctx, w.base)
		if err == nil && !w.agent.Negotiates {
			err = errors.New("the card has no capabilities yet")
		}
		return err
	})
	return w, err
}

func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		w.step(ctx)
		w.steps++
		if !pause(ctx, time.Duration(5+rand.IntN(30))*time.Millisecond) { //nolint:gosec // no secret
			return
		}
	}
}

// The turns that one capability takes.
const (
	everyNarrow = 4
	everyRevoke = 9
	everyFreeze = 60
)

func (w *worker) step(ctx context.Context) {
	switch {
	case w.held == nil:
		w.request(ctx)
	case w.unsure:
		w.revoke(ctx)
	case w.steps%everyFreeze == everyFreeze-1 && w.n < 2:
		w.freeze(ctx)
	case w.steps%everyRevoke == everyRevoke-1:
		w.revoke(ctx)
	case w.steps%everyNarrow == everyNarrow-1:
		w.narrow(ctx)
		w.again(ctx)
	default:
		w.expect(ctx, *w.held, "retrieve_document", w.handle, yes, "a capability that is held")
	}
}

// request asks for a capability.
func (w *worker) request(ctx context.Context) {
	got, err := w.client.Request(ctx, w.agent, holder.RequestParams{
		Grants: []string{"documents:read"}, Purpose: "A trial", Query: powerbox.Object(powerbox.Member{Name: "collection", Value: powerbox.String("reports")}),
	})
	if w.town.judge(ctx, err, yes, "a request for capabilities") != yes || len(got) != 1 || len(got[0].Handles) == 0 {
		return
	}
	w.held, w.handle = &got[0], got[0].Handles[0].Handle
	l := w.town.ledger
	l.mu.Lock()
	l.issued[got[0].ID] = true
	l.counts.Issued++
	l.mu.Unlock()
}

// narrow uses a capability that is narrower than the held one, within and beyond it.
func (w *worker) narrow(ctx context.Context) {
	less, err := w.client.Narrow(*w.held, holder.Narrowing{Operations: []string{"search"}, Expires: w.held.Expires})
	if err != nil {
		w.town.ledger.finding("narrowing: %v", err)
		return
	}
	w.expect(ctx, less, "search_documents", "", yes, "within what was narrowed")
	w.expect(ctx, less, "retrieve_document", w.handle, no, "beyond what was narrowed")
}

// revoke gives the held one back.
func (w *worker) revoke(ctx context.Context) {
	if err := w.client.Revoke(ctx, w.agent, *w.held); err != nil {
		w.unsure = true // it is tried again: whether it happened is not known
		if w.town.judge(ctx, err, either, "giving back") == no {
			w.held, w.unsure = nil, false // it had
		}
		return
	}
	w.unsure = false
	l := w.town.ledger
	l.mu.Lock()
	l.revoked[w.held.ID] = true
	l.counts.Revoked++
	l.mu.Unlock()
	back := taken{*w.held, w.handle, w.town.Now()}
	w.given, w.held = append(w.given, back), nil
	// At once, any part may not know yet.
	w.expect(ctx, back.capability, "retrieve_document", back.handle, either, "just given back")
}

// again uses a capability that was given back longer ago than the lease.
func (w *worker) again(ctx context.Context) {
	if len(w.given) == 0 {
		return
	}
	back := w.given[len(w.given)-1]
	want := either
	if w.town.Now().Sub(back.at) > w.town.Lease {
		want = no
	}
	began := w.town.Now()
	if w.expect(ctx, back.capability, "retrieve_document", back.handle, want, "given back longer than the lease ago") == yes {
		l := w.town.ledger
		l.mu.Lock()
		l.after = max(l.after, began.Sub(back.at))
		l.mu.Unlock()
	}
}

// freeze has an operator stop the user for longer than the lease.
func (w *worker) freeze(ctx context.Context) {
	body := map[string]string{"target": "user:" + user(w.n), "reason": "a trial"}
	failed := w.town.operate(ctx, http.MethodPost, "/v1/freezes", body, nil)
	if failed == nil && pause(ctx, w.town.Lease) {
		w.expect(ctx, *w.held, "retrieve_document", w.handle, no, "frozen for longer than the lease")
	}
	// Also where the load ends now, and for a minute at the most.
	thawing := context.WithoutCancel(ctx)
	frozen, tried := failed == nil, false
	err := until(thawing, time.Minute, func() error {
		if !frozen { // the first one may still be on its way, and would follow a thaw
			if err := w.town.operate(thawing, http.MethodPost, "/v1/freezes", body, nil); err != nil {
				return err
			}
			frozen = true
		}
		err := w.town.operate(thawing, http.MethodPost, "/v1/thaws", body, nil)
		var answer *statusError
		if tried && errors.As(err, &answer) && answer.status < http.StatusInternalServerError {
			return nil // the thaw before had no answer, and happened
		}
		tried = true
		return err
	})
	if err != nil {
		w.town.ledger.finding("thaw: %v", err)
	}
	pause(ctx, w.town.Lease)
}

// expect makes a call that must be allowed, or denied.
func (w *worker) expect(ctx context.Context, held holder.Capability, skill, handle string, want verdict, what string) verdict {
	arguments := powerbox.Object()
	if handle != "" {
		arguments = powerbox.Object(powerbox.Member{Name: "resourceHandle", Value: powerbox.String(handle)})
	}
	_, err := w.client.Invoke(ctx, w.agent, held, skill, arguments)
	got := w.town.judge(ctx, err, want, what+" at "+w.base)
	if got == yes {
		w.town.ledger.went(w.base, w.town.Now())
	}
	return got
}

// verdict is the result of a call, or the one that must come.
type verdict int

const (
	either verdict = iota // nothing is known of it
	yes
	no
	away // some part of the town was
)

// unavailable are the reasons of denials that say that some part is away, or that a
// proof was made before the gate that reads it began (docs/reference/denials.md).
var unavailable = map[powerbox.Code]bool{
	"authorization_unavailable": true, "evidence_unavailable": true, "outcome_unrecorded": true, "revocations_stale": true, "revocation_unknown": true,
}

// judge returns the result of a call, and notes it.
func (t *Town) judge(ctx context.Context, err error, want verdict, what string) verdict {
	var denied *holder.Denied
	if t.lenient.Load() {
		want = either
	}
	got := away
	switch {
	case err == nil:
		got = yes
	case errors.As(err, &denied) && !unavailable[denied.Code]:
		got = no
	}
	if ctx.Err() != nil {
		return away
	}
	t.ledger.note(func(c *Counts) {
		switch {
		case got == yes:
			c.Answered, c.Allowed = c.Answered+1, c.Allowed+1
		case got == no:
			c.Answered, c.Denied = c.Answered+1, c.Denied+1
		case denied != nil:
			c.Unavailable++
		default:
			c.Unanswered++
		}
	})
	switch {
	case got == away:
		t.ledger.excuse(short(err))
	case want == yes && got == no:
		t.ledger.note(func(c *Counts) { c.WrongDeny++ })
		t.ledger.finding("wrong deny: %s: %v", what, err)
	case want == no && got == yes:
		t.ledger.note(func(c *Counts) { c.WrongAllow++ })
		t.ledger.finding("wrong allow: %s", what)
	}
	return got
}

// short is an error without the parts that are new in each.
func short(err error) string {
	var denied *holder.Denied
	if errors.As(err, &denied) {
		return "denied: " + string(denied.Code)
	}
	text := err.Error()
	if i := strings.LastIndex(text, `": `); i >= 0 {
		text = text[i+3:]
	}
	return text
}

// keyID is the id of a gateway's key.
func keyID(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	seed, err := base64.RawURLEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	key, err := signed.NewKey(seed)
	if err != nil {
		return "", err
	}
	return key.Public().ID(), nil
}
