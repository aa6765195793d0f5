package console

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/provider"
)

// TestAAPG3_NarrowerOnThePage reads what a form holds a grant to: less than is
// asked for, and never more.
func TestAAPG3_NarrowerOnThePage(t *testing.T) {
	schema, err := powerbox.ParseValue([]byte(`{"type": "object", "properties": {
		"amount": {"type": "number"}, "note": {"type": "string"}, "currency": {"enum": ["USD", "EUR", "CHF"]}, "exact": {"type": "string"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	g := provider.Grant{ID: "g", Constraints: json.RawMessage(`{"amount": {"max": 100, "min": 5}, "exact": "x", "region": {"in": [1, 2]}, "day": {"not_in": ["Sunday"]}}`)}
	fs := fields(g, &provider.Capability{Input: schema})
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
