package lang

import (
	"slices"
	"testing"
)

// TestLanguageOfAReader takes the language that the reader chose, and otherwise the best one
// for the browser.
func TestLanguageOfAReader(t *testing.T) {
	for _, c := range []struct{ chosen, accept, want string }{
		{"", "", "en"},
		{"", "de", "de"},
		{"", "de-AT,de;q=0.9,en;q=0.5", "de"},
		{"", "en-GB,de;q=0.9", "en"},
		{"", "fr,de;q=0.5", "de"},
		{"", "fr", "en"},
		{"de", "en", "de"},
		{"en", "de", "en"},
		{"xx", "de", "de"},
		{"", "de;q=banana", "en"},
		{"../de", "", "en"},
	} {
		if got := Choose(c.chosen, c.accept).Tag; got != c.want {
			t.Errorf("a reader who chose %q, with a browser that prefers %q, gets %s; want %s", c.chosen, c.accept, got, c.want)
		}
	}
}

// TestMoneyInEveryLanguage places the currency, and groups the digits, as the language does.
func TestMoneyInEveryLanguage(t *testing.T) {
	for _, c := range []struct{ digits, currency, english, german string }{
		{"2500", "\u20ac", "\u20ac2,500", "2.500\u00a0\u20ac"},
		{"-1234567.5", "US$", "-US$1,234,567.50", "-1.234.567,50\u00a0US$"},
		{"12", "CHF", "CHF\u00a012", "12\u00a0CHF"},
		{"0.125", "\u00a3", "\u00a30.125", "0,125\u00a0\u00a3"},
	} {
		if got := English.Money(c.digits, c.currency); got != c.english {
			t.Errorf("%s %s in English is %q; want %q", c.digits, c.currency, got, c.english)
		}
		if got := German.Money(c.digits, c.currency); got != c.german {
			t.Errorf("%s %s in German is %q; want %q", c.digits, c.currency, got, c.german)
		}
	}
}

// TestPluralForms uses the form for the number, and no language is English.
func TestPluralForms(t *testing.T) {
	var none *Language
	for n, want := range map[int][3]string{1: {"1 day", "1 Tag", "1 day"}, 0: {"0 days", "0 Tage", "0 days"}, 12345: {"12\u2009345 days", "12\u2009345 Tage", "12\u2009345 days"}} {
		if got := [3]string{English.N(n, "%s day", "%s days"), German.N(n, "%s day", "%s days"), none.N(n, "%s day", "%s days")}; got != want {
			t.Errorf("%d days are %q; want %q", n, got, want)
		}
	}
}

// TestPartsOfATemplate finds the smallest pieces that have words, with the actions and tags of
// a sentence, and the attributes that people read. Code and values are none.
func TestPartsOfATemplate(t *testing.T) {
	for source, want := range map[string][]string{
		`<h1>Revoke  {{.What}}
?</h1>`: {"Revoke {{.What}} ?"},
		`<p>{{if .One}}<strong>{{.N}} call</strong> ends.{{else}}None.{{end}}</p>`:                                {"<strong>{{.N}} call</strong> ends.", "None."},
		`<td>{{.ID}}{{if .Frozen}} <span class="tag">frozen</span>{{end}}</td>`:                                   {"frozen"},
		`<p>{{number .N}} of <code>powerbox call</code></p><code>powerbox trace</code>`:                           {"{{number .N}} of <code>powerbox call</code>"},
		`<a href="{{if eq .A "b c"}}/x y{{end}}" title="Search for {{.Name}}">{{.ID}}</a>`:                        {"Search for {{.Name}}"},
		`{{if .A}}<p>First</p>{{else}}<p>Second</p>{{end}}`:                                                       {"First", "Second"},
		`<label>Search <input name="q" placeholder="{{if .X}}a name{{else}}any{{end}}" value="not this"></label>`: {"Search", "a name", "any"},
		`<p>{{range $i, $a := .All}}{{if $i}}, {{end}}<b>{{$a}}</b>{{end}}</p>&rarr;`:                             nil,
	} {
		if got := Parts(source); !slices.Equal(got, want) {
			t.Errorf("the parts of\n%s\nare %q; want %q", source, got, want)
		}
	}
	if got := German.Template("<h1>\n Home </h1><p title=\"Reason\">{{.Home}} <a href=\"/Home\">Live</a></p>"); got != "<h1>\n Übersicht </h1><p title=\"Grund\">{{.Home}} <a href=\"/Home\">Live</a></p>" {
		t.Errorf("a German template is %q", got)
	}
}
