package token

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// reverseFolder has questions that draft -02 decides and its published vectors do not ask.
const reverseFolder = "../testdata/vectors/aat"

// ruled is a question with the section of the draft that decides it. Unlike the answers of
// the other vectors, these were not taken from this implementation.
type ruled struct {
	section string
	forged
	allow bool
}

// ruledVector is one of a file. Codes are ours and no part of it.
type ruledVector struct {
	Section string `json:"section"`
	vector
	Codes *struct{} `json:"codes,omitempty"`
}

// writtenNumber is a JSON number as written, with its form of RFC 8785 where it may be used.
type writtenNumber struct{ text, canonical string }

// numbers: one may be used if its form of RFC 8785 denotes the same number. By that rule -0
// may be used, too. This implementation refuses it, so it is not asked here.
var numbers = []writtenNumber{
	{"0", "0"},
	{"0.0", "0"},
	{"0e5", "0"},
	{"1.0", "1"},
	{"10e-1", "1"},
	{"1e2", "100"},
	{"1E+2", "100"},
	{"0.1", "0.1"},
	{"2.50", "2.5"},
	{"1e20", "100000000000000000000"},
	{"100000000000000000000", "100000000000000000000"},
	{"1e21", "1e+21"},
	{"9007199254740992", "9007199254740992"},
	{"9007199254740994", "9007199254740994"},
	{"0.000001", "0.000001"},
	{"1e-7", "1e-7"},
	{"123456789.125", "123456789.125"},
	{"1.7976931348623157e308", "1.7976931348623157e+308"},
	{"5e-324", "5e-324"},
	{"9007199254740993", ""},
	{"-9007199254740993", ""},
	{"1.00000000000000001", ""},
	{"0.10000000000000000001", ""},
	{"3.141592653589793238", ""},
	{"123456789012345678901234567890", ""},
	{"1e400", ""},
	{"1e-400", ""},
	{"18446744073709551617", ""},
	{"0.30000000000000004441", ""},
}

func (n writtenNumber) under(constraint string) func(f *forgery) {
	return func(f *forgery) {
		f.Operation, f.Arguments = "use", `{"n":`+n.text+`}`
		f.links[0].tools(object{"use": json.RawMessage(`{"n":` + strings.ReplaceAll(constraint, "N", n.text) + `}`)})
		if n.canonical != "" {
			f.proof.claims["hta"] = json.RawMessage(`{"n":` + n.canonical + `}`)
		}
	}
}

func numberVectors() (out []ruled) {
	for _, n := range numbers {
		allow := n.canonical != ""
		for place, constraint := range map[string]string{
			"argument": `{"constraint_type":"wildcard"}`,
			"exact":    `{"constraint_type":"exact","value":N}`,
			"one_of":   `{"constraint_type":"one_of","values":["x",N]}`,
			"range":    `{"constraint_type":"range","max":N}`,
			"all":      `{"constraint_type":"all","constraints":[{"constraint_type":"wildcard"},{"constraint_type":"range","min":N}]}`,
		} {
			out = append(out, ruled{"3.4", forged{name: fmt.Sprintf("%s as %s", n.text, place), change: n.under(constraint)}, allow})
		}
		// The constraint's number counts where the argument has another one, too.
		out = append(out, ruled{"3.4", forged{name: n.text + " in not_one_of, argument x", change: func(f *forgery) {
			f.Operation, f.Arguments = "use", `{"n":"x"}`
			f.links[0].tools(object{"use": json.RawMessage(`{"n":{"constraint_type":"not_one_of","excluded":[` + n.text + `]}}`)})
		}}, allow})
	}
	return out
}

// timeVectors: times and depths have neither fraction nor exponent.
func timeVectors() (out []ruled) {
	for _, c := range []struct {
		claim string
		value int64
	}{{"iat", now - 600}, {"exp", now + 3600}, {"del_depth", 0}, {"del_max_depth", 16}, {"proof iat", now}} {
		for _, text := range []string{"%d", "%d.0", "%d.5", "%de0", `"%d"`, "[%d]"} {
			text = fmt.Sprintf(text, c.value)
			out = append(out, ruled{"3.2", forged{name: c.claim + " is " + text, change: func(f *forgery) {
				if c.claim == "proof iat" {
					f.proof.claims["iat"] = json.RawMessage(text)
				} else {
					f.links[0].claims[c.claim] = json.RawMessage(text)
				}
			}}, text == fmt.Sprint(c.value)})
		}
	}
	return out
}

// audienceVectors: each token that names audiences is for this point, and a proof that names one.
func audienceVectors() (out []ruled) {
	const here, there = "https://a.example/mcp", "https://b.example/mcp"
	for _, c := range []struct {
		name, aud string
		allow     bool
	}{
		{"here", `"` + here + `"`, true},
		{"the other name of here", `"urn:a"`, true},
		{"there", `"` + there + `"`, false},
		{"here and there", `["` + there + `","` + here + `"]`, true},
		{"there twice", `["` + there + `","` + there + `"]`, false},
		{"an empty list", `[]`, false},
		{"an empty text", `""`, false},
		{"a slash more", `"` + here + `/"`, false},
		{"another case", `"HTTPS://a.example/mcp"`, false},
		{"escaped", `"https://a.example/%6dcp"`, false},
		{"a prefix", `"https://a.example"`, false},
		{"a number", `1`, false},
		{"an object", `{}`, false},
		{"a list with a number", `["` + here + `",1]`, false},
		{"a list in a list", `[["` + here + `"]]`, false},
	} {
		for place, link := range map[string]int{"root": 0, "middle": 1, "leaf": 2} {
			out = append(out, ruled{"3.2, 8 step 6c", forged{name: place + " is for " + c.name, hops: 2, change: func(f *forgery) {
				f.Point = &Point{Identity: []string{here, "urn:a"}}
				f.links[link].claims["aud"] = json.RawMessage(c.aud)
			}}, c.allow})
		}
		if c.aud[0] == '"' {
			out = append(out, ruled{"7.2, 8 step 7d", forged{name: "proof is for " + c.name, change: func(f *forgery) {
				f.Point = &Point{Identity: []string{here, "urn:a"}}
				f.proof.claims["aat_aud"] = json.RawMessage(c.aud)
			}}, c.allow})
		}
	}
	return out
}

// typeVectors: every part has its type and an algorithm of the list, exactly.
func typeVectors() (out []ruled) {
	for place, at := range map[string]int{"root": 0, "middle": 1, "leaf": 2, "proof": 3} {
		part := func(f *forgery) *part {
			if at == 3 {
				return f.proof
			}
			return f.links[at]
		}
		own, other := "aat+jwt", "aat-pop+jwt"
		if at == 3 {
			own, other = other, own
		}
		for _, typ := range []any{own, other, nil, "", "JWT", "jwt", strings.ToUpper(own), "application/" + own, own + " ", "at+jwt", 1, []string{own}} {
			out = append(out, ruled{"3.5", forged{name: fmt.Sprintf("typ of the %s is %v", place, typ), hops: 2, change: func(f *forgery) { part(f).header["typ"] = typ }}, typ == own})
		}
		for _, alg := range []any{"EdDSA", "none", "", "ed25519", "HS256", "Ed448", nil, 1} {
			out = append(out, ruled{"3.5, 9.12", forged{name: fmt.Sprintf("alg of the %s is %v", place, alg), hops: 2, change: func(f *forgery) { part(f).header["alg"] = alg }}, false})
		}
		for _, c := range []struct {
			name  string
			value any
			allow bool
		}{{"jku", "https://evil.example/keys", true}, {"x5u", "https://evil.example/x5", true}, {"cty", "JWT", true}, {"zip", "DEF", true}, {"crit", []string{"exp"}, false}, {"crit", []string{}, false}} {
			out = append(out, ruled{"3.5", forged{name: fmt.Sprintf("%s of the %s is %v", c.name, place, c.value), hops: 2, change: func(f *forgery) { part(f).header[c.name] = c.value }}, c.allow})
		}
	}
	return out
}

// keyState is what a constraint map says of the argument a, beside a required b.
type keyState struct {
	a    string // required, optional, or absent
	star bool
}

func (k keyState) json() string {
	members := []string{`"b":{"constraint_type":"wildcard"}`}
	switch k.a {
	case "required":
		members = append(members, `"a":{"constraint_type":"range","max":5}`)
	case "optional":
		members = append(members, `"a":{"constraint_type":"range","max":5,"optional":true}`)
	}
	if k.star {
		members = append(members, `"*":{"constraint_type":"wildcard"}`)
	}
	return "{" + strings.Join(members, ",") + "}"
}

// narrows is section 4.5 on the keys of two maps, in its words.
func narrows(parent, child keyState) bool {
	switch {
	case child.a != "absent" && parent.a == "absent" && !parent.star: // each key is named by the parent, or under its star
		return false
	case parent.a == "required" && child.a != "required": // what it requires remains required
		return false
	case child.a == "absent" && parent.a == "optional" && child.star: // left out only without the star
		return false
	case child.star && !parent.star: // a star is never added
		return false
	}
	return true
}

// starVectors are all pairs of maps with and without a key and the star.
func starVectors() (out []ruled) {
	var states []keyState
	for _, a := range []string{"required", "optional", "absent"} {
		states = append(states, keyState{a, false}, keyState{a, true})
	}
	for _, parent := range states {
		for _, child := range states {
			arguments := `{"b":true}`
			if child.a == "required" {
				arguments = `{"a":1,"b":true}`
			}
			out = append(out, ruled{"3.3, 4.5", forged{name: fmt.Sprintf("a is %s, star %t; then %s, star %t", parent.a, parent.star, child.a, child.star), hops: 1, change: func(f *forgery) {
				f.Operation, f.Arguments = "use", arguments
				f.links[0].tools(object{"use": json.RawMessage(parent.json())})
				f.links[1].tools(object{"use": json.RawMessage(child.json())})
			}}, narrows(parent, child)})
		}
	}
	return out
}

// clauses are constraints that all admit 3, each with those of the list that the table of
// section 4.5 has below it.
var clauses = []struct {
	name, json string
	below      []int
}{
	{"range to 5", `{"constraint_type":"range","max":5}`, []int{0, 2}},
	{"range to 10", `{"constraint_type":"range","max":10}`, []int{0, 1, 2}},
	{"exact 3", `{"constraint_type":"exact","value":3}`, []int{2}},
	{"one of 3 and 4", `{"constraint_type":"one_of","values":[3,4]}`, []int{2, 3}}, // not below a range: that pair is not listed
	{"wildcard", `{"constraint_type":"wildcard"}`, []int{0, 1, 2, 3, 4}},
}

// clauseVectors are lists under lists: all may use a clause of the child twice, any may leave some out.
func clauseVectors() (out []ruled) {
	list := func(kind string, at ...int) string {
		var all []string
		for _, i := range at {
			all = append(all, clauses[i].json)
		}
		return `{"constraint_type":"` + kind + `","constraints":[` + strings.Join(all, ",") + `]}`
	}
	below := func(parent, child int) bool { return slices.Contains(clauses[parent].below, child) }
	question := func(name, parent, child string, allow bool) {
		out = append(out, ruled{"4.5", forged{name: name, hops: 1, change: func(f *forgery) {
			f.Operation, f.Arguments = "use", `{"n":3}`
			f.links[0].tools(object{"use": json.RawMessage(`{"n":` + parent + `}`)})
			f.links[1].tools(object{"use": json.RawMessage(`{"n":` + child + `}`)})
		}}, allow})
	}
	for p := range clauses {
		for q := p; q < len(clauses); q++ {
			for c := range clauses {
				names := fmt.Sprintf("%s, %s; then %s", clauses[p].name, clauses[q].name, clauses[c].name)
				question("all of "+names, list("all", p, q), list("all", c), below(p, c) && below(q, c))
				question("any of "+names, list("any", p, q), list("any", c), below(p, c) || below(q, c))
			}
		}
		question("all of "+clauses[p].name+"; then that alone, without all", list("all", p), clauses[p].json, false)
		question("any of "+clauses[p].name+"; then that alone, without any", list("any", p), clauses[p].json, false)
		question(clauses[p].name+"; then all of it", clauses[p].json, list("all", p), clauses[p].name == "wildcard")
	}
	for _, kind := range []string{"all", "any"} {
		question("empty "+kind+" below a wildcard", clauses[4].json, list(kind), false)
		question("empty "+kind+" below itself", list(kind), list(kind), false)
		question("empty "+kind+" inside all", list("all", 4), `{"constraint_type":"all","constraints":[`+list(kind)+`]}`, false)
	}
	return out
}

// reverseFiles are the vectors by file.
func reverseFiles() map[string][]ruled {
	return map[string][]ruled{"numbers": numberVectors(), "times": timeVectors(), "audience": audienceVectors(), "types": typeVectors(), "star": starVectors(), "clauses": clauseVectors()}
}

// TestReverseVectors answers them as the draft does, by files that another implementation
// can be asked.
func TestReverseVectors(t *testing.T) {
	total := 0
	for file, questions := range reverseFiles() {
		var all struct {
			Draft   string        `json:"draft"`
			Vectors []ruledVector `json:"vectors"`
		}
		all.Draft = "draft-niyikiza-oauth-attenuating-agent-tokens-02"
		slices.SortFunc(questions, func(a, b ruled) int { return strings.Compare(a.name, b.name) })
		for _, q := range questions {
			v := ruledVector{Section: q.section, vector: q.vector(t)}
			v.Name, v.Decision = q.name, "deny"
			if q.allow {
				v.Decision = "allow"
			}
			if got := v.check(); got.Allowed != q.allow {
				t.Errorf("%s: %s (section %s): allowed is %t, %v", file, q.name, q.section, got.Allowed, got.Reasons)
			}
			all.Vectors = append(all.Vectors, v)
		}
		total += len(all.Vectors)
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(all); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(reverseFolder, file+".json")
		if *update {
			if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		stored, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		// ES256 signs with randomness, so questions are compared without signatures.
		if diff := cmp.Diff(unsigned(t, stored), unsigned(t, b.Bytes())); diff != "" {
			t.Errorf("%s is not what the code makes; run with -update\n%s", name, diff)
		}
	}
	if total < 150 {
		t.Errorf("only %d vectors", total)
	}
}

// unsigned is a file without what differs each time it is made.
func unsigned(t *testing.T, data []byte) any {
	t.Helper()
	var all struct {
		Draft   string
		Vectors []struct {
			Section, Name, Operation, Arguments, Decision string
			Point                                         any
		}
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return all
}
