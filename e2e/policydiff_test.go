package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox"
)

// replayed is what powerbox policy replay says for programs.
type replayed struct {
	Decisions, Same, Flips, Narrower int
	Unknown                          map[string]int `json:"not_replayed"`
	Changed                          []struct{ Record, Was, Becomes, Operation, Requester string }
}

func (r replayed) unknown() int {
	n := 0
	for _, one := range r.Unknown {
		n += one
	}
	return n
}

// diffs runs powerbox policy replay against policies that are not in force.
func (w *town) diffs(policies string, flags ...string) (replayed, int) {
	w.t.Helper()
	w.write("next.cedar", policies)
	text, err := os.ReadFile(filepath.Join(w.dir, "powerbox.yaml"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.write("next.yaml", strings.Replace(string(text), "policies.cedar", "next.cedar", 1))
	args := append([]string{"policy", "replay", "--new", filepath.Join(w.dir, "next.yaml"), "-c", filepath.Join(w.dir, "powerbox.yaml"), "--output", "json"}, flags...)
	cmd := exec.CommandContext(w.t.Context(), binary, args...)
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		w.t.Fatal(err)
	}
	var r replayed
	if err := json.Unmarshal(out, &r); err != nil {
		w.t.Fatalf("%v\n%s", err, out)
	}
	if r.Same+r.Flips+r.Narrower+r.unknown() != r.Decisions || len(r.Changed) != r.Flips+r.Narrower {
		w.t.Errorf("the counts do not add up: %+v", r)
	}
	return r, cmd.ProcessState.ExitCode()
}

// handlesBy are the handles of a grant by the names of what they stand for.
func handlesBy(held granted) map[string]string {
	out := map[string]string{}
	for _, h := range held.ResourceHandles {
		out[h.DisplayName] = h.Handle
	}
	return out
}

// asks requests a grant, whatever the answer.
func asks(c *caller, grant string) answer {
	return c.call("documents", "a2a/capabilities/request", map[string]any{"grants": []string{grant}, "purpose": "Try"})
}

// TestPolicyDiff replays the records under policies that are not in force. Its
// results equal the decisions on the same calls once the policies are in force.
func TestPolicyDiff(t *testing.T) {
	w := start(t, options{extra: "evidence: {arguments: full}", dev: "    - {name: carol, token: carol-session-token, roles: [reader]}\n"})
	alice, bob := w.caller(aliceToken), w.caller(bobToken)
	held := alice.reports()
	handles := handlesBy(held)
	read := func(name string) answer {
		args := map[string]any{"resourceHandle": handles[name]}
		return alice.present("documents", data("retrieve_document", args), proven{chain: []string{held.Token}, operation: "documents/documents:read/retrieve", arguments: args})
	}
	search := func() answer {
		return alice.present("documents", data("search_documents", map[string]any{}), proven{chain: []string{held.Token}, operation: opSearch})
	}
	financial, sales, searched := read("Q1 Financial Summary"), read("Q1 Sales Report"), search()
	for _, a := range []answer{financial, sales, searched} {
		allowed(t, a)
	}
	bob.reports()                                                       // one report of bob's own
	w.post(w.agentURL("documents"), data("search_documents", nil), nil) // denied without a capability
	if a := asks(alice, "documents:nonsense"); a.Error == nil {         // denied before policy
		t.Errorf("%s", a.Raw)
	}

	same, code := w.diffs(defaultPolicies, "--exit-code")
	if same.Flips+same.Narrower+same.unknown() > 0 || same.Decisions < 7 || code != 0 {
		t.Errorf("under the same policies: %+v, exit %d", same, code)
	}
	// Only what alice owns may she read from then on, and nothing may be searched.
	const next = `
permit(principal == User::"user:alice", action == Action::"documents/documents:read/retrieve", resource in Collection::"documents/reports") when { resource.attributes.owner == "alice" };
`
	changed, code := w.diffs(next, "--exit-code")
	becomes := map[string]string{}
	for _, c := range changed.Changed {
		becomes[c.Record] = c.Was + " " + c.Becomes
	}
	decision := func(a answer) string { return a.Header.Get("Powerbox-Decision") }
	if code != 1 || becomes[decision(sales)] != "ALLOW DENY" || becomes[decision(searched)] != "ALLOW DENY" || becomes[decision(financial)] != "" {
		t.Errorf("exit %d, %+v", code, changed)
	}
	if changed.Narrower != 1 || changed.Flips < 3 { // alice's request has less, bob's has nothing
		t.Errorf("%+v", changed)
	}
	if only, _ := w.diffs(next, "--agent", "mail"); only.Decisions != 0 {
		t.Errorf("of another agent: %+v", only)
	}
	if one, _ := w.diffs(next, "--limit", "1"); one.Decisions != 1 {
		t.Errorf("one decision: %+v", one)
	}
	text := w.run("policy", "replay", "--new", filepath.Join(w.dir, "next.yaml"))
	if !strings.Contains(text, "ALLOW -> DENY") || !strings.Contains(text, "would flip") || strings.Contains(text, "user:alice") {
		t.Errorf("%s", text)
	}

	// The same calls, once the policies are in force.
	w.again(func() { w.write("policies.cedar", next) })
	allowed(t, read("Q1 Financial Summary"))
	for _, a := range []answer{read("Q1 Sales Report"), search()} {
		if a.reason() != "policy_veto" {
			t.Errorf("%s", a.Raw)
		}
	}
	back, _ := w.diffs(defaultPolicies)
	allows := 0
	for _, c := range back.Changed {
		if c.Was == "DENY" && c.Becomes == "ALLOW" {
			allows++
		}
	}
	if allows != 2 {
		t.Errorf("vetoes that would be none: %+v", back)
	}
}

// TestPolicyDiffSaysWhatItCannotTell: redacted arguments, links that holders
// derived, and roles of sessions are not on record, and nothing of them is guessed.
func TestPolicyDiffSaysWhatItCannotTell(t *testing.T) {
	const byRole = "    enforces: context\n    authorization: {model: ROLE, roles: {reader: [documents:read/search]}}"
	w := start(t, options{agent: byRole, dev: "    - {name: carol, token: carol-session-token, roles: [reader]}\n"})
	allowed(t, w.callAs("carol-session-token", data("search_documents", map[string]any{})))
	alice := w.caller(aliceToken)
	held := alice.reports()
	args := map[string]any{"resourceHandle": handlesBy(held)["Q1 Financial Summary"]}
	op := "documents/documents:read/retrieve"
	allowed(t, alice.present("documents", data("retrieve_document", args), proven{chain: []string{held.Token}, operation: op, arguments: args}))
	derived := alice.keep([]string{held.Token}, func(c powerbox.Clause) (powerbox.Clause, bool) { return c, true })
	allowed(t, alice.present("documents", data("retrieve_document", args), proven{chain: derived, operation: op, arguments: args}))
	bob := w.caller(bobToken)
	if a := asks(bob, "documents:write"); a.Error == nil {
		t.Fatalf("%s", a.Raw)
	}
	const next = `permit(principal == User::"user:alice", action == Action::"documents/documents:read/retrieve", resource in Collection::"documents/reports") when { resource.attributes.owner == "alice" };`
	got, _ := w.diffs(next)
	for _, why := range []string{"roles_not_on_record", "resource_not_on_record", "capability_not_on_record", "request_not_on_record"} {
		if got.Unknown[why] != 1 {
			t.Errorf("%d %s, want 1: %+v", got.Unknown[why], why, got)
		}
	}
	// With nothing permitted the resource does not matter.
	if got, _ := w.diffs("// nothing\n"); got.Unknown["resource_not_on_record"] != 0 || got.Flips < 2 {
		t.Errorf("%+v", got)
	}
	w.write("next.cedar", "permit(principal, action == Action::\"documents/documents:read/fly\", resource);")
	out, err := exec.CommandContext(t.Context(), binary, "policy", "replay", "--new", filepath.Join(w.dir, "next.yaml"), "-c", filepath.Join(w.dir, "powerbox.yaml")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "next.cedar:1") {
		t.Errorf("policies that do not fit: %v %s", err, out)
	}
	if r, err := http.Post(w.url+"/v1/policies/replay", "application/json", strings.NewReader("{}")); err != nil || r.StatusCode != http.StatusUnauthorized {
		t.Errorf("without the operator's token: %v %v", r, err)
	}
}
