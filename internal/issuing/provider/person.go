package provider

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/sorting"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// Recognize is [people.Book.Recognize] over the provider's store.
func (p *Provider) Recognize(ctx context.Context, c people.Claim) (Person, error) {
	return Book(p.config.Store, p.config.Issuer).Recognize(ctx, c)
}

// Book says whose login counts, by the people in a store and the freezes of an issuer.
func Book(s Store, i *issuer.Issuer) people.Book {
	return people.Book{
		Account: func(ctx context.Context, principal string) (a people.Account, err error) {
			err = s.ViewProvider(ctx, func(r Reader) error {
				a, err = r.Account(principal)
				return err
			})
			return a, err
		},
		Unknown: issuer.ErrNotFound, Frozen: i.FrozenPrincipal,
	}
}

// admits refuses a person who was frozen or removed meanwhile.
func (p *Provider) admits(r PeopleReader, who Person) error {
	a, err := r.Account(who.Principal)
	if err != nil && !notFound(err) {
		return err
	}
	return who.Still(a, p.config.Issuer.FrozenPrincipal(who.Principal))
}

// Now is the time by the provider's clock.
func (p *Provider) Now() time.Time { return p.config.Now() }

// Administrator reports whether a person is one.
func (p *Provider) Administrator(who Person) bool {
	return p.config.Administrator(who.Principal, who.Groups)
}

// Known is a person as administrators see one.
type Known struct {
	people.Account
	Administrator bool
	Passkeys      int
	Hosts         int
	LastUsed      time.Time // of a passkey, zero for never
}

// People returns every person with a passkey, a host or a state.
func (p *Provider) People(ctx context.Context) ([]Known, error) {
	all := map[string]*Known{}
	of := func(principal string) *Known {
		if all[principal] == nil {
			all[principal] = &Known{Account: people.Account{Principal: principal, State: people.Active}, Administrator: p.config.Administrator(principal, nil)}
		}
		return all[principal]
	}
	err := p.config.Store.ViewProvider(ctx, func(r Reader) error {
		clear(all)
		accounts, err := r.Accounts()
		keys, err2 := r.AllPasskeys()
		hosts, err3 := r.Hosts("")
		for _, a := range accounts {
			of(a.Principal).Account = a
		}
		for _, k := range keys {
			one := of(k.Principal)
			if one.Passkeys++; k.Used.After(one.LastUsed) {
				one.LastUsed = k.Used
			}
		}
		for _, h := range hosts {
			if h.User != "" && h.Status != agentauth.Revoked {
				of(h.User).Hosts++
			}
		}
		return errors.Join(err, err2, err3)
	})
	out := make([]Known, 0, len(all))
	for _, k := range all {
		if k.State == people.Active && p.config.Issuer.FrozenPrincipal(k.Principal) {
			k.State, k.Reason = people.Frozen, cmp.Or(k.Reason, "by powerbox freeze")
		}
		out = append(out, *k)
	}
	sorting.Sort(out, func(a, b Known) int { return cmp.Compare(a.Principal, b.Principal) })
	return out, err
}

// SetPersonAs is SetPerson by the word of an administrator, for any other person. An
// administrator who shuts all others out is stopped here.
func (p *Provider) SetPersonAs(ctx context.Context, who Person, principal string, state people.State, reason string) error {
	switch {
	case !p.config.Administrator(who.Principal, who.Groups):
		return agentauth.Errorf(agentauth.CodeUnauthorized, "people are frozen, thawed and removed by an administrator, or in a shell with powerbox person")
	case who.Principal == principal:
		return agentauth.Errorf(agentauth.CodeInvalidRequest, "this is you; have another administrator do it, or use powerbox person in a shell")
	case !who.Fresh:
		return errStale()
	}
	return p.setPerson(ctx, who.Principal, principal, state, reason, func(r Reader) error { return p.admits(r, who) })
}

// SetPerson freezes, removes or lets back a person, on record, as [people.Account.Move]
// admits. A freeze and a removal end every login and stop the agents that act for the
// person. A removal takes away passkeys and hosts, too. Doing so again is no error.
func (p *Provider) SetPerson(ctx context.Context, by, principal string, state people.State, reason string) error {
	return p.setPerson(ctx, by, principal, state, reason, func(Reader) error { return nil })
}

func (p *Provider) setPerson(ctx context.Context, by, principal string, state people.State, reason string, may func(r Reader) error) error {
	if err := namesUser(principal); err != nil {
		return err
	}
	reason = plain(reason, maxReasonText)
	if reason == "" {
		return errNoReason()
	}
	err := p.update(ctx, func(tx Tx, u *unit) error {
		if err := may(tx); err != nil {
			return err
		}
		was, err := tx.Account(principal)
		if err != nil && !notFound(err) {
			return err
		}
		was.Principal = principal
		a, err := was.Move(state, by, reason, p.config.Now())
		if err != nil {
			return err
		}
		keys, hosts := 0, 0
		if state == people.Removed {
			if keys, hosts, err = p.takeAway(tx, u, by, principal); err != nil {
				return err
			}
		}
		if err := tx.PutAccount(a); err != nil {
			return err
		}
		if err := p.stopAgentsOf(tx, u, by, was, state, reason); err != nil {
			return err
		}
		verb := map[people.State]action.Type{people.Active: action.PersonThaw, people.Frozen: action.PersonFreeze, people.Removed: action.PersonRemove}[state]
		return p.append(tx, by, principal, verb, map[string]any{"person": principal, "by": by, "reason": reason, "passkeys_removed": keys, "hosts_revoked": hosts})
	})
	var target *issuer.TargetError
	if errors.As(err, &target) {
		return agentauth.Errorf(agentauth.CodeInvalidRequest, "%s", target.Message)
	}
	return err
}

// LogOutAs is LogOut by the word of the person, or of an administrator.
func (p *Provider) LogOutAs(ctx context.Context, who Person, principal, reason string) error {
	own := who.Principal == principal
	if !own && !p.config.Administrator(who.Principal, who.Groups) {
		return agentauth.Errorf(agentauth.CodeUnauthorized, "logins of other people are ended by an administrator, or in a shell with powerbox person logout")
	}
	if !own && !who.Fresh {
		return errStale()
	}
	return p.logOut(ctx, who.Principal, principal, reason, func(r Reader) error { return p.admits(r, who) })
}

// LogOut ends every login of a person, on record: sessions of browsers, and tokens that a
// shell got before. The person can log in again.
func (p *Provider) LogOut(ctx context.Context, by, principal, reason string) error {
	return p.logOut(ctx, by, principal, reason, func(Reader) error { return nil })
}

func (p *Provider) logOut(ctx context.Context, by, principal, reason string, may func(r Reader) error) error {
	if err := namesUser(principal); err != nil {
		return err
	}
	if reason = plain(reason, maxReasonText); reason == "" {
		return errNoReason()
	}
	return p.update(ctx, func(tx Tx, _ *unit) error {
		if err := may(tx); err != nil {
			return err
		}
		a, err := tx.Account(principal)
		if err != nil && !notFound(err) {
			return err
		}
		a.Principal = principal
		if err := tx.PutAccount(a.LogOut(p.config.Now())); err != nil {
			return err
		}
		return p.append(tx, by, principal, action.PersonLogOut, map[string]any{"person": principal, "by": by, "reason": reason})
	})
}

func errNoReason() error {
	return agentauth.Errorf(agentauth.CodeInvalidRequest, "reason is missing; want a short text for the record")
}

// takeAway removes the passkeys of a person, and ends the hosts.
func (p *Provider) takeAway(tx Tx, u *unit, by, principal string) (keys, hosts int, err error) {
	have, err := tx.Passkeys(principal)
	if err != nil {
		return 0, 0, err
	}
	for _, k := range have {
		if err := tx.ForgetPasskey(k.ID); err != nil {
			return 0, 0, err
		}
	}
	all, err := tx.Hosts(principal)
	if err != nil {
		return 0, 0, err
	}
	for _, h := range all {
		if h.Status == agentauth.Revoked {
			continue
		}
		if _, err := p.revokeHost(tx, u, h, by, principal); err != nil {
			return 0, 0, err
		}
		hosts++
	}
	return len(have), hosts, nil
}

// stopAgentsOf freezes the agents that act for a person, as powerbox freeze does, or
// thaws them. It is part of the change of the person's state: one is never without the
// other.
func (p *Provider) stopAgentsOf(tx issuer.EventWriter, u *unit, by string, was people.Account, state people.State, reason string) error {
	kind := issuer.KindFreeze
	if state == people.Active {
		if was.Stops() == nil && !p.config.Issuer.Frozen(was.Principal) {
			return nil
		}
		kind = issuer.KindThaw
	}
	r, err := p.config.Issuer.StopPerson(tx, kind, by, was.Principal, reason)
	if err == nil {
		u.revoked = append(u.revoked, r)
	}
	return err
}

// mayHave refuses a user whom no host can be of: one without a name that can be read, and
// a person who was removed.
func (p *Provider) mayHave(r PeopleReader, user string) error {
	if err := namesUser(user); err != nil {
		return err
	}
	a, err := r.Account(user)
	if err != nil && !notFound(err) {
		return err
	}
	if a.State == people.Removed {
		return agentauth.Errorf(agentauth.CodeInvalidRequest, "%s was removed, which is final, and cannot have a host", user)
	}
	return nil
}
