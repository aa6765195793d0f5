package policy

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"

	cedar "github.com/cedar-policy/cedar-go"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
)

// whole lets Cedar see policies as they are written.
type whole []*statement

func (n whole) All() iter.Seq2[cedar.PolicyID, *cedar.Policy] {
	return func(yield func(cedar.PolicyID, *cedar.Policy) bool) {
		for _, s := range n {
			if !yield(cedar.PolicyID(s.place), s.policy) {
				return
			}
		}
	}
}

// brute answers as Cedar does for whole policies, all of them, and entities that are
// made beforehand: the oracle.
func (e *Engine) brute(p Principal, operation string, r *Resource, agent, grant string) Answer {
	w, reason := e.asking(p, operation, agent, grant)
	if reason == "" {
		_, reason = e.about(w, agent, r)
	}
	if reason != "" {
		return Answer{Reason: reason}
	}
	user, action := uid(typeUser, p.ID), uid(typeAction, operation)
	var parents []cedar.EntityUID
	for _, g := range p.Groups {
		parents = append(parents, uid(typeGroup, g))
	}
	for _, g := range p.Roles {
		parents = append(parents, uid(typeRole, g))
	}
	entities := cedar.EntityMap{
		user: {UID: user, Parents: cedar.NewEntityUIDSet(parents...), Attributes: cedar.NewRecord(cedar.RecordMap{
			"id": cedar.String(p.ID), "attributes": recordOf(p.Attributes, e.vocabulary.attributes),
		})},
		action: {UID: action, Parents: cedar.NewEntityUIDSet(uid(typeAction, agent+"/"+grant))},
	}
	about := uid(typeAgent, agent)
	if r != nil {
		in := uid(typeCollection, r.Agent+"/"+r.Collection)
		entities[in] = cedar.Entity{UID: in, Parents: cedar.NewEntityUIDSet(about)}
		about = uid(typeResource, r.Agent+"/"+r.Collection+"/"+r.ID)
		entities[about] = cedar.Entity{UID: about, Parents: cedar.NewEntityUIDSet(in), Attributes: cedar.NewRecord(cedar.RecordMap{
			"attributes": recordOf(r.Attributes, e.vocabulary.collections[r.Agent+"/"+r.Collection].Attributes),
		})}
	}
	return answer(whole(e.statements), entities, cedar.Request{Principal: user, Action: action, Resource: about}, e.statements)
}

func recordOf(attributes map[string]powerbox.Value, declared map[string]catalogue.Attribute) cedar.Record {
	fields := cedar.RecordMap{}
	for name, v := range attributes {
		if want, ok := declared[name]; ok {
			fields[cedar.String(name)] = cedarValue(v, want.Type)
		}
	}
	return cedar.NewRecord(fields)
}

// reports is a scope whose resources have attributes, for the conditions aboutReports.
const reports = `resource in Collection::"documents/reports"`

var aboutReports = []string{
	`when { resource.attributes.quarter == "2025-Q1" }`, `unless { "2025-Q1" != resource.attributes.quarter }`,
	`when { resource.attributes.quarter like "2025*" && principal.id != "b" }`,
	`when { resource.attributes.quarter == "2025-Q1" && !(principal.attributes has department) }`,
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
		"resource", `resource == Agent::"documents"`, `resource in Agent::"documents"`, reports, reports,
		`resource in Collection::"documents/personnel"`, `resource == Resource::"documents/reports/q1-sales"`,
		`resource is Resource in Agent::"documents"`, "resource is Resource", "resource is Agent", `resource in Resource::"documents/reports/q1-plan"`,
	}
	conditions = []string{
		"", "", "", `when { principal.id == "a" }`, `when { principal in Group::"a" && !(resource in Resource::"documents/reports/q1-plan") }`,
		`when { principal.attributes has level && (principal.attributes.level == 2 || !(1 != principal.attributes.level)) }`,
		`unless { principal.attributes has suspended && principal.attributes.suspended == true }`,
		`when { true || principal.attributes has level && principal.attributes.level == 3 }`,
		`when { principal.attributes has suspended && principal.attributes.suspended }`,
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
		resource, possible := rapid.SampledFrom(resources).Draw(t, "resource"), conditions
		if resource == reports {
			possible = slices.Concat(conditions, aboutReports)
		}
		fmt.Fprintf(&b, "%s (%s, %s, %s) %s;\n", effect, rapid.SampledFrom(principals).Draw(t, "principal"),
			rapid.SampledFrom(actions).Draw(t, "action"), resource, rapid.SampledFrom(possible).Draw(t, "condition"))
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

// TestATK26_IndexedDecisionIsCedars compares 100,000 answers for generated policies and
// questions with those of Cedar for whole policies.
func TestATK26_IndexedDecisionIsCedars(t *testing.T) {
	v, docs := words(t), library()
	about := []*Resource{nil, &docs[0], &docs[1], &docs[2], &docs[3]}
	operations := []string{"documents/documents:read/retrieve", "documents/documents:read/search"}
	engines := rapid.Custom(func(t *rapid.T) *Engine { return drawEngine(t, v) })
	people := rapid.SliceOfN(rapid.Custom(drawPrincipal), 50, 50)
	outcomes, n := map[string]int{}, 0
	for seed := range 200 {
		e := engines.Example(seed)
		for _, p := range people.Example(seed) {
			for _, operation := range operations {
				for _, r := range about {
					got := e.Permits(p, operation, r, "documents", "documents:read")
					if want := e.brute(p, operation, r, "documents", "documents:read"); !reflect.DeepEqual(got, want) {
						t.Fatalf("seed %d, %+v, %s, %+v: %+v; Cedar says %+v", seed, p, operation, r, got, want)
					}
					outcomes[strings.TrimRight(got.Reason, ".:0123456789")]++
					n++
				}
			}
		}
	}
	if n != 100_000 || len(outcomes) < 4 {
		t.Errorf("%d questions with %v; want 100000 with permits, forbids, failures and silence", n, outcomes)
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
