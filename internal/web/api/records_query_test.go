package api

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// A selection of records means what it says, or is refused.
func TestASelectionOfRecordsIsReadWhole(t *testing.T) {
	for query, want := range map[string]string{
		"agent=notes&since=2026-01-02T15:04:05Z": "",
		"agent=notes&agent=mail":                 "agent is there more than once",
		"agents=notes":                           `records cannot be selected by "agents"`,
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
}

// A name with two values is refused in every selection: readers differ in which one counts.
func TestASelectionHasOneValueForAName(t *testing.T) {
	for path, read := range map[string]func(url.Values) error{
		"records?agent=a&agent=b":      func(q url.Values) error { _, err := recordQuery(q); return err },
		"capabilities?agent=a&agent=b": func(q url.Values) error { _, err := inForceQuery(q); return err },
		"stream?agent=a&agent=b":       func(q url.Values) error { _, _, err := liveQuery(q); return err },
		"agents?after=a&after=b":       func(q url.Values) error { _, err := agentQueryOf(q); return err },
		"graph?until=2026-01-02T15:04:05Z&until=2026-01-03T15:04:05Z": func(q url.Values) error {
			_, err := graphQuery(&http.Request{URL: &url.URL{RawQuery: q.Encode()}})
			return err
		},
	} {
		u, err := url.Parse(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := read(u.Query()); err == nil || !strings.Contains(err.Error(), "is there more than once") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
