package rows

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// Records implements [issuer.Reader]. The database looks for members in the stored
// bytes, in which canonical JSON has each in one spelling. Whether one is the
// record's own, and not that of an argument, is for the record to say.
func (r Reader) Records(q issuer.RecordQuery) (issuer.RecordPage, error) {
	var page issuer.RecordPage
	w, err := r.window(q)
	if err != nil || w.from >= w.to {
		return page, err
	}
	until := int64(math.MaxInt64)
	if !q.Until.IsZero() {
		until = q.Until.UnixMilli()
	}
	query, args := "SELECT bytes FROM record WHERE place >= ? AND place < ? AND time >= ? AND time <= ?", []any{w.from, w.to, sinceMilli(q), until}
	for _, m := range members(q, evidence.Record{}) {
		if m.wanted == "" {
			continue
		}
		text, err := m.text()
		if err != nil {
			return page, err
		}
		query, args = query+" AND instr(bytes, ?) > 0", append(args, text)
	}
	if q.Agents != nil {
		text, more, err := ofAgents(q.Agents)
		if err != nil {
			return page, err
		}
		query, args = query+" AND "+text, append(args, more...)
	}
	for s, err := range r.eachSealed(query+" ORDER BY place DESC", args...) {
		if err != nil {
			return issuer.RecordPage{}, err
		}
		if slices.ContainsFunc(members(q, s.Record()), func(m member) bool { return m.wanted != "" && m.wanted != m.has }) ||
			q.Agents != nil && !slices.Contains(q.Agents, s.Record().AgentID) {
			continue
		}
		if page.Records = append(page.Records, s); len(page.Records) == q.Limit {
			page.Next = s.Record().ID
			return page, nil
		}
	}
	if w.from > w.floor {
		page.Next, err = r.idAt(w.from)
	}
	return page, err
}

// ofAgents is the condition that one of some agents is named in a record.
func ofAgents(agents []string) (text string, args []any, err error) {
	named := make([]string, 0, len(agents))
	for _, agent := range agents {
		name, err := member{"agent_id", agent, ""}.text()
		if err != nil {
			return "", nil, err
		}
		named, args = append(named, "instr(bytes, ?) > 0"), append(args, name)
	}
	if len(named) == 0 {
		return "1 = 0", nil, nil
	}
	return "(" + strings.Join(named, " OR ") + ")", args, nil
}

// window is the places of the log that a page looks at: from is in it, to is
// not. Nothing that is asked for is below floor.
type window struct{ floor, from, to int64 }

func (r Reader) window(q issuer.RecordQuery) (w window, err error) {
	if q.Before == "" {
		err = r.db.QueryRow("SELECT COALESCE(MAX(place) + 1, 0) FROM record").Scan(&w.to)
	} else {
		err = r.db.QueryRow("SELECT place FROM record WHERE id = ?", q.Before).Scan(&w.to)
	}
	if errors.Is(err, ErrNone) {
		return w, issuer.ErrNotFound
	}
	if err == nil {
		w.floor, err = r.floor(q, w.to)
	}
	if err != nil {
		return w, fmt.Errorf("store: records: %w", err)
	}
	w.from = w.floor
	if q.Scan > 0 {
		w.from = max(w.floor, w.to-int64(q.Scan))
	}
	return w, nil
}

// idSlack is how much earlier than its record an id may have been made.
const idSlack = time.Minute

// floor is the first place before to that can have a record of the time that is
// asked for. The ids know: they begin with the time of their making, and there
// is an index on them. A gateway's records can come long after their time, so
// that the log is not in the order of time and its places do not know.
func (r Reader) floor(q issuer.RecordQuery, to int64) (int64, error) {
	begins, err := r.Begins()
	if err != nil || q.Since.IsZero() {
		return min(begins, to), err
	}
	var since ulid.ULID
	if err := since.SetTime(uint64(max(0, q.Since.Add(-idSlack).UnixMilli()))); err != nil {
		return 0, err
	}
	floor := to
	err = r.db.QueryRow("SELECT COALESCE(MIN(place), CAST(? AS BIGINT)) FROM record WHERE id >= ? AND place < ?",
		to, "rec_"+strings.ToLower(since.String()), to).Scan(&floor)
	return max(floor, min(begins, to)), err
}

func sinceMilli(q issuer.RecordQuery) int64 {
	if q.Since.IsZero() {
		return math.MinInt64
	}
	return q.Since.UnixMilli()
}

func (r Reader) idAt(place int64) (id string, err error) {
	if err = r.db.QueryRow("SELECT id FROM record WHERE place = ?", place).Scan(&id); err != nil {
		err = fmt.Errorf("store: records: place %d of the log: %w", place, err)
	}
	return id, err
}

// member is a part of a record that a query can ask for.
type member struct{ name, wanted, has string }

// text is the member as in canonical JSON.
func (m member) text() ([]byte, error) {
	text, err := json.Marshal(map[string]string{m.name: m.wanted})
	if err == nil {
		text, err = evidence.Canonical(text)
	}
	if err != nil {
		return nil, fmt.Errorf("store: records by %s: %w", m.name, err)
	}
	return text[1 : len(text)-1], nil
}

func members(q issuer.RecordQuery, r evidence.Record) []member {
	return []member{
		{"agent_id", q.Agent, r.AgentID},
		{"requester", q.Requester, r.Details.Requester},
		{"principal", q.Principal, r.Details.Principal},
		{"task_id", q.Task, r.TaskID},
		{"trace_id", q.Trace, r.Details.TraceID},
		{"operation", q.Operation, r.Intent.Operation},
		{"capability", q.Capability, r.Details.Capability},
		{"decision", string(q.Decision), string(r.Decision)},
		{"outcome_of", q.OutcomeOf, r.Details.OutcomeOf},
		{"code", q.Reason, codeAmong(r.Details.Reasons, q.Reason)},
	}
}

// codeAmong returns code if it is the code of one of the reasons, and "" otherwise.
func codeAmong(reasons []evidence.Reason, code string) string {
	if slices.ContainsFunc(reasons, func(r evidence.Reason) bool { return r.Code == code }) {
		return code
	}
	return ""
}
