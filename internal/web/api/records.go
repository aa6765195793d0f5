package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/wire/operators"
)

const (
	// pageLimit is how many records a page has, at the most.
	pageLimit = 1000
	// pageScan is how many records are looked at for a page. It bounds the time
	// of one answer, whatever is asked for.
	pageScan = 20000
)

// records answers with one page, the last record of the log first. The query selects by
// agent, requester, principal, task, trace, operation, capability, decision, outcome_of,
// reason (the code of any of a record's reasons), since and until; limit bounds the page,
// and before is the id in [operators.NextHeader]. A page can be empty and have a next one.
func (a *Admin) records(w http.ResponseWriter, r *http.Request) {
	query, err := recordQuery(r.URL.Query())
	if agents, all := agentsOf(r); !all {
		query.Agents = agents
	}
	out := []json.RawMessage{}
	if err == nil {
		query.Before, err = a.recordAt(r, query.Before)
	}
	var next string
	if err == nil {
		err = a.Store.View(r.Context(), func(rd issuer.Reader) error {
			page, err := rd.Records(query)
			for _, s := range page.Records {
				out = append(out, s.Bytes())
			}
			next = page.Next
			return err
		})
	}
	if err == nil {
		next, err = a.cursorOf(r, next)
	}
	if next != "" {
		w.Header().Set(operators.NextHeader, next)
	}
	if errors.Is(err, issuer.ErrNotFound) {
		err = status{http.StatusBadRequest, "before names no record; want the id of one, from the page before"}
	}
	reply(w, r, a.Log, out, err)
}

// recordQuery reads the selection of a request, which [checkQuery] admitted.
func recordQuery(q url.Values) (issuer.RecordQuery, error) {
	query := issuer.RecordQuery{Limit: pageLimit, Scan: pageScan}
	for name := range q {
		if err := setQuery(&query, name, q.Get(name)); err != nil {
			return query, err
		}
	}
	return query, nil
}

func setQuery(query *issuer.RecordQuery, name, value string) (err error) {
	switch name {
	case "agent":
		query.Agent = value
	case "requester":
		query.Requester = value
	case "principal":
		if value != "" {
			query.Principals = []string{value}
		}
	case "task":
		query.Task = value
	case "trace":
		query.Trace = value
	case "operation":
		query.Operation = value
	case "capability":
		query.Capability = value
	case "decision":
		query.Decision = evidence.Decision(value)
	case "outcome_of":
		query.OutcomeOf = value
	case "reason":
		query.Reason = value
	case "before":
		query.Before = value
	case "since":
		query.Since, err = moment(name, value)
	case "until":
		query.Until, err = moment(name, value)
	case "limit":
		n, errNumber := strconv.Atoi(value)
		if errNumber != nil || n < 1 || n > pageLimit {
			return status{http.StatusBadRequest, "limit must be a number from 1 to " + strconv.Itoa(pageLimit)}
		}
		query.Limit = n
	}
	return err
}

func moment(name, value string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, value)
	if err != nil || t.IsZero() { // the zero time would be no limit
		return t, status{http.StatusBadRequest, name + " must be a time such as 2026-01-02T15:04:05Z"}
	}
	return t, nil
}
