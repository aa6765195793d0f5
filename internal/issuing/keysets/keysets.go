// Package keysets fetches and keeps the key sets that hosts and agents of the Agent
// Auth Protocol publish (AAP-N1, AAP-N2). Anyone who registers chooses the address, so
// that it is fetched under an address policy, bounded in size, time and number, and
// never more often than it is worth.
package keysets

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

// How long a set is used, and how often it is fetched.
const (
	fresh      = 5 * time.Minute  // after which it is fetched again
	stale      = 24 * time.Hour   // after which one that cannot be fetched is not used
	minRefresh = 30 * time.Second // between two fetches, whatever tokens name
	maxKeys    = 20               // in one set
	maxSets    = 4096             // that are kept
)

// Getter fetches one document under an address policy.
type Getter interface {
	Get(ctx context.Context, address string) ([]byte, error)
}

// Sets keeps key sets by their addresses. [New] makes one.
type Sets struct {
	get    Getter
	now    func() time.Time
	flight singleflight.Group

	mu   sync.Mutex
	sets map[string]set
}

type set struct {
	byID    map[string]token.PublicKey
	byPrint map[string]token.PublicKey
	fetched time.Time
	tried   time.Time
}

// New returns an empty cache.
func New(get Getter, now func() time.Time) *Sets {
	return &Sets{get: get, now: now, sets: map[string]set{}}
}

// Key returns the key in the set at an address that has that kid or that RFC 7638
// thumbprint. One that is not known is looked for again, within limits; where the
// set cannot be had, the one from before serves for a day.
func (s *Sets) Key(ctx context.Context, address, id string) (token.PublicKey, error) {
	now := s.now()
	known := s.known(address)
	if key, ok := known.find(id); ok && now.Sub(known.fetched) < fresh {
		return key, nil
	}
	var err error
	if known.tried.IsZero() || now.Sub(known.tried) >= minRefresh {
		err = s.fetch(ctx, address)
		known = s.known(address)
	}
	if known.fetched.IsZero() || now.Sub(known.fetched) >= stale {
		return token.PublicKey{}, errors.Join(errors.New("the key set cannot be had now"), err)
	}
	if key, ok := known.find(id); ok {
		return key, nil
	}
	return token.PublicKey{}, errors.New("the key set has no key of that id")
}

func (s set) find(id string) (token.PublicKey, bool) {
	if key, ok := s.byID[id]; ok {
		return key, true
	}
	key, ok := s.byPrint[id]
	return key, ok
}

func (s *Sets) known(address string) set {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sets[address]
}

// fetch fetches a set, once for all who ask at the same time. Who asked first can be a
// stranger who goes away: that does not take the set from the others.
func (s *Sets) fetch(ctx context.Context, address string) error {
	done := s.flight.DoChan(address, func() (any, error) { return nil, s.refresh(context.WithoutCancel(ctx), address) })
	select {
	case result := <-done:
		return result.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refresh fetches a set, and notes that it was tried.
func (s *Sets) refresh(ctx context.Context, address string) error {
	data, err := s.get.Get(ctx, address)
	var read set
	if err == nil {
		read, err = parse(data)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	old, kept := s.sets[address]
	if !kept && len(s.sets) >= maxSets {
		s.forget()
	}
	if err != nil {
		old.tried = now
		s.sets[address] = old
		return err
	}
	read.fetched, read.tried = now, now
	s.sets[address] = read
	return nil
}

// forget makes room: the set that was tried longest ago goes.
func (s *Sets) forget() {
	oldest := ""
	for address, one := range s.sets {
		if oldest == "" || one.tried.Before(s.sets[oldest].tried) {
			oldest = address
		}
	}
	delete(s.sets, oldest)
}

// parse reads a JWK Set: public Ed25519 keys, each with a kid of its own. One key
// that is none refuses the set.
func parse(data []byte) (set, error) {
	v, err := powerbox.DecodeValue(data, powerbox.Limits{Bytes: 1 << 20, Depth: 8})
	if err != nil {
		return set{}, fmt.Errorf("the key set: %w", err)
	}
	list, _ := v.Get("keys")
	keys, ok := list.Elements()
	if !ok || len(keys) == 0 || len(keys) > maxKeys {
		return set{}, fmt.Errorf("the key set; want keys, 1 to %d", maxKeys)
	}
	out := set{byID: map[string]token.PublicKey{}, byPrint: map[string]token.PublicKey{}}
	for i, k := range keys {
		id, _ := k.Get("kid")
		name, hasName := id.Text()
		key, err := token.ParsePublicKey(k.AppendJSON(nil))
		switch {
		case err != nil:
			return set{}, fmt.Errorf("key %d of the set: %w", i+1, err)
		case key.Algorithm() != token.Ed25519:
			return set{}, fmt.Errorf("key %d of the set is for %s; want Ed25519", i+1, key.Algorithm())
		case !hasName || name == "":
			return set{}, fmt.Errorf("key %d of the set has no kid", i+1)
		}
		if _, twice := out.byID[name]; twice {
			return set{}, fmt.Errorf("two keys of the set have the kid %.40q", name)
		}
		out.byID[name], out.byPrint[key.Thumbprint()] = key, key
	}
	return out, nil
}
