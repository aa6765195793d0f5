package api

import (
	"time"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/remote/link"
)

// ApartProofs is a gate.EffectReplay of the server's own gateway. A proof that the server has
// taken counts as used at the remote gateways of the agent, and the other way round. Both take
// proofs for one URL: the server answers the methods that issue, and also calls that reach it
// while no gateway_url leads past it.
type ApartProofs struct {
	Own      gate.Replay      // of this process; nil if another component remembers them
	Gateways func() *Gateways // required
	Sessions bool             // set for proofs of callers
}

// Use implements gate.Replay.
func (p ApartProofs) Use(id string, until, now time.Time) bool {
	fresh, err := p.UseFor(gate.ProofUse{}, id, until, now)
	return err == nil && fresh
}

// UseFor implements gate.EffectReplay.
func (p ApartProofs) UseFor(call gate.ProofUse, id string, until, now time.Time) (bool, error) {
	if p.Own != nil {
		if fresh, err := useIn(p.Own, call, id, until, now); err != nil || !fresh {
			return false, err
		}
	}
	g := p.Gateways()
	if !g.fronts(call.Agent) {
		return true, nil
	}
	if p.Sessions {
		id = link.SessionProof(id)
	}
	return g.used(call.Agent, p.Sessions, id, until, now)
}

// useIn uses a proof up in a memory of either kind.
func useIn(memory gate.Replay, call gate.ProofUse, id string, until, now time.Time) (bool, error) {
	if r, ok := memory.(gate.EffectReplay); ok {
		return r.UseFor(call, id, until, now)
	}
	return memory.Use(id, until, now), nil
}

// fronts reports whether a gateway was ever enrolled in front of an agent.
func (g *Gateways) fronts(agent string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fronted[agent]
}
