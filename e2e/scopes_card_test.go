package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const authorizationURI = "urn:a2a:ext:authorization:v1"

// params are what the card says under the authorization extension.
func (w *town) params() map[string]any {
	w.t.Helper()
	var card struct {
		Capabilities struct {
			Extensions []struct {
				URI      string
				Required bool
				Params   map[string]any
			}
		}
	}
	if err := json.Unmarshal(w.get(w.agentURL("documents")+cardPath), &card); err != nil {
		w.t.Fatal(err)
	}
	for _, e := range card.Capabilities.Extensions {
		if e.URI == authorizationURI {
			e.Params["(required)"] = e.Required
			return e.Params
		}
	}
	w.t.Fatalf("the card does not have %s", authorizationURI)
	return nil
}

// TestEXT1_ParamsOfTheCard shows every parameter with its type, as it is by
// default and as it was configured, and has wrong ones refused with what would be
// right.
func TestEXT1_ParamsOfTheCard(t *testing.T) {
	for name, c := range map[string]struct {
		agent string
		want  map[string]any
	}{
		"by default": {"", map[string]any{
			"authorization_model": "CAPABILITY", "delegation_supported": true, "max_delegation_depth": 16.0,
			"evidence_required": false, "credential_lifetime_seconds": 3600.0, "(required)": false,
		}},
		"configured": {"    authorization: {required_scopes: [documents.read.search_documents], delegation: false, evidence_required: true}", map[string]any{
			"authorization_model": "CAPABILITY", "required_scopes": []any{"documents.read.search_documents"}, "delegation_supported": false, "max_delegation_depth": 0.0,
			"evidence_required": true, "credential_lifetime_seconds": 3600.0, "(required)": true,
		}},
	} {
		w := start(t, options{agent: strings.ReplaceAll(c.agent, "documents.read.search_documents", scopeSearch)})
		c.want["revocation_endpoint"] = w.url + "/v1/status-lists/documents"
		for key, value := range c.want {
			if list, ok := value.([]any); ok && len(list) == 1 {
				c.want[key] = []any{scopeSearch}
			}
		}
		// What a registry selects by (EXT-40).
		c.want["scope_grammar"], c.want["evidence_formats"] = "dotted", []any{"evidence-record-chain", "ocsf", "tlog-proof"}
		c.want["accepted_scopes"] = []any{"documents.admin.archive", "documents.read.retrieve", "documents.read.search", "documents.write.delete"}
		if d := cmp.Diff(c.want, w.params()); d != "" {
			t.Errorf("EXT-1 %s:\n%s", name, d)
		}
	}
	w := start(t, options{})
	whole, err := os.ReadFile(filepath.Join(w.dir, "powerbox.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	killed(t, w.process)
	for wrong, says := range map[string]string{
		"{model: capability}":                     "CAPABILITY",
		"{model: NONE}":                           "CAPABILITY",
		"{delegation: maybe}":                     "delegation",
		"{max_delegation_depth: 17}":              "max_delegation_depth",
		"{max_delegation_depth: -1}":              "max_delegation_depth",
		"{required_scopes: documents}":            "required_scopes",
		"{required_scopes: [documents.read.fly]}": scopeSearch,
		"{evidence: true}":                        "evidence_required",
	} {
		file := filepath.Join(w.dir, "wrong.yaml")
		text := strings.Replace(string(whole), "  - id: documents\n", "  - id: documents\n    authorization: "+wrong+"\n", 1)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		command := []string{"config", "check", "-c", file}
		if says == scopeSearch { // the server checks the offered scopes when it starts
			command = []string{"serve", "-c", file, "--dev"}
		}
		out, err := exec.CommandContext(t.Context(), binary, command...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), says) {
			t.Errorf("EXT-1 %s: %v\n%s", wrong, err, out)
		}
	}
}

// TestEXT42_ParamsBind calls against what the card says: a scope that every call
// needs, chains where delegation is not supported or shorter, and callers that do
// not say that they know of evidence.
func TestEXT42_ParamsBind(t *testing.T) {
	everywhereAndApart(t, func(t *testing.T, on wire) {
		// Every call needs the scope to search, also under a token chain and by
		// reference.
		s := newScopeTown(t, options{on: on, agent: "    authorization: {required_scopes: [" + scopeSearch + "], max_delegation_depth: 1}"})
		handle := s.held.ResourceHandles[0].Handle
		allowed(t, s.key.sends("documents", s.search()))
		allowed(t, s.key.sends("documents", s.retrieve(handle)))
		narrow := s.alice.scoped("documents", "documents:read", map[string]any{"resourceQuery": quarter("2025-Q1"), "operations": []string{"retrieve"}})
		chain := s.alice.request("documents", map[string]any{
			"grants": []string{"documents:read"}, "purpose": "p", "operations": []string{"retrieve"}, "resourceQuery": quarter("2025-Q1"),
		})[0]
		body := func(c granted) []byte {
			return data("retrieve_document", map[string]any{"resourceHandle": c.ResourceHandles[0].Handle})
		}
		carol := s.caller("")
		s.repel(
			t,
			attack{"EXT-42 a call without the scope", "operation_not_granted", func() answer {
				return s.key.sends("documents", under(t, body(narrow), narrow.Token))
			}},
			attack{"EXT-42 a token chain without it", "operation_not_granted", func() answer {
				return s.alice.present("documents", body(chain), proven{
					chain: []string{chain.Token}, operation: opRetrieve, arguments: map[string]any{"resourceHandle": chain.ResourceHandles[0].Handle},
				})
			}},
			attack{"EXT-42 by reference", "operation_not_granted", func() answer {
				return s.alice.sends("documents", withReference(t, body(chain), chain.ID))
			}},
			attack{"EXT-42 two links where one is the most", "exceeds_max_depth", func() answer {
				return carol.sends("documents", s.search(s.toBob("d1", scopeSearch), s.bob.link(carol.did(), []string{scopeSearch}, s.until, "d2")))
			}},
		)
		allowed(t, s.bob.sends("documents", s.search(s.toBob("d3", scopeSearch))))

		for _, agent := range []string{"{delegation: false}", "{max_delegation_depth: 0}"} {
			s = newScopeTown(t, options{on: on, agent: "    authorization: " + agent})
			s.repel(t, attack{"EXT-42 a chain, with " + agent, "delegation_not_supported", func() answer { return s.bob.sends("documents", s.search(s.toBob("n", scopeSearch))) }})
			allowed(t, s.key.sends("documents", s.search()))
		}

		s = newScopeTown(t, options{on: on, agent: "    enforces: context\n    authorization: {evidence_required: true}"})
		ask := func(with http.Header) answer {
			h := s.key.headers(s.agentURL("documents"))
			for name, values := range with {
				h[name] = values
			}
			return s.post(s.agentURL("documents"), s.search(), h)
		}
		if a := ask(nil); a.reason() != "extension_required" || !strings.Contains(string(a.Raw), authorizationURI) {
			t.Errorf("EXT-42 a caller that does not know of evidence: %s", a.Raw)
		}
		a := ask(http.Header{"A2a-Extensions": {authorizationURI}})
		allowed(t, a)
		if a.Header.Get("Powerbox-Decision") == "" || !strings.Contains(strings.Join(a.Header.Values("A2a-Extensions"), ","), authorizationURI) {
			t.Errorf("EXT-42 the answer names no record: %v", a.Header)
		}
		if on == (wire{}) {
			s.methodsThatDoNotAsk(t)
		}
	})
}

// methodsThatDoNotAsk are those of capability negotiation that have something done: to
// use them is to ask for that extension, and not for the other one.
func (s *scopeTown) methodsThatDoNotAsk(t *testing.T) {
	held := s.alice.reports()
	for method, params := range map[string]map[string]any{
		"a2a/skill/invoke": {"skill": "search_documents", "arguments": map[string]any{"query": "x"}, "capabilityId": held.ID},
		"a2a/task/send": {
			"message":      map[string]any{"role": "user", "parts": []any{map[string]any{"type": "text", "text": "Summarize this document"}}},
			"capabilities": []string{held.ID},
		},
	} {
		ask := func(extensions ...string) answer {
			h := s.alice.headers(s.agentURL("documents"))
			h["A2a-Extensions"] = extensions
			return s.post(s.agentURL("documents"), rpc(method, params), h)
		}
		for _, extensions := range [][]string{nil, {extension}} {
			s.documents.forget()
			a := ask(extensions...)
			if s.refused(t, a, "extension_required"); !strings.Contains(string(a.Raw), authorizationURI) {
				t.Errorf("EXT-42 %s: %s", method, a.Raw)
			}
		}
		allowed(t, ask(authorizationURI))
	}
}

// TestEXT37_EachPartWorksAlone has authorization without delegation, both, evidence
// without either, and all three, for callers that know what they need of it.
func TestEXT37_EachPartWorksAlone(t *testing.T) {
	everywhere(t, func(t *testing.T, on wire) {
		for name, c := range map[string]struct {
			agent                 string
			mode                  string
			delegates, must, told bool // links are accepted; a token is needed; callers must know of evidence
		}{
			"authorization alone":          {"{delegation: false}", "require", false, true, false},
			"authorization and delegation": {"{}", "require", true, true, false},
			"evidence alone":               {"{delegation: false, evidence_required: true}", "observe", false, false, true},
			"all three":                    {"{evidence_required: true}", "require", true, true, true},
		} {
			s := newScopeTown(t, options{on: on, agent: "    authorization: " + c.agent})
			s.run("mode", "documents", c.mode)
			call := func(who *caller, body []byte) answer {
				h := who.headers(s.agentURL("documents"))
				if c.told {
					h["A2a-Extensions"] = []string{authorizationURI}
				}
				return s.post(s.agentURL("documents"), body, h)
			}
			a := call(s.key, s.search())
			allowed(t, a)
			if r := s.decided(a); r.Decision != "ALLOW" {
				t.Errorf("EXT-37 %s: the record says %s", name, r.Decision)
			}
			a = call(s.bob, s.search(s.toBob("n", scopeSearch)))
			if (a.Error == nil) != (c.delegates || !c.must) {
				t.Errorf("EXT-37 %s, a link: %s", name, a.Raw)
			}
			a = call(s.key, data("search_documents", map[string]any{}))
			if (a.Error == nil) == c.must {
				t.Errorf("EXT-37 %s, without a token: %s", name, a.Raw)
			}
			if r := s.decided(a); r.ID == "" {
				t.Errorf("EXT-37 %s: a call without a record: %s", name, a.Raw)
			}
		}
	})
}
