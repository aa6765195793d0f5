package remote

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/powerbox-project/powerbox/internal/periodic"
	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
	"github.com/powerbox-project/powerbox/internal/remote/link"
)

// remoteHolds keeps calls that wait for a person at a remote gateway:
// the bytes in its own book, the question at the server (ADR 76).
type remoteHolds struct {
	remote *link.Remote
	book   *link.Book
	now    func() time.Time
	log    *slog.Logger

	mu      sync.Mutex // guards the fields below
	changed chan struct{}
	ready   []string // tasks that people have approved
	taken   map[string]bool
}

// heldEvery is how often the gateway asks the server for people's answers, while it
// holds any call.
const heldEvery = time.Second

func newRemoteHolds(remote *link.Remote, book *link.Book, now func() time.Time, log *slog.Logger) (*remoteHolds, error) {
	return &remoteHolds{remote: remote, book: book, now: now, log: log, changed: make(chan struct{}), taken: map[string]bool{}}, book.Begin()
}

// Hold implements [gateway.Holds]. The bytes are on the disk before people are
// asked.
func (h *remoteHolds) Hold(ctx context.Context, c gateway.HeldCall) (gateway.HeldTask, error) {
	id, err := ulid.New(ulid.Timestamp(h.now()), rand.Reader)
	if err != nil {
		return gateway.HeldTask{}, err
	}
	task := gateway.HeldPrefix + strings.ToLower(id.String())
	e := link.HeldEntry{Task: task, State: link.HeldAsking, Owner: c.Owner, User: c.Caller.Principal, Request: c.Request, Since: h.now()}
	if err := h.book.Put(e); errors.Is(err, link.ErrBookFull) {
		return gateway.HeldTask{}, &link.Refused{Reason: "approval_too_many", Message: err.Error()}
	} else if err != nil {
		return gateway.HeldTask{}, err
	}
	wire := heldWire(c)
	wire.Task = task
	a, err := h.remote.Held(ctx, link.HeldQuery{Do: link.HeldAsk, Call: &wire})
	if err == nil {
		e.State = link.HeldWaits
		if err = h.book.Put(e); err == nil {
			return hereTask(a.Task), nil
		}
	}
	if refused := (*link.Refused)(nil); errors.As(err, &refused) {
		return gateway.HeldTask{}, errors.Join(refused, h.book.Delete(task))
	}
	// The gateway tells the caller that no call is held, so no approval may take effect. It
	// does not know whether the server has asked anyone.
	e.State, e.Request = link.HeldWithdrawing, nil
	err = errors.Join(err, h.book.Put(e))
	return gateway.HeldTask{}, err
}

// Task implements [gateway.Holds]. The server knows also the calls that other gateways
// of the agent hold.
func (h *remoteHolds) Task(ctx context.Context, _, task string) (gateway.HeldTask, bool, error) {
	a, err := h.remote.Held(ctx, link.HeldQuery{Do: link.HeldTell, Task: task})
	return hereTask(a.Task), a.Known, err
}

// Of implements [gateway.Holds].
func (h *remoteHolds) Of(ctx context.Context, _, tenant string, owner gateway.Owner) ([]gateway.HeldTask, error) {
	a, err := h.remote.Held(ctx, link.HeldQuery{Do: link.HeldList, Tenant: tenant, Owner: owner})
	var out []gateway.HeldTask
	for _, t := range a.Tasks {
		out = append(out, hereTask(t))
	}
	return out, err
}

// Cancel implements [gateway.Holds].
func (h *remoteHolds) Cancel(ctx context.Context, _, task string) (gateway.HeldTask, error) {
	a, err := h.remote.Held(ctx, link.HeldQuery{Do: link.HeldCancel, Task: task})
	if err == nil && !a.Known {
		err = errors.New("there is no such call")
	}
	return hereTask(a.Task), err
}

// Take implements [gateway.Holds]. The server notes first that the call is made now,
// then the book does, and then the call continues. After a crash in between it is never
// made twice.
func (h *remoteHolds) Take(ctx context.Context) (gateway.Released, bool, error) {
	for {
		task, ok := h.next()
		if !ok {
			return gateway.Released{}, false, nil
		}
		e, known, err := h.book.Get(task)
		if err == nil && known && e.State == link.HeldWaits {
			var r gateway.Released
			var goes bool
			if r, goes, err = h.begin(ctx, e); goes {
				return r, true, nil
			}
		}
		h.done(task)
		if err != nil {
			return gateway.Released{}, false, err // it is asked about again
		}
	}
}

func (h *remoteHolds) begin(ctx context.Context, e link.HeldEntry) (gateway.Released, bool, error) {
	if err := h.remote.Know(ctx, e.User); err != nil {
		return gateway.Released{}, false, err
	}
	a, err := h.remote.Held(ctx, link.HeldQuery{Do: link.HeldBegin, Task: e.Task})
	if err != nil {
		return gateway.Released{}, false, err
	}
	if !a.Known || len(a.Rulings) != 1 || a.Rulings[0].Capability == "" {
		return gateway.Released{}, false, h.book.Delete(e.Task)
	}
	request := e.Request
	e.State, e.Request = link.HeldMaking, nil
	if err := h.book.Put(e); err != nil {
		return gateway.Released{}, false, err
	}
	return gateway.Released{Question: e.Task, Task: e.Task, Agent: h.remote.Agent, Capability: a.Rulings[0].Capability, Request: request, Owner: e.Owner}, true, nil
}

// Made implements [gateway.Holds]. The question of a call here is its task.
func (h *remoteHolds) Made(ctx context.Context, task string, failed bool, decision, text string, answer []byte) error {
	e, known, err := h.book.Get(task)
	if err != nil || !known {
		return err
	}
	e.State, e.Result = link.HeldDone, &link.HeldResult{Failed: failed, Decision: decision, Text: text, Answer: json.RawMessage(answer)}
	if err := h.book.Put(e); err != nil {
		return err
	}
	h.done(task)
	return h.report(ctx, e)
}

// report tells the server the result of a call, and then forgets it.
func (h *remoteHolds) report(ctx context.Context, e link.HeldEntry) error {
	if _, err := h.remote.Held(ctx, link.HeldQuery{Do: link.HeldMade, Task: e.Task, Result: e.Result}); err != nil {
		return err
	}
	return h.book.Delete(e.Task)
}

// Changed implements [gateway.Holds].
func (h *remoteHolds) Changed() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changed
}

func (h *remoteHolds) next() (string, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.ready) == 0 {
		return "", false
	}
	task := h.ready[0]
	h.ready, h.taken[task] = h.ready[1:], true
	return task, true
}

func (h *remoteHolds) done(task string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.taken, task)
}

// approved notes that a call may be made, once.
func (h *remoteHolds) approved(task string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.ready {
		if t == task {
			return
		}
	}
	if h.taken[task] {
		return
	}
	h.ready = append(h.ready, task)
	close(h.changed)
	h.changed = make(chan struct{})
}

// tend asks the server what has become of the calls held here, and reports their changes
// to it, until ctx ends.
func (h *remoteHolds) tend(ctx context.Context) {
	periodic.Run(ctx, heldEvery, func(ctx context.Context) {
		if err := h.settle(ctx); err != nil && ctx.Err() == nil {
			h.log.WarnContext(ctx, "what people say of held calls cannot be asked for", slog.Any("error", err))
		}
	})
}

func (h *remoteHolds) settle(ctx context.Context) error {
	all, err := h.book.All()
	if err != nil {
		return err
	}
	var waits []string
	for _, e := range all {
		switch e.State {
		case link.HeldWaits:
			waits = append(waits, e.Task)
		case link.HeldWithdrawing:
			if _, wrong := h.remote.Held(ctx, link.HeldQuery{Do: link.HeldCancel, Task: e.Task}); wrong != nil {
				err = errors.Join(err, wrong)
			} else {
				err = errors.Join(err, h.book.Delete(e.Task))
			}
		case link.HeldDone:
			err = errors.Join(err, h.report(ctx, e))
		case link.HeldAsking, link.HeldMaking:
		}
	}
	if len(waits) == 0 {
		return err
	}
	a, wrong := h.remote.Held(ctx, link.HeldQuery{Do: link.HeldRulings, Tasks: waits})
	for _, r := range a.Rulings {
		switch {
		case r.Waits:
		case r.Capability != "":
			h.approved(r.Task)
		default:
			err = errors.Join(err, h.book.Delete(r.Task))
		}
	}
	return errors.Join(err, wrong)
}
