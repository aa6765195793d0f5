package provider

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// Linking is a host that would get a user, or whose user's agents would have more at
// once, as anyone who decides about it sees it (AAP-U4).
type Linking struct {
	Host    Host
	User    string  // whom the host would be of, or is
	Reads   []Grant // the capabilities that its agents have without asking then, as they would be in force now
	Changes []Grant // that change something: only with the word of a person who is present (AAP-A7)
	Claimed []Agent // autonomous agents that end with it (AAP-U3)
	Known   bool    // whether the user has a host or a passkey here
}

// Link is the word of the one who links a host.
type Link struct {
	Host string
	User string // whom it will be of; "" for a host that has one
	// AtOnce lets agents of the host have [Linking.Changes] without asking.
	AtOnce  bool
	Seen    string // [Provider.LinkDigest] of the page as shown, without AtOnce; "" for nothing
	Proof   string // the same, with AtOnce as it was signed; "" where nothing was
	Passkey string // that signed it
}

// maxUserText bounds the name of a user.
const maxUserText = 256

// namesUser refuses a text that is not a readable name of a principal.
func namesUser(user string) error {
	if user == "" || len(user) > maxUserText || strings.TrimSpace(user) != user || strings.ContainsFunc(user, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return agentauth.Errorf(agentauth.CodeInvalidRequest, "want the principal that the host is of, such as user:alice, of at most %d bytes that can all be seen", maxUserText)
	}
	return nil
}

// ToLink returns the effect of linking a host to a user, for administrators. Without a
// user it is about a host that has one: the effect of letting its agents have at once
// the defaults that change something. That is for the host's user, too.
func (p *Provider) ToLink(ctx context.Context, who Person, host, user string) (out Linking, err error) {
	err = p.config.Store.ViewProvider(ctx, func(r Reader) error {
		out, err = p.linking(r, who, host, user, p.config.Now())
		return err
	})
	return out, err
}

func (p *Provider) linking(r Reader, who Person, host, user string, now time.Time) (Linking, error) {
	if user != "" && !p.config.Administrator(who.Principal, who.Groups) {
		return Linking{}, agentauth.Errorf(agentauth.CodeUnauthorized, "a host is linked by an administrator, or by the approval of its agent")
	}
	h, err := p.hostOfPerson(r, who, host)
	if err != nil {
		return Linking{}, err
	}
	switch {
	case h.User != "" && user != "":
		return Linking{}, agentauth.Errorf(agentauth.CodeInvalidRequest, "the host is linked already; unlink it first")
	case h.Status != agentauth.Active && h.Status != agentauth.Pending:
		return Linking{}, agentauth.Errorf(agentauth.CodeHostRevoked, "the host has been revoked")
	}
	if user == "" {
		user = h.User
	}
	if err := p.mayHave(r, user); err != nil {
		return Linking{}, err
	}
	l := Linking{Host: h, User: user}
	given := h
	given.User, given.Vouched = user, true
	for _, name := range p.defaults(given) {
		c := p.capabilities[name]
		if c.Sensitivity == High {
			continue // no host has it unasked (AAP-R12)
		}
		g := Grant{Capability: name, Constraints: wireConstraints(c.Constraints)}
		if c.Sensitivity == Read {
			l.Reads = append(l.Reads, g)
		} else {
			l.Changes = append(l.Changes, g)
		}
	}
	if h.User == "" {
		if l.Claimed, err = p.claimed(r, h, now); err != nil {
			return Linking{}, err
		}
	}
	hosts, err := r.Hosts(user)
	if err != nil {
		return Linking{}, err
	}
	keys, err := r.Passkeys(user)
	l.Known = len(hosts)+len(keys) > 0
	return l, err
}

// LinkDigest names everything that the person who links a host sees, and their answer to
// it. A passkey signs it (AAP-A7, ATK-46, ATK-49).
func (p *Provider) LinkDigest(l Linking, who Person, atOnce bool) string {
	return digest("link", map[string]any{
		"by": who.Principal, "host": l.Host.ID, "host_name": l.Host.Name, "host_key": l.Host.Thumbprint, "host_keys_at": l.Host.KeysURL, "host_from": l.Host.From, "host_status": l.Host.Status,
		"was": l.Host.User, "user": l.User, "reads": p.shown(l.Reads), "changes": p.shown(l.Changes), "claimed": named(l.Claimed), "at_once": atOnce,
	})
}

// LinkHost links a host without a user to one, by the word of an administrator (AAP-U4).
// Or it lets the agents of a host with a user have at once the defaults that change
// something.
func (p *Provider) LinkHost(ctx context.Context, who Person, link Link) (out Linking, err error) {
	if err := recent(who); err != nil {
		return out, err
	}
	err = p.updateBy(ctx, who, func(tx Tx, u *unit) error {
		now := p.config.Now()
		l, err := p.linking(tx, who, link.Host, link.User, now)
		switch signed := p.LinkDigest(l, who, link.AtOnce); {
		case err != nil:
			return err
		case link.Seen != "" && link.Seen != p.LinkDigest(l, who, false), link.Proof != "" && link.Proof != signed:
			return errChanged()
		case l.Host.User != "" && (!link.AtOnce || l.Host.Vouched || len(l.Changes) == 0):
			return agentauth.Errorf(agentauth.CodeInvalidRequest, "there is nothing left to let the agents of the host have at once")
		case link.AtOnce && !vouches(who):
			return agentauth.Errorf(agentauth.CodeUnauthorized, "what agents of the host have without asking changes something; say so on the page, with a passkey (AAP-A7)")
		}
		out = l
		return p.linkTo(tx, u, who, l, link, now)
	})
	return out, err
}

func (p *Provider) linkTo(tx Tx, u *unit, who Person, l Linking, link Link, now time.Time) error {
	h, linked := l.Host, l.Host.User == ""
	if h.Status == agentauth.Pending {
		h.Status, h.Activated = agentauth.Active, now
	}
	h.User, h.Vouched, h.Updated = l.User, link.AtOnce, now
	if err := tx.PutHost(h); err != nil {
		return err
	}
	kind := action.HostVouch
	if linked {
		kind = action.HostLink
		if err := p.claim(tx, u, h, who.Principal, now); err != nil {
			return err
		}
	}
	atOnce := l.Reads
	if link.AtOnce {
		atOnce = slices.Concat(l.Reads, l.Changes)
	}
	return p.append(tx, who.Principal, l.User, kind, map[string]any{
		"host": h.ID, "by": who.Principal, "present": who.Present, "at_once": asGiven(atOnce), "claimed": len(l.Claimed), "digest": p.LinkDigest(l, who, link.AtOnce), "passkey": link.Passkey,
	})
}

// asGiven are defaults as a record has them, which are no grants yet.
func asGiven(defaults []Grant) []any {
	out := make([]any, 0, len(defaults))
	for _, g := range defaults {
		one := map[string]any{"capability": g.Capability}
		if g.Constraints != nil {
			one["constraints"] = g.Constraints
		}
		out = append(out, one)
	}
	return out
}

// Withheld are the defaults that change something and that agents of a host have to ask
// for, because the one who linked it was not present.
func (p *Provider) Withheld(h Host) (out []*Capability) {
	if h.User == "" || h.Vouched || h.Status != agentauth.Active {
		return nil
	}
	given := h
	given.Vouched = true
	for _, name := range p.defaults(given) {
		if c := p.capabilities[name]; c.Sensitivity == Write {
			out = append(out, c)
		}
	}
	return out
}
