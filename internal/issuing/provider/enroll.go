package provider

import (
	"context"
	"time"

	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
	"github.com/powerbox-project/powerbox/token"
)

// Invitation is a host that an administrator has made room for before its key is known
// (section 2.8). Anyone who has the token brings the key, once.
type Invitation struct {
	Name     string
	User     string
	Defaults []string
	OwnList  bool
	Vouched  bool `json:",omitempty"` // as of [Host.Vouched]
	By       string
	Created  time.Time
	Expires  time.Time
}

// inviting is how long a token for a host can be used.
const inviting = time.Hour

// Invite makes room for a host. The token is told once and kept as a hash.
func (p *Provider) Invite(ctx context.Context, who Person, name, user string, defaults []string) (code string, v Invitation, err error) {
	if !p.config.Administrator(who.Principal, who.Groups) {
		return "", v, agentauth.Errorf(agentauth.CodeUnauthorized, "hosts are invited by an administrator")
	}
	if err := recent(who); err != nil {
		return "", v, err
	}
	if err := p.mayBeDefaults(defaults); err != nil {
		return "", v, err
	}
	if code, err = p.config.Issuer.NewID(agentauth.InvitationPrefix); err != nil {
		return "", v, err
	}
	now := p.config.Now()
	v = Invitation{Name: plain(name, maxNameText), User: user, Defaults: defaults, OwnList: defaults != nil, Vouched: user != "" && vouches(who), By: who.Principal, Created: now, Expires: now.Add(inviting)}
	err = p.updateBy(ctx, who, func(tx Tx, _ *unit) error {
		if err := p.mayHave(tx, user); user != "" && err != nil {
			return err
		}
		if err := tx.PutInvitation(p.codeHash(code), v); err != nil {
			return err
		}
		return p.append(tx, who.Principal, user, action.HostInvite, map[string]any{"name": v.Name, "expires": stampOf(v.Expires)})
	})
	return code, v, err
}

func stampOf(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Enroll makes a host that was invited known by the key that it brings. That the
// host has the key is proven by the token of its request, or else by its first one.
func (p *Provider) Enroll(ctx context.Context, invitation, name string, key token.PublicKey) (Host, error) {
	no := agentauth.Errorf(agentauth.CodeInvitation, "the enrollment token is not one that can be used: unknown, used or over; an administrator makes a new one")
	if !agentauth.IsInvitation(invitation) {
		return Host{}, no
	}
	id, err := p.config.Issuer.NewID("hst_")
	if err != nil {
		return Host{}, err
	}
	var h Host
	err = p.update(ctx, func(tx Tx, _ *unit) error {
		now := p.config.Now()
		hash := p.codeHash(invitation)
		v, err := tx.Invitation(hash)
		if notFound(err) || err == nil && !now.Before(v.Expires) {
			return no
		}
		if err != nil {
			return err
		}
		if err := p.mayHave(tx, v.User); v.User != "" && err != nil {
			return no
		}
		if _, err := tx.HostByKey(key.Thumbprint()); !notFound(err) {
			if err == nil {
				err = agentauth.Errorf(agentauth.CodeInvalidRequest, "a host of that key is registered already; enroll with a new key")
			}
			return err
		}
		h = Host{
			ID: id, Name: v.Name, Thumbprint: key.Thumbprint(), Key: key.JWK().AppendJSON(nil), User: v.User, Vouched: v.Vouched, Defaults: v.Defaults, OwnList: v.OwnList,
			Status: agentauth.Active, Created: now, Activated: now, Updated: now,
		}
		if own := plain(name, maxNameText); own != "" {
			h.Name = own
		}
		if err := tx.PutHost(h); err != nil {
			return err
		}
		if err := tx.ForgetInvitation(hash); err != nil {
			return err
		}
		return p.append(tx, hostName(h), h.User, action.HostEnroll, map[string]any{"host": h.ID, "key": h.Thumbprint, "invited_by": v.By})
	})
	return h, err
}
