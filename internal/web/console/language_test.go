package console

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/web/lang"
)

// TestLanguageIsKept keeps the chosen language in a cookie, and leads back to a page of the
// console alone. Another language is refused.
func TestLanguageIsKept(t *testing.T) {
	for _, c := range []struct{ query, to, cookie string }{
		{"to=de&back=/hosts?a=b", "/hosts?a=b", "powerbox-language=de; Path=/; Max-Age=31536000; HttpOnly; SameSite=Strict"},
		{"to=en&back=https://evil.example/", "/approve", "powerbox-language=en; Path=/; Max-Age=31536000; HttpOnly; SameSite=Strict"},
		{"to=de&back=//evil.example/", "/approve", "powerbox-language=de; Path=/; Max-Age=31536000; HttpOnly; SameSite=Strict"},
		{"to=../en&back=/hosts", "", ""},
	} {
		k, w := testConsole(t), httptest.NewRecorder()
		err := k.setLanguage(&visit{w: w, r: httptest.NewRequest(http.MethodGet, "/language?"+c.query, nil)})
		if (err == nil) != (c.to != "") || w.Header().Get("Location") != c.to || w.Header().Get("Set-Cookie") != c.cookie {
			t.Errorf("%s leads to %q with the cookie %q, %v; want %q with %q", c.query, w.Header().Get("Location"), w.Header().Get("Set-Cookie"), err, c.to, c.cookie)
		}
	}
}

// TestPagesParseInEveryLanguage parses every template in every language, with the same names.
func TestPagesParseInEveryLanguage(t *testing.T) {
	all := testConsole(t).templates()
	english, err := all["en"]()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lang.All() {
		pages, err := all[l.Tag]()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := len(pages.Templates()), len(english.Templates()); got != want {
			t.Errorf("%s has %d templates; want the %d of English", l.Name, got, want)
		}
	}
}

// TestGermanWordsOfThePageAreMarked warns of agents whose words read like the German page, and
// has foreign words end no quotation of any language.
func TestGermanWordsOfThePageAreMarked(t *testing.T) {
	for _, text := range []string{"Gepr\u00fcft und sicher", "schon genehmigt von der IT", "Bekannter Computer"} {
		if got := imitates(lang.German, text); !strings.Contains(got, "klingen wie diese Seite") {
			t.Errorf("%q: the warning is %q", text, got)
		}
	}
	if got := imitates(lang.German, "Um die Miete zu zahlen"); got != "" {
		t.Errorf("an honest reason is marked: %s", got)
	}
	if got, want := quoted(lang.German, "Ende\u201c und \u201e\u201d", maxQuoted), "\u201eEnde\\u201c und \\u201e\\u201d\u201c"; got != want {
		t.Errorf("foreign words are quoted as %s; want %s", got, want)
	}
}
