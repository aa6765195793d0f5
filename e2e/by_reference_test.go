package e2e

import (
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSEP17_RequestOfACallerWithoutAKey: the command asks for a caller that the agent knows
// by its session alone, prints the headers to send, and these suffice for a call.
func TestSEP17_RequestOfACallerWithoutAKey(t *testing.T) {
	w := start(t, options{})
	session := filepath.Join(w.dir, "alice.session")
	w.write("alice.session", aliceToken)
	out := w.must("request", w.agentURL("documents"), "--grant", "documents:read", "--purpose", "p", "--collection", "reports", "--filter", "quarter=2025-Q1",
		"--by-reference", "--session-file", session, "--out", "c.json")
	id := regexp.MustCompile(`Powerbox-Capability: (cap_\S+)`).FindStringSubmatch(out)
	handle := regexp.MustCompile(` as (\S+)`).FindStringSubmatch(out)
	if id == nil || handle == nil || !strings.Contains(out, "Authorization: Bearer ACCESS_TOKEN") || strings.Contains(out, aliceToken) {
		t.Fatalf("the request prints\n%s", out)
	}
	_, body := retrieve(handle[1])
	headers := http.Header{"Authorization": {"Bearer " + aliceToken}, "Powerbox-Capability": {id[1]}}
	allowed(t, w.post(w.agentURL("documents"), body, headers))
	headers.Set("Authorization", "Bearer "+bobToken)
	denied(t, w.post(w.agentURL("documents"), body, headers), "capability_unknown")

	if said := w.must("call", w.agentURL("documents"), "--skill", "retrieve_document", "--arguments", `{"resourceHandle":"`+handle[1]+`"}`, "--by-reference", "--session-file", session, "--capability", "c.json"); said == "" {
		t.Error("a call by reference has no answer")
	}
	for args, want := range map[string]string{
		"":                               "--key is missing",
		"--by-reference --key x.jwk":     "none of the others can be",
		"--by-reference --certificate x": "certificate-key",
		"--by-reference":                 "a request is made for a user",
	} {
		all := append([]string{"request", w.agentURL("documents"), "--grant", "documents:read", "--purpose", "p"}, strings.Fields(args)...)
		if out, code := w.cli(all...); code == 0 || !strings.Contains(out, want) {
			t.Errorf("%q: exit %d, want %q:\n%s", args, code, want, out)
		}
	}
}
