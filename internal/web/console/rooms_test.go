package console

import "testing"

// TestBackFromLeadsToOurPagesAlone: a form cannot say that the browser goes anywhere else after
// a grant was revoked.
func TestBackFromLeadsToOurPagesAlone(t *testing.T) {
	for back, want := range map[string]string{
		"/approved": "/approved", "/approve/apr_01J-x": "/approve/apr_01J-x",
		"": "/hosts", "/": "/hosts", "//evil.example": "/hosts", "//evil.example/approved": "/hosts", "https://evil.example/approved": "/hosts",
		"javascript:alert(1)": "/hosts", "/approve/": "/hosts", "/approve//evil.example": "/hosts", "/approve/../admin": "/hosts", "/approve/..": "/hosts",
		`/\\evil.example`: "/hosts", `/approve/\\evil.example`: "/hosts", `\\\\evil.example`: "/hosts", "/approve/%2f%2fevil.example": "/hosts", "/approve/%5cevil": "/hosts",
		"%2f%2fevil.example": "/hosts", "/approved?next=//evil.example": "/hosts", "/approved#x": "/hosts", "/approved\n": "/hosts", "/approve/x\r\nLocation: //evil": "/hosts",
		" /approved": "/hosts", "/approved//evil.example": "/hosts", "/approvedevil": "/hosts", "/admin/revoke": "/hosts",
	} {
		if got := backFrom(back); got != want {
			t.Errorf("back to %q leads to %q; want %q", back, got, want)
		}
	}
}
