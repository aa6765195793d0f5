package postgres

import (
	"context"

	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/issuing/registry"
	"github.com/powerbox-project/powerbox/internal/store/rows"
)

// Update implements [issuer.Store]. It takes as long as [Config.Patience] says at the most.
func (s *Store) Update(ctx context.Context, change func(issuer.Tx) error) error {
	return s.update(ctx, func(t *transaction) error { return change(t) })
}

// View implements [issuer.Store].
func (s *Store) View(ctx context.Context, read func(issuer.Reader) error) error {
	return s.view(ctx, func(r rows.Reader) error { return read(r) })
}

// UpdateProvider implements [provider.Store].
func (s *Store) UpdateProvider(ctx context.Context, change func(provider.Tx) error) error {
	return s.update(ctx, func(t *transaction) error { return change(t) })
}

// ViewProvider implements [provider.Store].
func (s *Store) ViewProvider(ctx context.Context, read func(provider.Reader) error) error {
	return s.view(ctx, func(r rows.Reader) error { return read(r) })
}

// UpdateApprovals implements [approval.Store].
func (s *Store) UpdateApprovals(ctx context.Context, change func(approval.Tx) error) error {
	return s.update(ctx, func(t *transaction) error { return change(t) })
}

// ViewApprovals implements [approval.Store].
func (s *Store) ViewApprovals(ctx context.Context, read func(approval.Reader) error) error {
	return s.view(ctx, func(r rows.Reader) error { return read(r) })
}

// UpdateRegistry implements [registry.Store].
func (s *Store) UpdateRegistry(ctx context.Context, change func(registry.Tx) error) error {
	return s.update(ctx, func(t *transaction) error { return change(t) })
}

// ViewRegistry implements [registry.Store].
func (s *Store) ViewRegistry(ctx context.Context, read func(registry.Reader) error) error {
	return s.view(ctx, func(r rows.Reader) error { return read(r) })
}

// Consent returns a person's stored consent at an agent, nil for none.
func (s *Store) Consent(ctx context.Context, agent, person string) (sealed []byte, err error) {
	err = s.view(ctx, func(r rows.Reader) error {
		sealed, err = r.Consent(agent, person)
		return err
	})
	return sealed, err
}

// KeepConsent keeps it. It removes it where sealed is nil.
func (s *Store) KeepConsent(ctx context.Context, agent, person string, sealed []byte) error {
	return s.update(ctx, func(t *transaction) error { return t.PutConsent(agent, person, sealed) })
}

// Ledger returns the ledger of scores that was kept last, nil for none.
func (s *Store) Ledger(ctx context.Context) (body []byte, err error) {
	err = s.view(ctx, func(r rows.Reader) error {
		body, err = r.Ledger()
		return err
	})
	return body, err
}

// KeepLedger keeps a ledger of scores; see [rows.KeepLedger].
func (s *Store) KeepLedger(ctx context.Context, place int64, body []byte) error {
	return rows.KeepLedger(place, body, func(change func(rows.Tx) error) error {
		return s.update(ctx, func(t *transaction) error { return change(t.Tx) })
	})
}

// Index adds records to the index of the log; see [rows.Index].
func (s *Store) Index(ctx context.Context) (more bool, err error) {
	return rows.Index(func(look func(rows.Reader) error) error { return s.view(ctx, look) }, func(change func(rows.Tx) error) error {
		return s.update(issuer.Lazy(ctx), func(t *transaction) error { return change(t.Tx) })
	})
}
