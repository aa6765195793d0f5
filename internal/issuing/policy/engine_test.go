package policy

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
)

var update = flag.Bool("update", false, "write the golden files of this package")

func number(n int64) powerbox.Value { return powerbox.Number(powerbox.Int(n)) }

// document is an item of the documents agent. pairs are attribute names and
// values by turns.
func document(collection, id string, pairs ...any) Resource {
	r := Resource{Agent: "documents", Collection: collection, ID: id, Name: id, Attributes: map[string]powerbox.Value{}}
	for i := 0; i < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		r.Attributes[name], _ = pairs[i+1].(powerbox.Value)
	}
	return r
}

func text(s string) powerbox.Value { return powerbox.String(s) }

// library is what the documents agent holds.
func library() []Resource {
	return []Resource{
		document("reports", "q1-sales", "quarter", text("2025-Q1"), "owner", text("sales"), "level", number(1)),
		document("reports", "q1-plan", "quarter", text("2025-Q1"), "tags", powerbox.List(text("embargo")), "level", number(2)),
		document("reports", "q2-sales", "quarter", text("2025-Q2"), "owner", text("alice")),
		document("personnel", "salaries", "level", text("secret")),
	}
}

func words(t testing.TB) Vocabulary {
	t.Helper()
	collections, err := catalogue.Collections(library())
	if err != nil {
		t.Fatal(err)
	}
	return Vocabulary{
		Operations: []string{
			"documents/documents:read/retrieve", "documents/documents:read/search", "mail/mail:send/send",
		},
		Collections: collections,
		Attributes: map[string]catalogue.Type{
			"department": catalogue.TypeText, "suspended": catalogue.TypeBoolean, "level": catalogue.TypeInteger, "regions": catalogue.TypeTexts,
		},
	}
}

func load(t testing.TB, texts ...string) *Engine {
	t.Helper()
	files := map[string][]byte{}
	for i, s := range texts {
		files[string(rune('a'+i))+".cedar"] = []byte(s)
	}
	e, err := Load(files, words(t))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func quarterly(t testing.TB) *Engine {
	t.Helper()
	data, err := os.ReadFile("testdata/quarterly.cedar")
	if err != nil {
		t.Fatal(err)
	}
	e, err := Load(map[string][]byte{"quarterly.cedar": data}, words(t))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestSEP7_PolicyDecides(t *testing.T) {
	e := quarterly(t)
	docs := library()
	finance := Principal{ID: "alice", Groups: []string{"staff", "finance"}}
	auditor := Principal{ID: "bob", Roles: []string{"auditor"}}
	with := func(p Principal, name string, v powerbox.Value) Principal {
		p.Attributes = map[string]powerbox.Value{name: v}
		return p
	}
	const half, two = 30 * time.Minute, 2 * time.Hour
	for _, c := range []struct {
		name      string
		p         Principal
		operation string
		r         *Resource
		want      Answer
	}{
		{"group and attribute", finance, "retrieve", &docs[0], Answer{true, []string{"quarterly.cedar:3"}, half, "", "permitted"}},
		{"group, other quarter, but owner", finance, "retrieve", &docs[2], Answer{true, []string{"quarterly.cedar:21"}, 0, "", "permitted"}},
		{"smallest lifetime of two permits", Principal{ID: "eve", Groups: []string{"finance"}, Roles: []string{"auditor"}}, "retrieve", &docs[0], Answer{true, []string{"quarterly.cedar:3", "quarterly.cedar:13"}, half, "", "permitted"}},
		{"other group", Principal{ID: "eve", Groups: []string{"Finance"}}, "retrieve", &docs[0], Answer{Reason: "no policy permits it"}},
		{"a group's name as id", Principal{ID: "finance"}, "retrieve", &docs[0], Answer{Reason: "no policy permits it"}},
		{"a role's name as group", Principal{ID: "eve", Groups: []string{"auditor"}}, "retrieve", &docs[3], Answer{Reason: "no policy permits it"}},
		{"every collection of an agent", auditor, "retrieve", &docs[3], Answer{true, []string{"quarterly.cedar:13"}, two, "", "permitted"}},
		{"other operation", auditor, "search", &docs[3], Answer{Reason: "no policy permits it"}},
		{"resources are not the agent", auditor, "retrieve", nil, Answer{Reason: "no policy permits it"}},
		{"the agent itself", finance, "search", nil, Answer{true, []string{"quarterly.cedar:28"}, 0, "", "permitted"}},
		{"forbid wins", auditor, "retrieve", &docs[1], Answer{false, []string{"quarterly.cedar:33"}, 0, "", "forbidden by policy quarterly.cedar:33"}},
		{"unless", Principal{ID: "eve", Roles: []string{"auditor", "board"}}, "retrieve", &docs[1], Answer{true, []string{"quarterly.cedar:13"}, two, "", "permitted"}},
		{"attribute of the principal", with(auditor, "suspended", powerbox.Bool(true)), "retrieve", &docs[3], Answer{false, []string{"quarterly.cedar:30"}, 0, "", "forbidden by policy quarterly.cedar:30"}},
		{"attribute of another type", with(auditor, "suspended", text("true")), "retrieve", &docs[3], Answer{Reason: `the principal's attribute "suspended" is not as declared; want true or false`}},
		{"undeclared attribute", with(auditor, "shoe", text("42")), "retrieve", &docs[3], Answer{true, []string{"quarterly.cedar:13"}, two, "", "permitted"}},
		{"a policy that fails", with(Principal{ID: "eve", Groups: []string{"finance", "levels"}}, "level", number(4)), "search", nil, Answer{false, []string{"quarterly.cedar:38"}, 0, "", "policy quarterly.cedar:38 could not be evaluated"}},
		{"unknown operation", auditor, "delete", &docs[3], Answer{Reason: `operation "documents/documents:read/delete" is not offered by grant "documents:read" of agent "documents"`}},
		{"nobody", Principal{Groups: []string{"finance"}}, "retrieve", &docs[0], Answer{Reason: "the principal has no id"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := e.Permits(c.p, "documents/documents:read/"+c.operation, c.r, "documents", "documents:read")
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			var about []Resource
			if c.r != nil {
				about = append(about, *c.r)
			}
			if veto := e.Veto(c.p, "documents/documents:read/"+c.operation, "documents", "documents:read", about...); veto == got.Allow {
				t.Errorf("veto is %t", veto)
			}
		})
	}
}

func TestSEP27_PolicyWantsAPerson(t *testing.T) {
	got := quarterly(t).Permits(Principal{ID: "alice", Groups: []string{"finance"}}, "mail/mail:send/send", nil, "mail", "mail:send")
	if diff := cmp.Diff(Answer{Allow: true, Policies: []string{"quarterly.cedar:25"}, Approval: ApprovalHuman, Reason: "permitted"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// What does not fit the declarations is denied whatever the policies say.
func TestSEP7_WhatIsNotDeclaredIsDenied(t *testing.T) {
	e := load(t, `permit (principal, action, resource);`)
	alice := Principal{ID: "alice"}
	const read = "documents/documents:read/retrieve"
	good := library()[0]
	if !e.Permits(alice, read, &good, "documents", "documents:read").Allow {
		t.Fatal("the good question is denied")
	}
	for name, change := range map[string]func(*Resource){
		"no id":                func(r *Resource) { r.ID = "" },
		"unknown collection":   func(r *Resource) { r.Collection = "memos" },
		"other agent":          func(r *Resource) { r.Agent = "mail" },
		"undeclared attribute": func(r *Resource) { r.Attributes["colour"] = text("red") },
		"missing attribute":    func(r *Resource) { delete(r.Attributes, "quarter") },
		"other type":           func(r *Resource) { r.Attributes["quarter"] = number(1) },
		"no type":              func(r *Resource) { r.Attributes["owner"] = powerbox.Value{} },
	} {
		t.Run(name, func(t *testing.T) {
			r := library()[0]
			change(&r)
			if a := e.Permits(alice, read, &r, "documents", "documents:read"); a.Allow || a.Reason == "" {
				t.Errorf("got %+v", a)
			}
		})
	}
	for name, a := range map[string]Answer{
		"grant of another agent": e.Permits(alice, read, nil, "documents", "mail:send"),
		"another agent":          e.Permits(alice, read, nil, "mail", "documents:read"),
		"unqualified":            e.Permits(alice, "retrieve", nil, "documents", "documents:read"),
		"a grant":                e.Permits(alice, "documents/documents:read", nil, "documents", "documents:read"),
	} {
		if a.Allow {
			t.Errorf("%s: permitted", name)
		}
	}
}

func TestSEP7_NoPoliciesPermitNothing(t *testing.T) {
	for name, e := range map[string]*Engine{"no files": load(t), "an empty file": load(t, "// nothing yet\n")} {
		docs := library()
		a := e.Permits(Principal{ID: "alice"}, "documents/documents:read/retrieve", &docs[0], "documents", "documents:read")
		if diff := cmp.Diff(Answer{Reason: "no policies are loaded"}, a); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
		if got, a := e.Filter(Principal{ID: "alice"}, "documents/documents:read/retrieve", "documents", "documents:read", docs); len(got) > 0 || a.Allow {
			t.Errorf("%s: Filter gives %v, %+v", name, got, a)
		}
	}
}

func TestSEP8_FilterJoinsWhatItsPermitsDemand(t *testing.T) {
	e := load(t,
		`@maximum_lifetime("1h") permit (principal, action, resource in Collection::"documents/personnel");`+"\n"+
			`@maximum_lifetime("20m") permit (principal, action, resource in Collection::"documents/reports") when { resource.attributes.quarter == "2025-Q2" };`,
		`@approval("human") permit (principal, action, resource == Resource::"documents/reports/q1-sales");`)
	got, a := e.Filter(Principal{ID: "alice"}, "documents/documents:read/retrieve", "documents", "documents:read", library())
	var ids []string
	for _, r := range got {
		ids = append(ids, r.ID)
	}
	if diff := cmp.Diff([]string{"q1-sales", "q2-sales", "salaries"}, ids); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want := Answer{true, []string{"a.cedar:1", "a.cedar:2", "b.cedar:1"}, 20 * time.Minute, ApprovalHuman, "permitted"}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if !e.Veto(Principal{ID: "alice"}, "documents/documents:read/retrieve", "documents", "documents:read", library()...) {
		t.Error("one of four is not permitted, and there is no veto")
	}
}

func TestSEP7_FilterLeavesOutWhatIsNotDeclared(t *testing.T) {
	e := load(t, `permit (principal, action, resource);`)
	docs := library()
	docs[1].Attributes["quarter"] = number(1)
	docs[3].Agent = "mail"
	got, a := e.Filter(Principal{ID: "alice"}, "documents/documents:read/retrieve", "documents", "documents:read", docs)
	if diff := cmp.Diff([]Resource{docs[0], docs[2]}, got); diff != "" || !a.Allow {
		t.Errorf("%+v, -want +got:\n%s", a, diff)
	}
}

// A policy about another user's attributes finds no such user: it fails, and
// so denies what another policy permits.
func TestSEP7_OtherUsersAreUnknown(t *testing.T) {
	e := load(t, `permit (principal, action, resource);`+"\n"+`forbid (principal, action, resource) when { User::"bob".id == principal.id };`)
	got := e.Permits(Principal{ID: "alice"}, "mail/mail:send/send", nil, "mail", "mail:send")
	if diff := cmp.Diff(Answer{Policies: []string{"a.cedar:2"}, Reason: "policy a.cedar:2 could not be evaluated"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestErrorsListNotTooMuch(t *testing.T) {
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprintf("x%02d", i))
	}
	if got := listed(many); got != "x00, x01, x02, x03, x04, x05, x06, x07, x08, x09, x10, x11, and 8 more" {
		t.Error(got)
	}
	if got := listed(nil); got != "none" {
		t.Error(got)
	}
}

func TestLoadRefuses(t *testing.T) {
	paths, err := filepath.Glob("testdata/refused/*.cedar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range paths {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			e, err := Load(map[string][]byte{name: data}, words(t))
			if err == nil || e != nil {
				t.Fatal("accepted")
			}
			if !strings.HasPrefix(err.Error(), name+":") {
				t.Error("the error does not say where")
			}
			compare(t, strings.TrimSuffix(path, ".cedar")+".err", err.Error()+"\n")
		})
	}
}

func compare(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestLoadRefusesWhatTheParserHasNoBoundsFor(t *testing.T) {
	deep := "permit (principal, action, resource) when { // ((((\n" + strings.Repeat("(", 100) + "true" + strings.Repeat(")", 100) + "};"
	for name, c := range map[string]struct{ text, want string }{
		"nesting": {deep, "a.cedar:2: nested too deep; want at most 64 levels of brackets"},
		"size":    {strings.Repeat(" ", MaxFileBytes+1), "a.cedar: 262145 bytes; want at most 262144 (split it)"},
	} {
		_, err := Load(map[string][]byte{"a.cedar": []byte(c.text)}, words(t))
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v; want %s", name, err, c.want)
		}
	}
	fine := `permit (principal in Group::"` + strings.Repeat("(", 100) + `\"(", action, resource);`
	if _, err := Load(map[string][]byte{"a.cedar": []byte(fine)}, words(t)); err != nil {
		t.Error(err)
	}
}

func TestLoadRefusesBadVocabularies(t *testing.T) {
	for name, change := range map[string]func(*Vocabulary){
		"unqualified operation": func(v *Vocabulary) { v.Operations = []string{"retrieve"} },
		"no operation":          func(v *Vocabulary) { v.Operations = []string{"documents/read/"} },
		"quoted operation":      func(v *Vocabulary) { v.Operations = []string{`documents/read/x"; permit`} },
		"long operation":        func(v *Vocabulary) { v.Operations = []string{"a/b/" + strings.Repeat("x", 300)} },
		"collection":            func(v *Vocabulary) { v.Collections = []catalogue.Collection{{Agent: "a", Name: "b/c"}} },
		"attribute type":        func(v *Vocabulary) { v.Attributes = map[string]catalogue.Type{"x": 0} },
		"attribute name":        func(v *Vocabulary) { v.Attributes = map[string]catalogue.Type{`x"`: catalogue.TypeText} },
	} {
		v := words(t)
		change(&v)
		if _, err := Load(nil, v); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestDigest(t *testing.T) {
	a, b := load(t, "permit (principal, action, resource);"), load(t, "permit (principal, action, resource) ;")
	if a.Digest() == b.Digest() || a.Digest() == load(t).Digest() || len(a.Digest()) != len("sha256:")+64 {
		t.Errorf("digests %s and %s", a.Digest(), b.Digest())
	}
	// A policy that moves from one file to the next makes another set.
	x := digestOf(map[string][]byte{"a": []byte("bc"), "d": nil})
	y := digestOf(map[string][]byte{"a": []byte("b"), "d": []byte("c")})
	if x == y {
		t.Error("one digest for two sets")
	}
}

func TestSchemaGolden(t *testing.T) { compare(t, "testdata/schema.cedarschema", quarterly(t).Schema()) }

func TestExplain(t *testing.T) {
	e := quarterly(t)
	docs := library()
	a, findings := e.Explain(Principal{ID: "bob", Roles: []string{"auditor"}}, "documents/documents:read/retrieve", &docs[1], "documents", "documents:read")
	var b strings.Builder
	b.WriteString(a.Reason + "\n")
	for _, f := range findings {
		b.WriteString(f.Policy + ": " + f.Why + "\n")
		if f.Applies != (f.Why == "it permits" || f.Why == "it forbids") || f.Text == "" {
			t.Errorf("%+v", f)
		}
	}
	compare(t, "testdata/explain.txt", b.String())
	if a, findings := e.Explain(Principal{}, "x", nil, "y", "z"); a.Allow || findings != nil {
		t.Errorf("a question that cannot be asked: %+v, %v", a, findings)
	}
	_, findings = e.Explain(Principal{ID: "eve", Groups: []string{"levels"}, Attributes: map[string]powerbox.Value{"level": number(4)}},
		"documents/documents:read/search", nil, "documents", "documents:read")
	if why := findings[len(findings)-1].Why; !strings.HasPrefix(why, "it could not be evaluated: integer overflow") {
		t.Errorf("got %q", why)
	}
}
