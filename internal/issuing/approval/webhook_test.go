package approval

import (
	"errors"
	"log/slog"
	"testing"
	"time"
)

// TestATK48_MessagesEnd tries a message that no webhook takes: less and less often,
// and not beyond the end of what it tells of.
func TestATK48_MessagesEnd(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	w := &Webhooks{now: func() time.Time { return now }, log: slog.New(slog.DiscardHandler)}
	m := Message{ID: "asked_ask_1.chat", Hook: "chat", Event: EventAsked, Created: now, Due: now, Expires: now.Add(time.Hour)}
	last := time.Duration(0)
	for m.Died.IsZero() {
		before := now
		m = w.failed(m, errors.New("HTTP status 503"))
		if wait := m.Due.Sub(before); wait < last {
			t.Errorf("try %d comes after %v, the one before after %v", m.Tries+1, wait, last)
		} else {
			last = wait
		}
		if m.Tries > 20 {
			t.Fatal("it is tried for ever")
		}
		if m.Died.IsZero() {
			now = m.Due
		}
	}
	if m.Tries < 6 || now.After(m.Expires) || m.Why != "HTTP status 503" {
		t.Errorf("given up after %d tries, %v after its beginning: %s", m.Tries, now.Sub(m.Created), m.Why)
	}
	fresh := Message{Expires: now.Add(time.Hour)}
	if m := w.failed(fresh, &goneError{errors.New("HTTP status 410")}); m.Died.IsZero() {
		t.Error("a webhook that wants none is tried again")
	}
	if m := w.failed(fresh, errNoHook); m.Died.IsZero() {
		t.Error("a webhook that is not configured is tried again")
	}
}
