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

// newRegistrar has an administrator make room for a host, and enrolls it. At an unknown
// host an autonomous agent would wait for a person, and would not count as acknowledged.
func (t *Town) newRegistrar(ctx context.Context) (*registrar, error) {
	r := &registrar{t, &agentauth.Client{
		Store: agentauth.NewMemory(t.Random), HTTP: &http.Client{Timeout: patience}, Now: t.Now, Random: t.Random, HostName: "trial",
	}}
	var made struct {
		Token string `json:"enrollment_token"`
	}
	body := map[string]any{"name": r.client.HostName}
	if err := t.operate(ctx, http.MethodPost, "/v1/hosts", body, &made, "Powerbox-Dev-User", user(0)); err != nil {
		return nil, fmt.Errorf("invite a host: %w", err)
	}
	if _, err := r.client.Enroll(ctx, t.front.url, made.Token, ""); err != nil {
		return nil, fmt.Errorf("enroll a host: %w", err)
	}
	return r, nil
}

// run registers agents until ctx ends.
func (r *registrar) run(ctx context.Context) {
	for n := 0; pause(ctx, 150*time.Millisecond); n++ {
		a, err := r.client.Connect(ctx, r.town.front.url, agentauth.Connection{
			Name: fmt.Sprint("agent ", n), Mode: "autonomous", Capabilities: []agentauth.Ask{{Capability: "list_accounts"}},
			Asking: agentauth.Asking{NoWait: true},
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
