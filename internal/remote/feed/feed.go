// Package feed carries the sequence of revocations, freezes and thaws from the
// server to remote gateways, through any relay: a signed snapshot,
// and a stream of signed events and heartbeats behind it.
//
// The laws:
//
//  1. Nothing is believed that the server's feed key did not sign, each kind of
//     statement under its own type.
//  2. Events are applied in the order of their numbers, without a gap. Every
//     statement has the digest of all events up to its number, so that a
//     subscriber that followed the stream notices missing and changed events.
//  3. The number never goes back.
//  4. Freshness is a lease: from the last statement that said how far the
//     sequence has come, for 30 seconds at the most, by the subscriber's own
//     clocks. When it is over, the answers are [Subscriber.Stale].
//  5. An operator can extend the lease for a planned outage, by an event of the
//     sequence, for an hour at the most, for calls that only read.
//
// # Who has an event
//
// A gateway's signed question for the status carries its number and its lease, so
// the server knows which gateways enforce an event. powerbox revoke --wait waits for
// the others until the event's second and their lease are over, at most 31 seconds:
// the last statement without the event was signed before that. The server keeps the
// answers in memory. Acknowledgements on the stream would need a second direction,
// and relays pass only one.
package feed

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/powerbox-project/powerbox/internal/sorting"
	"github.com/powerbox-project/powerbox/internal/until"
)

// The types of statements.
const (
	TypeEvent     = "powerbox-feed-event+jwt"
	TypeHeartbeat = "powerbox-feed-heartbeat+jwt"
	TypeSnapshot  = "powerbox-feed-snapshot+jwt"
)

// The paths under which a server, or a relay of it, serves the feed.
const (
	PathSnapshot = "/v1/feed/snapshot"
	PathEvents   = "/v1/feed"
)

// The names of events in the stream.
const (
	nameEvent     = "event"
	nameHeartbeat = "heartbeat"
)

// Bounds.
const (
	// MaxLease is the longest time for which answers are good without news, and
	// the default.
	MaxLease = 30 * time.Second
	// maxExtension is the longest extension of the lease.
	maxExtension = time.Hour
	// maxStatement is the longest event or heartbeat, in bytes.
	maxStatement = 1 << 20
	// maxSnapshot is the longest snapshot, in bytes.
	maxSnapshot = 64 << 20
)

// Kind says what an event does.
type Kind string

// The kinds.
const (
	Revoke Kind = "revoke" // ends what Name is the id of
	Freeze Kind = "freeze" // stops the ids in Targets until the thaw of the same Name
	Thaw   Kind = "thaw"   // lifts the freeze of the same Name
	Extend Kind = "extend" // lets reads continue without news until Until
	// Epoch ends everything of which Targets are the issuer, the holder or
	// whatever Of says, and whose root was issued up to Before (EXT-15).
	Epoch Kind = "epoch"
)

// Event is one event of the sequence, as it is told outside the server: users
// by their pseudonyms, without who did it and why.
type Event struct {
	Sequence int64    `json:"sequence,omitempty"` // from 1, without gaps; absent in a snapshot
	Kind     Kind     `json:"kind"`
	Name     string   `json:"name"`
	Targets  []string `json:"targets,omitempty"`
	Of       string   `json:"of,omitempty"`     // of an epoch, as package gate names it
	Before   int64    `json:"before,omitempty"` // of an epoch, Unix seconds, that second included
	Until    int64    `json:"until,omitempty"`  // Unix seconds after which it does not matter; 0 for no end
}

// Digest is a running digest of all events up to one number.
type Digest [32]byte

// MarshalText returns 64 lower-case hex characters.
func (d Digest) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(d[:])), nil }

// UnmarshalText is the inverse.
func (d *Digest) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != len(d) {
		return errors.New("feed: a digest has 64 hex characters")
	}
	copy(d[:], b)
	return nil
}

// after returns the digest with one more event.
func (d Digest) after(e Event) (Digest, error) {
	body, err := json.Marshal(e)
	if err != nil {
		return d, fmt.Errorf("feed: event %d: %w", e.Sequence, err)
	}
	return sha256.Sum256(append(append([]byte("powerbox feed\n"), d[:]...), body...)), nil
}

// Statement is what the server signs.
type Statement struct {
	Issuer   string  `json:"iss"`               // public base URL of the server
	Time     int64   `json:"t"`                 // when it was made, in Unix milliseconds
	Sequence int64   `json:"sequence"`          // of the event, otherwise of the last one
	Digest   Digest  `json:"digest"`            // of the events up to Sequence
	Event    *Event  `json:"event,omitempty"`   // of an event
	Entries  []Event `json:"entries,omitempty"` // of a snapshot: all that is in force
}

// State is what the events up to a number amount to. It is never changed;
// [State.Apply] makes the next one. The zero State is before the first event.
type State struct {
	Sequence int64
	Digest   Digest

	revoked  until.Set
	freezes  map[string][]string // by name, the ids that it stops
	frozen   map[string]bool     // all of these ids
	epochs   epochs
	extended time.Time // until when reads may continue without news
}

// Revoked reports whether an id has been revoked.
func (s State) Revoked(id string) bool { return s.revoked.Has(id) }

// Frozen reports whether a freeze is in force for an id.
func (s State) Frozen(id string) bool { return s.frozen[id] }

// Apply returns the state after one more event, which must be the next.
func (s State) Apply(e Event, now time.Time) (State, error) {
	if e.Sequence != s.Sequence+1 {
		return s, fmt.Errorf("feed: event %d follows %d; want the next number", e.Sequence, s.Sequence)
	}
	digest, err := s.Digest.after(e)
	if err != nil {
		return s, err
	}
	next, err := s.with(e, now)
	next.Sequence, next.Digest = e.Sequence, digest
	return next, err
}

// with adds what an event does, whatever its number.
func (s State) with(e Event, now time.Time) (State, error) {
	switch e.Kind {
	case Revoke:
		s.revoked = s.revoked.With(map[string]int64{e.Name: e.Until}, now)
		return s, nil
	case Epoch:
		s.epochs = s.epochs.with(e, now)
		return s, nil
	case Extend:
		s.extended = time.Unix(e.Until, 0)
		return s, nil
	case Freeze, Thaw:
	default:
		// It could be a stop: not to know it is not to have the state.
		return s, fmt.Errorf("feed: an event is of kind %q, which is not known here; use a newer powerbox", e.Kind)
	}
	s.freezes = maps.Clone(s.freezes)
	if s.freezes == nil {
		s.freezes = map[string][]string{}
	}
	delete(s.freezes, e.Name)
	if e.Kind == Freeze {
		s.freezes[e.Name] = e.Targets
	}
	s.frozen = map[string]bool{}
	for _, ids := range s.freezes {
		for _, id := range ids {
			s.frozen[id] = true
		}
	}
	return s, nil
}

// Entries returns everything that is in force, for a snapshot.
func (s State) Entries(now time.Time) []Event {
	out := []Event{}
	for id, end := range s.revoked.All() {
		if end == 0 || end >= now.Unix() {
			out = append(out, Event{Kind: Revoke, Name: id, Until: end})
		}
	}
	for name, ids := range s.freezes {
		out = append(out, Event{Kind: Freeze, Name: name, Targets: ids})
	}
	out = append(out, s.epochs.entries(now)...)
	sorting.Sort(out, func(a, b Event) int { return compare(a, b) })
	if s.extended.After(now) {
		out = append(out, Event{Kind: Extend, Name: "lease", Until: s.extended.Unix()})
	}
	return out
}

func compare(a, b Event) int {
	switch {
	case a.Kind+"\x00"+Kind(a.Name) < b.Kind+"\x00"+Kind(b.Name):
		return -1
	case a.Kind == b.Kind && a.Name == b.Name:
		return 0
	}
	return 1
}

// fromSnapshot is the state that a snapshot says.
func fromSnapshot(st Statement, now time.Time) (State, error) {
	s := State{}
	revoked := map[string]int64{}
	for _, e := range st.Entries {
		if e.Kind == Revoke {
			revoked[e.Name] = e.Until
			continue
		}
		var err error
		if s, err = s.with(e, now); err != nil {
			return s, err
		}
	}
	s.revoked = until.Set{}.With(revoked, now)
	s.Sequence, s.Digest = st.Sequence, st.Digest
	return s, nil
}
