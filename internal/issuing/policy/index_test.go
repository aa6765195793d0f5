package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/powerbox-project/powerbox"
)

// brute answers without the index: the oracle.
func (e *Engine) brute(p Principal, operation string, r *Resource, agent, grant string) Answer {
	w, reason := e.asking(p, operation, agent, grant)
	if reason == "" {
		w, reason = e.about(w, agent, r)
	}
	if reason != "" {
		return Answer{Reason: reason}
	}
	return e.decide(&w, e.statements)
}

// The parts that random policies are made of. They overlap as much as parts
// can: groups and roles of one name, a set of actions, resources by every
// ancestor.
var (
	principals = []string{
		"principal", "principal", `principal == User::"a"`, `principal == User::"b"`, `principal in User::"a"`, `principal in Group::"a"`,
		`principal in Group::"b"`, `principal in Role::"a"`, "principal is User", `principal is User in Group::"c"`,
	}
	actions = []string{
		"action", `action == Action::"documents/documents:read/retrieve"`, `action in Action::"documents/documents:read"`,
		`action in Action::"documents/documents:read/search"`,
		`action in [Action::"documents/documents:read", Action::"documents/documents:read/retrieve"]`,
		`action in [Action::"documents/documents:read/search", Action::"documents/documents:read/retrieve"]`,
	}
	resources = []string{
		"resource", `resource == Agent::"documents"`, `resource in Agent::"documents"`, `resource in Collection::"documents/reports"`,
		`resource in Collection::"documents/personnel"`, `resource == Resource::"documents/reports/q1-sales"`,
		`resource is Resource in Agent::"documents"`, "resource is Resource", "resource is Agent", `resource in Resource::"documents/reports/q1-plan"`,
	}
	conditions = []string{
		"", "", "", `when { principal.attributes has suspended && principal.attributes.suspended }`,
		`when { principal.attributes has level && principal.attributes.level * 4611686018427387904 < 0 }`, `unless { principal in Role::"b" }`,
		`when { resource in Collection::"documents/reports" }`, "when { false }",
	}
	annotations = []string{"", "", `@maximum_lifetime("30m") `, `@maximum_lifetime("1h") `, `@approval("human") `}
)

func drawEngine(t *rapid.T, v Vocabulary) *Engine {
	var b strings.Builder
	for range rapid.IntRange(1, 24).Draw(t, "policies") {
		effect := rapid.SampledFrom([]string{"permit", "permit", "permit", "forbid"}).Draw(t, "effect")
		if effect == "permit" {
			b.WriteString(rapid.SampledFrom(annotations).Draw(t, "annotation"))
		}
		fmt.Fprintf(&b, "%s (%s, %s, %s) %s;\n", effect, rapid.SampledFrom(principals).Draw(t, "principal"),
			rapid.SampledFrom(actions).Draw(t, "action"), rapid.SampledFrom(resources).Draw(t, "resource"),
			rapid.SampledFrom(conditions).Draw(t, "condition"))
	}
	e, err := Load(map[string][]byte{"p.cedar": []byte(b.String())}, v)
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	return e
}

func drawPrincipal(t *rapid.T) Principal {
	names := rapid.SampledFrom([]string{"a", "b", "c"})
	p := Principal{
		ID: names.Draw(t, "id"), Groups: rapid.SliceOfN(names, 0, 3).Draw(t, "groups"), Roles: rapid.SliceOfN(names, 0, 2).Draw(t, "roles"),
	}
	if rapid.Bool().Draw(t, "attributes") {
		p.Attributes = map[string]powerbox.Value{
			"suspended": powerbox.Bool(rapid.Bool().Draw(t, "suspended")), "level": number(rapid.Int64Range(0, 4).Draw(t, "level")),
		}
	}
	return p
}

// TestATK26_IndexChangesNoAnswer compares the indexed answer, in whole, with
// the one over all policies, and Filter with a question for each resource.
func TestATK26_IndexChangesNoAnswer(t *testing.T) {
	v, docs := words(t), library()
	outcomes := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		e := drawEngine(t, v)
		p := drawPrincipal(t)
		operation := "documents/documents:read/" + rapid.SampledFrom([]string{"retrieve", "search"}).Draw(t, "operation")
		about := []*Resource{nil, &docs[0], &docs[1], &docs[2], &docs[3]}
		var want []Resource
		for _, r := range about {
			got := e.Permits(p, operation, r, "documents", "documents:read")
			oracle := e.brute(p, operation, r, "documents", "documents:read")
			if diff := cmp.Diff(oracle, got); diff != "" {
				t.Fatalf("-brute +indexed:\n%s", diff)
			}
			if got.Allow && r != nil {
				want = append(want, *r)
			}
			outcomes[strings.TrimRight(got.Reason, ".:0123456789")]++
		}
		got, a := e.Filter(p, operation, "documents", "documents:read", docs)
		if diff := cmp.Diff(want, got); diff != "" || a.Allow != (len(want) > 0) {
			t.Fatalf("Filter: -want +got:\n%s", diff)
		}
	})
	t.Logf("outcomes: %v", outcomes)
	if len(outcomes) < 4 {
		t.Errorf("only %v came up; want permits, forbids, failures and silence", outcomes)
	}
}

// The index must leave something out, or the test above shows nothing.
func TestIndexLeavesOutWhatCannotMatch(t *testing.T) {
	e := bulk(t, 1000)
	w, reason := e.asking(Principal{ID: "u", Groups: []string{"g500", "x"}}, "documents/documents:read/retrieve", "documents", "documents:read")
	if reason != "" {
		t.Fatal(reason)
	}
	w, _ = e.about(w, "documents", &library()[0])
	found := e.index.candidates(w.principals, w.actions, w.resources)
	if len(found) != 1 || found[0].place != "p.cedar:501" {
		t.Errorf("%d candidates", len(found))
	}
}

// bulk is n policies of which one can match.
func bulk(t testing.TB, n int) *Engine {
	t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `permit (principal in Group::"g%d", action in Action::"documents/documents:read", resource in Collection::"documents/reports") when { resource.attributes.quarter == "2025-Q1" };`+"\n", i)
	}
	e, err := Load(map[string][]byte{"p.cedar": []byte(b.String())}, words(t))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func BenchmarkPermits(b *testing.B) {
	for _, n := range []int{10, 1000} {
		e, r := bulk(b, n), library()[0]
		p := Principal{ID: "u", Groups: []string{"staff", fmt.Sprintf("g%d", n/2)}}
		for name, ask := range map[string]func(Principal, string, *Resource, string, string) Answer{"indexed": e.Permits, "brute": e.brute} {
			b.Run(fmt.Sprintf("%s/policies=%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if !ask(p, "documents/documents:read/retrieve", &r, "documents", "documents:read").Allow {
						b.Fatal("denied")
					}
				}
			})
		}
	}
}
