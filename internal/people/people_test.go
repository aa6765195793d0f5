package people_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/people"
)

// TestWhoIsAdmitted asks about every state, and about logins before and after the end of
// all logins.
func TestWhoIsAdmitted(t *testing.T) {
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		account people.Account
		began   time.Time
		frozen  bool
		want    bool
	}{
		"of whom nothing is kept":     {people.Account{}, time.Time{}, false, true},
		"frozen":                      {people.Account{State: people.Frozen}, noon, false, false},
		"frozen by powerbox freeze":   {people.Account{}, noon, true, false},
		"removed":                     {people.Account{State: people.Removed}, noon, false, false},
		"of a state nobody knows":     {people.Account{State: "x"}, noon, false, false},
		"back, with an old login":     {people.Account{State: people.Active, Over: noon}, noon, false, false},
		"back, by a login of no time": {people.Account{State: people.Active, Over: noon}, time.Time{}, false, false},
		"back, with a new login":      {people.Account{State: people.Active, Over: noon}, noon.Add(time.Second), false, true},
	} {
		if err := c.account.Admits(c.began, c.frozen); (err == nil) != c.want {
			t.Errorf("somebody %s: %v; want admitted %t", name, err, c.want)
		}
	}
}

// TestATK63_OnlyRecognizeMakesAPerson recognizes people of every state, and shows that
// an unrecognized Person is refused.
func TestATK63_OnlyRecognizeMakesAPerson(t *testing.T) {
	unknown := errors.New("unknown")
	accounts := map[string]people.Account{"user:frozen": {State: people.Frozen}, "user:removed": {State: people.Removed}}
	broken := errors.New("the store is away")
	book := people.Book{
		Account: func(_ context.Context, principal string) (people.Account, error) {
			if principal == "user:unread" {
				return people.Account{}, broken
			}
			a, ok := accounts[principal]
			if !ok {
				return a, unknown
			}
			return a, nil
		},
		Unknown: unknown, Frozen: func(principal string) bool { return principal == "user:stopped" },
	}
	for principal, want := range map[string]bool{"user:alice": true, "user:frozen": false, "user:removed": false, "user:stopped": false, "user:unread": false, "": false} {
		who, err := book.Recognize(t.Context(), people.Claim{Principal: principal})
		if (err == nil) != want || (who.Principal == principal) != (want || principal == "") {
			t.Errorf("ATK-63 %q: %+v, %v; want recognized %t", principal, who, err, want)
		}
		if still := who.Still(people.Account{}, false); (still == nil) != want {
			t.Errorf("ATK-63 %q after that: %v; want admitted %t", principal, still, want)
		}
	}
	var written people.Person
	if written.Principal = "user:alice"; written.Still(people.Account{}, false) == nil {
		t.Error("ATK-63 a Person that was not recognized is admitted")
	}
}

// TestATK94_WhichStateFollowsWhich tries every verb in every state.
func TestATK94_WhichStateFollowsWhich(t *testing.T) {
	noon := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	before := noon.Add(-time.Hour)
	for _, c := range []struct {
		from, to people.State
		may      bool
	}{
		{"", people.Active, true},
		{"", people.Frozen, true},
		{"", people.Removed, true},
		{people.Active, people.Active, true},
		{people.Active, people.Frozen, true},
		{people.Active, people.Removed, true},
		{people.Frozen, people.Active, true},
		{people.Frozen, people.Frozen, true},
		{people.Frozen, people.Removed, true},
		{people.Removed, people.Active, false},
		{people.Removed, people.Frozen, false},
		{people.Removed, people.Removed, true},
		{"x", people.Active, false},
		{"x", people.Frozen, true},
		{"x", people.Removed, true},
		{people.Active, "x", false},
		{people.Active, "", false},
	} {
		was := people.Account{Principal: "user:alice", State: c.from, By: "root", Reason: "first", Changed: before, Over: before}
		got, err := was.Move(c.to, "second", "later", noon)
		want := people.Account{Principal: "user:alice", State: c.to, By: "second", Reason: "later", Changed: noon, Over: noon}
		if c.to == people.Active {
			want.Over = before
		}
		if !c.may || c.from == people.Removed {
			want = was
		}
		if (err == nil) != c.may || got != want {
			t.Errorf("ATK-94 from %q to %q: %+v, %v; want %+v", c.from, c.to, got, err, want)
		}
		if stops := was.Stops() != nil; stops != (c.from != "" && c.from != people.Active) {
			t.Errorf("ATK-94 %q stops what acts for the person: %t", c.from, stops)
		}
	}
}
