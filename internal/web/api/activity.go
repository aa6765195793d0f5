package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/sorting"
)

const (
	// activityTime is how far back the activity is counted.
	activityTime = time.Hour
	// activityBack is how many records are read back at the first question. It bounds
	// the time of that answer; after it the log is followed.
	activityBack = 20_000
	// activityBehind is how many new records are followed. Behind more, counting begins anew.
	activityBehind = 5 * activityBack
	// activityTook bounds the latencies that are kept of one agent and minute, activityOpen
	// the calls whose outcome is awaited.
	activityTook = 200
	activityOpen = 10_000
	// activityCallers bounds the callers that are named of one agent.
	activityCallers = 50
)

// Minute counts the calls of one minute.
type Minute struct {
	At      time.Time `json:"at"`
	Allowed int       `json:"allowed"`
	Denied  int       `json:"denied"`
	// Observed counts calls that mode observe let through and no capability allowed.
	Observed int `json:"observed"`
	// P50 and P99 are milliseconds from the decision to the outcome, of the first 200
	// calls of the minute to each agent; 0 where there was none.
	P50 int64 `json:"p50_ms"`
	P99 int64 `json:"p99_ms"`
}

// AgentActivity counts the calls to one agent in the last hour.
type AgentActivity struct {
	Agent    string    `json:"agent"`
	Allowed  int       `json:"allowed"`
	Denied   int       `json:"denied"`
	Observed int       `json:"observed"` // as of [Minute]
	Last     time.Time `json:"last"`
	// Callers are up to 50 of those that called, by name.
	Callers []string `json:"callers"`
	// Drift is how often the agent did what its card does not declare.
	Drift int `json:"drift"`
}

// ReasonActivity counts the denials for one reason in the last hour.
type ReasonActivity struct {
	Code  string `json:"code"`
	Times int    `json:"times"`
}

// ActivityReport is the last hour of the log.
type ActivityReport struct {
	// Since is the beginning of the hour, or the time of the first record that was
	// counted where the hour has more records than are read back.
	Since   time.Time        `json:"since"`
	Minutes []Minute         `json:"minutes"` // of the hour, the oldest first, without gaps
	Agents  []AgentActivity  `json:"agents"`  // by name
	Reasons []ReasonActivity `json:"reasons"` // the most frequent first
	Head    LogHead          `json:"head"`
	Served  AgentCounts      `json:"served"` // agents that there are now
}

// LogHead is the head of the evidence.
type LogHead struct {
	Origin    string `json:"origin"`
	Size      int64  `json:"size"`
	Root      string `json:"root"`      // base64
	Witnesses int    `json:"witnesses"` // signatures beside the log's own
}

// Activity counts the calls of the last hour. It follows the log by reading it. Its methods
// can be called by many goroutines.
type Activity struct {
	Log  RecordLog
	Head func(ctx context.Context) ([]byte, error) // the signed checkpoint
	Now  func() time.Time

	mu      sync.Mutex // guards the fields below
	begun   bool
	place   int64
	midway  bool      // it did not begin with the first record
	from    time.Time // of the first record that was counted then
	minutes map[int64]minuteCount
	open    map[string]time.Time // decisions whose outcome is not on record yet
}

// minuteCount are the calls of one minute, by agent. No sum over agents is kept: a reader
// may know of some agents alone.
type minuteCount map[string]*agentMinute

// agentMinute are the calls of one minute to one agent.
type agentMinute struct {
	AgentActivity
	took    []int64
	reasons map[string]int
}

func (m minuteCount) of(agent string) *agentMinute {
	if m[agent] == nil {
		m[agent] = &agentMinute{AgentActivity: AgentActivity{Agent: agent}, reasons: map[string]int{}}
	}
	return m[agent]
}

// Report brings the counts up to date and returns those of the agents that sees is true for.
func (a *Activity) Report(ctx context.Context, sees func(agent string) bool) (ActivityReport, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	head, err := a.follow(ctx)
	if err != nil {
		return ActivityReport{}, err
	}
	now := a.Now().UTC()
	first := now.Add(-activityTime).Truncate(time.Minute)
	out := ActivityReport{Since: first, Head: head, Agents: []AgentActivity{}, Reasons: []ReasonActivity{}}
	if a.from.After(first) {
		out.Since = a.from
	}
	sum := summary{agents: map[string]AgentActivity{}, reasons: map[string]int{}}
	for at := first; !at.After(now); at = at.Add(time.Minute) {
		sum.minute, sum.took = Minute{At: at}, nil
		sum.add(a.minutes[at.Unix()], sees)
		slices.Sort(sum.took)
		sum.minute.P50, sum.minute.P99 = quantile(sum.took, 50), quantile(sum.took, 99)
		out.Minutes = append(out.Minutes, sum.minute)
	}
	for _, id := range slices.Sorted(maps.Keys(sum.agents)) {
		out.Agents = append(out.Agents, sum.agents[id])
	}
	for code, n := range sum.reasons {
		out.Reasons = append(out.Reasons, ReasonActivity{code, n})
	}
	sorting.Sort(out.Reasons, func(x, y ReasonActivity) int {
		return cmp.Or(cmp.Compare(y.Times, x.Times), cmp.Compare(x.Code, y.Code))
	})
	maps.DeleteFunc(a.minutes, func(at int64, _ minuteCount) bool { return at < first.Unix() })
	return out, nil
}

// summary adds up minutes for one reader.
type summary struct {
	minute  Minute
	took    []int64
	agents  map[string]AgentActivity
	reasons map[string]int
}

// add adds the calls of a minute to the agents that the reader sees.
func (s *summary) add(m minuteCount, sees func(agent string) bool) {
	for id, n := range m {
		if !sees(id) {
			continue
		}
		s.minute.Allowed, s.minute.Denied, s.minute.Observed = s.minute.Allowed+n.Allowed, s.minute.Denied+n.Denied, s.minute.Observed+n.Observed
		s.took = append(s.took, n.took...)
		sum := s.agents[id]
		s.agents[id] = AgentActivity{
			Agent: id, Allowed: sum.Allowed + n.Allowed, Denied: sum.Denied + n.Denied, Observed: sum.Observed + n.Observed, Last: later(sum.Last, n.Last),
			Callers: callers(sum.Callers, n.Callers...), Drift: sum.Drift + n.Drift,
		}
		for code, n := range n.reasons {
			s.reasons[code] += n
		}
	}
}

// callers adds names to a sorted list that is bounded.
func callers(to []string, names ...string) []string {
	if to == nil {
		to = []string{}
	}
	for _, name := range names {
		if at, there := slices.BinarySearch(to, name); !there && len(to) < activityCallers {
			to = slices.Insert(to, at, strings.Clone(name))
		}
	}
	return to
}

// quantile is a percentile of sorted numbers, 0 of none.
func quantile(sorted []int64, percent int) int64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)]
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// follow takes over the new records.
func (a *Activity) follow(ctx context.Context) (LogHead, error) {
	head, err := logHead(ctx, a.Head)
	if err != nil {
		return head, err
	}
	begins, err := a.Log.Begins(ctx)
	if err != nil {
		return head, err
	}
	if !a.begun || head.Size-a.place > activityBehind {
		a.begun, a.minutes, a.open, a.from = true, map[int64]minuteCount{}, map[string]time.Time{}, time.Time{}
		a.place = max(begins, head.Size-activityBack)
		a.midway = a.place > begins
	}
	a.place = max(a.place, begins)
	for {
		sealed, err := a.Log.From(ctx, a.place)
		if err != nil || len(sealed) == 0 {
			return head, err
		}
		for _, s := range sealed {
			if a.midway && a.from.IsZero() {
				a.from = s.Record().Time
			}
			a.add(s.Record())
			a.place++
		}
	}
}

// logHead reads the head of the log from its signed checkpoint.
func logHead(ctx context.Context, read func(context.Context) ([]byte, error)) (LogHead, error) {
	signed, err := read(ctx)
	if err != nil {
		return LogHead{}, err
	}
	lines := strings.Split(string(signed), "\n")
	if len(lines) < 4 {
		return LogHead{}, errors.New("the checkpoint cannot be read")
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil {
		return LogHead{}, fmt.Errorf("the checkpoint cannot be read: %w", err)
	}
	signatures := strings.Count(string(signed), "\n\u2014 ")
	return LogHead{Origin: lines[0], Size: size, Root: lines[2], Witnesses: max(0, signatures-1)}, nil
}

// add counts a record.
func (a *Activity) add(r evidence.Record) {
	m := a.minutes[r.Time.Truncate(time.Minute).Unix()]
	if m == nil {
		if r.Time.Before(a.Now().Add(-activityTime - time.Minute)) {
			return
		}
		m = minuteCount{}
		a.minutes[r.Time.Truncate(time.Minute).Unix()] = m
	}
	if of := r.Details.OutcomeOf; of != "" {
		if began, ok := a.open[of]; ok {
			delete(a.open, of)
			if one := m.of(r.AgentID); len(one.took) < activityTook {
				one.took = append(one.took, max(0, r.Time.Sub(began).Milliseconds()))
			}
		}
		if n := len(driftOf(r)); n > 0 {
			m.of(r.AgentID).Drift += n
		}
		return
	}
	if action.ClassOf(r.ActionType) != action.Call {
		return
	}
	sum := m.of(r.AgentID)
	sum.Last, sum.Callers = later(sum.Last, r.Time), callers(sum.Callers, r.Details.Requester)
	switch {
	case r.Decision == evidence.Deny:
		sum.Denied++
		if len(r.Details.Reasons) > 0 {
			sum.reasons[r.Details.Reasons[0].Code]++
		}
		return
	case audit.Waits(r.Decision, r.Details.Reasons):
		return // it is decided again once a person has answered
	case r.Decision == evidence.Allow:
		sum.Allowed++
	default:
		sum.Observed++
	}
	if len(a.open) < activityOpen {
		a.open[r.ID] = r.Time
	}
}

func (a *Admin) activity(r *http.Request) (any, error) {
	out, err := a.Activity.Report(r.Context(), func(agent string) bool { return at(r, agent) })
	if err != nil {
		return nil, err
	}
	out.Served, err = a.counts(r)
	return out, err
}
