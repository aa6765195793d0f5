package api

import (
	"context"
	"time"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/remote/link"
	"github.com/powerbox-project/powerbox/internal/steady"
)

// ScopeRecords finds the scopes that scope tokens were issued for.
type ScopeRecords struct{ Issuer *issuer.Issuer }

// Issued implements [gate.ScopeRecords]. A token of another agent gets the answer
// of one that was never issued.
func (s ScopeRecords) Issued(ctx context.Context, target *gate.Target, hash string) (gate.Issued, error) {
	c, err := s.Issuer.ByScopeToken(ctx, hash)
	if err != nil {
		return gate.Issued{}, err
	}
	scopes, ok := c.Scopes()
	if c.ID == "" || c.Agent != target.ID || !ok {
		return gate.Issued{}, link.NotIssued()
	}
	return gate.Issued{Scopes: scopes, Held: gate.Held{
		Capability: c.ID, OnRecord: c.ID, Root: c.Root, Principal: s.Issuer.Pseudonym(c.Agent, c.Principal), Holder: c.Holder,
		Authority: c.Authority, Links: c.Lineage(), Legacy: c.Legacy,
	}}, nil
}

// Nonces keeps in the store which delegation link a nonce names.
type Nonces struct{ Store issuer.Store }

// Name implements [gate.Nonces]. A link that was presented before costs no write.
func (n Nonces) Name(ctx context.Context, l gate.NamedLink, now time.Time) (bool, error) {
	var named string
	err := n.Store.View(ctx, func(r issuer.Reader) error {
		var err error
		named, err = r.LinkNamed(l.ID)
		return err
	})
	if err != nil || named == l.Link {
		return err == nil, err
	}
	err = n.Store.Update(ctx, func(tx issuer.Tx) error {
		var err error
		named, err = tx.NameLink(l.ID, l.Link, l.Until, steady.Past(now))
		return err
	})
	return err == nil && named == l.Link, err
}
