package operations

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/sorting"
	"github.com/powerbox-project/powerbox/internal/web/api"
	"github.com/powerbox-project/powerbox/internal/web/lang"
)

// evidencePath is the place of the search over records.
const evidencePath = Path + "/evidence"

const (
	// shownRecords is how many records a page of the search has, countedRecords over how
	// many its counts are, shownFacets how many values of one kind have a count.
	shownRecords   = 50
	countedRecords = 500
	shownFacets    = 8
)

func (p *Pages) evidenceRoutes() []Route {
	return []Route{
		{Pattern: "GET " + evidencePath, Serve: p.evidence, Needs: people.Evidence},
		{Pattern: "GET " + evidencePath + "/records.csv", Serve: p.exportCSV, Needs: people.Evidence},
		{Pattern: "GET " + evidencePath + "/records.ocsf.jsonl", Serve: p.exportOCSF, Needs: people.Evidence},
		{Pattern: "GET " + evidencePath + "/bundle.jsonl", Serve: p.bundle, Needs: people.Evidence, Whole: true},
		{Pattern: "GET " + evidencePath + "/trust.json", Serve: p.trust, Needs: people.Evidence},
		{Pattern: "GET " + evidencePath + "/verify.mjs", Serve: p.verifier, Needs: people.Evidence},
		{Pattern: "GET " + evidencePath + "/{id}", Serve: p.record, Needs: people.Evidence},
		{Pattern: "GET " + evidencePath + "/{id}/record.json", Serve: p.sealed, Needs: people.Evidence},
		{Pattern: "GET " + evidencePath + "/{id}/proof.txt", Serve: p.proof, Needs: people.Evidence},
	}
}

// search is a selection of records as the URL has it.
type search struct{ values url.Values }

// searchNames are the names of a selection, as /v1/records has them.
var searchNames = []string{"agent", "requester", "operation", "decision", "reason", "task", "trace", "principal", "capability", "since", "until", "before"}

// searchTexts are what the form has of them as texts, with their labels.
var searchTexts = []field{{Name: "agent", Label: lang.Mark("Agent")}, {Name: "requester", Label: lang.Mark("Caller")}, {Name: "operation", Label: lang.Mark("Operation")}, {Name: "reason", Label: lang.Mark("Reason")}, {Name: "task", Label: lang.Mark("Task")}, {Name: "capability", Label: lang.Mark("Capability")}}

// field is one input of the form.
type field struct{ Name, Label, Value string }

// searchOf reads the selection of a URL. Other names are none of it.
func searchOf(q url.Values) search {
	s := search{url.Values{}}
	for _, name := range searchNames {
		if value := strings.TrimSpace(q.Get(name)); value != "" {
			s.values.Set(name, value)
		}
	}
	return s
}

// query is the selection as /v1/records takes it.
func (s search) query() (url.Values, error) {
	q := url.Values{}
	for name := range s.values {
		q.Set(name, s.values.Get(name))
	}
	for _, name := range []string{"since", "until"} {
		if text := q.Get(name); text != "" {
			at, err := momentOf(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			q.Set(name, at.UTC().Format(time.RFC3339))
		}
	}
	return q, nil
}

// momentOf reads a time of RFC 3339, or as an input of a page has it, which is UTC here.
func momentOf(text string) (time.Time, error) {
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"} {
		if at, err := time.Parse(form, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, &Refused{http.StatusBadRequest, strconv.Quote(text) + " is no time; want one such as 2026-01-02T15:04, in UTC"}
}

// With is the URL of the search with one value more. It begins at the newest record again.
func (s search) With(name, value string) string { return s.changed(name, value).at("") }

// changed is the search with another value, "" for none, at the newest record.
func (s search) changed(name, value string) search {
	q := url.Values{}
	for n := range s.values {
		q.Set(n, s.values.Get(n))
	}
	q.Del("before")
	if value == "" {
		q.Del(name)
	} else {
		q.Set(name, value)
	}
	return search{q}
}

// at is the URL of a page below the evidence with this search.
func (s search) at(page string) string {
	if len(s.values) == 0 {
		return evidencePath + page
	}
	return evidencePath + page + "?" + s.values.Encode()
}

// older is the URL of the page before a record.
func (s search) older(before string) string {
	next := s.changed("", "")
	next.values.Set("before", before)
	return next.at("")
}

// row is a record in a table.
type row struct {
	ID      string
	Time    time.Time
	Agent   string
	Caller  string
	Subject string
	Said    string // the decision in a word
	Class   string // of its colour
	Reason  string // code of the first
	More    int    // further reasons
	Outcome bool   // it tells the outcome of a decision
	Give    bool   // a grant by the visitor can follow it
}

func rowOf(l *lang.Language, may people.Rights, r evidence.Record) row {
	out := row{ID: r.ID, Time: r.Time, Agent: r.AgentID, Caller: r.Details.Requester, Subject: audit.WhatOf(r), Outcome: r.Details.OutcomeOf != "", Give: may.MayAt(people.Steer, r.AgentID) && api.Givable(r) == ""}
	out.Said, out.Class = Said(l, r)
	if n := len(r.Details.Reasons); n > 0 {
		out.Reason, out.More = r.Details.Reasons[0].Code, n-1
	}
	return out
}

// Said words the decision of a record, or the outcome that it tells, with the class of its colour.
func Said(l *lang.Language, r evidence.Record) (word, class string) {
	if r.Details.OutcomeOf != "" {
		return strings.ToLower(cmp.Or(string(r.OutcomeStatus), "outcome")), "quiet"
	}
	return decided(l, r.Decision, audit.Waits(r.Decision, r.Details.Reasons))
}

// decided is a decision in a word, with the class of its colour.
func decided(l *lang.Language, d evidence.Decision, waits bool) (word, class string) {
	switch {
	case d == evidence.Allow:
		return l.T("allowed"), "new"
	case d == evidence.Deny:
		return l.T("denied"), "risk"
	case waits:
		return l.T("waits"), "first"
	}
	return l.T("observed"), "quiet"
}

// facet counts the values of one kind.
type facet struct {
	Label  string
	Values []facetValue
}

type facetValue struct {
	Text, Link string
	Times      int
	Chosen     bool
}

// facets counts what the search has found.
func facets(l *lang.Language, s search, records []evidence.Record) []facet {
	kinds := []struct {
		name, label string
		of          func(evidence.Record) string
	}{
		{"decision", l.T("Decision"), func(r evidence.Record) string { return string(r.Decision) }},
		{"agent", l.T("Agent"), func(r evidence.Record) string { return r.AgentID }},
		{"requester", l.T("Caller"), func(r evidence.Record) string { return r.Details.Requester }},
		{"reason", l.T("Reason"), nil},
		{"operation", l.T("Operation"), func(r evidence.Record) string { return r.Intent.Operation }},
	}
	var out []facet
	for _, kind := range kinds {
		times := map[string]int{}
		for _, r := range records {
			for _, value := range valuesOf(r, kind.of) {
				times[value]++
			}
		}
		f := facet{Label: kind.label}
		for value, n := range times {
			f.Values = append(f.Values, facetValue{value, s.With(kind.name, value), n, s.values.Get(kind.name) == value})
		}
		sorting.Sort(f.Values, func(a, b facetValue) int { return cmp.Or(cmp.Compare(b.Times, a.Times), cmp.Compare(a.Text, b.Text)) })
		f.Values = f.Values[:min(len(f.Values), shownFacets)]
		if len(f.Values) > 0 {
			out = append(out, f)
		}
	}
	return out
}

// valuesOf are the values of a record that a facet counts, each once; nil stands for the
// codes of its reasons.
func valuesOf(r evidence.Record, of func(evidence.Record) string) []string {
	var out []string
	if of != nil {
		out = []string{of(r)}
	} else {
		for _, reason := range r.Details.Reasons {
			out = append(out, reason.Code)
		}
		slices.Sort(out)
		out = slices.Compact(out)
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

// chosen is one value of the search, with the link that takes it out.
type chosen struct{ Label, Value, Link string }

// evidencePage is a page of the search.
type evidencePage struct {
	Fields       []field
	Decision     string
	Since, Until string
	Chosen       []chosen // beside the form: what it shows no input for, too
	Problem      string

	Rows    []row
	Facets  []facet
	Counted int
	Size    int64 // of the log
	Whole   bool  // the visitor may have the evidence of every agent

	Older   string    // link to the next page, "" for none
	Further string    // link to look further, where the page is short
	Back    time.Time // how far back was looked then

	Newest string // link to the newest, "" where that is the page
	CSV    string
	OCSF   string
}

func (p *Pages) evidence(v *Visit) (Answer, error) {
	s := searchOf(v.URL.Query())
	page := evidencePage{Decision: s.values.Get("decision"), Since: s.values.Get("since"), Until: s.values.Get("until"), CSV: s.at("/records.csv"), OCSF: s.at("/records.ocsf.jsonl")}
	for _, f := range searchTexts {
		page.Fields = append(page.Fields, field{f.Name, v.T(f.Label), s.values.Get(f.Name)})
	}
	for _, name := range searchNames {
		if value := s.values.Get(name); value != "" && name != "before" {
			page.Chosen = append(page.Chosen, chosen{labelOf(v.Language, name), value, s.changed(name, "").at("")})
		}
	}
	if s.values.Get("before") != "" {
		page.Newest = s.changed("", "").at("")
	}
	answer := Answer{Page: "evidence", Title: v.T("Evidence"), Script: "verify.js"}
	var activity api.ActivityReport
	if err := v.API.Get(v.Context(), "/v1/summary", &activity); err != nil {
		return Answer{}, err
	}
	page.Size, page.Whole = activity.Head.Size, v.Rights.May(people.Evidence)
	err := page.find(v, s)
	if no, ok := err.(*Refused); ok && no.Status < http.StatusInternalServerError { //nolint:errorlint // find wraps none
		page.Problem, err = v.Language.Said(no.Message), nil
	}
	answer.Body = page
	return answer, err
}

// otherLabels are the labels of what the form has no input of a text for.
var otherLabels = map[string]string{"decision": lang.Mark("Decision"), "trace": lang.Mark("Trace"), "principal": lang.Mark("For user"), "since": lang.Mark("Since"), "until": lang.Mark("Until")}

func labelOf(l *lang.Language, name string) string {
	for _, f := range searchTexts {
		if f.Name == name {
			return l.T(f.Label)
		}
	}
	return l.T(otherLabels[name])
}

// find fills the page with the records that the search finds.
func (page *evidencePage) find(v *Visit, s search) error {
	q, err := s.query()
	if err != nil {
		return &Refused{http.StatusBadRequest, err.Error()}
	}
	q.Set("limit", strconv.Itoa(countedRecords))
	sealed, next, err := v.API.Records(v.Context(), q)
	if err != nil {
		return err
	}
	records := make([]evidence.Record, len(sealed))
	for i, one := range sealed {
		records[i] = one.Record()
	}
	page.Counted, page.Facets = len(records), facets(v.Language, s, records)
	for _, r := range records[:min(len(records), shownRecords)] {
		page.Rows = append(page.Rows, rowOf(v.Language, v.Rights, r))
	}
	switch {
	case len(records) > shownRecords:
		page.Older = s.older(records[shownRecords-1].ID)
	case next != "":
		last, err := v.API.Record(v.Context(), next)
		if err != nil {
			return err
		}
		page.Further, page.Back = s.older(next), last.Time
	}
	return nil
}
