package console

import (
	"context"
	"slices"

	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// signedInPage lists the visitor's own sessions.
type signedInPage struct {
	Sessions []people.Session
	Here     string // the id of this one
}

// ownReason is on record where people end their own logins.
const ownReason = "the person logged out everywhere"

// Sessions returns the open sessions of a person, "" for those of all people, without those
// that a freeze, a removal or [people.Account.LogOut] has ended.
func (k *Console) Sessions(ctx context.Context, principal string) ([]people.Session, error) {
	all, err := k.sessions.list(ctx, principal)
	if err != nil {
		return nil, err
	}
	counts := map[string]bool{}
	return slices.DeleteFunc(all, func(s people.Session) bool {
		key := s.Principal + "\n" + s.Began.String()
		if _, asked := counts[key]; !asked {
			_, err := k.config.People.Recognize(ctx, people.Claim{Principal: s.Principal, Login: s.Login, Began: s.Began})
			counts[key] = err == nil
		}
		return !counts[key]
	}), nil
}

// signedIn shows the visitor's own sessions.
func (k *Console) signedIn(v *visit) error {
	who, err := k.person(v)
	if err != nil {
		return err
	}
	all, err := k.Sessions(v.r.Context(), who.Principal)
	if err != nil {
		return err
	}
	return k.show(v, "sessions", signedInPage{all, cookieHash(k.cookie(v.r, sessionCookie))})
}

// endSession ends one of the visitor's own sessions, and logs out where it is this one.
func (k *Console) endSession(v *visit) error {
	who, err := k.person(v)
	if err != nil {
		return err
	}
	id := v.r.PostFormValue("session")
	if id == cookieHash(k.cookie(v.r, sessionCookie)) {
		return k.logout(v)
	}
	ended, err := k.sessions.endOf(v.r.Context(), who.Principal, id)
	if err == nil && !ended {
		err = agentauth.Errorf(agentauth.CodeNotFound, "you have no such session; it may have ended already")
	}
	if err != nil {
		return err
	}
	return v.see("/sessions")
}

// logOutEverywhere ends every login of the visitor, tokens of shells among them.
func (k *Console) logOutEverywhere(v *visit) error {
	who, err := k.person(v)
	if err != nil {
		return err
	}
	if err := k.config.People.LogOutAs(v.r.Context(), who, who.Principal, ownReason); err != nil {
		return err
	}
	return k.logout(v)
}

// logOutPerson ends every login of someone else.
func (k *Console) logOutPerson(v *visit) error {
	who, err := k.administering(v)
	if err != nil {
		return err
	}
	who.Fresh = true // a passkey signed the change, or the login is fresh
	if err := k.config.People.LogOutAs(v.r.Context(), who, v.r.PostFormValue("person"), v.r.PostFormValue("reason")); err != nil {
		return err
	}
	return v.see("/people")
}
