package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/periodic"
	"github.com/powerbox-project/powerbox/internal/steady"
	"github.com/powerbox-project/powerbox/internal/web/api"
)

// A process with a store of its own keeps this state in memory, and one of several nodes
// keeps it in the store. docs/adr/0067-what-nodes-share.md lists it.

// keeper is where nodes keep things for each other, nil for one that is alone.
func (i *Instance) keeper() api.Keeper {
	if i.shared == nil {
		return nil
	}
	return i.shared
}

// replays remember proofs of a kind.
func (i *Instance) replays(kind string) gate.Replay {
	if i.shared == nil {
		return i.memory(kind)
	}
	return api.Replays{Keeper: i.shared, Kind: kind} // of chains
}

// sharedReplays is nil where the authenticator keeps its own memory.
func (i *Instance) sharedReplays(kind string) identity.Replay {
	if i.shared == nil {
		return nil
	}
	return api.Replays{Keeper: i.shared, Kind: kind}
}

// stale reports whether the writes of other nodes cannot be known; nil without other
// nodes.
func (i *Instance) stale() func() bool {
	if i.shared == nil {
		return nil
	}
	return func() bool { return i.follower.Stale() }
}

// knowing has a decision wait until this node knows all changes committed before it; nil without
// other nodes.
func (i *Instance) knowing() func(context.Context) error {
	if i.shared == nil {
		return nil
	}
	return func(ctx context.Context) error { return i.follower.Current(ctx) }
}

// caughtUp has requests wait until this node knows the writes of other nodes.
func (i *Instance) caughtUp(h http.Handler) http.Handler {
	if i.shared == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { i.follower.Handler(h).ServeHTTP(w, r) })
}

// follow updates the memory of this node with the writes of other nodes, until ctx ends.
func (i *Instance) follow(ctx context.Context, a Assembly, apart *api.Gateways) error {
	if i.shared == nil {
		return nil
	}
	var last issuer.Versions
	i.follower = &api.Follower{Store: i.shared, Now: a.Now, Log: a.Log, Patience: i.Config.Limits.DependencyTime, Take: func(ctx context.Context, v issuer.Versions) error {
		if v.Timeline != last.Timeline {
			if err := i.Issuer.Anew(ctx); err != nil {
				return err
			}
			last = issuer.Versions{Modes: -1, Gateways: -1, Agents: -1, Cards: -1}
		}
		if err := i.Issuer.CatchUp(ctx, v); err != nil {
			return err
		}
		if v.Gateways != last.Gateways {
			if err := apart.Load(ctx); err != nil {
				return err
			}
		}
		if v.Agents != last.Agents {
			for _, p := range i.known {
				p.Forget()
			}
		}
		if v.Cards != last.Cards {
			if err := i.agreed.Load(ctx, i.agentNames()); err != nil {
				return err
			}
		}
		last = v
		return nil
	}}
	if err := i.follower.CatchUp(ctx); err != nil {
		return err
	}
	go i.follower.Run(ctx)
	go i.forget(ctx, a)
	return nil
}

// The times of the cleaning that nodes do for each other.
const (
	forgetEvery = time.Minute
	// abandonedTime is after how long a call that a person approved counts as one whose
	// node has ended while it was made.
	abandonedTime = 15 * time.Minute
)

// abandoned returns a time: a call that was taken before it is no longer being made. At
// the start of a process that is alone, this holds for all calls.
func (i *Instance) abandoned(now time.Time) time.Time {
	if i.shared == nil {
		return now
	}
	return now.Add(-abandonedTime)
}

// forget deletes the values that nodes kept for each other when their time is over, and
// gives up calls whose node has ended.
func (i *Instance) forget(ctx context.Context, a Assembly) {
	periodic.Later(ctx, forgetEvery, func(ctx context.Context) {
		err := i.shared.ForgetKept(ctx, steady.Past(a.Now()))
		if i.desk != nil {
			err = errors.Join(err, i.desk.Begin(ctx, i.abandoned(a.Now())))
		}
		if err != nil && ctx.Err() == nil {
			a.Log.WarnContext(ctx, "what is over is not forgotten", slog.Any("error", err))
		}
	})
}

// recorded reads a record.
func (i *Instance) recorded(ctx context.Context, id string) (r evidence.Record, err error) {
	err = i.Store.View(ctx, func(rd issuer.Reader) error {
		s, err := rd.Record(id)
		if err == nil {
			r = s.Record()
		}
		return err
	})
	return r, err
}
