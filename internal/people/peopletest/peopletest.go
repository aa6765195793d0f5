// Package peopletest makes people for tests.
package peopletest

import (
	"context"
	"errors"

	"github.com/powerbox-project/powerbox/internal/people"
)

// Person returns the person of an unopposed claim, and the zero Person for a
// claim without a principal.
func Person(c people.Claim) people.Person {
	if c.Principal == "" {
		return people.Person{}
	}
	who, err := people.Book{
		Account: func(context.Context, string) (people.Account, error) { return people.Account{}, nil },
		Unknown: errors.New("unknown"), Frozen: func(string) bool { return false },
	}.Recognize(context.Background(), c)
	if err != nil {
		panic(err)
	}
	return who
}
