package api

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// A selection of records means what it says, or is refused.
func TestASelectionOfRecordsIsReadWhole(t *testing.T) {
	for query, want := range map[string]string{
		"agent=notes&since=2026-01-02T15:04:05Z": "",
		"until=0001-01-01T00:00:00Z":             "until must be a time such as",
		"since=0001-01-01T00:00:00Z":             "since must be a time such as",
		"since=tomorrow":                         "since must be a time such as",
		"limit=0":                                "limit must be a number from 1",
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		_, err = recordQuery(q)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v; want %q", query, err, want)
		}
	}
	for _, p := range recordParameters {
		value := map[string]string{"since": "2026-01-02T15:04:05Z", "until": "2026-01-02T15:04:05Z", "limit": "7"}[p.name]
		if value == "" {
			value = "x"
		}
		if q, err := recordQuery(url.Values{p.name: {value}}); err != nil || reflect.DeepEqual(q, issuer.RecordQuery{Limit: pageLimit, Scan: pageScan}) {
			t.Errorf("records are not selected by %s: %+v, %v", p.name, q, err)
		}
	}
}

// TestATK118_AQueryThatCannotBeReadWholeSelectsNothing asks every operation with parameters that it
// does not have or that cannot be meant. A handler would take each of them for no limit.
func TestATK118_AQueryThatCannotBeReadWholeSelectsNothing(t *testing.T) {
	a := town()
	h := served(a)
	ask := func(pattern, query string) (int, string) {
		t.Helper()
		method, path, _ := strings.Cut(braced.ReplaceAllString(pattern, "1"), " ")
		r := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
		r.URL.RawQuery = query
		r.Header.Set("Authorization", "Bearer "+a.Operators.Token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	parameters := 0
	for _, route := range a.table() {
		for query, want := range map[string]string{"unknown=x": `this cannot be selected by`, "unknown": `this cannot be selected by`, "=": "this cannot be selected by", "a=%zz": "cannot be read", "a;b=c": "cannot be read"} {
			if code, says := ask(route.pattern, query); code != http.StatusBadRequest || !strings.Contains(says, want) {
				t.Errorf("ATK-118 %s?%s: %d %s; want 400 and %q", route.pattern, query, code, says, want)
			}
		}
		for _, p := range route.query {
			parameters++
			bad := map[string]string{"=": "is empty", "": "is empty", "=%ff": "is not a text", "=x&" + p.name + "=": "", "=%zz": "cannot be read", "=x;y": "cannot be read"}
			if !p.many {
				bad["=x&"+p.name+"=y"] = "is there more than once"
			}
			for query, want := range bad {
				if code, says := ask(route.pattern, p.name+query); code != http.StatusBadRequest || !strings.Contains(says, want) {
					t.Errorf("ATK-118 %s?%s%s: %d %s; want 400 and %q", route.pattern, p.name, query, code, says, want)
				}
			}
			if code, says := ask(route.pattern, p.name+"=x"); code != http.StatusNoContent {
				t.Errorf("ATK-118 %s?%s=x: %d %s", route.pattern, p.name, code, says)
			}
		}
	}
	if parameters < 40 {
		t.Errorf("ATK-118: %d parameters; want those of all searches", parameters)
	}
}

// TestATK118_ASearchOfTheRegistryIsReadWhole is the same for the registry, which callers search too.
func TestATK118_ASearchOfTheRegistryIsReadWhole(t *testing.T) {
	g := &Registry{Admin: town()}
	h := g.Handler()
	for _, path := range []string{PathRegistry + "?trust=", PathRegistry + "?depth=", PathRegistry + "?skill=%zz", PathRegistry + "?depth=1&depth=2", PathRegistry + "?unknown=x", PathRegistry + "/notes?x=y"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
		r.Header.Set("Authorization", "Bearer "+g.Admin.Operators.Token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusBadRequest {
			t.Errorf("ATK-118 %s: %d %s; want 400", path, w.Code, w.Body)
		}
	}
}
