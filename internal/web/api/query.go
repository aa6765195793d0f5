package api

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// parameter is a parameter in the query.
type parameter struct {
	name, says string
	many       bool // it can be repeated
}

// checkQuery refuses a query that cannot be read whole: one that is not well formed, an unknown
// name, an empty value, a second value, or one that is no text. Package url leaves out what it
// cannot read, and the handlers take an absent value for no limit: the caller would take all
// records for its selection.
func checkQuery(r *http.Request, known []parameter) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return status{http.StatusBadRequest, "the query of the URL cannot be read: " + err.Error()}
	}
	for name, values := range query {
		i := slices.IndexFunc(known, func(p parameter) bool { return p.name == name })
		switch {
		case i < 0:
			return status{http.StatusBadRequest, "this cannot be selected by " + strconv.QuoteToASCII(name) + "; " + wantedOf(known)}
		case len(values) > 1 && !known[i].many:
			return status{http.StatusBadRequest, name + " is there more than once; want it once"}
		case slices.Contains(values, ""):
			return status{http.StatusBadRequest, name + " is empty; leave it out, or give it a value"}
		case !utf8.ValidString(strings.Join(values, "")):
			return status{http.StatusBadRequest, name + " is not a text in UTF-8"}
		}
	}
	return nil
}

// wantedOf lists parameters for a message.
func wantedOf(known []parameter) string {
	if len(known) == 0 {
		return "want a URL without a query"
	}
	names := make([]string, len(known))
	for n, p := range known {
		names[n] = p.name
	}
	return "want " + strings.Join(names, ", ")
}
