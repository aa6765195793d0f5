package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/issuing/registry"
	"github.com/powerbox-project/powerbox/internal/store/rows"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// Update implements [issuer.Store]. It takes as long as [Config.Patience] says, about, when
// the file is locked.
func (s *Store) Update(ctx context.Context, change func(issuer.Tx) error) error {
	return s.update(ctx, func(t *transaction) error { return change(t) })
}

// View implements [issuer.Store].
func (s *Store) View(ctx context.Context, read func(issuer.Reader) error) error {
	return s.view(ctx, func(r settled) error { return read(r) })
}

// UpdateProvider implements [provider.Store].
func (s *Store) UpdateProvider(ctx context.Context, change func(provider.Tx) error) error {
	return s.update(ctx, func(t *transaction) error { return change(t) })
}

// ViewProvider implements [provider.Store].
func (s *Store) ViewProvider(ctx context.Context, read func(provider.Reader) error) error {
	return s.view(ctx, func(r settled) error { return read(r) })
}

// UpdateApprovals implements [approval.Store].
func (s *Store) UpdateApprovals(ctx context.Context, change func(approval.Tx) error) error {
	return s.update(ctx, func(t *transaction) error { return change(t) })
}

// ViewApprovals implements [approval.Store].
func (s *Store) ViewApprovals(ctx context.Context, read func(approval.Reader) error) error {
	return s.view(ctx, func(r settled) error { return read(r) })
}

// UpdateRegistry implements [registry.Store].
func (s *Store) UpdateRegistry(ctx context.Context, change func(registry.Tx) error) error {
	return s.update(ctx, func(t *transaction) error { return change(t) })
}

// ViewRegistry implements [registry.Store].
func (s *Store) ViewRegistry(ctx context.Context, read func(registry.Reader) error) error {
	return s.view(ctx, func(r settled) error { return read(r) })
}

// The table of approvals has no time here, and that of jobs neither agent nor time: the
// statements below look into the bodies.

// PutApproval implements [provider.Tx].
func (t *transaction) PutApproval(a provider.Approval) error {
	return t.Keep(a, `INSERT INTO approval (id, code, agent, pending, body) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET pending = excluded.pending, body = excluded.body`, a.ID, append([]byte{}, a.Code...), a.Agent, a.Status == agentauth.Pending)
}

// PutJob implements [provider.Tx].
func (t *transaction) PutJob(j provider.Job) error {
	return t.Keep(j, "INSERT INTO job (id, body) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET body = excluded.body", j.ID)
}

// ForgetAgent implements [provider.Tx].
func (t *transaction) ForgetAgent(id string) error {
	if _, err := t.db.Exec("DELETE FROM job WHERE json_extract(CAST(body AS TEXT), '$.Agent') = ?", id); err != nil {
		return fmt.Errorf("sqlite: jobs of an agent to forget: %w", err)
	}
	return t.ForgetHostAgent(id)
}

// ForgetAnswered implements [provider.Tx].
func (t *transaction) ForgetAnswered(before time.Time) error {
	at := before.UTC().Format(time.RFC3339)
	for _, statement := range []string{
		"DELETE FROM approval WHERE julianday(json_extract(CAST(body AS TEXT), '$.Expires')) < julianday(?)",
		"DELETE FROM job WHERE julianday(json_extract(CAST(body AS TEXT), '$.Created')) < julianday(?)",
	} {
		if _, err := t.db.Exec(statement, at); err != nil {
			return fmt.Errorf("sqlite: approvals and jobs to forget: %w", err)
		}
	}
	return nil
}

// Consent returns a person's stored consent at an agent, nil for none.
func (s *Store) Consent(ctx context.Context, agent, person string) (sealed []byte, err error) {
	err = s.view(ctx, func(r settled) error {
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
	err = s.view(ctx, func(r settled) error {
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
	return rows.Index(func(look func(rows.Reader) error) error {
		return s.view(ctx, func(r settled) error { return look(r.Reader) })
	}, func(change func(rows.Tx) error) error {
		return s.update(issuer.Lazy(ctx), func(t *transaction) error { return change(t.Tx) })
	})
}
