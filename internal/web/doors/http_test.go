package doors_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// ask sends a question over HTTP.
func (w *town) ask(t testing.TB, method, path, body string, header http.Header) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+w.edge+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		r.Header[name] = slices.Clone(values)
	}
	a, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, a.Header, string(text)
}

// told are the headers in which Caddy tells of a call, with its body.
func told(c call) http.Header {
	h := c.header.Clone()
	target := c.path
	if c.query != "" {
		target += "?" + c.query
	}
	h.Set("X-Forwarded-Method", c.method)
	h.Set("X-Forwarded-Uri", target)
	h.Set("X-Forwarded-Host", "edge.example.com")
	if c.body != "" {
		h.Set("Powerbox-Body", base64.StdEncoding.EncodeToString([]byte(c.body)))
	}
	return h
}

// TestEnvoyAsksOverHTTP: the request itself below a prefix.
func TestEnvoyAsksOverHTTP(t *testing.T) {
	w := newTown(t, "scoped")
	c := w.signs(t, post("notes", skill("read_note", 1)))
	c.header.Set("X-Auth-Request-User", "admin")
	status, h, body := w.ask(t, c.method, "/ext_authz"+c.path, c.body, c.header)
	if status != http.StatusOK || strings.Count(h.Get("Powerbox-Context"), ".") != 2 || !strings.HasPrefix(h.Get("Powerbox-Decision"), "rec_") {
		t.Fatalf("%d %v %s", status, h, body)
	}
	if gone := strings.Split(h.Get("X-Envoy-Auth-Headers-To-Remove"), ","); !slices.Contains(gone, "x-auth-request-user") || !slices.Contains(gone, "dpop") {
		t.Errorf("removed are %v", gone)
	}
	c = w.signs(t, post("notes", skill("delete_note", 1)))
	if status, _, body := w.ask(t, c.method, "/ext_authz"+c.path, c.body, c.header); status != http.StatusForbidden || reason(body) != "outside_caller_scope" {
		t.Errorf("%d %s", status, body)
	}
	c = w.signs(t, post("notes", ""))
	if status, _, body := w.ask(t, c.method, "/ext_authz"+c.path, "", c.header); status != http.StatusForbidden || reason(body) != "body_not_sent" {
		t.Errorf("%d %s", status, body)
	}
}

// TestOverHTTPOnlyAYesIsBelow300: proxies take every such status for a yes, and our own
// answers have it too.
func TestOverHTTPOnlyAYesIsBelow300(t *testing.T) {
	w := newTown(t, "scoped")
	for name, c := range map[string]struct {
		call call
		code string
	}{
		"a denial of JSON-RPC":       {w.signs(t, post("notes", skill("delete_note", 1))), "outside_caller_scope"},
		"a request for capabilities": {w.signs(t, post("notes", `{"jsonrpc":"2.0","id":1,"method":"a2a/capabilities/list","params":{}}`)), "door_cannot_answer"},
		"the agent's card":           {call{method: http.MethodGet, path: "/agents/notes/.well-known/agent-card.json", header: http.Header{}}, ""},
		"a call that waits":          {w.signs(t, post("notes", skill("archive_note", 1))), "approval_required"},
		"no token":                   {post("notes", skill("read_note", 1)), "outside_caller_scope"},
	} {
		for _, form := range []string{"/ext_authz", "/forward_auth/body"} {
			c := c
			if name != "the agent's card" && name != "no token" {
				c.call = w.signs(t, c.call)
			}
			method, path, body, header := c.call.method, form+c.call.path, c.call.body, c.call.header
			if form != "/ext_authz" {
				method, path, body, header = http.MethodGet, form, "", told(c.call)
			}
			if status, _, answer := w.ask(t, method, path, body, header); status < 300 || c.code != "" && reason(answer) != c.code {
				t.Errorf("%s at %s: %d %s; want %s", name, form, status, answer, c.code)
			}
		}
	}
}

// TestAProxyTellsOfTheRequestInHeaders: Caddy, Traefik and nginx. A header that is missing or there
// twice is denied.
func TestAProxyTellsOfTheRequestInHeaders(t *testing.T) {
	w := newTown(t, "scoped")
	h := told(w.signs(t, post("notes", skill("read_note", 1))))
	if status, h, body := w.ask(t, http.MethodGet, "/forward_auth/body", "", h); status != http.StatusOK || h.Get("Powerbox-Context") == "" {
		t.Fatalf("%d %v %s", status, h, body)
	}
	for name, c := range map[string]struct {
		change func(h http.Header)
		code   string
	}{
		"no method":           {func(h http.Header) { h.Del("X-Forwarded-Method") }, "route_unknown"},
		"two targets":         {func(h http.Header) { h.Add("X-Forwarded-Uri", "/agents/tools") }, "route_unknown"},
		"no body":             {func(h http.Header) { h.Del("Powerbox-Body") }, "body_not_sent"},
		"two bodies":          {func(h http.Header) { h.Add("Powerbox-Body", "e30=") }, "body_cut_short"},
		"a body that is none": {func(h http.Header) { h.Set("Powerbox-Body", "{}") }, "body_cut_short"},
	} {
		h := told(w.signs(t, post("notes", skill("read_note", 1))))
		c.change(h)
		if status, _, body := w.ask(t, http.MethodGet, "/forward_auth/body", "", h); status != http.StatusForbidden || reason(body) != c.code {
			t.Errorf("%s: %d %s; want %s", name, status, body, c.code)
		}
	}
	// Where the proxy does not send the body, a caller cannot say what it is.
	if status, _, body := w.ask(t, http.MethodGet, "/forward_auth", "", told(w.signs(t, post("notes", skill("read_note", 1))))); status != http.StatusForbidden || reason(body) != "body_not_sent" {
		t.Errorf("a body that the caller tells of: %d %s", status, body)
	}
}
