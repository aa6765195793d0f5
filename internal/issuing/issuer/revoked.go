package issuer

import (
	"context"
	"hash/maphash"
	"log/slog"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/powerbox-project/powerbox/internal/steady"
	"github.com/powerbox-project/powerbox/internal/until"
)

// There may be millions of revocations in force, and a start must not wait until all are read. It
// reads one page of them. [Issuer.ReadRevocations] reads the others behind it, and lookups ask the
// store until it has. A revocation is therefore in memory, or the store is asked for it.

// revokedPage is how many revocations are read at once.
const revokedPage = 1 << 14

// rest is where revocations of before the start are that were not read.
type rest struct {
	ends time.Time      // those that end before it do not count
	read *until.Growing // so far; of [Issuer.ReadRevocations] alone
	next RevokedPlace   // where reading continues
}

// hash returns 16 bytes for an id: two hashes under seeds of this process. Anyone who may choose
// ids does not know which ones meet, and two that meet are both revoked.
func (i *Issuer) hash(id string) until.Key {
	return until.Key{maphash.String(i.seeds[0], id), maphash.String(i.seeds[1], id)}
}

// Revoked reports whether one id, of a capability, a token or a derived link,
// has been revoked.
func (i *Issuer) Revoked(id string) bool {
	now := i.revoked.Load()
	return now.ids.Has(i.hash(id)) || now.rest != nil && i.onRecord(now.rest, id)
}

func (i *Issuer) revokedIn(s *revocations, ids []string) bool {
	for _, id := range ids {
		if s.ids.Has(i.hash(id)) {
			return true
		}
	}
	return s.rest != nil && i.onRecord(s.rest, ids...)
}

// lookupTime is how long a lookup waits for the store.
const lookupTime = 5 * time.Second

// onRecord reports whether the store has a revocation of one of the ids. If the store does not
// answer, they count as revoked.
func (i *Issuer) onRecord(rest *rest, ids ...string) (yes bool) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
	defer cancel()
	err := i.config.Store.View(ctx, func(r Reader) (err error) {
		for _, id := range ids {
			if yes, err = r.RevokedUntil(id, rest.ends); yes || err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		i.config.Log.Warn("revocations cannot be looked up: what they may be of counts as revoked", slog.Any("error", err))
		return true
	}
	return yes
}

// beginRevocations reads the events in force at a start, except that of revocations it reads one page.
func (i *Issuer) beginRevocations(ctx context.Context) error {
	old, now := i.revoked.Load(), steady.Over(i.config.Now())
	rest := &rest{ends: now, read: &until.Growing{}, next: RevokedPlace{Until: now.Unix()}}
	var stops []Revocation
	var all bool
	err := i.config.Store.View(ctx, func(r Reader) (err error) {
		if stops, err = r.Stops(); err != nil {
			return err
		}
		all, err = rest.page(r, i.hash)
		return err
	})
	if err != nil || len(stops) == 0 {
		return err
	}
	next := i.after(old, stops...)
	next.sequence, next.ahead = next.newest.Sequence, nil // it is one snapshot, without gaps
	if next.rest = rest; all {
		next.ids, next.rest = rest.read.Set().And(next.ids), nil
	}
	i.revoked.Store(next)
	close(old.changed)
	return nil
}

// page reads one page, and reports whether it was the last.
func (rest *rest) page(r Reader, hash func(string) until.Key) (last bool, err error) {
	n := 0
	err = r.Revoked(rest.next, revokedPage, func(one RevokedPlace) {
		n++
		rest.next = one
		rest.read.Add(hash(one.Target), one.Until)
	})
	return n < revokedPage, err
}

// ReadRevocations reads the revocations that the start has not read, a page at a time. It is called
// once. After an error it can be called again.
func (i *Issuer) ReadRevocations(ctx context.Context) error {
	rest := i.revoked.Load().rest
	if rest == nil {
		return nil
	}
	for last := false; !last; runtime.Gosched() {
		err := i.config.Store.View(ctx, func(r Reader) (err error) {
			last, err = rest.page(r, i.hash)
			return err
		})
		if err != nil {
			return err
		}
	}
	i.keepRead(rest.read.Set())
	debug.FreeOSMemory() // reading made as much garbage again
	return nil
}

// keepRead has lookups find in memory the revocations that were read, beside those that came meanwhile.
func (i *Issuer) keepRead(read until.Hashed) {
	i.mu.Lock()
	defer i.mu.Unlock()
	next := *i.revoked.Load() // no follower is told of a change: it says the same
	next.ids, next.rest = read.And(next.ids), nil
	i.revoked.Store(&next)
}
