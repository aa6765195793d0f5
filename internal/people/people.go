// Package people has what the server keeps of the people who log in to it: whether they
// may. Who someone is, the login says; [Account.Admits] says whether that counts now.
// Every entrance asks it: pages, the interface of people, and the desk within its own
// transaction.
package people

import (
	"time"

	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// State says whether a person may log in, approve and administer.
type State string

// The states. Someone of whom nothing is kept is active.
const (
	Active  State = "active"
	Frozen  State = "frozen"  // until a thaw
	Removed State = "removed" // for good, with passkeys and hosts
)

// Login is the way by which a person came.
type Login string

// The ways.
const (
	ByProvider Login = "provider" // the OpenID provider, on the page
	ByPasskey  Login = "passkey"
	BySession  Login = "session"  // of an identity provider, in a shell
	ByInvite   Login = "invite"   // the URL of the first administrator
	ByName     Login = "built-in" // in experiments
)

// Account is the stored data of a person. The zero Account is of someone active.
type Account struct {
	Principal string
	State     State
	By        string // who changed the state last
	Reason    string
	Changed   time.Time
	// Over is when the person's logins were ended: those from before do not count any
	// more, also after a thaw. Zero for never.
	Over time.Time `json:",omitzero"`
}

// Move returns the account after a verb has brought it into a state. It is the only place
// that says which state follows which: a removal is final, and may be repeated.
func (a Account) Move(to State, by, reason string, now time.Time) (Account, error) {
	switch {
	case to != Active && to != Frozen && to != Removed:
		return a, agentauth.Errorf(agentauth.CodeInvalidRequest, "want one of freeze, thaw and remove")
	case a.State == Removed && to == Removed:
		return a, nil
	case a.State == Removed:
		return a, agentauth.Errorf(agentauth.CodeInvalidRequest, "%s was removed, which is final; let the person in under another account of your identity provider", a.Principal)
	case to == Active && a.State != "" && a.State != Active && a.State != Frozen:
		return a, agentauth.Errorf(agentauth.CodeInvalidRequest, "the state of %s cannot be read; freeze or remove the account first", a.Principal)
	}
	a.State, a.By, a.Reason, a.Changed = to, by, reason, now
	if to != Active {
		a.Over = now
	}
	return a, nil
}

// LogOut returns the account after every login of the person was ended. The state stays.
func (a Account) LogOut(now time.Time) Account {
	if a.State == "" {
		a.State = Active
	}
	a.Over = now
	return a
}

// Stops returns why what acts for the person stays stopped, nil where the account does
// not stop it. A thaw of the principal by another verb asks it.
func (a Account) Stops() error {
	switch a.State {
	case Active, "":
		return nil
	case Frozen:
		return agentauth.Errorf(agentauth.CodeInvalidRequest, "%s is a frozen person; use powerbox person thaw", a.Principal)
	case Removed:
		return agentauth.Errorf(agentauth.CodeInvalidRequest, "%s is a person who was removed, which is final", a.Principal)
	}
	return agentauth.Errorf(agentauth.CodeInvalidRequest, "the state of %s cannot be read; freeze or remove the account first", a.Principal)
}

// Admits returns nil where a login counts that began at a time, zero for a time that is
// not known. frozen says that an operator has frozen the principal by powerbox freeze.
func (a Account) Admits(began time.Time, frozen bool) error {
	switch {
	case a.State == Removed:
		return agentauth.Errorf(agentauth.CodeUnauthorized, "this person was removed here, which is final; an administrator can let them in under another account")
	case a.State == Frozen || frozen:
		return agentauth.Errorf(agentauth.CodeUnauthorized, "this person is frozen here; an administrator or operator can thaw them")
	case a.State != Active && a.State != "":
		return agentauth.Errorf(agentauth.CodeUnauthorized, "the state of this person cannot be read")
	case !a.Over.IsZero() && !began.After(a.Over):
		return agentauth.Errorf(agentauth.CodeUnauthorized, "this login was ended; log in again")
	}
	return nil
}
