package keyring

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/powerbox-project/powerbox/internal/sorting"
	"github.com/powerbox-project/powerbox/token"
)

// Issuing are the issuing keys of one agent: the one that signs, and older ones
// under which what they signed is accepted for a while (EXT-34). Its methods can
// be called by many goroutines.
type Issuing struct {
	ring  *Ring
	agent string
	now   func() time.Time

	turning sync.Mutex // held while the keys are replaced
	keys    atomic.Pointer[keys]
}

// keys is what an agent has at one time.
type keys struct {
	current AgentKey
	from    time.Time // before it the first of old signs still
	old     []AgentKey
	set     token.KeySet // of those that are accepted before until
	until   time.Time    // zero where no key ends
}

// AgentKey is one issuing key with its times.
type AgentKey struct {
	Key   token.Signer
	Made  time.Time
	Until time.Time // what it signed is accepted before it; zero for the one in use
}

// oldMark is what stands between the name of an agent, which has no dot, and the
// Unix time until which a key of its is accepted.
const oldMark = ".until-"

// nextMark stands in the name of a key that is about to be in use, before the time
// until which the one before is accepted.
const nextMark = ".next-"

// Issuing returns the issuing keys of an agent. The first one is made when there
// is none.
func (r *Ring) Issuing(agent string, now func() time.Time) (*Issuing, error) {
	all, err := r.IssuingOf([]string{agent}, now)
	return all[agent], err
}

// IssuingOf returns the issuing keys of some agents, by agent. It reads the directory
// once, which has a file for every agent.
func (r *Ring) IssuingOf(agents []string, now func() time.Time) (map[string]*Issuing, error) {
	out := make(map[string]*Issuing, len(agents))
	if len(agents) == 0 {
		return out, nil
	}
	beside, err := r.beside()
	for _, agent := range agents {
		if err == nil {
			out[agent], err = r.issuing(agent, beside[agent], now)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// issuing returns the issuing keys of an agent that has these files beside its key.
func (r *Ring) issuing(agent string, beside []string, now func() time.Time) (*Issuing, error) {
	if left := waitingOf(agent, beside); len(left) > 0 {
		if err := r.finishTurn(agent, left, now()); err != nil {
			return nil, err
		}
		all, err := r.beside() // the key before is among them now
		if err != nil {
			return nil, err
		}
		beside = all[agent]
	}
	k, err := r.Agent(agent)
	if err != nil {
		return nil, err
	}
	current, err := r.described(agentFile(agent), k)
	if err != nil {
		return nil, err
	}
	old, err := r.old(agent, beside, now())
	if err != nil {
		return nil, err
	}
	i := &Issuing{ring: r, agent: agent, now: now}
	return i, i.put(keys{current: current, old: old})
}

// beside are the files of issuing keys that are not in use, old and waiting ones, by agent.
func (r *Ring) beside() (map[string][]string, error) {
	names, err := r.List()
	out := map[string][]string{}
	for _, name := range names {
		rest, isAgent := strings.CutPrefix(strings.TrimSuffix(name, ".jwk"), "agent-")
		if agent, _, more := strings.Cut(rest, "."); isAgent && more {
			out[agent] = append(out[agent], name)
		}
	}
	return out, err
}

func agentFile(agent string) string { return "agent-" + agent + ".jwk" }

func (r *Ring) described(file string, k token.Signer) (AgentKey, error) {
	info, err := os.Stat(filepath.Join(r.dir, file))
	if err != nil {
		return AgentKey{}, fmt.Errorf("keys: %w", err)
	}
	return AgentKey{Key: k, Made: info.ModTime().UTC().Truncate(time.Second)}, nil
}

// old returns the keys of an agent that were in use before and are accepted
// still, the last one first, of the files beside its key.
func (r *Ring) old(agent string, beside []string, now time.Time) ([]AgentKey, error) {
	var out []AgentKey
	for _, file := range beside {
		of, until, isOld := SplitOld(file)
		if !isOld || of != agent || !until.After(now) {
			continue
		}
		k, err := r.agentKey(strings.TrimSuffix(file, ".jwk"), agent)
		if err != nil {
			return nil, err
		}
		key, err := r.described(file, k)
		if err != nil {
			return nil, err
		}
		key.Until = until
		out = append(out, key)
	}
	sorting.Sort(out, func(a, b AgentKey) int { return b.Until.Compare(a.Until) })
	return out, nil
}

// SplitOld tells of whom a file holds an issuing key that is no longer in use,
// and until when what it signed is accepted.
func SplitOld(file string) (agent string, until time.Time, ok bool) {
	name, isAgent := strings.CutPrefix(strings.TrimSuffix(file, ".jwk"), "agent-")
	agent, seconds, isOld := strings.Cut(name, oldMark)
	n, err := strconv.ParseInt(seconds, 10, 64)
	return agent, time.Unix(n, 0).UTC(), isAgent && isOld && err == nil
}

// put puts keys in place.
func (i *Issuing) put(k keys) error {
	now := i.now()
	k.old = slices.DeleteFunc(slices.Clone(k.old), func(o AgentKey) bool { return !o.Until.After(now) })
	public := []token.PublicKey{k.current.Key.Public()}
	k.until = time.Time{}
	for _, o := range k.old {
		public = append(public, o.Key.Public())
		if k.until.IsZero() || o.Until.Before(k.until) {
			k.until = o.Until
		}
	}
	// With names, so that a token that names another key is told from a broken
	// one (SEP-11).
	var err error
	if k.set, err = token.ParseKeySet(token.JWKS(public...).AppendJSON(nil)); err != nil {
		return err
	}
	i.keys.Store(&k)
	return nil
}

// load returns the keys as of now.
func (i *Issuing) load() *keys {
	k := i.keys.Load()
	if k.until.IsZero() || i.now().Before(k.until) {
		return k
	}
	i.turning.Lock()
	defer i.turning.Unlock()
	// A key that was read back can be read again.
	_ = i.put(*i.keys.Load())
	return i.keys.Load()
}

// Signer returns the key that signs now.
func (i *Issuing) Signer() token.Signer {
	k := i.load()
	if len(k.old) > 0 && i.now().Before(k.from) {
		return k.old[0].Key
	}
	return k.current.Key
}

// Accepted returns the keys under which capabilities are accepted.
func (i *Issuing) Accepted() token.KeySet { return i.load().set }

// Published is the JWK Set of the accepted keys (EXT-33).
func (i *Issuing) Published() []byte {
	k := i.load()
	public := []token.PublicKey{k.current.Key.Public()}
	for _, o := range k.old {
		public = append(public, o.Key.Public())
	}
	return token.JWKS(public...).AppendJSON(nil)
}

// Current returns the newest key. It signs, or will in a moment.
func (i *Issuing) Current() AgentKey { return i.load().current }

// Turn replaces the key of the agent. It is published at once and signs from a
// time on, when readers of the published keys have it. Signatures of the one before
// and of earlier ones are accepted before until at the latest, and not any
// more where until has passed.
// The new key is on the disk before it is on record: noted is called then, and an
// error of it leaves everything as it was. A process that ends in between finishes
// the recorded change when it starts again.
func (i *Issuing) Turn(from, until time.Time, noted func(next, before AgentKey) error) (AgentKey, error) {
	i.turning.Lock()
	defer i.turning.Unlock()
	waiting, made, err := i.ring.await(i.agent, until)
	if err != nil {
		return AgentKey{}, err
	}
	now := *i.keys.Load()
	next := AgentKey{Key: made, Made: i.now().UTC().Truncate(time.Second)}
	if err := noted(next, now.current); err != nil {
		return AgentKey{}, err // it may be on record all the same: the file stays
	}
	before := now.current
	before.Until = until.UTC().Truncate(time.Second)
	keep := before.Until.After(i.now())
	if keep {
		before.Until = i.ring.free(i.agent, before.Until)
	}
	if err := i.ring.turn(i.agent, waiting, before.Until, keep); err != nil {
		return AgentKey{}, err
	}
	now.old = append([]AgentKey{before}, now.old...)
	if now.old, err = i.ring.shorten(i.agent, now.old, before.Until, keep); err != nil {
		return AgentKey{}, err
	}
	now.current, now.from = next, from
	return next, i.put(now)
}

// shorten has no old key accepted for longer than until. Without keep they are
// gone.
func (r *Ring) shorten(agent string, old []AgentKey, until time.Time, keep bool) ([]AgentKey, error) {
	var kept []AgentKey
	for _, k := range old {
		from := r.oldFile(agent, k.Until)
		switch {
		case !keep:
			if err := os.Remove(from); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("keys: %w", err)
			}
			continue
		case k.Until.After(until):
			k.Until = r.free(agent, until)
			if err := os.Rename(from, r.oldFile(agent, k.Until)); err != nil {
				return nil, fmt.Errorf("keys: %w", err)
			}
		}
		kept = append(kept, k)
	}
	return kept, nil
}

func (r *Ring) oldFile(agent string, until time.Time) string {
	return filepath.Join(r.dir, "agent-"+agent+oldMark+strconv.FormatInt(until.Unix(), 10)+".jwk")
}

// free is the last second up to until that no other key of the agent has: files
// are named by it.
func (r *Ring) free(agent string, until time.Time) time.Time {
	for {
		if _, err := os.Lstat(r.oldFile(agent, until)); err != nil {
			return until
		}
		until = until.Add(-time.Second)
	}
}

// await makes the next key of an agent beside the one in use, and returns its path.
// What an earlier rotation left there was never put in place.
func (r *Ring) await(agent string, until time.Time) (string, token.Signer, error) {
	left, err := r.waiting(agent)
	for _, name := range left {
		err = errors.Join(err, os.Remove(filepath.Join(r.dir, name)))
	}
	if err != nil {
		return "", nil, fmt.Errorf("keys: %w", err)
	}
	name := "agent-" + agent + nextMark + strconv.FormatInt(until.Unix(), 10)
	next, err := r.agentKey(name, agent)
	return filepath.Join(r.dir, name+".jwk"), next, err
}

// waiting are the files of keys of an agent that wait to be put in place.
func (r *Ring) waiting(agent string) ([]string, error) {
	names, err := r.List()
	return waitingOf(agent, names), err
}

func waitingOf(agent string, names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.HasPrefix(name, "agent-"+agent+nextMark) })
}

// finishTurn puts a key in place that is on record as the agent's, and removes one
// that is not: a process ended in the middle of a rotation.
func (r *Ring) finishTurn(agent string, left []string, now time.Time) error {
	for _, name := range left {
		path := filepath.Join(r.dir, name)
		k, err := r.agentKey(strings.TrimSuffix(name, ".jwk"), agent)
		if err != nil {
			return err
		}
		if r.known[agentFile(agent)] != k.Public().Thumbprint() {
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("keys: %w", err)
			}
			continue
		}
		_, seconds, _ := strings.Cut(strings.TrimSuffix(name, ".jwk"), nextMark)
		n, err := strconv.ParseInt(seconds, 10, 64)
		if err != nil {
			return fmt.Errorf("keys: %s has no time in its name", path)
		}
		until := time.Unix(n, 0)
		keep := until.After(now)
		if keep {
			until = r.free(agent, until)
		}
		if err := r.turn(agent, path, until, keep); err != nil {
			return err
		}
	}
	return nil
}

// turn puts the next key of an agent in its place. There is a key in that place at
// every moment. The one before is kept where anything that it signed is accepted
// still, and is gone otherwise.
func (r *Ring) turn(agent, next string, until time.Time, keep bool) error {
	place := filepath.Join(r.dir, agentFile(agent))
	kept := r.oldFile(agent, until)
	if keep {
		if err := os.Link(place, kept); err != nil {
			return fmt.Errorf("keys: %w", err)
		}
	}
	err := os.Rename(next, place)
	if err != nil {
		err = fmt.Errorf("keys: %w", err)
	}
	if err != nil && keep {
		err = errors.Join(err, os.Remove(kept))
	}
	return err
}
