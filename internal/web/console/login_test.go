package console

import "testing"

// TestLoginGoesOnHere wants a login to lead nowhere else, and to no agent either
// (ATK-47).
func TestLoginGoesOnHere(t *testing.T) {
	for next, want := range map[string]string{
		"/approve/apr_1": "/approve/apr_1", "/approve?code=A": "/approve?code=A", "": "/approve", "https://evil.example": "/approve", "//evil.example": "/approve",
		"/\\evil.example": "/approve", "javascript:alert(1)": "/approve", "/a\nb": "/approve", "evil": "/approve", "/%zz": "/approve",
		"/agents/evil/x": "/approve", "/agents": "/approve", "/%61gents/evil": "/approve", "/agents%2fevil": "/approve", "/x/../agents/evil": "/approve", "/./agents/evil?x": "/approve",
		"/%2e/agents/evil": "/approve", "/approve/..//agents/evil": "/approve", "/agentsmith": "/agentsmith", "/registry/agents": "/registry/agents",
	} {
		if got := ours(next); got != want {
			t.Errorf("a login that is to go on at %q goes to %q; want %q", next, got, want)
		}
	}
}
