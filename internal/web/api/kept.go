package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"time"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/steady"
)

// Keeper keeps values that nodes share for a while and that are on no record.
type Keeper interface {
	// Once keeps an id until a time, and returns false where it is kept already.
	Once(ctx context.Context, kind, id string, until, now time.Time) (bool, error)
	// Keep keeps a value until a time, in place of the one before.
	Keep(ctx context.Context, kind, id string, value []byte, until time.Time) error
	// Kept returns a kept value, or issuer.ErrNotFound.
	Kept(ctx context.Context, kind, id string, now time.Time) ([]byte, error)
	// Take returns a kept value to one caller, or issuer.ErrNotFound.
	Take(ctx context.Context, kind, id string, now time.Time) ([]byte, error)
	// AllKept returns everything of a kind, by id.
	AllKept(ctx context.Context, kind string, now time.Time) (map[string][]byte, error)
}

// keepTime bounds one use of a keeper.
const keepTime = 5 * time.Second

// Replays is a gate.EffectReplay that all nodes share: a proof that one of them has
// taken is used at every other one.
type Replays struct {
	Keeper Keeper
	Kind   string // of proofs; ids of two kinds have nothing to do with each other
}

// Use implements gate.Replay: where it cannot be found out, id counts as used.
func (r Replays) Use(id string, until, now time.Time) bool {
	fresh, err := r.Fresh(id, until, now)
	return err == nil && fresh
}

// UseFor implements gate.EffectReplay.
func (r Replays) UseFor(_ gate.ProofUse, id string, until, now time.Time) (bool, error) {
	return r.Fresh(id, until, now)
}

// Fresh implements identity.Replay. After an error, as in a failover of the database, id
// may be used up although no caller was let in with it. The caller then makes a new one.
func (r Replays) Fresh(id string, until, now time.Time) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), keepTime)
	defer cancel()
	// Ids are their makers', of any length.
	sum := sha256.Sum256([]byte(id))
	return r.Keeper.Once(ctx, r.Kind, base64.RawURLEncoding.EncodeToString(sum[:]), until, steady.Past(now))
}
