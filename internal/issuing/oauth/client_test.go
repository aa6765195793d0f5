package oauth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestClientMetadataDocuments reads documents of clients, and refuses those that no client
// can be known by. A document with a refused URL is not fetched.
func TestClientMetadataDocuments(t *testing.T) {
	const id = "https://app.example.org/client.json"
	good := `{"client_id":"` + id + `","client_name":"App","redirect_uris":["https://app.example.org/cb","http://127.0.0.1/cb"],"token_endpoint_auth_method":"none"}`
	for name, c := range map[string]struct {
		id, document, wrong string
		unfetched           bool
	}{
		"a client":                  {id: id, document: good},
		"of another host":           {id: "https://other.example.org/client.json", wrong: "no clients of other.example.org", unfetched: true},
		"without TLS":               {id: "http://app.example.org/client.json", wrong: "not an https URL", unfetched: true},
		"with a user":               {id: "https://u@app.example.org/client.json", wrong: "not an https URL", unfetched: true},
		"with a query":              {id: id + "?x=1", wrong: "not an https URL", unfetched: true},
		"with a fragment":           {id: id + "#x", wrong: "not an https URL", unfetched: true},
		"without a path":            {id: "https://app.example.org/", wrong: "no path", unfetched: true},
		"with dots":                 {id: "https://app.example.org/a/../client.json", wrong: "no path, or one with dots", unfetched: true},
		"that is another's":         {id: id, document: strings.Replace(good, "client.json", "other.json", 1), wrong: "client_id is not its URL"},
		"with a secret":             {id: id, document: strings.Replace(good, `{`, `{"client_secret":"x",`, 1), wrong: "client_secret"},
		"of another method":         {id: id, document: strings.Replace(good, `"none"`, `"client_secret_basic"`, 1), wrong: "token_endpoint_auth_method"},
		"without redirects":         {id: id, document: `{"client_id":"` + id + `"}`, wrong: "0 redirect_uris"},
		"with a script as redirect": {id: id, document: strings.Replace(good, "https://app.example.org/cb", "javascript:alert(1)", 1), wrong: "redirect URI"},
		"that is no JSON":           {id: id, document: "<html>", wrong: "not JSON"},
		"that cannot be had":        {id: id, wrong: "cannot be had"},
	} {
		fetched := false
		d := NewDocuments([]string{"app.example.org"}, func(context.Context, string) ([]byte, error) {
			if fetched = true; c.document == "" {
				return nil, errors.New("away")
			}
			return []byte(c.document), nil
		})
		got, err := d.client(t.Context(), c.id, func() time.Time { return time.Unix(1_800_000_000, 0) })
		if c.wrong == "" {
			if err != nil || got.ID != c.id || got.Name != "App" || len(got.Redirects) != 2 || got.Secret != "" {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.wrong) || fetched == c.unfetched {
			t.Errorf("%s: %+v, %v, fetched %t; want %q", name, got, err, fetched, c.wrong)
		}
	}
}

// TestRedirectsAreComparedExactly compares redirect URIs with a registered one. Only a
// loopback address may have another port.
func TestRedirectsAreComparedExactly(t *testing.T) {
	for _, c := range []struct {
		known, asked string
		want         bool
	}{
		{"https://app.example.org/cb", "https://app.example.org/cb", true},
		{"https://app.example.org/cb", "https://app.example.org:443/cb", false},
		{"https://app.example.org/cb", "https://app.example.org/cb?x", false},
		{"http://127.0.0.1/cb", "http://127.0.0.1:49152/cb", true},
		{"http://127.0.0.1:1/cb", "http://127.0.0.1:2/cb", true},
		{"http://[::1]/cb", "http://[::1]:5/cb", true},
		{"http://127.0.0.1/cb", "http://[::1]:5/cb", false},
		{"http://127.0.0.1/cb", "http://localhost:5/cb", false},
		{"http://localhost/cb", "http://localhost:5/cb", true},
		{"http://127.0.0.1/cb", "https://127.0.0.1:5/cb", false},
		{"http://127.0.0.1/cb", "http://127.0.0.1:5/cb2", false},
		{"http://app.example.org/cb", "http://app.example.org/cb", false},
		{"com.example.app:/cb", "com.example.app:/cb", true},
		{"javascript:x", "javascript:x", false},
	} {
		if got := (Client{Redirects: []string{c.known}}).redirects(c.asked); got != c.want {
			t.Errorf("%s with %s registered: %t; want %t", c.asked, c.known, got, c.want)
		}
	}
}

// TestScopes reads scopes as grants and single operations.
func TestScopes(t *testing.T) {
	r := Resource{Agent: "notes", Grants: []Offer{{"notes:read", []string{"read", "search"}}, {"notes:write", []string{"delete"}}}}
	for scope, want := range map[string]string{
		"":                                  "notes:read,notes:write map[]",
		"notes:read":                        "notes:read map[]",
		"notes:read/search":                 "notes:read map[notes:read:[search]]",
		"notes:read/search notes:read":      "notes:read map[]",
		"notes:write notes:read/read":       "notes:read,notes:write map[notes:read:[read]]",
		"offline_access":                    "notes:read,notes:write map[]",
		"notes:read/delete":                 "",
		"notes":                             "",
		"notes:read/search notes:unlimited": "",
	} {
		grants, of, err := r.wanted(scope)
		if (err == nil) != (want != "") || err == nil && strings.Join(grants, ",")+" "+sprint(of) != want {
			t.Errorf("%q: %v %v, %v; want %s", scope, grants, of, err, want)
		}
	}
}

func sprint(of map[string][]string) string {
	if of == nil {
		return "map[]"
	}
	return fmt.Sprint(of)
}
