package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/token"
)

// The verifiers of examples/verifycontext, for agents in Python and Node, take
// what the gateway sent and refuse everything else.
func TestVerifiersOfTheContext(t *testing.T) {
	w := start(t, options{})
	alice := w.caller(aliceToken)
	c := alice.reports()
	allowed(t, alice.present("documents", data("search_documents", nil), proven{chain: []string{c.Token}, operation: opSearch}))
	got := w.documents.got()[0]
	context, body := got.header.Get("Powerbox-Context"), string(got.body)
	claims := token.Context{
		Issuer: w.agentURL("documents"), Audience: "documents", IssuedAt: time.Now(), Expires: time.Now().Add(time.Minute),
		Holder: "key:x", Mode: "require", Basis: "capability", Digest: token.DigestOf(got.body),
	}
	signed := func(agent string, change func(*token.Context)) string {
		c := claims
		if change != nil {
			change(&c)
		}
		compact, err := token.SignContext(w.agentKey(agent), c)
		if err != nil {
			t.Fatal(err)
		}
		return compact
	}
	parts := strings.Split(context, ".")
	type request struct {
		Context string `json:"context"`
		Body    string `json:"body"`
		Path    string `json:"path"`
		name    string
		status  int
	}
	requests := []request{
		{context, body, "/", "what the gateway sent", http.StatusOK},
		{signed("documents", nil), body, "/", "what its key has signed", http.StatusOK},
		{"", body, "/", "none", http.StatusUnauthorized},
		{"", body, "/.well-known/message:send", "none, for a tenant of that name", http.StatusUnauthorized},
		{"x", body, "/", "no token", http.StatusUnauthorized},
		{context, body + " ", "/", "another body", http.StatusUnauthorized},
		{parts[0] + "." + parts[1] + ".", body, "/", "no signature", http.StatusUnauthorized},
		{signed("mail", nil), body, "/", "another agent's key", http.StatusUnauthorized},
		{signed("documents", func(c *token.Context) { c.Audience = "mail" }), body, "/", "another audience", http.StatusUnauthorized},
		{signed("documents", func(c *token.Context) { c.Issuer = w.agentURL("mail") }), body, "/", "another issuer", http.StatusUnauthorized},
		{signed("documents", func(c *token.Context) {
			c.IssuedAt, c.Expires = time.Now().Add(-2*time.Minute), time.Now().Add(-time.Minute)
		}), body, "/", "one that is old", http.StatusUnauthorized},
		{signed("documents", func(c *token.Context) {
			c.IssuedAt, c.Expires = time.Now().Add(time.Minute), time.Now().Add(2*time.Minute)
		}), body, "/", "one of the future", http.StatusUnauthorized},
		{c.Token, body, "/", "a capability", http.StatusUnauthorized},
	}
	var input bytes.Buffer
	for _, r := range requests {
		if err := json.NewEncoder(&input).Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	folder, err := filepath.Abs("../examples/verifycontext")
	if err != nil {
		t.Fatal(err)
	}
	for driver, program := range map[string]string{"drive.py": python, "drive.mjs": "node"} {
		t.Run(driver, func(t *testing.T) {
			for _, file := range []string{filepath.Join("testdata", "verifycontext", driver), filepath.Join(folder, "verify_context"+filepath.Ext(driver))} {
				if _, err := os.ReadFile(file); err != nil { // read here, the program is part of what go test caches by
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), program, filepath.Join("testdata", "verifycontext", driver), folder, w.agentURL("documents"), "documents")
			cmd.Stdin = bytes.NewReader(input.Bytes())
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s\nmake test-deps installs what is missing", err, &stderr)
			}
			answers := json.NewDecoder(bytes.NewReader(out))
			for _, r := range requests {
				var a struct {
					Status int
					Body   string
				}
				if err := answers.Decode(&a); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				if a.Status != r.status || a.Status == http.StatusOK && !strings.Contains(a.Body, "key:") {
					t.Errorf("%s: %d %s; want %d", r.name, a.Status, a.Body, r.status)
				}
			}
		})
	}
}

// The document has the files as they are.
func TestVerifyContextDocument(t *testing.T) {
	asGiven(t)
	text, err := os.ReadFile("../docs/how-to/verify-context.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"verify_context.py", "verify_context.mjs"} {
		code, err := os.ReadFile(filepath.Join("../examples/verifycontext", name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "\n"+string(code)+"```\n") {
			t.Errorf("docs/how-to/verify-context.md does not have %s as it is", name)
		}
	}
}
