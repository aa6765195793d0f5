// Package keysets fetches and keeps the key sets that hosts and agents of the Agent
// Auth Protocol publish (AAP-N1, AAP-N2). Anyone who registers chooses the address, so
// that it is fetched under an address policy, bounded in size, time and number, and
// never more often than it is worth.
package keysets

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/kept"
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
	now  func() time.Time
	kept *kept.Values[set]
}

type set struct {
	byID    map[string]token.PublicKey
	byPrint map[string]token.PublicKey
}

// New returns an empty cache.
func New(get Getter, now func() time.Time) *Sets {
	times := kept.Times{Fresh: fresh, Stale: stale, Pause: minRefresh}
	return &Sets{now: now, kept: kept.New(times, maxSets, func(ctx context.Context, address string) (set, error) {
		data, err := get.Get(ctx, address)
		if err != nil {
			return set{}, err
		}
		return parse(data)
	})}
}

// Key returns the key in the set at an address that has that kid or that RFC 7638
// thumbprint. One that is not known is looked for again, within limits; where the
// set cannot be had, the one from before serves for a day.
func (s *Sets) Key(ctx context.Context, address, id string) (token.PublicKey, error) {
	known, ok, err := s.kept.Get(ctx, address, s.now, func(known set) bool {
		_, ok := known.find(id)
		return ok
	})
	if !ok {
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

// parse reads a JWK Set: public Ed25519 keys, each with its own kid. One key
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
