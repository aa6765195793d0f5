package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

// cli runs a verb of the program in the town's folder, and returns what it
// printed and its exit code.
func (w *town) cli(args ...string) (string, int) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), binary, args...)
	cmd.Dir = w.dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// must is cli that ends well.
func (w *town) must(args ...string) string {
	w.t.Helper()
	out, code := w.cli(args...)
	if code != 0 {
		w.t.Fatalf("powerbox %s: exit %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// TestEXT13_FromIssueToCallByCommands does the whole life with the program alone:
// keys, a scope token, a link made offline (EXT-8), its verification from files
// with the result of EXT-11, the call of the delegate, and the refusals on the
// way.
func TestEXT13_FromIssueToCallByCommands(t *testing.T) {
	w := start(t, options{})
	at := w.agentURL("documents")
	w.must("keys", "new", "alice.jwk")
	w.must("keys", "new", "bob.jwk", "--algorithm", "ES256")
	w.write("bob.pub", w.must("keys", "public", "bob.jwk"))
	w.must("request", at, "--grant", "documents:read", "--purpose", "Summarize", "--collection", "reports", "--filter", "quarter=2025-Q1",
		"--key", "alice.jwk", "--session-file", w.sessionFile(), "--scope-token", "--out", "alice.json")
	w.must("narrow", "--capability", "alice.json", "--key", "alice.jwk", "--delegate", "bob.pub", "--scope", scopeSearch, "--expires", "5m", "--out", "bob.json")
	if out, code := w.cli("narrow", "--capability", "alice.json", "--key", "alice.jwk", "--delegate", "bob.pub", "--scope", "documents"); code != 3 || !strings.Contains(out, "scope_escalation") {
		t.Errorf("wider: exit %d\n%s", code, out)
	}
	if out, code := w.cli("narrow", "--capability", "alice.json", "--key", "bob.jwk", "--delegate", "bob.pub"); code != 3 || !strings.Contains(out, "chain_discontinuity") {
		t.Errorf("by another key: exit %d\n%s", code, out)
	}
	bob := w.unpack("bob.json")
	verify := []string{
		"token", "verify-scopes", "--token", "token.json", "--links", "links.json", "--keys", "keys.json",
		"--at", time.Now().UTC().Format(time.RFC3339), "--output", "json", "--caller", bob,
	}
	if out := w.must(append(verify, "--scope", scopeSearch)...); !strings.Contains(out, `"chain_length":1,"effective_expiry":"`) || !strings.Contains(out, `"valid":true`) {
		t.Error(out)
	}
	if out, code := w.cli(append(verify, "--scope", scopeRetrieve)...); code != 3 || !strings.Contains(out, `"reason":"insufficient_scope"`) {
		t.Errorf("exit %d\n%s", code, out)
	}
	call := func(key, capability, skill, arguments string) (string, int) {
		return w.cli("call", at, "--capability", capability, "--key", key, "--skill", skill, "--arguments", arguments)
	}
	if out, code := call("bob.jwk", "bob.json", "search_documents", `{"query":"x"}`); code != 0 {
		t.Errorf("exit %d\n%s", code, out)
	}
	for reason, try := range map[string][2]string{"operation_not_granted": {"bob.jwk", "bob.json"}, "subject_not_caller": {"bob.jwk", "alice.json"}, "delegate_not_caller": {"alice.jwk", "bob.json"}} {
		if out, code := call(try[0], try[1], "retrieve_document", `{"resourceHandle":"x"}`); code != 3 || !strings.Contains(out, reason) {
			t.Errorf("%s: exit %d\n%s", reason, code, out)
		}
	}
	if n := len(w.documents.got()); n != 1 {
		t.Errorf("%d calls reached the agent; want 1", n)
	}
}

// unpack writes the parts of a capability file that an auditor is handed, and
// returns to whom it was passed on.
func (w *town) unpack(name string) (delegate string) {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		w.t.Fatal(err)
	}
	var file struct {
		Capabilities []struct {
			ScopeToken json.RawMessage   `json:"scopeToken"`
			Links      []json.RawMessage `json:"links"`
		} `json:"capabilities"`
	}
	if err := json.Unmarshal(data, &file); err != nil || len(file.Capabilities) != 1 || len(file.Capabilities[0].Links) != 1 {
		w.t.Fatalf("%v\n%s", err, data)
	}
	c := file.Capabilities[0]
	w.write("token.json", string(c.ScopeToken))
	w.write("links.json", "["+string(c.Links[0])+"]")
	var link struct{ Delegate string }
	if err := json.Unmarshal(c.Links[0], &link); err != nil {
		w.t.Fatal(err)
	}
	key := w.agentKey("documents").Public().JWK()
	members, _ := key.Members()
	members = append(members, powerbox.Member{Name: "kid", Value: powerbox.String(w.agentURL("documents"))})
	w.write("keys.json", `{"keys":[`+powerbox.Object(members...).String()+`]}`)
	return link.Delegate
}

// TestEXT5_OneAuthorityInThreeForms gives one holder the same grant as a token
// chain, as a scope token with a link, and by reference, and makes every kind of
// call under each: one decision for all three.
func TestEXT5_OneAuthorityInThreeForms(t *testing.T) {
	everywhere(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on})
		alice := w.caller(aliceToken)
		ask := map[string]any{"resourceQuery": quarter("2025-Q1")}
		chain, scoped := alice.reports(), alice.scoped("documents", "documents:read", ask)
		// The other two are passed on once as well, to the same holder, whole.
		link := alice.link(alice.did(), []string{"documents.read.retrieve", "documents.read.search"}, scoped.Expires, "1")
		derived := alice.keep([]string{chain.Token}, func(c powerbox.Clause) (powerbox.Clause, bool) { return c, true })
		reference := alice.reports()
		type try struct {
			name, skill, operation string
			arguments              func(granted) map[string]any
			allowed                bool
		}
		none := func(granted) map[string]any { return map[string]any{"query": "x"} }
		handle := func(h string) func(granted) map[string]any {
			return func(granted) map[string]any { return map[string]any{"resourceHandle": h} }
		}
		own := func(g granted) map[string]any { return map[string]any{"resourceHandle": g.ResourceHandles[0].Handle} }
		tries := []try{
			{"search", "search_documents", opSearch, none, true},
			{"retrieve", "retrieve_document", opRetrieve, own, true},
			{"retrieve what is not granted", "retrieve_document", opRetrieve, handle("rh_unknown"), false},
			{"retrieve nothing", "retrieve_document", opRetrieve, none, false},
			{"delete", "delete_document", opDelete, own, false},
			{"archive", "archive_document", "documents/documents:admin/archive", none, false},
			{"send mail", "send_mail", "mail/mail:send/send", none, false},
		}
		for _, c := range tries {
			t.Run(c.name, func(t *testing.T) {
				argsChain := c.arguments(chain)
				body := data(c.skill, c.arguments(scoped))
				byReference := withReference(t, data(c.skill, c.arguments(reference)), reference.ID)
				answers := map[string]answer{
					"chain":     alice.present("documents", data(c.skill, argsChain), proven{chain: derived, operation: c.operation, arguments: argsChain}),
					"scopes":    alice.sends("documents", under(t, body, scoped.Token, link)),
					"reference": alice.sends("documents", byReference),
				}
				for form, a := range answers {
					if got := a.Error == nil; got != c.allowed || a.reason() != answers["reference"].reason() {
						t.Errorf("%s: allowed %t with reason %q; by reference it is %q\n%s", form, got, a.reason(), answers["reference"].reason(), a.Raw)
					}
				}
			})
		}
	})
}

// withReference names a capability on record in the metadata of a call.
func withReference(t *testing.T, body []byte, id string) []byte {
	t.Helper()
	var call map[string]any
	if err := json.Unmarshal(body, &call); err != nil {
		t.Fatal(err)
	}
	call["params"].(map[string]any)["metadata"] = map[string]any{extension: map[string]any{"capabilityId": id}}
	out, err := json.Marshal(call)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestEXT6_LinksOfEveryAlgorithm passes a scope token on through holders of every
// algorithm. With ML-DSA-87 it is too long for a header, and refused there.
func TestEXT6_LinksOfEveryAlgorithm(t *testing.T) {
	s := newScopeTown(t, options{})
	lattice, err := token.NewLatticeKey(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	curve, err := token.GenerateKey(token.ES256, strings.NewReader(strings.Repeat("curve", 20)))
	if err != nil {
		t.Fatal(err)
	}
	var links []json.RawMessage
	pass := func(by token.PartySigner, to string) {
		link, err := token.SignLink(by, token.LinkClaims{
			Delegator: by.Party().DID(), Delegate: to, Scopes: []string{scopeSearch}, IssuedAt: time.Now(), ExpiresAt: s.until, Nonce: "1",
		})
		if err != nil {
			t.Fatal(err)
		}
		links = append(links, link)
	}
	pass(s.alice.key, curve.Party().DID())
	pass(curve, lattice.Party().DID())
	pass(lattice, s.bob.did())
	allowed(t, s.bob.sends("documents", s.search(links...)))
	if a := s.bob.inHeader("documents", data("search_documents", map[string]any{}), s.held.Token, links...); a.reason() != "malformed" {
		t.Errorf("in the header: %s", a.Raw)
	}
	links[2] = json.RawMessage(spoilt(string(links[2]), "delegation_proof"))
	if a := s.bob.sends("documents", s.search(links...)); a.reason() != "invalid_signature" {
		t.Errorf("spoilt: %s", a.Raw)
	}
	links[2] = json.RawMessage(strings.Replace(string(links[2]), `"ML-DSA-87"`, `"Ed25519"`, 1))
	if a := s.bob.sends("documents", s.search(links...)); a.reason() != "invalid_signature" {
		t.Errorf("of another algorithm: %s", a.Raw)
	}
}

// TestSEP8_ExpiresHoldsWhatWasAsked: times are whole seconds on the wire, and
// rounding does not shorten the requested lifetime.
func TestSEP8_ExpiresHoldsWhatWasAsked(t *testing.T) {
	w := start(t, options{})
	w.must("keys", "new", "alice.jwk")
	begun := time.Now()
	w.must("request", w.agentURL("documents"), "--grant", "documents:read", "--purpose", "Look", "--collection", "reports", "--filter", "quarter=2025-Q1",
		"--expires", "20s", "--key", "alice.jwk", "--session-file", w.sessionFile(), "--out", "alice.json")
	data, err := os.ReadFile(filepath.Join(w.dir, "alice.json"))
	if err != nil {
		t.Fatal(err)
	}
	until := regexp.MustCompile(`"expires": *"([^"]+)"`).FindStringSubmatch(string(data))
	if until == nil {
		t.Fatalf("no expires in %s", data)
	}
	if at, err := time.Parse(time.RFC3339, until[1]); err != nil || at.Before(begun.Add(20*time.Second)) || at.Nanosecond() != 0 {
		t.Errorf("20 s from %s on it holds until %s", begun.UTC(), until[1])
	}
}
