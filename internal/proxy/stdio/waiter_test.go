//go:build linux

package stdio

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// alike is a session without a process, into which the tests put what one would write.
func alike(t *testing.T) (one *session, log *bytes.Buffer) {
	t.Helper()
	log = &bytes.Buffer{}
	return &session{log: slog.New(slog.NewTextHandler(log, nil)), now: now, dialogue: dialogue{waits: map[string]*waiter{}}, gone: make(chan struct{})}, log
}

func (one *session) writes(t *testing.T, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if err := one.take([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
}

func (one *session) joins(t *testing.T, id string) *waiter {
	t.Helper()
	w, status := one.join(id)
	if w == nil {
		t.Fatalf("request %s is answered with %d", id, status)
	}
	return w
}

// got returns the result of one wait, which ends at once: with the message that is
// there, or without one.
func (one *session) got(t *testing.T, w *waiter) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	lines, answer, err := one.await(ctx, w)
	if err != nil {
		return err.Error()
	}
	var all []string
	for _, line := range append(lines, answer) {
		all = append(all, string(line))
	}
	return strings.TrimSuffix(strings.Join(all, " "), " ")
}

// isTold reports an error where w is not woken, who looks when it is.
func isTold(t *testing.T, w *waiter) {
	t.Helper()
	select {
	case <-w.wake:
	default:
		t.Error("who waits is not told")
	}
}

const (
	elicit   = `{"id":"s1","method":"elicitation/create"}`
	progress = `{"method":"notifications/progress"}`
	answer1  = `{"id":1,"result":{}}`
	answer2  = `{"id":2,"result":{}}`
)

// TestGATE9_NothingOfAProcessIsLost: one waiter gets each unasked message of a process, even
// when other waiters leave. A message before an answer arrives before it.
func TestGATE9_NothingOfAProcessIsLost(t *testing.T) {
	t.Run("answered and asked in one go", func(t *testing.T) {
		one, _ := alike(t)
		a, b := one.joins(t, "1"), one.joins(t, "2")
		one.writes(t, elicit, answer1, progress)
		isTold(t, a)
		if got := one.got(t, a); got != elicit+" "+answer1 {
			t.Errorf("the first gets %s", got)
		}
		one.leave(a, nil)
		isTold(t, b)
		if got := one.got(t, b); got != progress {
			t.Errorf("the second gets %s", got)
		}
	})
	t.Run("an answer to the second", func(t *testing.T) {
		one, _ := alike(t)
		a, b := one.joins(t, "1"), one.joins(t, "2")
		one.writes(t, progress, answer2)
		isTold(t, a)
		isTold(t, b)
		if got := one.got(t, b); got != answer2 {
			t.Errorf("the second gets %s", got)
		}
		if got := one.got(t, a); got != progress {
			t.Errorf("the first gets %s", got)
		}
	})
	t.Run("the first leaves", func(t *testing.T) {
		one, _ := alike(t)
		a, b := one.joins(t, "1"), one.joins(t, "2")
		one.writes(t, elicit)
		one.leave(a, nil)
		isTold(t, b)
		if got := one.got(t, b); got != elicit {
			t.Errorf("who stays gets %s", got)
		}
	})
	t.Run("who follows leaves", func(t *testing.T) {
		one, _ := alike(t)
		a, f := one.joins(t, "1"), &waiter{wake: make(chan struct{}, 1)}
		one.follows = f
		one.writes(t, elicit, progress)
		isTold(t, f)
		lines, _ := one.next(f)
		one.leave(f, lines[1:]) // the last of which did not go out
		isTold(t, a)
		one.writes(t, answer1)
		isTold(t, a)
		if got := one.got(t, a); got != progress+" "+answer1 {
			t.Errorf("who stays gets %s", got)
		}
	})
	t.Run("an end behind the answer", func(t *testing.T) {
		one, _ := alike(t)
		a, b := one.joins(t, "1"), one.joins(t, "2")
		one.writes(t, progress, answer1)
		close(one.gone)
		if got := one.got(t, a); got != progress+" "+answer1 {
			t.Errorf("who was answered gets %s", got)
		}
		one.leave(a, nil)
		if got := one.got(t, b); got != "the MCP server ended" {
			t.Errorf("who was not gets %s", got)
		}
	})
}

// TestATK55_WhatNobodyTakesIsBounded: a process that speaks without a follower, or
// is asked without end.
func TestATK55_WhatNobodyTakesIsBounded(t *testing.T) {
	one, log := alike(t)
	for n := range maxQueue + 2 {
		one.writes(t, `{"method":"`+strconv.Itoa(n)+`"}`)
	}
	if len(one.queue) != maxQueue || string(one.queue[0]) != `{"method":"2"}` || !strings.Contains(log.String(), "dropped") {
		t.Errorf("%d messages wait, the oldest is %s", len(one.queue), one.queue[0])
	}
	large := `{"method":"` + strings.Repeat("x", MaxLine-100) + `"}`
	one.writes(t, large, large, progress, large)
	size := 0
	for _, line := range one.queue {
		size += len(line)
	}
	if size > maxHeld || len(one.queue) != 3 || string(one.queue[1]) != progress {
		t.Errorf("%d messages with %d bytes wait; want three, with %d at most", len(one.queue), size, maxHeld)
	}
	for n := range maxWait {
		one.joins(t, strconv.Itoa(n))
	}
	if w, status := one.join("more"); w != nil || status != http.StatusTooManyRequests {
		t.Errorf("a request more than %d is answered with %d", maxWait, status)
	}
}
