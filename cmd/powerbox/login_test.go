package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/cli"
)

// identityProvider is an identity provider in whose browser a user enters a code, or
// declines.
func identityProvider(t *testing.T, device bool, answer map[string]any) string {
	t.Helper()
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	say := func(w http.ResponseWriter, status int, body map[string]any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		c := map[string]any{"issuer": srv.URL, "authorization_endpoint": srv.URL + "/a", "token_endpoint": srv.URL + "/token", "jwks_uri": srv.URL + "/keys"}
		if device {
			c["device_authorization_endpoint"] = srv.URL + "/device"
		}
		say(w, 200, c)
	})
	mux.HandleFunc("/device", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("client_id") != "powerbox" || r.FormValue("audience") != "https://agents" || r.FormValue("scope") != "openid" {
			t.Errorf("asked with %v", r.Form)
		}
		say(w, 200, map[string]any{"device_code": "secret-code", "user_code": "WDJB-MJHT", "verification_uri": srv.URL + "/enter", "expires_in": 60, "interval": 1})
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("device_code") != "secret-code" {
			t.Errorf("asked with %v", r.Form)
		}
		if answer["error"] != nil {
			say(w, 400, answer)
			return
		}
		say(w, 200, answer)
	})
	return srv.URL
}

// A session that could not be kept is not asked for: no person goes through it in vain.
func TestLoginNeedsItsFile(t *testing.T) {
	asked := false
	provider := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer provider.Close()
	for _, out := range []string{filepath.Join(t.TempDir(), "no", "session"), t.TempDir()} {
		var talk bytes.Buffer
		code := Run(t.Context(), []string{"login", "--issuer", provider.URL, "--client-id", "powerbox", "--out", out}, func(string) string { return "" }, nil, &talk, &talk)
		if code != cli.ExitError || asked || !strings.Contains(talk.String(), out) {
			t.Errorf("%s: exit %d, asked %t\n%s", out, code, asked, talk.String())
		}
	}
}

func TestLogin(t *testing.T) {
	out := filepath.Join(t.TempDir(), "session")
	login := func(issuer string) (int, string) {
		var talk bytes.Buffer
		code := Run(t.Context(), []string{"login", "--issuer", issuer, "--client-id", "powerbox", "--audience", "https://agents", "--out", out},
			func(string) string { return "" }, strings.NewReader(""), &talk, &talk)
		return code, talk.String()
	}
	for name, c := range map[string]struct{ issuer, want string }{
		"no codes":     {identityProvider(t, false, nil), "offers no login by code"},
		"refused":      {identityProvider(t, true, map[string]any{"error": "access_denied"}), "access_denied"},
		"in the clear": {"http://login.example.org", "has no TLS"},
	} {
		code, talk := login(c.issuer)
		if _, err := os.Stat(out); code == cli.ExitFine || !strings.Contains(talk, c.want) || err == nil {
			t.Errorf("%s: exit %d, %v\n%s", name, code, err, talk)
		}
	}
	code, talk := login(identityProvider(t, true, map[string]any{"access_token": "the-session", "token_type": "Bearer", "expires_in": 3600}))
	if code != cli.ExitFine || !strings.Contains(talk, "WDJB-MJHT") || strings.Contains(talk, "the-session") {
		t.Fatalf("exit %d\n%s", code, talk)
	}
	data, err := os.ReadFile(out)
	if err != nil || string(data) != "the-session\n" {
		t.Errorf("%q %v", data, err)
	}
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v %v", info.Mode(), err)
	}
}
