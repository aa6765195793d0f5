package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/powerbox-project/powerbox/agentcard"
	"github.com/powerbox-project/powerbox/token"
)

// command runs the program as a person does, and returns what it prints and how
// it exits.
func command(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if err != nil {
		t.Logf("%s: %s", strings.Join(args, " "), stderr.String())
		return stdout.String(), exit.ExitCode()
	}
	return stdout.String(), 0
}

// put writes a file of the test and returns its name.
func put(t *testing.T, name string, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// suiteCards are the cards of the conformance suite that have a canonical form.
func suiteCards(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	data, err := os.ReadFile("../tests/conformance/capability-discovery.json")
	if err != nil {
		t.Fatal(err)
	}
	var suite struct {
		Cards map[string]json.RawMessage `json:"cards"`
	}
	if err := json.Unmarshal(data, &suite); err != nil {
		t.Fatal(err)
	}
	return suite.Cards
}

// TestCARD15_SameBytes holds the bytes that are signed against those of the
// JavaScript SDK, card by card.
func TestCARD15_SameBytes(t *testing.T) {
	asGiven(t)
	var names []string
	var all []json.RawMessage
	for name, raw := range suiteCards(t) {
		if _, _, err := agentcard.Canonical(raw); err == nil {
			names, all = append(names, name), append(all, raw)
		}
	}
	all = append(all, json.RawMessage(`{"name":"Ä\u20ac","supportedInterfaces":[{"url":"u","tenant":""}],"capabilities":{"streaming":false,"extensions":[{"uri":"x","params":{"n":1.50,"e":1E21,"s":"","l":[[],""],"o":{"p":{}},"nil":null,"b":false,"deep":[{"z":1,"a":2}]}}]},"securitySchemes":{"m":{"mtlsSecurityScheme":{}}},"skills":[{"id":"s","tags":["",""]}]}`))
	names = append(names, "with everything that is empty")
	in, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	out, err := cardTool(t, in, "canonical")
	if err != nil {
		t.Fatal(err)
	}
	var theirs []string
	if err := json.Unmarshal(out, &theirs); err != nil || len(theirs) != len(all) || len(all) < 20 {
		t.Fatalf("%d of %d, %v", len(theirs), len(all), err)
	}
	for i, raw := range all {
		_, bare, err := agentcard.Canonical(raw)
		if err != nil || string(bare) != theirs[i] {
			t.Errorf("CARD-15 %s: %v\n%s\nthe SDK has\n%s", names[i], err, bare, theirs[i])
		}
	}
}

// TestCARD15_SignedByCommand signs with the command and verifies with the SDK, and
// the other way round.
func TestCARD15_SignedByCommand(t *testing.T) {
	asGiven(t)
	key := newKey(t)
	private, public := put(t, "key.jwk", key.JWK()), put(t, "keys.json", token.JWKS(key.Public()).AppendJSON(nil))
	named := []byte(`{"keys":[` + strings.Replace(string(key.Public().JWK().AppendJSON(nil)), "{", `{"kid":"`+key.Public().Thumbprint()+`",`, 1) + `]}`)
	cards := suiteCards(t)
	for _, name := range []string{"streams_messages", "vendor", "in_extension", "both"} {
		file := put(t, "card.json", cards[name])
		signed, code := command(t, "card", "sign", file, "--key", private)
		if code != 0 {
			t.Fatalf("CARD-15 %s: exit %d", name, code)
		}
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "keys") {
				_, _ = w.Write(named)
				return
			}
			_, _ = w.Write([]byte(signed))
		}))
		if out, err := cardTool(t, nil, "verify", srv.URL, srv.URL+"/keys"); err != nil || !strings.Contains(string(out), "verified") {
			t.Errorf("CARD-15 the SDK does not verify %s: %v %s", name, err, signed)
		}
		if _, code := command(t, "card", "verify", srv.URL, "--private", "--keys", public); code != 0 {
			t.Errorf("CARD-15 %s is not verified: exit %d", name, code)
		}
		srv.Close()

		theirs, err := cardTool(t, cards[name], "sign", strings.Replace(string(key.JWK()), "{", `{"kid":"`+key.Public().Thumbprint()+`",`, 1), "")
		if err != nil {
			t.Fatal(err)
		}
		if out, code := command(t, "card", "verify", put(t, "theirs.json", theirs), "--keys", public); code != 0 || !strings.Contains(out, "verified") {
			t.Errorf("CARD-15 the SDK's signature of %s: exit %d %s", name, code, out)
		}
		changed := bytes.Replace(theirs, []byte("example.com"), []byte("example.org"), 1)
		if _, code := command(t, "card", "verify", put(t, "changed.json", changed), "--keys", public); code != 4 {
			t.Errorf("CARD-15 a changed %s: exit %d; want 4", name, code)
		}
	}
}

// TestCARD16_Fetch has the command fetch cards of servers that are up to
// something.
func TestCARD16_Fetch(t *testing.T) {
	asGiven(t)
	card := []byte(suiteCards(t)["plain"])
	var asked, unchanged atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(card) }))
	defer elsewhere.Close()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large/.well-known/agent-card.json":
			_, _ = w.Write(bytes.Repeat([]byte(" "), agentcard.MaxBytes))
			_, _ = w.Write(card)
		case "/moved/.well-known/agent-card.json":
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		default:
			asked.Add(1)
			w.Header().Set("ETag", `"one"`)
			if r.Header.Get("If-None-Match") == `"one"` {
				unchanged.Add(1)
				w.WriteHeader(http.StatusNotModified)
				return
			}
			_, _ = w.Write(card)
		}
	}))
	defer srv.Close()
	cache := t.TempDir()
	for range 3 {
		if out, code := command(t, "card", "show", srv.URL, "--private", "--cache", cache); code != 0 || !strings.Contains(out, "Plain") {
			t.Fatalf("CARD-16 exit %d %s", code, out)
		}
	}
	if asked.Load() != 3 || unchanged.Load() != 2 {
		t.Errorf("CARD-16 asked %d times, %d of them by ETag; want 3 and 2", asked.Load(), unchanged.Load())
	}
	for _, path := range []string{"/large", "/moved"} {
		if out, code := command(t, "card", "show", srv.URL+path, "--private"); code != 1 {
			t.Errorf("CARD-16 %s: exit %d %s", path, code, out)
		}
	}
	if _, code := command(t, "card", "show", srv.URL); code != 1 {
		t.Error("CARD-16 an address of this machine is fetched from without --private")
	}
}

// TestCARD17_Suite answers the conformance suite with the built program, and
// notices a case whose answer was changed.
func TestCARD17_Suite(t *testing.T) {
	asGiven(t)
	out, code := command(t, "conformance", "run", "../tests/conformance")
	if code != 0 || !strings.Contains(out, "capability-discovery.json, cases   68       68") {
		t.Errorf("CARD-17 exit %d\n%s", code, out)
	}
	data, err := os.ReadFile("../tests/conformance/capability-discovery.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{`"protocol_version": "1.10"`, `"protocol_version": "1.9"`},
		{`"hop": 2, "code": "feature"`, `"hop": 1, "code": "feature"`},
		{`"breaches": ["a"]`, `"breaches": []`},
		{`"payload": "message", "partial": true`, `"payload": "message", "partial": false`},
		{`"violations": []`, `"violations": [{"invariant": "no_undeclared_streaming", "event": 0}]`},
	} {
		changed := put(t, "capability-discovery.json", bytes.ReplaceAll(data, []byte(change[0]), []byte(change[1])))
		if _, code := command(t, "conformance", "run", filepath.Dir(changed)); code != 4 {
			t.Errorf("CARD-17 %s in place of %s: exit %d; want 4", change[1], change[0], code)
		}
	}
}
