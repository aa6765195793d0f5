package a2a

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Page has the number of tasks in an answer, and its next page.
type Page struct {
	Tasks int    // how many it has
	Next  string // token of the next page, "" for the last
}

// errNoPage is an answer to ListTasks, or a call of it, without the place where
// a token of a page stands.
var errNoPage = errors.New("ListTasks: there is no token of a page where one was read")

// PageOf reads an answer to ListTasks, or the result inside one of JSON-RPC.
func PageOf(response []byte) (Page, error) {
	o, _, err := inside(response)
	if err != nil {
		return Page{}, err
	}
	p := Page{Next: o.text("nextPageToken")}
	if tasks := o.get("tasks"); isSet(tasks) {
		elements, err := readArray(tasks)
		if err != nil {
			return Page{}, fmt.Errorf("answer to ListTasks: tasks: %w", err)
		}
		p.Tasks = len(elements)
	}
	return p, nil
}

// WithNextPage puts another token of the next page into an answer. Every other
// byte stays.
func WithNextPage(response []byte, token string) ([]byte, error) {
	o, base, err := inside(response)
	if err != nil {
		return nil, err
	}
	i := o.index("nextPageToken")
	if i < 0 {
		return nil, errNoPage
	}
	return splice(response, base, []edit{{o[i].start, o[i].end, quote(token)}}), nil
}

// inside returns the result of a response, or the response where it is one, and
// where it begins.
func inside(response []byte) (rawObject, int, error) {
	o, err := readObject(response)
	if err != nil {
		return nil, 0, fmt.Errorf("answer to ListTasks: %w", err)
	}
	i := o.index("result")
	if i < 0 {
		return o, 0, nil
	}
	inner, err := readObject(o[i].value)
	if err != nil {
		return nil, 0, fmt.Errorf("answer to ListTasks: result: %w", err)
	}
	return inner, o[i].start, nil
}

// WithParam sets a text among the parameters of a call of JSON-RPC. It replaces the
// value under that name and the one under the field's name in protobuf. Where there is
// neither, it adds the text under the first name.
func WithParam(body []byte, name, field, text string) ([]byte, error) {
	o, err := readObject(body)
	if err != nil {
		return nil, err
	}
	params := o.index("params")
	if params < 0 || !isSet(o[params].value) {
		var inner rawObject
		inner.set(name, quote(text))
		o.set("params", inner.bytes())
		return o.bytes(), nil
	}
	inner, err := readObject(o[params].value)
	if err != nil {
		return nil, err
	}
	var edits []edit
	for _, m := range inner {
		if m.name == name || m.name == field {
			edits = append(edits, edit{m.start, m.end, quote(text)})
		}
	}
	if edits == nil {
		inner.set(name, quote(text))
		return splice(body, 0, []edit{{o[params].start, o[params].end, inner.bytes()}}), nil
	}
	return splice(body, o[params].start, edits), nil
}

// QueryWithParam is WithParam for the query of HTTP+JSON.
func QueryWithParam(query, name, text string) string {
	var pairs []string
	for pair := range strings.SplitSeq(query, "&") {
		given, _, _ := strings.Cut(pair, "=")
		if given, err := url.QueryUnescape(given); pair != "" && (err != nil || given != name) {
			pairs = append(pairs, pair)
		}
	}
	return strings.Join(append(pairs, name+"="+url.QueryEscape(text)), "&")
}
