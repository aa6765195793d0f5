package token

import (
	"encoding/json"
	"slices"

	"github.com/powerbox-project/powerbox"
)

// sample is a constraint of each type, a narrower one, and a value that both
// admit.
type sample struct{ parent, child, value string }

var constraintTypes = []string{
	"exact", "range", "one_of", "not_one_of", "contains", "subset", "wildcard", "all", "any", "path", "url", "cidr", "glob",
}

var samples = map[string]sample{
	"exact":      {`{"constraint_type":"exact","value":"a"}`, `{"constraint_type":"exact","value":"a"}`, `"a"`},
	"range":      {`{"constraint_type":"range","min":1,"max":10}`, `{"constraint_type":"range","min":2,"max":5}`, `3`},
	"one_of":     {`{"constraint_type":"one_of","values":["a","b"]}`, `{"constraint_type":"one_of","values":["a"]}`, `"a"`},
	"not_one_of": {`{"constraint_type":"not_one_of","excluded":["x"]}`, `{"constraint_type":"not_one_of","excluded":["x","y"]}`, `"a"`},
	"contains":   {`{"constraint_type":"contains","required":["a"]}`, `{"constraint_type":"contains","required":["a","b"]}`, `["a","b"]`},
	"subset":     {`{"constraint_type":"subset","allowed":["a","b"]}`, `{"constraint_type":"subset","allowed":["a"]}`, `["a"]`},
	"wildcard":   {`{"constraint_type":"wildcard"}`, `{"constraint_type":"wildcard"}`, `true`},
	"all": {
		`{"constraint_type":"all","constraints":[{"constraint_type":"range","min":1},{"constraint_type":"range","max":10}]}`,
		`{"constraint_type":"all","constraints":[{"constraint_type":"range","min":2},{"constraint_type":"not_one_of","excluded":[4]},{"constraint_type":"range","max":5}]}`,
		`3`,
	},
	"any": {
		`{"constraint_type":"any","constraints":[{"constraint_type":"one_of","values":["a","b"]},{"constraint_type":"exact","value":1}]}`,
		`{"constraint_type":"any","constraints":[{"constraint_type":"exact","value":"a"}]}`,
		`"a"`,
	},
	"path": {`{"constraint_type":"path","root":"/data"}`, `{"constraint_type":"path","root":"/data/q1"}`, `"/data/q1/report"`},
	"url": {
		`{"constraint_type":"url","schemes":["https"],"hosts":["*.example.com"]}`,
		`{"constraint_type":"url","schemes":["https"],"hosts":["api.example.com"],"path_prefix":"/v1"}`,
		`"https://api.example.com/v1/x"`,
	},
	"cidr": {`{"constraint_type":"cidr","prefix":"10.0.0.0/8"}`, `{"constraint_type":"cidr","prefix":"10.1.0.0/16"}`, `"10.1.2.3"`},
	"glob": {`{"constraint_type":"glob","pattern":"report-*"}`, `{"constraint_type":"glob","pattern":"report-2025-*"}`, `"report-2025-1"`},
}

// tableAllows is the matrix of the draft's section 4.5 and of our extension
// types, written down a second time: which child types may stand under a
// parent type at all.
var tableAllows = map[string][]string{
	"exact":      {"exact"},
	"range":      {"range", "exact"},
	"one_of":     {"one_of", "exact"},
	"not_one_of": {"not_one_of"},
	"contains":   {"contains"},
	"subset":     {"subset"},
	"wildcard":   constraintTypes,
	"all":        {"all"},
	"any":        {"any"},
	"path":       {"path", "exact"},
	"url":        {"url", "exact"},
	"cidr":       {"cidr", "exact"},
	"glob":       {"glob", "exact"},
}

// pair is a parent with a constraint on one argument and a child with another.
func pair(parent, child, value string) func(f *forgery) {
	return func(f *forgery) {
		f.Operation, f.Arguments = "use", `{"v":`+value+`}`
		f.links[0].tools(object{"use": object{"v": json.RawMessage(parent)}})
		f.links[1].tools(object{"use": object{"v": json.RawMessage(child)}})
	}
}

func tableVectors() []forged {
	var out []forged
	wider := []powerbox.Code{CodeWidened}
	for _, p := range constraintTypes {
		for _, c := range constraintTypes {
			child, value := samples[c].child, samples[c].value
			if c == "exact" && p != "contains" && p != "subset" {
				value = samples[p].value
				child = `{"constraint_type":"exact","value":` + value + `}`
			}
			v := forged{name: "table-" + p + "-" + c, hops: 1, change: pair(samples[p].parent, child, value)}
			if !slices.Contains(tableAllows[p], c) {
				v.codes = wider
			}
			out = append(out, v)
		}
	}
	for _, c := range constraintTypes {
		if c == "exact" || c == "wildcard" {
			continue
		}
		out = append(out, forged{"table-wider-" + c, 1, pair(samples[c].child, samples[c].parent, samples[c].value), wider})
	}
	return append(out, tableEdges()...)
}

func exact(v string) string { return `{"constraint_type":"exact","value":` + v + `}` }

func tableEdges() []forged {
	wider, illFormed := []powerbox.Code{CodeWidened}, []powerbox.Code{CodeConstraint}
	all := func(cs string) string { return `{"constraint_type":"all","constraints":[` + cs + `]}` }
	some := func(cs string) string { return `{"constraint_type":"any","constraints":[` + cs + `]}` }
	interval := func(members string) string { return `{"constraint_type":"range"` + members + `}` }
	oneOf := func(vs string) string { return `{"constraint_type":"one_of","values":[` + vs + `]}` }
	tools := func(parent, child string) func(f *forgery) {
		return func(f *forgery) {
			f.Operation, f.Arguments = "use", `{"a":1}`
			f.links[0].tools(object{"use": json.RawMessage(parent)})
			f.links[1].tools(object{"use": json.RawMessage(child)})
		}
	}
	one := `"a":` + exact("1")
	return []forged{
		{"table-exact-other-value", 1, pair(exact(`"a"`), exact(`"b"`), `"b"`), wider},
		{"table-exact-same-number", 1, pair(exact(`1`), exact(`1.0`), `1`), nil},
		{"table-exact-outside-range", 1, pair(interval(`,"max":3`), exact(`4`), `4`), wider},
		{"table-exact-string-in-range", 1, pair(interval(`,"max":3`), exact(`"3"`), `"3"`), wider},
		{"table-exact-outside-one_of", 1, pair(oneOf(`"a"`), exact(`"b"`), `"b"`), wider},
		{"table-exact-outside-path", 1, pair(samples["path"].parent, exact(`"/data/../etc"`), `"/data/../etc"`), wider},
		{"table-exact-outside-cidr", 1, pair(samples["cidr"].parent, exact(`"11.0.0.1"`), `"11.0.0.1"`), wider},
		{"table-exact-outside-glob", 1, pair(samples["glob"].parent, exact(`"other"`), `"other"`), wider},
		{"table-exact-outside-url", 1, pair(samples["url"].parent, exact(`"https://example.org/"`), `"https://example.org/"`), wider},
		{"table-range-drops-min", 1, pair(interval(`,"min":1`), interval(``), `2`), wider},
		{"table-range-drops-max", 1, pair(interval(`,"max":9`), interval(`,"min":1`), `2`), wider},
		{"table-range-adds-bounds", 1, pair(interval(``), interval(`,"min":1,"max":3`), `2`), nil},
		{"table-range-exclusive-tightens", 1, pair(interval(`,"min":1`), interval(`,"min":1,"min_inclusive":false`), `2`), nil},
		{"table-range-inclusive-widens", 1, pair(interval(`,"max":3,"max_inclusive":false`), interval(`,"max":3`), `2`), wider},
		{"table-range-inclusive-inside", 1, pair(interval(`,"max":3,"max_inclusive":false`), interval(`,"max":2`), `2`), nil},
		{"table-all-needs-every-clause", 1, pair(all(interval(`,"min":1`)+`,`+interval(`,"max":9`)), all(interval(`,"min":1`)), `2`), wider},
		{"table-all-one-clause-for-two", 1, pair(all(interval(`,"min":1`)+`,`+interval(`,"min":0`)), all(interval(`,"min":1`)), `2`), nil},
		{"table-all-one-exact-for-two", 1, pair(all(`{"constraint_type":"wildcard"},{"constraint_type":"wildcard"}`), all(exact(`2`)), `2`), nil},
		{"table-all-clauses-in-other-order", 1, pair(all(`{"constraint_type":"wildcard"},`+interval(`,"max":9`)), all(interval(`,"max":5`)+`,{"constraint_type":"not_one_of","excluded":[3]}`), `2`), nil},
		{"table-all-no-clause", 1, pair(all(``), all(``), `2`), illFormed},
		{"table-any-no-clause", 1, pair(some(exact(`1`)), some(``), `1`), illFormed},
		{"table-any-no-clause-in-all", 1, pair(`{"constraint_type":"wildcard"}`, all(some(``)), `1`), illFormed},
		{"table-range-min-above-max", 1, pair(interval(``), interval(`,"min":3,"max":2`), `2`), illFormed},
		{"table-range-min-is-max", 1, pair(interval(``), interval(`,"min":2,"max":2`), `2`), nil},
		{"table-range-inclusive-without-bound", 1, pair(interval(``), interval(`,"min":1,"max_inclusive":true`), `2`), illFormed},
		{"table-range-rounded-bound", 1, pair(interval(``), interval(`,"max":0.10000000000000000001`), `0`), illFormed},
		{"table-range-long-bound", 1, pair(interval(``), interval(`,"max":1e20`), `0`), nil},
		{"table-exact-rounded", 1, pair(interval(``), exact(`9007199254740993`), `1`), illFormed},
		{"table-not_one_of-rounded", 1, pair(`{"constraint_type":"wildcard"}`, `{"constraint_type":"not_one_of","excluded":[[{"a":1.00000000000000000001}]]}`, `1`), illFormed},
		{"table-any-added-clause", 1, pair(some(exact(`1`)), some(exact(`1`)+`,`+exact(`2`)), `2`), wider},
		{"table-any-crosses-types", 1, pair(some(oneOf(`1,2`)), some(exact(`1`)+`,`+exact(`2`)), `2`), nil},
		{"table-one_of-nothing", 1, pair(oneOf(`1,2`), oneOf(``), `2`), illFormed},
		{"table-keys-added", 1, tools(`{`+one+`}`, `{`+one+`,"b":`+exact("1")+`}`), wider},
		{"table-keys-dropped", 1, tools(`{`+one+`,"b":`+exact("1")+`}`, `{`+one+`}`), wider},
		{"table-keys-opened", 1, tools(`{`+one+`}`, `{}`), wider},
		{"table-keys-closed", 1, tools(`{}`, `{`+one+`}`), nil},
	}
}
