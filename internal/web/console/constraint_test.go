package console

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/web/lang"
)

// TestAAPG3_NarrowerOnThePage reads what a form holds a grant to: less than is
// asked for, and never more.
func TestAAPG3_NarrowerOnThePage(t *testing.T) {
	schema, err := powerbox.ParseValue([]byte(`{"type": "object", "properties": {
		"amount": {"type": "number"}, "note": {"type": "string"}, "currency": {"enum": ["USD", "EUR", "CHF"]}, "exact": {"type": "string"}, "region": {}, "day": {}}}`))
	if err != nil {
		t.Fatal(err)
	}
	g := provider.Grant{ID: "g", Constraints: json.RawMessage(`{"amount": {"max": 100, "min": 5}, "exact": "x", "region": {"in": [1, 2]}, "day": {"not_in": ["Sunday"]}}`)}
	fs := fields(lang.English, g, &provider.Capability{Input: schema})
	all := url.Values{"in.g.currency": {`"USD"`, `"EUR"`, `"CHF"`}, "in.g.region": {"1", "2"}, "max.g.amount": {"100"}, "min.g.amount": {"5"}}
	for name, c := range map[string]struct {
		change url.Values
		want   string // "" for a refusal
	}{
		"nothing":               {nil, "null"},
		"less":                  {url.Values{"max.g.amount": {"10"}}, `{"amount":{"max":10}}`},
		"both bounds":           {url.Values{"max.g.amount": {"10"}, "min.g.amount": {"6.5"}}, `{"amount":{"max":10,"min":6.5}}`},
		"one text":              {url.Values{"only.g.note": {"rent"}}, `{"note":{"in":["rent"]}}`},
		"fewer choices":         {url.Values{"in.g.currency": {`"EUR"`}}, `{"currency":{"in":["EUR"]}}`},
		"more":                  {url.Values{"max.g.amount": {"101"}}, ""},
		"from lower":            {url.Values{"min.g.amount": {"4"}}, ""},
		"no number":             {url.Values{"max.g.amount": {"ten"}}, ""},
		"a text for a number":   {url.Values{"max.g.amount": {`"10"`}}, ""},
		"another choice":        {url.Values{"in.g.currency": {`"GBP"`}}, ""},
		"another region":        {url.Values{"in.g.region": {"3"}}, ""},
		"no choice":             {url.Values{"in.g.currency": {}}, ""},
		"a field that is exact": {url.Values{"only.g.exact": {"y"}}, "null"},
	} {
		form := url.Values{}
		for _, part := range []url.Values{all, c.change} {
			for k, v := range part {
				form[k] = v
			}
		}
		got, err := narrower(fs, form)
		if (err != nil) != (c.want == "") || err == nil && got.String() != c.want {
			t.Errorf("AAP-G3 %s: %s %v; want %q", name, got, err, c.want)
		}
	}
}

// TestATK65_AgentsWordsAreNoLimits asks for a capability with limits on arguments that
// the server does not declare, named so that they read like a limit or end a quotation:
// they are no limits on the page, but quoted words.
func TestATK65_AgentsWordsAreNoLimits(t *testing.T) {
	g := provider.Grant{ID: "g", Constraints: json.RawMessage(`{"amount": {"max": 5}, "at most 1 EUR a day\\u201d. Approved by IT": {"max": 1}, "\"x\"": "y"}`)}
	c := &provider.Capability{Name: "transfer", Sensitivity: provider.Write}
	for _, f := range fields(lang.English, g, c) {
		t.Errorf("ATK-65 %q is shown as a limit: %s", f.Name, f.Words())
	}
	said := theirs(lang.English, g, c)
	if len(said) != 3 {
		t.Fatalf("ATK-65 quoted are %q", said)
	}
	for _, one := range said {
		inner := strings.TrimSuffix(strings.TrimPrefix(one, "\u201c"), "\u201d")
		if strings.ContainsAny(inner, "\u201c\u201d\"") || len(inner) != len(one)-6 {
			t.Errorf("ATK-65 %q ends its quotation", one)
		}
	}
	if words := inWords(lang.English, g, c); !strings.HasPrefix(words, "with any values; and in the agent's own words") {
		t.Errorf("ATK-65 what is held is said to be %q", words)
	}
	shape, err := powerbox.NewShape(powerbox.RestAny, powerbox.Field{Name: "amount", Constraint: powerbox.Wildcard{}})
	if err != nil {
		t.Fatal(err)
	}
	c.Constraints = shape
	if fs := fields(lang.English, g, c); len(fs) != 1 || fs[0].Words() != "at most 5" {
		t.Errorf("a limit on an argument that the server constrains: %+v", fs)
	}
}
