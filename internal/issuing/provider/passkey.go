package provider

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// Passkey is a key by which a person shows to be there (AAP-A7).
type Passkey struct {
	ID         []byte // of the credential
	Principal  string
	Name       string // the person's own
	Credential json.RawMessage
	Created    time.Time
	Used       time.Time // zero before the first time
}

// maxPasskeys bounds how many a person has.
const maxPasskeys = 20

// Passkeys returns the passkeys of a principal, oldest first.
func (p *Provider) Passkeys(ctx context.Context, principal string) (out []Passkey, err error) {
	err = p.config.Store.ViewProvider(ctx, func(r Reader) error {
		out, err = r.Passkeys(principal)
		return err
	})
	return out, err
}

// Passkey returns the passkey of a credential's id, whosever it is.
func (p *Provider) Passkey(ctx context.Context, id []byte) (out Passkey, err error) {
	err = p.config.Store.ViewProvider(ctx, func(r Reader) error {
		out, err = r.Passkey(id)
		return err
	})
	if notFound(err) {
		err = agentauth.Errorf(agentauth.CodeNotFound, "the passkey is not known here")
	}
	return out, err
}

// AddPasskey stores a new passkey of a person, on record. Only the first is added
// by someone who has not shown to be present: a session that was stolen is not
// made into a passkey (ATK-47).
func (p *Provider) AddPasskey(ctx context.Context, who Person, key Passkey) error {
	if who.Principal == "" {
		return agentauth.Errorf(agentauth.CodeUnauthorized, "a passkey belongs to a person")
	}
	return p.updateBy(ctx, who, func(tx Tx, _ *unit) error {
		have, err := tx.Passkeys(who.Principal)
		switch {
		case err != nil:
			return err
		case len(have) > 0 && !who.Present:
			return agentauth.Errorf(agentauth.CodeUnauthorized, "you have a passkey; confirm with it before another is added")
		case len(have) >= maxPasskeys:
			return agentauth.Errorf(agentauth.CodeRateLimited, "you have %d passkeys; remove one first", len(have))
		}
		if _, err := tx.Passkey(key.ID); !notFound(err) {
			if err == nil {
				err = agentauth.Errorf(agentauth.CodeInvalidRequest, "the passkey is registered already")
			}
			return err
		}
		key.Principal, key.Name, key.Created = who.Principal, plain(key.Name, maxNameText), p.config.Now()
		if err := tx.PutPasskey(key); err != nil {
			return err
		}
		return p.append(tx, who.Principal, who.Principal, action.PasskeyAdd, map[string]any{"passkey": base64.RawURLEncoding.EncodeToString(key.ID)})
	})
}

// UsedPasskey stores the state of a passkey after its use: its counter.
func (p *Provider) UsedPasskey(ctx context.Context, id []byte, credential []byte) error {
	return p.update(ctx, func(tx Tx, _ *unit) error {
		key, err := tx.Passkey(id)
		if err != nil {
			return err
		}
		key.Credential, key.Used = credential, p.config.Now()
		return tx.PutPasskey(key)
	})
}

// RemovePasskey takes a passkey from its person, on record.
func (p *Provider) RemovePasskey(ctx context.Context, who Person, id []byte) error {
	return p.updateBy(ctx, who, func(tx Tx, _ *unit) error {
		key, err := tx.Passkey(id)
		if notFound(err) || err == nil && (key.Principal != who.Principal || who.Principal == "") {
			return agentauth.Errorf(agentauth.CodeNotFound, "you have no such passkey")
		}
		if err != nil {
			return err
		}
		if !who.Present {
			return agentauth.Errorf(agentauth.CodeUnauthorized, "confirm with a passkey before one is removed")
		}
		if err := tx.ForgetPasskey(id); err != nil {
			return err
		}
		return p.append(tx, who.Principal, who.Principal, action.PasskeyRemove, map[string]any{"passkey": base64.RawURLEncoding.EncodeToString(id)})
	})
}
