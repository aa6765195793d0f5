package people_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/people"
)

// TestTheDocsHaveTheTableOfRoles holds docs/how-to/operators.md to the table.
func TestTheDocsHaveTheTableOfRoles(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/operators.md")
	if err != nil {
		t.Fatal(err)
	}
	want := "| role | permissions | in words |\n| --- | --- | --- |\n"
	for _, r := range people.Roles() {
		want += fmt.Sprintf("| %s | %s | %s |\n", r.Name, strings.Join(r.May.Names(), ", "), r.Says)
	}
	if !strings.Contains(string(page), want) {
		t.Errorf("docs/how-to/operators.md lacks the table:\n%s", want)
	}
}

// TestRightsAreThoseOfTheRolesAlone adds up roles by name and by group, everywhere and at
// some agents.
func TestRightsAreThoseOfTheRolesAlone(t *testing.T) {
	given := []people.Given{
		{Role: "viewer", Groups: []string{"staff"}, Everywhere: true},
		{Role: "operator", Who: []string{"user:bob"}, Agents: []string{"documents"}},
		{Role: "made-up", Who: []string{"user:bob"}, Everywhere: true},
		{Role: "administrator", Who: []string{""}, Groups: []string{""}, Everywhere: true},
		{Role: "administrator", Who: []string{"user:eve"}}, // at no agent
	}
	for name, c := range map[string]struct {
		principal           string
		groups              []string
		here, there, server people.Permission
		agents              []string
	}{
		"no person":            {"", nil, 0, 0, 0, nil},
		"without a role":       {"user:anna", []string{"guests"}, 0, 0, 0, nil},
		"by group":             {"user:anna", []string{"staff"}, people.See | people.Evidence, people.See | people.Evidence, people.See | people.Evidence, nil},
		"by name, at one":      {"user:bob", nil, people.PermissionOf("operator"), 0, 0, []string{"documents"}},
		"by both":              {"user:bob", []string{"staff"}, people.PermissionOf("operator"), people.See | people.Evidence, people.See | people.Evidence, []string{"documents"}},
		"at no agent":          {"user:eve", nil, 0, 0, 0, nil},
		"a group is no person": {"staff", nil, 0, 0, 0, nil},
	} {
		r := people.RightsOf(given, c.principal, c.groups)
		for _, one := range people.Permissions() {
			if r.MayAt(one, "documents") != c.here.Any(one) || r.MayAt(one, "mail") != c.there.Any(one) || r.May(one) != c.server.Any(one) {
				t.Errorf("%s: %s is %t at documents, %t at mail, %t for the server", name, one, r.MayAt(one, "documents"), r.MayAt(one, "mail"), r.May(one))
			}
			if somewhere := c.here | c.there; r.Somewhere(one) != somewhere.Any(one) {
				t.Errorf("%s: %s somewhere: %t", name, one, r.Somewhere(one))
			}
		}
		if agents, all := r.Agents(people.Stop); all || !slices.Equal(agents, c.agents) {
			t.Errorf("%s: stops at %v, %t", name, agents, all)
		}
	}
	if r := people.AllRights(); !r.May(people.Administer) || r.May(people.Approve) {
		t.Error("the shared token administers, and approves nothing")
	}
}
