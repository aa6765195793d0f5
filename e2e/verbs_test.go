package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// TestGATE9_EveryVerbCountsToolCalls: calls of tools of an MCP server are in the report, in
// the grants that it proposes and in what an incident touched, as calls of A2A are.
func TestGATE9_EveryVerbCountsToolCalls(t *testing.T) {
	for _, on := range []wire{{}, {overMCP, "2025-11-25"}} {
		t.Run(on.String(), func(t *testing.T) {
			w := start(t, options{on: on})
			alice := w.caller(aliceToken)
			c := alice.reports()
			args, body := retrieve(c.ResourceHandles[0].Handle)
			made := alice.present("documents", body, proven{chain: []string{c.Token}, operation: opRetrieve, arguments: args})
			allowed(t, made)
			denied(t, alice.present("documents", invoke("delete_document", args, ""), proven{chain: []string{c.Token}, operation: opDelete, arguments: args}), "operation_not_granted")
			by := w.decided(made).Powerbox.Requester
			var report struct {
				Uses []struct {
					Caller, Agent, Operation string
					Allowed, Denied          int
				}
			}
			if err := json.Unmarshal([]byte(w.run("report", "--output", "json")), &report); err != nil {
				t.Fatal(err)
			}
			calls := map[string][2]int{}
			for _, u := range report.Uses {
				if u.Caller == by && u.Agent == "documents" {
					calls[u.Operation] = [2]int{u.Allowed, u.Denied}
				}
			}
			read, removed := strings.TrimPrefix(opRetrieve, "documents/"), strings.TrimPrefix(opDelete, "documents/")
			if calls[read] != [2]int{1, 0} || calls[removed] != [2]int{0, 1} {
				t.Errorf("GATE-9 the report has %v", report.Uses)
			}
			if grants := w.run("report", "--grants", "--output", "json"); !strings.Contains(grants, read) {
				t.Errorf("GATE-9 what was called is not in the grants:\n%s", grants)
			}
			in := readIncident(t, w.run("trace", "--incident", by, "--output", "json"))
			if !slices.Contains(in.touched, by+" documents "+opRetrieve+" 1 0") || !slices.Contains(in.touched, by+" documents "+opDelete+" 0 1") {
				t.Errorf("GATE-9 the incident touched %q", in.touched)
			}
		})
	}
}

// TestGATE9_FreeTextNamesNoSkill: a text message to an agent with several skills is one
// call in every verb, grants nothing, and its denial says how to name a skill.
func TestGATE9_FreeTextNamesNoSkill(t *testing.T) {
	w, a := scopedTown(t, "scoped", "documents:read/search")
	w.again(func() {
		w.rewrite("powerbox.yaml", "required: [documents:read/retrieve]", "required: [documents:read/retrieve, documents:read/search]")
	})
	said := a.send("documents", text("SendMessage", "what is new?"))
	w.refused(t, said, "outside_caller_scope")
	for _, want := range []string{"names no skill", w.agentURL("documents") + "/skills/SKILL", "data part", "--skill"} {
		if !strings.Contains(string(said.Raw), want) {
			t.Errorf("GATE-9 the denial lacks %q: %s", want, said.Raw)
		}
	}
	var report struct {
		Uses []struct {
			Operation string
			Calls     int
		}
	}
	if err := json.Unmarshal([]byte(w.run("report", "--output", "json")), &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Uses) != 1 || report.Uses[0].Operation != "free text" || report.Uses[0].Calls != 1 {
		t.Errorf("GATE-9 the report has %+v", report.Uses)
	}
	if grants := w.run("report", "--grants", "--output", "json"); strings.Contains(grants, "documents:") || !strings.Contains(grants, "names no skill") {
		t.Errorf("GATE-9 the grants are\n%s", grants)
	}
	d := w.decided(said)
	if in := readIncident(t, w.run("trace", "--incident", d.Powerbox.Requester, "--output", "json")); !slices.Equal(in.touched, []string{d.Powerbox.Requester + " documents free text 0 1"}) {
		t.Errorf("GATE-9 the incident touched %q", in.touched)
	}
	if d.Intent.Operation != opMessage || !slices.Contains(d.Powerbox.Gate.Required, opSearch) {
		t.Errorf("GATE-9 the record is about %s and requires %v", d.Intent.Operation, d.Powerbox.Gate.Required)
	}
	for args, want := range map[string]string{
		"evidence list --agent documents": "free text", "evidence export --format ocsf": `"operation":"free text"`,
		"explain " + d.ID: "free text at agent documents", "trace " + d.ID: "free text",
	} {
		if told, code := w.cli(strings.Fields(args)...); code != 0 && code != 3 || !strings.Contains(told, want) {
			t.Errorf("GATE-9 exit %d; powerbox %s lacks %q:\n%s", code, args, want, told)
		}
	}
}

// TestOPS_ErrorsSayWhatHelps: what the command line says of an agent that is down, of a
// capability that did not verify and of a denied caller names the cause, and proposes
// nothing that cannot help.
func TestOPS_ErrorsSayWhatHelps(t *testing.T) {
	w, a := scopedTown(t, "scoped", "documents:read/search")
	w.must("keys", "new", "some.jwk")
	no := w.decided(a.send("documents", invoke("delete_document", map[string]any{"resourceHandle": "x"}, "")))
	if said, _ := w.cli("explain", no.ID); !strings.Contains(said, "a capability reaches no further than the scope") || strings.Contains(said, "powerbox request") {
		t.Errorf("GATE-1 explain proposes what cannot help:\n%s", said)
	}
	if said, _ := w.cli("trace", no.ID); strings.Contains(said, `\"`) {
		t.Errorf("trace escapes quotation marks:\n%s", said)
	}
	alice := w.caller(aliceToken)
	c := alice.reports()
	args, body := retrieve(c.ResourceHandles[0].Handle)
	stolen := w.decided(w.caller(bobToken).present("documents", body, proven{chain: []string{c.Token}, operation: opRetrieve, arguments: args}))
	if said, _ := w.cli("explain", stolen.ID); strings.Contains(said, "derived it offline") || strings.Contains(said, "derived offline") {
		t.Errorf("explain calls an issued capability derived offline:\n%s", said)
	}
	w.documents.close()
	w.again(func() {})
	said, code := w.cli("call", w.agentURL("documents"), "--skill", "search_documents", "--key", "some.jwk")
	if code != 1 || !strings.Contains(said, `agent "documents" does not answer`) || !strings.Contains(said, "start it, or correct its upstream") {
		t.Errorf("exit %d of a call to an agent that is down:\n%s", code, said)
	}
}

// TestOPS_CallersAreWhatCanBeProven: a secret instead of a client id is an error of
// the configuration, and a key that exists tells the thumbprint that belongs there.
func TestOPS_CallersAreWhatCanBeProven(t *testing.T) {
	w, _ := scopedTown(t, "scoped", "documents:read/search")
	made := w.must("keys", "new", "mine.jwk")
	if again := w.must("keys", "thumbprint", "mine.jwk"); again != made {
		t.Errorf("thumbprint %q of a key made as %q", again, made)
	}
	for client, want := range map[string]string{aliceToken: "is the session token of a built-in user", "planner": "could be a client of any of 2 providers", "https://c.example#planner": "names an issuer that is not in identity.providers"} {
		w.write("callers.yaml", "agents: [{id: one, upstream: 'http://127.0.0.1:1'}]\nidentity:\n  dev: [{name: alice, token: "+aliceToken+"}]\n  providers: [{issuer: 'https://a.example'}, {issuer: 'https://b.example', principal: 'user:b/{sub}'}]\n  callers: [{agent: planner, client: '"+client+"'}]\n")
		if said, code := w.cli("config", "check", "-c", "callers.yaml"); code != 4 || !strings.Contains(said, want) || client == aliceToken && strings.Contains(said, aliceToken) {
			t.Errorf("exit %d for client %s: %s", code, client, said)
		}
	}
}
