package api

import (
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
