package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// reloaded is what the record of a reload says.
type reloaded struct {
	Before, After string
	Changes       []string
}

// reloads are the records of reloads, newest first, with who caused each.
func (w *town) reloads() (by []string, out []reloaded) {
	w.t.Helper()
	var records []struct {
		Action string `json:"action_type"`
		Intent struct {
			Details reloaded `json:"details"`
		} `json:"intent"`
		Powerbox struct {
			Requester string `json:"requester"`
		} `json:"powerbox"`
	}
	if err := json.Unmarshal(w.operator("GET", "/v1/records?agent=powerbox&limit=100", nil), &records); err != nil {
		w.t.Fatal(err)
	}
	for _, r := range records {
		if r.Action == "config.reload" {
			by, out = append(by, r.Powerbox.Requester), append(out, r.Intent.Details)
		}
	}
	return by, out
}

// TestOPS_ReloadReplacesScopesPoliciesAndCallers: a running server takes other scopes,
// callers and policies, by the command and on SIGHUP; open calls are not cut, the
// difference is printed, and the record says who, from what to what, and what changed.
func TestOPS_ReloadReplacesScopesPoliciesAndCallers(t *testing.T) {
	w, a := scopedTown(t, "scoped", "documents:read/retrieve")
	search := func() answer {
		return a.send("documents", invoke("search_documents", map[string]any{"query": "x"}, ""))
	}
	w.refused(t, search(), "outside_caller_scope")

	w.rewrite("powerbox.yaml", "documents: [documents:read/retrieve]", "documents: [documents:read/retrieve, documents:read/search]")
	told := w.run("config", "reload")
	const change = "+ scopes.orchestrator.documents: documents:read/search"
	if !strings.HasPrefix(told, change+"\nin force now: sha256:") || !strings.Contains(told, "on record as rec_") {
		t.Errorf("the reload prints\n%s", told)
	}
	allowed(t, search())
	if again := w.run("config", "reload"); !strings.Contains(again, "nothing was changed") {
		t.Errorf("a second reload prints\n%s", again)
	}
	by, said := w.reloads()
	if len(said) != 1 || by[0] != "operator" || !slices.Equal(said[0].Changes, []string{change}) || said[0].Before == said[0].After || !strings.HasPrefix(said[0].Before, "sha256:") {
		t.Fatalf("on record: %v %+v", by, said)
	}

	// A caller that gets another key is no longer known by the old one.
	other := newKey(t)
	yaml, err := os.ReadFile(filepath.Join(w.dir, "powerbox.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(yaml), "include: [")
	included, _, _ := strings.Cut(rest, "]")
	if err := os.WriteFile(included, []byte("identity: {callers: [{agent: orchestrator, key: "+other.Public().Thumbprint()+"}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.process.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	becomes(t, "SIGHUP is in force", func() bool { return strings.Contains(w.log.String(), "the configuration was read again") })
	if by, _ = w.reloads(); len(by) != 2 || by[0] != "SIGHUP" {
		t.Errorf("reloads on record are by %v", by)
	}
	denied(t, search(), "outside_caller_scope")
	b := &caller{w, other, aliceToken}
	allowed(t, b.send("documents", invoke("search_documents", map[string]any{"query": "x"}, "")))

	// Policies decide the next request for a capability.
	if c := b.reports(); c.Token == "" {
		t.Fatal("nothing was granted")
	}
	policies, err := filepath.Glob(filepath.Join(w.dir, "*.cedar"))
	if err != nil || len(policies) == 0 {
		t.Fatal(policies, err)
	}
	for _, p := range policies {
		w.write(filepath.Base(p), "")
	}
	if told := w.run("config", "reload"); !strings.Contains(told, "~ policies: ") {
		t.Errorf("the reload prints\n%s", told)
	}
	if r := b.asksForReports(); r.Error == nil {
		t.Errorf("what the policies no longer allow was granted: %s", r.Raw)
	}
	if both := w.log.String(); strings.Contains(both, aliceToken) {
		t.Error("the log has a secret")
	}
}

// TestOPS_ReloadIsAllOrNothing: a configuration that is wrong, or that changes anything that
// needs a restart, changes nothing, and the answer names what it is.
func TestOPS_ReloadIsAllOrNothing(t *testing.T) {
	w, a := scopedTown(t, "scoped", "documents:read/retrieve")
	search := func() answer {
		return a.send("documents", invoke("search_documents", map[string]any{"query": "x"}, ""))
	}
	good, err := os.ReadFile(filepath.Join(w.dir, "powerbox.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	wider := strings.Replace(string(good), "documents: [documents:read/retrieve]", "documents: [documents:read/retrieve, documents:read/search]", 1)
	w.write("kept.yaml", string(good))
	another := strings.Replace(wider, "durability: single", "durability: strict", 1)
	if another == wider { // the town is on SQLite
		another += "\nstore: {durability: single}\n"
	}
	for name, c := range map[string]struct{ yaml, want string }{
		"an agent that listens": {strings.Replace(wider, "agents:\n", "agents:\n  - {id: another, upstream: 'http://127.0.0.1:9', grpc: {listen: '127.0.0.1:1'}}\n", 1), "agents.another.grpc.listen cannot change while the server runs; restart it"},
		"a listener":            {strings.Replace(wider, "listen: ", "listen: 127.0.0.1:1 #", 1), "listen cannot change while the server runs; restart it"},
		"files of TLS":          {strings.Replace(wider, "issuer:\n", "issuer:\n  tls: {certificate: a.pem, key: a.key}\n", 1), "issuer.tls cannot change while the server runs; restart it"},
		"a door":                {wider + "\ndoors: [{name: edge, listen: '127.0.0.1:1', grpc_only: true, routes: [{agent: documents}]}]\n", "doors cannot change while the server runs; restart it"},
		"another store":         {another, "store.durability cannot change while the server runs; restart it"},
		"resources":             {strings.Replace(wider, "name: Salary table", "name: Salaries", 1), "resources cannot change while the server runs; restart it"},
		"a scope of no agent":   {strings.Replace(wider, "    documents: [documents:read/retrieve, ", "    nowhere: [a/b]\n    documents: [documents:read/retrieve, ", 1), "nowhere"},
		"no configuration":      {"agents: 7\n", "agents"},
		"a caller of two keys":  {wider + "\nidentity: {}\n", "identity"},
	} {
		if c.yaml == string(good) {
			t.Fatalf("%s: the file has no place for it:\n%s", name, good)
		}
		w.write("powerbox.yaml", c.yaml)
		out, code := w.reload()
		if code == 0 || !strings.Contains(out, c.want) || strings.Contains(out, "in force now") {
			t.Errorf("%s: exit %d, want %q:\n%s", name, code, c.want, out)
		}
		w.refused(t, search(), "outside_caller_scope")
	}
	if by, said := w.reloads(); len(said) != 0 {
		t.Errorf("refused reloads are on record: %v %+v", by, said)
	}
	w.write("powerbox.yaml", wider)
	if out, code := w.reload(); code != 0 {
		t.Fatal(out)
	}
	allowed(t, search())
}

// reload asks the server that another file names, since its own may be broken.
func (w *town) reload() (string, int) {
	w.t.Helper()
	return w.cli("config", "reload", "-c", "kept.yaml")
}
