package people

import (
	"context"
	"errors"
	"time"

	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// Claim is who someone is, as a login or session says. It admits to nothing:
// [Book.Recognize] makes a [Person] of it.
type Claim struct {
	Principal string
	Groups    []string // as the person's identity provider says
	Login     Login
	Began     time.Time // when the login was made, zero for a time that is not known
	Address   string    // where the person is, as the connection says; "" for not known
	// Fresh reports that the person has logged in just now (AAP-A6): what approves, or
	// lets a host in, takes that, and what denies and revokes does not.
	Fresh bool
	// Present reports that the person has shown to be there, with a passkey or what
	// is as good, for this very answer (AAP-A7).
	Present bool
	// Unsafe lets someone answer without being present: built-in users, in
	// experiments.
	Unsafe bool
}

// claim has no name outside, so that no other package writes a Person.
type claim = Claim

// Person is someone whose login counted when the request came. [Book.Recognize] makes
// every Person; the zero Person is unknown, and [Person.Still] refuses it.
type Person struct {
	claim
	admitted bool
}

// admit returns the person of a claim where the account lets them in. frozen says that
// an operator has frozen the principal by powerbox freeze.
func admit(c Claim, a Account, frozen bool) (Person, error) {
	if c.Principal == "" {
		return Person{}, agentauth.Errorf(agentauth.CodeUnauthenticated, "log in first")
	}
	if err := a.Admits(c.Began, frozen); err != nil {
		return Person{}, err
	}
	return Person{claim: c, admitted: true}, nil
}

// Still returns nil where the person's login counts now, as [Account.Admits] says.
// Changes ask it within their own transaction.
func (p Person) Still(a Account, frozen bool) error {
	if !p.admitted {
		return agentauth.Errorf(agentauth.CodeUnauthenticated, "log in first")
	}
	return a.Admits(p.Began, frozen)
}

// Book says whose login counts.
type Book struct {
	// Account returns the account of a principal, or an error that is Unknown.
	Account func(ctx context.Context, principal string) (Account, error)
	Unknown error
	// Frozen reports whether powerbox freeze is in force for a principal.
	Frozen func(principal string) bool
}

// Recognize returns the person of a claim, and refuses people who were frozen or removed,
// and logins that have ended. Every entrance calls it before anything else.
func (b Book) Recognize(ctx context.Context, c Claim) (Person, error) {
	a, err := b.Account(ctx, c.Principal)
	if err != nil && !errors.Is(err, b.Unknown) {
		return Person{}, err
	}
	return admit(c, a, b.Frozen(c.Principal))
}
