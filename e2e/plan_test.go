package e2e

import (
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/token"
)

// plannedTown has two calling agents, and plans that the first is on.
func plannedTown(t *testing.T, on wire, mode, plans string) (w *town, planned, other *caller) {
	t.Helper()
	one, two := newKey(t), newKey(t)
	w = start(t, options{on: on, mode: mode, agent: "    enforces: context\n", extra: named(t, map[string]*token.PrivateKey{"orchestrator": one, "reader": two}) +
		"scopes:\n  orchestrator: {documents: [documents:read/search, documents:read/retrieve]}\n  reader: {documents: [documents:read/search]}\n" + plans})
	return w, &caller{w, one, aliceToken}, &caller{w, two, aliceToken}
}

// TestCARD9_PlansAreEnforced: a call along a declared path that does not hold is refused on
// every binding, with the words of the offline check, and the agent sees nothing. Other calls
// pass. A reload takes another plan.
func TestCARD9_PlansAreEnforced(t *testing.T) {
	everywhereAndApart(t, func(t *testing.T, on wire) {
		const missing = "feature: the agent does not declare pause_resume"
		first, second, want := "", ", needs: {features: [pause_resume]}", "hop 2, documents to mail: "+missing
		if on.binding == apart { // which reads the card of its own agent alone
			first, second, want = second, "", "hop 1, orchestrator to documents: "+missing
		}
		hops := "plans:\n  - id: quarterly\n    hops:\n      - {from: orchestrator, to: documents" + first + "}\n      - {to: mail" + second + "}\n"
		w, planned, other := plannedTown(t, on, "scoped", hops)
		body := func() []byte { return data("search_documents", map[string]any{"query": "x"}) }
		a := planned.send("documents", body())
		if a.reason() != "path_incompatible" || !strings.Contains(string(a.Raw), "the plan quarterly does not hold: "+want) || len(w.documents.got()) != 0 {
			t.Errorf("CARD-9 a call along a plan that does not hold: %s", a.Raw)
		}
		if d := w.decided(a); d.Decision != "DENY" || !d.has("path_incompatible") {
			t.Errorf("CARD-9 on record: %+v", d)
		}
		offline, code := w.cli("card", "path", "--plan", "quarterly", "--private", "--output", "json")
		if code != 3 || !strings.Contains(offline, want) {
			t.Errorf("CARD-9 the offline check: exit %d\n%s", code, offline)
		}
		allowed(t, other.send("documents", body()))
		w.rewrite("powerbox.yaml", ", needs: {features: [pause_resume]}", "")
		if told := w.run("config", "reload"); !strings.HasPrefix(told, "~ plans.quarterly\n") {
			t.Errorf("CARD-9 the reload prints\n%s", told)
		}
		w.soon("the plan that holds is in force", func() bool { return planned.send("documents", body()).Error == nil })
	})
}

// TestCARD9_PlansAreAboutTheirCalls: calls of other skills, calls about tasks, and mode observe
// pass where a plan does not hold.
func TestCARD9_PlansAreAboutTheirCalls(t *testing.T) {
	const plans = "plans:\n  - id: quarterly\n    shared_context: true\n    hops:\n      - {from: orchestrator, to: documents, needs: {skills: [search_documents]}}\n"
	_, planned, _ := plannedTown(t, wire{}, "scoped", plans)
	refused := planned.send("documents", data("search_documents", map[string]any{"query": "x"}))
	if refused.reason() != "path_incompatible" || !strings.Contains(string(refused.Raw), "documents does not declare context_reuse, and the origin relies on shared context") {
		t.Errorf("CARD-9 shared context: %s", refused.Raw)
	}
	if a := planned.send("documents", data("retrieve_document", map[string]any{"resourceHandle": "rh_x"})); a.reason() == "path_incompatible" {
		t.Errorf("CARD-9 a call of another skill: %s", a.Raw)
	}
	if a := planned.send("documents", rpc("GetTask", map[string]any{"id": "task_of_none"})); a.reason() == "path_incompatible" {
		t.Errorf("CARD-9 a call about a task: %s", a.Raw)
	}
	w, planned, _ := plannedTown(t, wire{}, "observe", plans)
	seen := planned.send("documents", data("search_documents", map[string]any{"query": "x"}))
	allowed(t, seen)
	if d := w.decided(seen); !d.has("path_incompatible") {
		t.Errorf("CARD-9 observe does not note it: %+v", d)
	}
}

// TestCARD9_AttachKeepsToPlans: attach makes no call along a path that does not hold, on every
// binding, and other calls as before.
func TestCARD9_AttachKeepsToPlans(t *testing.T) {
	everywhere(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on, agent: "    enforces: context\n"})
		grpc := ""
		if on.binding == overGRPC {
			grpc = "127.0.0.1:" + freePort(t)
		}
		config := func(need string) string {
			c := "agents:\n  - name: documents\n    card: " + w.agentURL("documents") + "\n"
			if grpc != "" {
				c += "    grpc: " + grpc + "\n"
			}
			return c + readReports + "  - name: mail\n    card: " + w.agentURL("mail") + "\nplans:\n  - id: quarterly\n    hops:\n      - {to: documents}\n      - {to: mail, needs: {features: [" + need + "]}}\n"
		}
		search := func(a *attached) answer {
			a.grpc["documents"] = grpc
			return a.post(a.agentURL("documents"), data("search_documents", map[string]any{"query": "financial"}), nil)
		}
		a := w.attach("attach", newKey(t), config("pause_resume"), "--session-file", w.sessionFile())
		got := search(a)
		if got.reason() != "path_incompatible" || !strings.Contains(string(got.Raw), "hop 2, documents to mail: feature: the agent does not declare pause_resume") || len(w.documents.got()) != 0 {
			t.Errorf("CARD-9 %s\n%s", got.Raw, a.out)
		}
		if err := a.end(); err != nil {
			t.Fatal(err)
		}
		a = w.attach("attach", newKey(t), config("send_message"), "--session-file", w.sessionFile())
		allowed(t, search(a))
	})
}

// TestCARD9_PlansAreChecked: a plan that names what there is not is an error of the configuration.
func TestCARD9_PlansAreChecked(t *testing.T) {
	asGiven(t)
	for name, c := range map[string]struct{ hops, want string }{
		"an agent that is not there":  {"[{from: documents, to: documnts}]", `there is no agent "documnts"; did you mean "documents"?`},
		"a caller that is not there":  {"[{from: nobody, to: documents}]", `there is no caller "nobody"`},
		"a feature of no name":        {"[{from: documents, to: documents, needs: {features: [streming]}}]", `features has "streming"`},
		"nobody to begin":             {"[{to: documents}]", "from is missing"},
		"a version that is no number": {"[{from: documents, to: documents, needs: {versions: [one]}}]", "versions"},
	} {
		file := put(t, "powerbox.yaml", []byte("agents: [{id: documents, upstream: 'http://127.0.0.1:9'}]\nplans: [{id: p, hops: "+c.hops+"}]\n"))
		out, code := command(t, "config", "check", "-c", file)
		if code != 4 || !strings.Contains(out, c.want) || !strings.Contains(out, "plans[0]") {
			t.Errorf("CARD-9 %s: exit %d, want %q:\n%s", name, code, c.want, out)
		}
	}
}

// TestATK92_AReloadReachesRemoteGateways: what a reload takes away from a caller is taken away
// at the remote gateways of the agent as well.
func TestATK92_AReloadReachesRemoteGateways(t *testing.T) {
	w, _, reader := plannedTown(t, wire{binding: apart}, "scoped", "")
	search := func() answer { return reader.send("documents", data("search_documents", map[string]any{"query": "x"})) }
	allowed(t, search())
	w.rewrite("powerbox.yaml", "reader: {documents: [documents:read/search]}", "reader: {documents: []}")
	if told := w.run("config", "reload"); !strings.Contains(told, "- scopes.reader.documents: documents:read/search") {
		t.Fatalf("ATK-92 the reload prints\n%s", told)
	}
	w.soon("the scope is gone at the remote gateway", func() bool { return search().reason() == "outside_caller_scope" })
}
