package app

import (
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/app/proxy"
	"github.com/powerbox-project/powerbox/internal/web/api"
	"github.com/powerbox-project/powerbox/token"
)

// standing answers peers who ask whether a capability that they were shown stands. It
// needs nothing of the agents behind, which may be down or reached elsewhere.
func (i *Instance) standing(a Assembly, w *Wiring, g *gate.Gate) *api.Standing {
	scopes := gate.Scopes{Records: api.ScopeRecords{Issuer: i.Issuer}, Revocations: i.Issuer, MaxLifetime: i.Config.Issuer.MaximumLifetime}
	return api.NewStanding(api.Standing{
		Gate: g, Shown: api.OnRecord{Issuer: i.Issuer, Resolver: gate.Shown{Memo: token.NewMemo(proxy.MemoBytes / 16), Revocations: i.Issuer, Scopes: scopes, Drafts: proxy.DraftsOf(i.Config)}},
		Target: func(id string) (gate.Target, bool) {
			keys, ok := i.issuingKeys(id)
			if !ok {
				return gate.Target{}, false
			}
			return gate.Target{ID: id, URL: i.AgentURL(id), Links: token.MaxDepth, Anchors: keys.Accepted()}, true
		},
		Origin: w.Force.Origin, Now: a.Now, Log: a.Log,
	})
}
