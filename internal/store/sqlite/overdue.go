package sqlite

import (
	"container/list"
	"errors"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
)

// errOverdue stands ahead of the true result of a change that did not come in time.
var errOverdue = errors.New("sqlite: the result is overdue")

// overdue ends waits for results that do not come because the disk hangs. One timer serves
// all waits: a timer for each would cost about 1 % of a call. The zero value is ready.
type overdue struct {
	mu    sync.Mutex
	waits list.List // of *wait, the first to be overdue in front, except after changes of the clock
	armed bool      // the timer will look
}

// wait is for a result that has room for errOverdue beside it.
type wait struct {
	result chan<- error
	until  time.Time
}

// await returns the result of a change, or an [evidence.LateError] when it has not come by
// then.
func (o *overdue) await(result chan error, until time.Time) error {
	o.mu.Lock()
	place := o.waits.PushBack(&wait{result, until})
	if !o.armed {
		o.arm(until)
	}
	o.mu.Unlock()
	err := <-result
	o.mu.Lock()
	o.waits.Remove(place)
	o.mu.Unlock()
	if errors.Is(err, errOverdue) {
		return &evidence.LateError{Result: result}
	}
	return err
}

// arm has the timer look at the waits then.
func (o *overdue) arm(then time.Time) {
	o.armed = true
	time.AfterFunc(time.Until(then), o.look) //nolint:forbidigo // as the deadline of a context
}

// look ends the waits that are overdue, and waits for the next one.
func (o *overdue) look() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.armed = false
	for e := o.waits.Front(); e != nil; e = o.waits.Front() {
		w := e.Value.(*wait)
		if time.Until(w.until) > 0 { //nolint:forbidigo // as its deadline
			o.arm(w.until)
			return
		}
		w.result <- errOverdue
		o.waits.Remove(e)
	}
}
