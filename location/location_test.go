package location_test

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/location"
)

const here = "https://statements.example/run"

// asked is what the provider was asked.
type asked struct {
	Token, Capability string
	Arguments         json.RawMessage
	Proof             map[string]string
}

// town is a service behind the middleware, with its provider.
func town(t *testing.T, status int, says string) (http.Handler, *[]asked, *[]location.Call) {
	t.Helper()
	var questions []asked
	var done []location.Call
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("AAP-I3: the provider is asked as %q", r.Header.Get("Authorization"))
		}
		var q asked
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		questions = append(questions, q)
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, says)
	}))
	t.Cleanup(provider.Close)
	h, err := location.Verifier{Location: here, Capabilities: []string{"statement"}, Introspection: provider.URL, Secret: "secret", BodyLimit: 200}.Middleware(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			call, ok := location.FromContext(r.Context())
			if body, err := io.ReadAll(r.Body); !ok || err != nil || len(body) == 0 || r.Header.Get("Authorization") != "" {
				t.Errorf("the service has %t %q %v", ok, body, err)
			}
			done = append(done, call)
		}))
	if err != nil {
		t.Fatal(err)
	}
	return h, &questions, &done
}

func post(t *testing.T, h http.Handler, authorization, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, here, strings.NewReader(body))
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const yes = `{"active":true,"allowed":true,"aud":"` + here + `","agent_id":"agt_1","host_id":"hst_1","user_id":"user:alice"}`

// TestAAPE12_Allowed: what the provider allows is done, once asked about as it is.
func TestAAPE12_Allowed(t *testing.T) {
	h, questions, done := town(t, http.StatusOK, yes)
	if w := post(t, h, "Bearer abc", `{"capability":"statement","arguments":{"n":1.10},"note":"x"}`); w.Code != http.StatusOK {
		t.Fatalf("AAP-E12: %d %s", w.Code, w.Body)
	}
	if q := (*questions)[0]; q.Token != "abc" || q.Capability != "statement" || string(q.Arguments) != `{"n":1.10}` {
		t.Errorf("AAP-E12: asked about %+v", q)
	}
	if c := (*done)[0]; c.Agent != "agt_1" || c.Host != "hst_1" || c.User != "user:alice" || string(c.Arguments) != `{"n":1.10}` {
		t.Errorf("AAP-E12: %+v", c)
	}
	if w := post(t, h, "Bearer abc", `{"capability":"statement"}`); w.Code != http.StatusOK || string((*questions)[1].Arguments) != "{}" {
		t.Errorf("AAP-E12: without arguments: %d", w.Code)
	}
}

// TestAAPE12_Refused: whatever the provider does not allow, and whatever it cannot
// be asked about, is not done.
func TestAAPE12_Refused(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		says   string
		want   int
		code   string
	}{
		"inactive":         {http.StatusOK, strings.Replace(yes, `"active":true`, `"active":false`, 1), http.StatusUnauthorized, "invalid_jwt"},
		"for another":      {http.StatusOK, strings.Replace(yes, here, here+"/", 1), http.StatusUnauthorized, "invalid_jwt"},
		"for nobody":       {http.StatusOK, `{"active":true,"allowed":true}`, http.StatusUnauthorized, "invalid_jwt"},
		"not granted":      {http.StatusOK, strings.Replace(yes, `"allowed":true`, `"allowed":false`, 1), http.StatusForbidden, "capability_not_granted"},
		"nothing decided":  {http.StatusOK, strings.Replace(yes, `"allowed":true,`, ``, 1), http.StatusForbidden, "capability_not_granted"},
		"an error":         {http.StatusInternalServerError, yes, http.StatusServiceUnavailable, "unavailable"},
		"somewhere else":   {http.StatusFound, yes, http.StatusServiceUnavailable, "unavailable"},
		"nothing readable": {http.StatusOK, `<html>`, http.StatusServiceUnavailable, "unavailable"},
	} {
		h, _, done := town(t, c.status, c.says)
		w := post(t, h, "Bearer abc", `{"capability":"statement","arguments":{}}`)
		if w.Code != c.want || !strings.Contains(w.Body.String(), `"`+c.code+`"`) || len(*done) > 0 {
			t.Errorf("AAP-E12 %s: %d %s; want %d %s", name, w.Code, w.Body, c.want, c.code)
		}
	}
}

// TestAAPE12_Requests: anything that is no execution is refused before anybody is asked.
func TestAAPE12_Requests(t *testing.T) {
	h, questions, done := town(t, http.StatusOK, yes)
	good := `{"capability":"statement"}`
	for name, c := range map[string]struct {
		authorization, body string
		want                int
	}{
		"no token":           {"", good, http.StatusUnauthorized},
		"another scheme":     {"Basic abc", good, http.StatusUnauthorized},
		"no JSON":            {"Bearer a", `x`, http.StatusBadRequest},
		"an array":           {"Bearer a", `[]`, http.StatusBadRequest},
		"capability twice":   {"Bearer a", `{"capability":"statement","capability":"other"}`, http.StatusBadRequest},
		"in another case":    {"Bearer a", `{"capability":"statement","Capability":"other"}`, http.StatusBadRequest},
		"arguments twice":    {"Bearer a", `{"capability":"statement","arguments":{},"arguments":{"a":1}}`, http.StatusBadRequest},
		"arguments as array": {"Bearer a", `{"capability":"statement","arguments":[]}`, http.StatusBadRequest},
		"something after":    {"Bearer a", good + good, http.StatusBadRequest},
		"no capability":      {"Bearer a", `{}`, http.StatusBadRequest},
		"too large":          {"Bearer a", `{"capability":"statement","x":"` + strings.Repeat("x", 200) + `"}`, http.StatusBadRequest},
		"another capability": {"Bearer a", `{"capability":"balance"}`, http.StatusNotFound},
	} {
		if w := post(t, h, c.authorization, c.body); w.Code != c.want {
			t.Errorf("AAP-E12 %s: %d %s; want %d", name, w.Code, w.Body, c.want)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, here, http.NoBody))
	if w.Code != http.StatusMethodNotAllowed || len(*questions) > 0 || len(*done) > 0 {
		t.Errorf("AAP-E12: GET %d; asked %d, done %d", w.Code, len(*questions), len(*done))
	}
	for name, v := range map[string]location.Verifier{
		"no location": {Capabilities: []string{"a"}, Introspection: here}, "no provider": {Location: here, Capabilities: []string{"a"}}, "nothing": {Location: here, Introspection: here},
	} {
		if _, err := v.Middleware(http.NotFoundHandler()); err == nil {
			t.Errorf("AAP-E12: %s is taken", name)
		}
	}
}

// TestAAPJ9_BoundTokens: a token is good with everything that it is bound to, and
// a proof that was not checked proves nothing.
func TestAAPJ9_BoundTokens(t *testing.T) {
	certificate := []byte("the certificate of a client")
	sum := sha256.Sum256(certificate)
	mine := base64.RawURLEncoding.EncodeToString(sum[:])
	for name, c := range map[string]struct {
		cnf, scheme string
		proofs      []string
		more        string
		certificate []byte
		want        int
	}{
		"proven":                        {`{"jkt":"k"}`, "DPoP", []string{"p"}, `,"proven":true`, nil, http.StatusOK},
		"as a bearer":                   {`{"jkt":"k"}`, "Bearer", nil, "", nil, http.StatusUnauthorized},
		"as a bearer, proven":           {`{"jkt":"k"}`, "Bearer", []string{"p"}, `,"proven":true`, nil, http.StatusUnauthorized},
		"not looked at":                 {`{"jkt":"k"}`, "DPoP", []string{"p"}, "", nil, http.StatusUnauthorized},
		"without a proof":               {`{"jkt":"k"}`, "DPoP", nil, `,"proven":true`, nil, http.StatusUnauthorized},
		"two proofs":                    {`{"jkt":"k"}`, "DPoP", []string{"p", "q"}, `,"proven":true`, nil, http.StatusUnauthorized},
		"bound to nothing":              {`null`, "DPoP", []string{"p"}, "", nil, http.StatusUnauthorized},
		"bound to nothing that is said": {`{}`, "Bearer", nil, "", nil, http.StatusUnauthorized},
		"bound to something else":       {`{"jwk":{}}`, "DPoP", []string{"p"}, `,"proven":true`, nil, http.StatusUnauthorized},
		"a certificate":                 {`{"x5t#S256":"` + mine + `"}`, "Bearer", nil, "", certificate, http.StatusOK},
		"another certificate":           {`{"x5t#S256":"` + mine + `"}`, "Bearer", nil, "", []byte("x"), http.StatusUnauthorized},
		"no certificate":                {`{"x5t#S256":"` + mine + `"}`, "Bearer", nil, "", nil, http.StatusUnauthorized},
		"an empty certificate":          {`{"x5t#S256":""}`, "Bearer", nil, "", nil, http.StatusUnauthorized},
		"both, one shown":               {`{"jkt":"k","x5t#S256":"` + mine + `"}`, "DPoP", []string{"p"}, `,"proven":true`, nil, http.StatusUnauthorized},
	} {
		h, questions, done := town(t, http.StatusOK, strings.TrimSuffix(yes, "}")+`,"cnf":`+c.cnf+c.more+"}")
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, here, strings.NewReader(`{"capability":"statement"}`))
		r.Header.Set("Authorization", c.scheme+" abc")
		r.Header["Dpop"] = c.proofs
		if c.certificate != nil {
			r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Raw: c.certificate}}}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.want || (len(*done) == 1) != (c.want == http.StatusOK) {
			t.Errorf("AAP-J9 %s: %d %s; want %d", name, w.Code, w.Body, c.want)
		}
		if name == "proven" {
			if p := (*questions)[0].Proof; p["dpop"] != "p" || p["method"] != http.MethodPost || p["url"] != here {
				t.Errorf("AAP-J9 the provider is asked about %v", p)
			}
		}
	}
}
