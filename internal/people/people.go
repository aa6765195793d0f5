// Package people has what the server keeps of the people who log in to it: whether they
// may. Who somebody is, the login says; [Account.Admits] says whether that counts now.
// Every entrance asks it: pages, the interface of people, and the desk within its own
// transaction.
package people

import (
	"time"

	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// State says whether a person may log in, approve and administer.
type State string

// The states. Somebody of whom nothing is kept is active.
const (
	Active  State = "active"
	Frozen  State = "frozen"  // until somebody thaws it
	Removed State = "removed" // with passkeys and hosts, which do not come back
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

// Account is what is kept of a person. The zero Account is of somebody active.
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

// Admits returns nil where a login counts that began at a time, zero for a time that is
// not known. frozen says that an operator has frozen the principal by powerbox freeze.
func (a Account) Admits(began time.Time, frozen bool) error {
	switch {
	case a.State == Removed:
		return agentauth.Errorf(agentauth.CodeUnauthorized, "this person was removed here; an administrator can let them back in")
	case a.State == Frozen || frozen:
		return agentauth.Errorf(agentauth.CodeUnauthorized, "this person is frozen here; an administrator or operator can thaw them")
	case a.State != Active && a.State != "":
		return agentauth.Errorf(agentauth.CodeUnauthorized, "the state of this person cannot be read")
	case !a.Over.IsZero() && !began.After(a.Over):
		return agentauth.Errorf(agentauth.CodeUnauthorized, "this login was ended; log in again")
	}
	return nil
}
