package a2a

import (
	"fmt"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox"
)

func TestATK55_CallsListNoMoreThanIsLookedAt(t *testing.T) {
	repeat := func(element string, n int) string { return strings.TrimSuffix(strings.Repeat(element+",", n), ",") }
	message := func(members string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"role":"ROLE_USER","messageId":"m",` + members + `}}}`
	}
	for _, c := range []struct{ name, body, extensions, want string }{
		{"as many parts", message(`"parts":[` + repeat(`{"text":"x"}`, maxElements) + `]`), "", ""},
		{"parts", message(`"parts":[` + repeat(`{"text":"x"}`, maxElements+1) + `]`), "", "256 elements"},
		{"references", message(`"parts":[{"text":"x"}],"referenceTaskIds":[` + repeat(`"t"`, maxReferences+1) + `]`), "", "lists 65 tasks"},
		{"extensions of the message", message(`"parts":[{"text":"x"}],"extensions":[` + repeat(`"urn:x"`, maxExtensions+1) + `]`), "", "lists 65 extensions"},
		{"extensions of the header", message(`"parts":[{"text":"x"}]`), repeat("urn:x", maxExtensions+1), "more than 64 extensions"},
		{"a long name", message(`"parts":[{"text":"x"}],"metadata":{"` + strings.Repeat("n", maxName+1) + `":1}`), "", "a member name has 1025 bytes"},
		{"long names of other letters", message(`"parts":[{"text":"x"}],"metadata":{` + manyNames(90) + `}`), "", "not of ASCII"},
		{"__proto__ in arguments", message(`"parts":[{"data":{"skill":"s","arguments":{"__proto__":{}}}}]`), "", `"__proto__"`},
		{"constructor in metadata", message(`"parts":[{"text":"x"}],"metadata":{"a":[{"constructor":1}]}`), "", `"constructor"`},
		{"prototype", message(`"parts":[{"text":"x"}],"metadata":{"prototype":1}`), "", `"prototype"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, wrong := Decode([]byte(c.body), Header{Version: "1.0", Extensions: []string{c.extensions}}, powerbox.Limits{Bytes: 4 << 20, Depth: 64})
			if c.want == "" && wrong != nil || c.want != "" && (wrong == nil || !strings.Contains(wrong.Message, c.want)) {
				t.Errorf("ATK-55: %v; want %q", wrong, c.want)
			}
		})
	}
}

func manyNames(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(`"%s%d":1`, strings.Repeat("\u00e9", 400), i))
	}
	return strings.Join(out, ",")
}

// Queries pass by a list of names, and are short.
func TestATK27_QueriesHaveKnownNamesOnly(t *testing.T) {
	for query, want := range map[string]string{
		"pageSize=5&A2A-Version=1.0":             "",
		"_method=DELETE":                         `"_method"`,
		"tenant[]=x":                             `"tenant[]"`,
		"tenant%5B%5D=x":                         `"tenant[]"`,
		"__proto__=x":                            `"__proto__"`,
		"x=1":                                    `"x"`,
		strings.Repeat("&", maxPairs):            "64 parameters",
		"pageToken=" + strings.Repeat("x", 9000): "8192 bytes",
	} {
		_, wrong := DecodeHTTP(HTTPRequest{Method: "GET", Path: "/tasks", Query: query}, Header{Version: "1.0"}, powerbox.Limits{Bytes: 4 << 20, Depth: 64})
		if want == "" && wrong != nil || want != "" && (wrong == nil || !strings.Contains(wrong.Message, want)) {
			t.Errorf("ATK-27: %.40q: %v; want %q", query, wrong, want)
		}
	}
}

// A name that occurs twice is refused at every level.
func TestATK27_NamesThatOccurTwice(t *testing.T) {
	for _, metadata := range []string{`{"a":1,"a":2}`, `{"x":{"a":1,"\u0061":2}}`, `{"x":[1,{"a":1,"b":2,"a":3}]}`} {
		body := `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"metadata":` + metadata + `}}`
		if c, wrong := Decode([]byte(body), Header{Version: Version1}, testLimits); wrong == nil || wrong.Reason != ReasonSyntax {
			t.Errorf("ATK-27: %s was read and goes on as %s (%v)", metadata, c.Body(), wrong)
		}
	}
}
