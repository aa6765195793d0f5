package main

import (
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/web/api"
	"github.com/powerbox-project/powerbox/token"
)

// standing answers peers who ask whether a capability that they were shown stands. It
// needs nothing of the agents behind, which may be down or reached elsewhere.
func (i *instance) standing(a assembly, w *wiring, g *gate.Gate) *api.Standing {
	scopes := gate.Scopes{Records: api.ScopeRecords{Issuer: i.issuer}, Revocations: i.issuer, MaxLifetime: i.config.Issuer.MaximumLifetime}
	return api.NewStanding(api.Standing{
		Gate: g, Shown: api.OnRecord{Issuer: i.issuer, Resolver: gate.Shown{Memo: token.NewMemo(memoBytes / 16), Revocations: i.issuer, Scopes: scopes}},
		Target: func(id string) (gate.Target, bool) {
			keys, ok := i.issuingKeys(id)
			if !ok {
				return gate.Target{}, false
			}
			return gate.Target{ID: id, URL: i.agentURL(id), Links: token.MaxDepth, Anchors: keys.Accepted()}, true
		},
		Origin: w.force.origin, Now: a.now, Log: a.log,
	})
}
