package people_test

import (
	"slices"
	"testing"

	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/people/peopletest"
)

// TestATK162_AdministratorsByAGroupAreRemembered: no configuration names them.
func TestATK162_AdministratorsByAGroupAreRemembered(t *testing.T) {
	given := []people.Given{{Role: people.RoleAdministrator, Groups: []string{"admins"}, Everywhere: true}, {Role: people.RoleAdministrator, Groups: []string{"local"}, Agents: []string{"mail"}}}
	var a people.Administrators
	comes := func(principal string, groups ...string) {
		a.See(peopletest.Person(people.Claim{Principal: principal, Groups: groups}), people.RightsOf(given, principal, groups))
	}
	comes("user:gina", "staff", "admins")
	comes("user:bob", "staff")
	comes("user:lea", "local")
	if got := a.All(); !slices.Equal(got, []string{"user:gina"}) {
		t.Errorf("ATK-162 %q administer; want user:gina", got)
	}
	comes("user:gina", "staff")
	if got := a.All(); len(got) != 0 {
		t.Errorf("ATK-162 %q administer after the group ended", got)
	}
}
