package api

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/people"
)

// TestATK103_OperatorsDoNotFreezeThemselves: where the shared token is off, the last one who can
// thaw would lock out everybody. The pages and powerbox person refuse that for people, too.
func TestATK103_OperatorsDoNotFreezeThemselves(t *testing.T) {
	for target, frozen := range map[string]bool{"user:carol": false, "user:dave": true} {
		var got string
		a := &Admin{}
		stop := a.stop(false, func(_ context.Context, _, target, _ string) (issuer.Revocation, error) {
			got = target
			return issuer.Revocation{Target: target}, nil
		})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/freezes", strings.NewReader(`{"target":"`+target+`","reason":"test"}`))
		r.Header.Set("Content-Type", "application/json")
		_, err := stop(called(r, caller{name: "user:carol", rights: people.AllRights(), needs: people.Stop}))
		var s status
		if (got == target) != frozen || (err == nil) != frozen || !frozen && (!errors.As(err, &s) || s.code != http.StatusBadRequest) {
			t.Errorf("ATK-103 carol freezes %s: %q, %v", target, got, err)
		}
	}
}

// TestATK162_OperatorsDoNotFreezeAdministrators freezes people as an operator, and as an
// administrator.
func TestATK162_OperatorsDoNotFreezeAdministrators(t *testing.T) {
	administrators := func() []string { return []string{"user:root", "user:gina"} }
	for _, c := range []struct {
		role, target string
		frozen       bool
	}{
		{"operator", "user:root", false},
		{"operator", "user:gina", false},
		{"operator", "user:bob", true},
		{"operator", "agent:documents", true},
		{"operator", "key:root", true},
		{"administrator", "user:root", true},
		{"administrator", "user:gina", true},
	} {
		a, got := &Admin{Operators: Operators{Administrators: administrators}}, ""
		stop := a.stop(false, func(_ context.Context, _, target, _ string) (issuer.Revocation, error) {
			got = target
			return issuer.Revocation{Target: target}, nil
		})
		rights := people.RightsOf([]people.Given{{Role: c.role, Who: []string{"user:odo"}, Everywhere: true}}, "user:odo", nil)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/freezes", strings.NewReader(`{"target":"`+c.target+`","reason":"test"}`))
		_, err := stop(called(r, caller{name: "user:odo", rights: rights, needs: people.Stop}))
		var s status
		if (got == c.target) != c.frozen || (err == nil) != c.frozen || !c.frozen && (!errors.As(err, &s) || s.code != http.StatusForbidden) {
			t.Errorf("ATK-162 an %s freezes %s: %q, %v; want it frozen: %t", c.role, c.target, got, err, c.frozen)
		}
	}
}
