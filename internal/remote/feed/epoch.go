package feed

import (
	"cmp"
	"maps"
	"time"

	"github.com/powerbox-project/powerbox/internal/sorting"
)

// bulk is what an epoch ends everything of.
type bulk struct{ of, name string }

// epoch is until when issued capabilities are dead, and until when that matters.
type epoch struct{ before, until int64 }

// epochs are few: each is an operator's act.
type epochs map[bulk]epoch

// Ended reports whether everything that name stands for and that was issued up
// to a time has been revoked.
func (s State) Ended(of, name string, issued time.Time) bool {
	e, ok := s.epochs[bulk{of, name}]
	return ok && issued.Unix() <= e.before
}

// with adds an event. Of two for one name the later times count.
func (s epochs) with(e Event, now time.Time) epochs {
	next := maps.Clone(s)
	if next == nil {
		next = epochs{}
	}
	maps.DeleteFunc(next, func(_ bulk, old epoch) bool { return old.until != 0 && old.until < now.Unix() })
	for _, name := range e.Targets {
		old, known := next[bulk{e.Of, name}]
		end := epoch{max(old.before, e.Before), max(old.until, e.Until)}
		if known && old.until == 0 || e.Until == 0 {
			end.until = 0
		}
		next[bulk{e.Of, name}] = end
	}
	return next
}

// entries are one for each name: one event for many pseudonyms of a
// user can become several.
func (s epochs) entries(now time.Time) []Event {
	var out []Event
	for b, e := range s {
		if e.until == 0 || e.until >= now.Unix() {
			out = append(out, Event{Kind: Epoch, Name: b.name, Of: b.of, Targets: []string{b.name}, Before: e.before, Until: e.until})
		}
	}
	sorting.Sort(out, func(a, b Event) int { return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(a.Name, b.Name)) })
	return out
}
