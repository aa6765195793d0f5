package provider_test

import (
	"context"
	"testing"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// held is a store whose next change waits, after it has begun, until it may continue.
type held struct {
	provider.Store
	begun, may chan struct{}
}

func (h *held) UpdateProvider(ctx context.Context, change func(provider.Tx) error) error {
	if h.begun != nil {
		h.begun <- struct{}{}
		<-h.may
	}
	return h.Store.UpdateProvider(ctx, change)
}

// TestAAPJ11_RevocationIsAtOnce: a snapshot of an agent that is read during its
// revocation answers no later request.
func TestAAPJ11_RevocationIsAtOnce(t *testing.T) {
	store := &held{}
	w := newTown(t, func(c *provider.Config) { store.Store, c.Store = c.Store, store })
	m := w.active("balance")
	w.want("active", second(m.session()), "")
	w.want("kept", second(m.session()), "")
	store.begun, store.may = make(chan struct{}), make(chan struct{})
	revoked := make(chan error, 1)
	host := w.hosted(m.host)
	go func() { revoked <- w.provider.Revoke(t.Context(), host, m.id) }()
	<-store.begun
	w.want("not yet", second(m.session()), "")
	close(store.may)
	store.begun = nil
	w.must(<-revoked)
	w.want("AAP-J11", second(m.session()), agentauth.CodeAgentRevoked)
}
