package app_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestAnOAuthTokenIsACapability walks from the first call without a token to a tool call
// with one, with a single approval, and loses it with the revocation.
func TestAnOAuthTokenIsACapability(t *testing.T) {
	d := openDoor(t, "")
	first := d.call("notes", "", "read_note")
	if want := `Bearer resource_metadata="` + d.url + `/.well-known/oauth-protected-resource/agents/notes"`; first.status != http.StatusUnauthorized || first.header.Get("WWW-Authenticate") != want {
		t.Fatalf("without a token: %d %q; want 401 %q", first.status, first.header.Get("WWW-Authenticate"), want)
	}
	got := d.granted("notes:read")
	if got.Scope != "notes:read" || got.Type != "Bearer" || got.Expires <= 0 || got.Expires > 3600 || got.Refresh != "" {
		t.Fatalf("the tokens: %+v", got)
	}
	if !d.may(got.Access, "read_note") || !d.may(got.Access, "search_notes") {
		t.Error("the token does not permit what the person approved")
	}
	wider := d.call("notes", got.Access, "delete_note")
	if want := `error="insufficient_scope", scope="notes:read notes:write/delete"`; wider.status != http.StatusForbidden || !strings.Contains(wider.header.Get("WWW-Authenticate"), want) {
		t.Errorf("a tool beyond the scope: %d %q; want 403 with %s", wider.status, wider.header.Get("WWW-Authenticate"), want)
	}
	if gone := d.post(http.DefaultClient, "/oauth/revoke", map[string][]string{"client_id": {"inspector"}, "token": {got.Access}}); gone.status != http.StatusOK {
		t.Fatalf("the revocation: %d %s", gone.status, gone.body)
	}
	after := d.call("notes", got.Access, "read_note")
	if after.status != http.StatusUnauthorized || !strings.Contains(after.header.Get("WWW-Authenticate"), `error="invalid_token"`) {
		t.Errorf("after the revocation: %d %q; want 401 invalid_token", after.status, after.header.Get("WWW-Authenticate"))
	}
}
