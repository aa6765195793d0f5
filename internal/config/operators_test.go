package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/people"
)

// loadOperators reads a configuration with a section of operators, and what stands around it.
func loadOperators(t *testing.T, text string) error {
	t.Helper()
	_, err := Load("powerbox.yaml", func(string) ([]byte, error) {
		return []byte("agents: [{id: documents, upstream: \"https://documents.example\", tenant: acme}]\n" + text), nil
	}, nil)
	return err
}

// TestTheSharedTokenIsNotTheLastWayIn switches the shared token off, with and without a
// person who could administer.
func TestTheSharedTokenIsNotTheLastWayIn(t *testing.T) {
	const provider = "identity: {providers: [{issuer: \"https://login.example\"}]}\n"
	for name, c := range map[string]struct {
		around, operators string
		ok                bool
	}{
		"the first passkey":            {"", "", true},
		"a named administrator":        {"", "roles: [{role: administrator, who: [\"user:root\"]}]", true},
		"a group, and passkeys":        {"", "roles: [{role: administrator, who: [\"group:admins\"]}]", false},
		"a provider without a role":    {provider, "login: {issuer: \"https://login.example\", client_id: cli}", false},
		"an operator alone":            {provider, "login: {issuer: \"https://login.example\", client_id: cli}, roles: [{role: operator, who: [\"user:bob\"]}]", false},
		"an administrator at an agent": {provider, "login: {issuer: \"https://login.example\", client_id: cli}, roles: [{role: administrator, who: [\"user:bob\"], agents: [documents]}]", false},
		"a group that logs in":         {provider, "login: {issuer: \"https://login.example\", client_id: cli}, roles: [{role: administrator, who: [\"group:admins\"]}]", true},
	} {
		err := loadOperators(t, c.around+"operators: {token: false, "+strings.TrimSuffix(c.operators, ",")+"}\n")
		if (err == nil) != c.ok || !c.ok && !strings.Contains(err.Error(), "no person could administer") {
			t.Errorf("%s: %v; want accepted %t", name, err, c.ok)
		}
	}
}

// TestRolesNameWhatThereIs refuses roles, agents, tenants and clients that are wrong.
func TestRolesNameWhatThereIs(t *testing.T) {
	for text, want := range map[string]string{
		`operators: {roles: [{role: boss, who: ["user:bob"]}]}`:                     "viewer",
		`operators: {roles: [{role: viewer, who: [bob]}]}`:                          "is not a principal",
		`operators: {roles: [{role: viewer, who: []}]}`:                             "want principals",
		`operators: {roles: [{role: viewer, who: ["user:bob"], agents: [mail]}]}`:   `no agent "mail"`,
		`operators: {roles: [{role: viewer, who: ["user:bob"], tenants: [other]}]}`: `the tenant "other"`,
		`operators: {login: {client_id: cli}}`:                                      "operators.login.issuer",
		`operators: {login: {issuer: "https://login.example"}}`:                     "operators.login.client_id",
		"identity: {providers: [{issuer: \"https://login.example\", audience: [cli]}]}\noperators: {login: {issuer: \"https://login.example\", client_id: cli}}":                          "which agents take",
		"identity: {providers: [{issuer: \"https://login.example\"}], callers: [{agent: planner, client: cli}]}\noperators: {login: {issuer: \"https://login.example\", client_id: cli}}": "of an agent",
		`approvals: {rules: [{approvers: ["role:approver"]}]}`: "gives that role to no person",
	} {
		if err := loadOperators(t, text+"\n"); err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
	for _, role := range people.Roles() {
		if err := loadOperators(t, "operators: {roles: [{role: "+role.Name+", who: [\"user:bob\", \"group:x\"], tenants: [acme]}]}\n"); err != nil {
			t.Errorf("role %s: %v", role.Name, err)
		}
	}
}
