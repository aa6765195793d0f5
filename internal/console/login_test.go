package console

import "testing"

// TestLoginGoesOnHere wants a login to lead nowhere else.
func TestLoginGoesOnHere(t *testing.T) {
	for next, want := range map[string]string{
		"/approve/apr_1": "/approve/apr_1", "/approve?code=A": "/approve?code=A", "": "/approve", "https://evil.example": "/approve", "//evil.example": "/approve",
		"/\\evil.example": "/approve", "javascript:alert(1)": "/approve", "/a\nb": "/approve", "evil": "/approve", "/%zz": "/approve",
	} {
		if got := ours(next); got != want {
			t.Errorf("a login that is to go on at %q goes to %q; want %q", next, got, want)
		}
	}
}
