package people_test

import (
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
