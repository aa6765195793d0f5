package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// What a type may have, unless it is listed below with the reason. The lengths of functions
// are checked by the linter: see funlen in .golangci.yml.
const (
	maxMethods = 5
	maxFields  = 15
)

// wide is how many methods of its own, or fields, a type may have, and why: it does not grow.
// An interface that only puts others together has no methods of its own.
type wide struct {
	most   int
	reason string
}

// wideInterfaces have more methods than five. A new one is split instead: the package that
// calls declares the few methods that it calls.
var wideInterfaces = map[string]wide{
	"internal/issuing/issuer.Reader":   {0, "a snapshot, put together of its subjects; functions take a subject"},
	"internal/issuing/issuer.Tx":       {0, "a transaction, put together of its subjects; functions take a subject"},
	"internal/issuing/provider.Reader": {0, "a snapshot, put together of its subjects; functions take a subject"},
	"internal/issuing/provider.Tx":     {0, "a transaction, put together of its subjects; functions take a subject"},
	"internal/issuing/approval.Reader": {0, "a snapshot, put together of its subjects; functions take a subject"},
	"internal/issuing/approval.Tx":     {0, "a transaction, put together of its subjects; functions take a subject"},
	"internal/app.storage":             {5, "all that an instance uses of either store, put together of what its parts declare"},
	"internal/store/storetest.Store":   {18, "all that the contract of both stores is about"},
	"internal/proxy/gateway.binding":   {0, "a binding, put together of its four parts; the stages take a part"},
	"internal/issuing/oauth.Issuing":   {6, "all that a token endpoint does with capabilities, by one issuer"},
	"gate.Revocations":                 {6, "one state that a call is decided by: two values could answer from different moments"},
	"evidence.form":                    {13, "a visitor has a method for each kind of member, and both visitors have all of them"},
}

// wideStructs have more fields than fifteen. Options, configuration, queries, documents and
// what a page shows are not among them, since each of their fields is a setting, a condition
// or a member of its own: see [isList] and declared.tagged.
var wideStructs = map[string]wide{
	"bench/agentdojo.tally":                {16, "the counts of one table"},
	"bench/internal/reliability.Town":      {16, "the processes of one installation"},
	"bench/reliability.bench":              {20, "the flags and parts of one run"},
	"evidence.entry":                       {19, "all that verification keeps of a record: one allocation for each record of a log"},
	"evidence.verifier":                    {18, "the state of one verification"},
	"gate.Call":                            {26, "all that a call says, which one decision reads"},
	"gate.Gate":                            {18, "the parts of the gate, which are configured once"},
	"gate.Verdict":                         {18, "all that a decision says, which the record has"},
	"gate.Held":                            {20, "all that a capability on record says, which one decision reads"},
	"holder.Capability":                    {16, "all that an issuer says of a capability"},
	"internal/app.Instance":                {39, "the parts of a running server"},
	"internal/app/remote.remoteGateway":    {28, "the parts of a running gateway"},
	"internal/issuing/approval.Call":       {20, "a row: each field is stored under its name"},
	"internal/issuing/approval.Question":   {26, "a row: each field is stored under its name"},
	"internal/issuing/issuer.Capability":   {33, "a row: each field is stored under its name"},
	"internal/issuing/provider.Agent":      {18, "a row: each field is stored under its name"},
	"internal/issuing/provider.Approval":   {19, "a row: each field is stored under its name"},
	"internal/issuing/provider.Capability": {16, "the configuration of a capability"},
	"internal/web/api.Admin":               {35, "the parts of the operators' interface, which are configured once"},
	"internal/web/api.Decisions":           {21, "the parts of the programs' interface, which are configured once"},
	"internal/web/api.Gateways":            {27, "the parts of the gateways' interface, which are configured once"},
	"internal/web/console.asked":           {17, "what a page shows of a question"},
	"internal/web/console.field":           {16, "what a page shows of a limit"},
	"token.Context":                        {18, "the claims of a signed context"},
	"token.claims":                         {16, "the claims of a token"},
}

// isList reports whether a struct is a list of settings, of conditions or of what a page shows.
func isList(name string) bool {
	folder, of, _ := strings.Cut(name[strings.LastIndex(name, "/")+1:], ".")
	return folder == "config" || slices.ContainsFunc([]string{"Config", "Options", "Query", "Page"}, func(end string) bool { return strings.HasSuffix(of, end) })
}

func TestInterfacesAndStructsStaySmall(t *testing.T) {
	found, err := readDeclared(mustRoot(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 1000 || found["gate.Recorder"] == nil || found["gate.Recorder"].all != 1 {
		t.Fatalf("%d types and gate.Recorder %+v; want over 1000, and one method", len(found), found["gate.Recorder"])
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		d := found[name]
		listed, isListed := wideInterfaces[name]
		if d.kind == "interface" && d.all > maxMethods && (!isListed || d.own > listed.most) {
			t.Errorf("%s has %d methods, %d of its own; want %d at most: declare the few that its callers use, in their package", name, d.all, d.own, max(maxMethods, listed.most))
		}
		if most := max(maxFields, wideStructs[name].most); d.kind == "struct" && d.own > most && !d.tagged && !isList(name) {
			t.Errorf("%s has %d fields; want %d at most: put fields that belong together into a struct", name, d.own, most)
		}
	}
	for name, w := range wideInterfaces {
		if d := found[name]; d == nil || d.all <= maxMethods || w.reason == "" {
			t.Errorf("%s is listed (%q) and is no interface of more than %d methods; remove the entry", name, w.reason, maxMethods)
		}
	}
	for name, w := range wideStructs {
		if d := found[name]; d == nil || d.own <= maxFields || w.reason == "" {
			t.Errorf("%s is listed (%q) and is no struct of more than %d fields; remove the entry", name, w.reason, maxFields)
		}
	}
}

func TestDeclaredCountsWhatIsEmbedded(t *testing.T) {
	mods := []module{{path: "example.org/m", dir: "."}, {path: "example.org/m/tools", dir: "tools"}}
	found := make(map[string]*declared)
	for rel, src := range map[string]string{
		"a/a.go": "package a\nimport (\"io\"; b \"example.org/m/b\")\ntype Big interface { One(); b.Two; io.Writer; small }\ntype small interface { Three() }\n",
		"b/b.go": "package b\ntype Two interface { Four(); Five() }\ntype S struct { A, B int; Two }\ntype Doc struct { A int `json:\"a\"` }\n",
	} {
		types, err := declaredIn(mods, rel, []byte(src))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range types {
			found[d.name] = d
		}
	}
	if n := methodsOf(found, "a.Big"); n != 5 {
		t.Errorf("a.Big has %d methods, want 5: its own, two of b, one of io and one of a", n)
	}
	if s, doc := found["b.S"], found["b.Doc"]; s.own != 3 || s.tagged || doc.own != 1 || !doc.tagged {
		t.Errorf("b.S %+v with 3 fields and b.Doc %+v as a document", s, doc)
	}
}
