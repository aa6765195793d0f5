package audit

import (
	"context"
	"errors"
	"iter"
	"net/url"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
)

// ErrNotThere says that the server has nothing of that name.
var ErrNotThere = errors.New("not found: there is no such id here")

// Query selects records; empty members select everything.
type Query struct {
	Agent, Requester, Principal, Task, Trace, Operation, Capability, Decision, Reason, outcomeOf string

	Since, Until time.Time
	Before       string // id of a record: those that the log has before it
	ID           string // of the one record that is wanted, in a bundle
	Limit        int    // 0 for all
	AnyOrder     bool   // whether the order does not matter, so that nothing need be kept
}

// Source has records: the log of a server, or a bundle.
type Source interface {
	// each yields the records that match, the last of the log first.
	Each(ctx context.Context, q Query) iter.Seq2[evidence.Record, error]
	// record looks one record up. The error is errNotThere where there is none.
	Record(ctx context.Context, id string) (evidence.Record, error)
}

// Collect returns the records that a query selects.
func Collect(ctx context.Context, from Source, q Query) ([]evidence.Record, error) {
	var out []evidence.Record
	for r, err := range from.Each(ctx, q) {
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// recordMember connects one flag with one member of a record.
type recordMember struct{ name, wanted, has string }

func (q Query) members(r evidence.Record) []recordMember {
	return []recordMember{
		{"id", q.ID, r.ID},
		{"agent", q.Agent, r.AgentID},
		{"requester", q.Requester, r.Details.Requester},
		{"principal", q.Principal, r.Details.Principal},
		{"task", q.Task, r.TaskID},
		{"trace", q.Trace, r.Details.TraceID},
		{"operation", q.Operation, r.Intent.Operation},
		{"capability", q.Capability, r.Details.Capability},
		{"decision", q.Decision, string(r.Decision)},
		{"outcome_of", q.outcomeOf, r.Details.OutcomeOf},
		{"reason", q.Reason, codeAmong(r.Details.Reasons, q.Reason)},
	}
}

// Selects reports whether a record matches.
func (q Query) Selects(r evidence.Record) bool {
	if !q.Since.IsZero() && r.Time.Before(q.Since) || !q.Until.IsZero() && r.Time.After(q.Until) {
		return false
	}
	return !slices.ContainsFunc(q.members(r), func(m recordMember) bool { return m.wanted != "" && m.wanted != m.has })
}

// Values is the query as the server takes it, except for the page.
func (q Query) Values() url.Values {
	v := url.Values{}
	for _, m := range q.members(evidence.Record{}) {
		if m.wanted != "" {
			v.Set(m.name, m.wanted)
		}
	}
	for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			v.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return v
}

// codeAmong returns code if it is the code of one of the reasons, and "" otherwise.
func codeAmong(reasons []evidence.Reason, code string) string {
	if slices.ContainsFunc(reasons, func(r evidence.Reason) bool { return r.Code == code }) {
		return code
	}
	return ""
}
