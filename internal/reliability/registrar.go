package reliability

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/powerbox-project/powerbox/holder/agentauth"
)

// registrar is a host that registers agents at the provider.
type registrar struct {
	town   *Town
	client *agentauth.Client
}

func (t *Town) newRegistrar() *registrar {
	return &registrar{t, &agentauth.Client{
		Store: agentauth.NewMemory(t.Random), HTTP: &http.Client{Timeout: patience}, Now: t.Now, Random: t.Random, HostName: "trial",
	}}
}

// run registers agents until ctx ends.
func (r *registrar) run(ctx context.Context) {
	for n := 0; pause(ctx, 150*time.Millisecond); n++ {
		a, err := r.client.Connect(ctx, r.town.front.url, agentauth.Connection{
			Name: fmt.Sprint("agent ", n), Mode: "autonomous", Capabilities: []agentauth.Ask{{Capability: "list_accounts"}},
		})
		if ctx.Err() != nil {
			return
		}
		l := r.town.ledger
		l.mu.Lock()
		if err == nil {
			l.registered[a.ID] = r
			l.counts.Registered++
			l.counts.Answered++
		} else {
			l.counts.Unanswered++
			l.excuses["registration: "+short(err)]++
		}
		l.mu.Unlock()
	}
}
