package rows

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
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
	if err != nil || w.floor >= w.to {
		return page, err
	}
	q, some := ofOwn(q)
	if !some {
		return page, nil
	}
	s, err := newSearch(q)
	if err != nil {
		return page, err
	}
	ends := w.floor // of the index
	if len(s.names) > 0 {
		if ends, err = r.posted(); err != nil {
			return page, err
		}
		ends = min(max(ends, w.floor), w.to)
	}
	from, left := ends, int64(math.MaxInt64)
	if q.Scan > 0 {
		from = max(ends, w.to-int64(q.Scan))
		left = int64(q.Scan) - (w.to - from)
	}
	full, err := s.take(&page, r.raw("SELECT bytes FROM record WHERE place >= ? AND place < ? AND "+s.where+" ORDER BY place DESC", append([]any{from, w.to}, s.args...)...))
	switch {
	case err != nil:
		return issuer.RecordPage{}, err
	case full || from == w.floor:
	case from > ends || left == 0:
		page.Next, err = r.idAt(from)
	default:
		return r.proposed(s, page, window{w.floor, ends}, left)
	}
	return page, err
}

// proposed adds to a page the records of a window that the index proposes, and looks at no more
// than left of them.
func (r Reader) proposed(s search, page issuer.RecordPage, w window, left int64) (issuer.RecordPage, error) {
	var places []any
	look := func() (full bool, err error) {
		if len(places) == 0 {
			return false, nil
		}
		for len(places) < placesRead { // one statement to compile
			places = append(places, places[len(places)-1])
		}
		full, err = s.take(&page, r.raw("SELECT bytes FROM record WHERE place IN (?"+strings.Repeat(", ?", placesRead-1)+") AND "+s.where+" ORDER BY place DESC", append(places, s.args...)...))
		places = places[:0]
		return full, err
	}
	lowest := w.to
	for place, err := range r.placesOfAny(s.names, w.floor, w.to) {
		full := false
		if err == nil && (left == 0 || len(places) == placesRead) {
			full, err = look()
		}
		if err != nil {
			return issuer.RecordPage{}, err
		}
		if full {
			return page, nil
		}
		if left == 0 {
			page.Next, err = r.idAt(lowest)
			return page, err
		}
		left, lowest, places = left-1, place, append(places, place)
	}
	if _, err := look(); err != nil {
		return issuer.RecordPage{}, err
	}
	return page, nil
}

// search is a query on its way to the database.
type search struct {
	query issuer.RecordQuery
	where string
	args  []any
	names []name          // the index is asked for records that have one of these; none for no index
	rank  int             // of the member in the index
	users map[string]bool // as they are in canonical JSON, where the query has several
}

// ofOwn is a query that is about some agents alone: an agent that is named is one of these. It reports
// false for a query that selects nothing.
func ofOwn(q issuer.RecordQuery) (issuer.RecordQuery, bool) {
	switch {
	case q.Principals != nil && len(q.Principals) == 0:
		return q, false
	case q.Agents == nil:
		return q, true
	case q.Agent != "" && !slices.Contains(q.Agents, q.Agent):
		return q, false
	case q.Agent != "":
		q.Agents = []string{q.Agent}
	}
	return q, len(q.Agents) > 0
}

func newSearch(q issuer.RecordQuery) (search, error) {
	s := search{query: q, where: "time >= ? AND time <= ?", args: []any{sinceMilli(q), int64(math.MaxInt64)}}
	if !q.Until.IsZero() {
		s.args[1] = q.Until.UnixMilli()
	}
	for _, m := range members(q, evidence.Record{}) {
		if m.wanted == "" {
			continue
		}
		text, err := m.text()
		if err != nil {
			return s, err
		}
		s.where, s.args = s.where+" AND instr(bytes, ?) > 0", append(s.args, text)
		if at := slices.Index(indexed[:], m.name); at >= 0 && (s.names == nil || at < s.rank) {
			s.names, s.rank = []name{nameOf(text)}, at
		}
	}
	if len(q.Principals) > 1 {
		if err := s.ofUsers(q.Principals); err != nil {
			return s, err
		}
	}
	if q.Agents != nil {
		// The index is asked for records of these agents, and not for a more selective name. With such a
		// name, the end of a page would tell how many records others have (ATK-134).
		text, more, names, err := ofAgents(q.Agents)
		if err != nil {
			return s, err
		}
		s.where, s.args, s.names = s.where+" AND "+text, append(s.args, more...), names
	}
	return s, nil
}

// take adds to a page what the query selects of records that were found, and reports whether
// the page is full.
func (s search) take(page *issuer.RecordPage, found iter.Seq2[[]byte, error]) (full bool, err error) {
	q := s.query
	for data, err := range found {
		if err != nil {
			return false, err
		}
		if !s.namesUser(data) {
			continue
		}
		one, err := evidence.ParseSealed(data)
		if err != nil {
			return false, fmt.Errorf("store: a stored record is damaged: %w", err)
		}
		if !selects(q, one.Record()) {
			continue
		}
		if page.Records = append(page.Records, one); len(page.Records) == q.Limit {
			page.Next = one.Record().ID
			return true, nil
		}
	}
	return false, nil
}

// selects reports whether a query selects a record.
func selects(q issuer.RecordQuery, r evidence.Record) bool {
	return !slices.ContainsFunc(members(q, r), func(m member) bool { return m.wanted != "" && m.wanted != m.has }) &&
		(q.Agents == nil || slices.Contains(q.Agents, r.AgentID)) && (q.Principals == nil || slices.Contains(q.Principals, r.Details.Principal))
}

// userBegins begins the user of a record, in its bytes.
var userBegins = []byte(`"principal":"`)

// ofUsers adds the condition that a record names one of several users. The database looks for any
// user: a condition for each would be evaluated for every record.
func (s *search) ofUsers(users []string) error {
	s.where, s.args, s.names, s.users = s.where+" AND instr(bytes, ?) > 0", append(s.args, userBegins), nil, map[string]bool{}
	for _, user := range users {
		text, err := member{"principal", user, ""}.text()
		if err != nil {
			return err
		}
		s.names, s.users[string(text)] = append(s.names, nameOf(text)), true
	}
	return nil
}

// namesUser reports whether the bytes of a record name one of the users of a query. An argument
// can do so, too.
func (s search) namesUser(record []byte) bool {
	for left := record; s.users != nil; {
		at := bytes.Index(left, userBegins)
		if at < 0 {
			return false
		}
		left = left[at:]
		if s.users[string(quoted(left, len(userBegins)))] {
			return true
		}
		left = left[len(userBegins):]
	}
	return true
}

// ofAgents is the condition that one of some agents is named in a record, and their names in the index.
func ofAgents(agents []string) (text string, args []any, names []name, err error) {
	conditions := make([]string, 0, len(agents))
	for _, agent := range agents {
		member, err := member{"agent_id", agent, ""}.text()
		if err != nil {
			return "", nil, nil, err
		}
		conditions, args, names = append(conditions, "instr(bytes, ?) > 0"), append(args, member), append(names, nameOf(member))
	}
	return "(" + strings.Join(conditions, " OR ") + ")", args, names, nil
}

// window is the places of the log that a query is about: floor is in it, to is not.
type window struct{ floor, to int64 }

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
	return w, nil
}

// idSlack is how much earlier than its record an id may have been made.
const idSlack = time.Minute

// floor is the first place before to that can have a record of the time that is
// asked for. The ids know: they begin with the time of their making, and there
// is an index on them. A gateway's records can come long after their time, so
// that the log is not in the order of time and its places do not know.
//
// The plus has both databases use the index on ids. Otherwise they walk through the
// places from the beginning of the log.
func (r Reader) floor(q issuer.RecordQuery, to int64) (int64, error) {
	begins, err := r.Begins()
	if err != nil || q.Since.IsZero() {
		return min(begins, to), err
	}
	var since ulid.ULID
	if err := since.SetTime(uint64(max(0, q.Since.Add(-idSlack).UnixMilli()))); err != nil {
		return 0, err
	}
	first := "rec_" + strings.ToLower(since.String())
	if below := to - int64(q.Scan); q.Scan > 0 && below > begins {
		// Where more remains than a page looks at, how much that is does not matter.
		var more bool
		if err := r.db.QueryRow("SELECT EXISTS (SELECT 1 FROM record WHERE id >= ? AND +place < ?)", first, below).Scan(&more); err != nil || more {
			return begins, err
		}
	}
	floor := to
	err = r.db.QueryRow("SELECT COALESCE(MIN(+place), CAST(? AS BIGINT)) FROM record WHERE id >= ? AND +place < ?", to, first, to).Scan(&floor)
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
		{"principal", only(q.Principals), r.Details.Principal},
		{"task_id", q.Task, r.TaskID},
		{"trace_id", q.Trace, r.Details.TraceID},
		{"operation", q.Operation, r.Intent.Operation},
		{"capability", q.Capability, r.Details.Capability},
		{"decision", string(q.Decision), string(r.Decision)},
		{"outcome_of", q.OutcomeOf, r.Details.OutcomeOf},
		{"code", q.Reason, codeAmong(r.Details.Reasons, q.Reason)},
	}
}

// only returns the one text of a list, and "" for a list of another length.
func only(all []string) string {
	if len(all) != 1 {
		return ""
	}
	return all[0]
}

// codeAmong returns code if it is the code of one of the reasons, and "" otherwise.
func codeAmong(reasons []evidence.Reason, code string) string {
	if slices.ContainsFunc(reasons, func(r evidence.Reason) bool { return r.Code == code }) {
		return code
	}
	return ""
}
