package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/plain"
)

// TraceSpan is how far back a server's log is looked at. Authority lives for a
// day at the most, and so do the tasks that it is for, mostly.
const TraceSpan = "168h"

// TraceLimit bounds the records of one tree.
const TraceLimit = 5000

// Traced is the answer: a tree of calls.
type Traced struct {
	Thing string     `json:"thing"`
	Hops  []TraceHop `json:"hops"`
	// Truncated says that there are more records than a tree is made of.
	Truncated bool `json:"truncated,omitempty"`
}

// TraceHop is one decision, with the calls that it led to.
type TraceHop struct {
	Record    string            `json:"record_id"`
	Time      time.Time         `json:"time"`
	Requester string            `json:"requester"` // who asked
	Agent     string            `json:"agent"`     // whom
	Action    string            `json:"action"`
	Operation string            `json:"operation"`
	Purpose   string            `json:"purpose,omitempty"` // the requester's words
	Principal string            `json:"principal,omitempty"`
	Task      string            `json:"task,omitempty"`
	Tenant    string            `json:"tenant,omitempty"` // of the agent, in which that task is
	Trace     string            `json:"trace,omitempty"`
	Mode      string            `json:"mode,omitempty"`
	Under     []TraceStep       `json:"under"`    // how the authority came here, the root first
	Narrowed  []string          `json:"narrowed"` // capabilities that were held and could not be used here
	Missing   []string          `json:"missing"`
	Decision  evidence.Decision `json:"decision"`
	Reasons   []evidence.Reason `json:"reasons"`
	// Outcome is the reported result; unknown without a report, and empty after a refusal.
	Outcome string     `json:"outcome,omitempty"`
	Hops    []TraceHop `json:"hops"`
}

// TraceStep is one capability by which authority was passed on.
type TraceStep struct {
	Capability string   `json:"capability"`
	Record     string   `json:"record_id,omitempty"`  // by which it was issued, "" where that is not on record
	By         string   `json:"by,omitempty"`         // who asked for it
	Policy     string   `json:"policy,omitempty"`     // digest of the policies in force when it was issued
	Question   string   `json:"question,omitempty"`   // to people, who said yes
	GrantedBy  []string `json:"granted_by,omitempty"` // the people who said yes, or the operator who gave it
	Granted    []string `json:"granted"`
	Narrowed   []string `json:"narrowed"` // authority that the one before had and it has not
}

// outcomeUnknown is the outcome of a decision without a reported result.
const outcomeUnknown = "unknown"

// Tracer makes trees of records.
type Tracer struct {
	Source

	Since  time.Time
	Narrow bool // whether the records of a task are those of one tenant
	Tenant string
}

var traceID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// Trace finds the records of a thing, and of the traces that they belong to.
func (t Tracer) Trace(ctx context.Context, thing string) (Traced, error) {
	found := gathered{records: map[string]evidence.Record{}}
	var err error
	switch {
	case IsTask(thing):
		err = t.ofTask(ctx, &found, thing)
	case traceID.MatchString(thing):
		err = t.add(ctx, &found, Query{Trace: thing})
	default:
		err = t.ofRecord(ctx, &found, thing)
	}
	if err == nil && len(found.records) == 0 {
		err = fmt.Errorf("there is no record of %q%s; see powerbox evidence list", thing, plain.Prefixed(" since ", begin(t.Since)))
	}
	if err != nil {
		return Traced{}, err
	}
	issued, err := t.issued(ctx, found)
	if err != nil {
		return Traced{}, err
	}
	said, err := t.approvers(ctx, issued)
	return Traced{thing, found.tree(issuance{issued, said}), found.truncated}, err
}

// begin words the time from which records are read, "" for the beginning of the log.
func begin(since time.Time) string {
	if since.IsZero() {
		return ""
	}
	return plain.Time(since)
}

// IsTask reports whether a thing is neither a record nor a trace.
func IsTask(thing string) bool {
	return !strings.HasPrefix(thing, "rec_") && !traceID.MatchString(thing)
}

// gathered are the records that a tree is made of.
type gathered struct {
	records   map[string]evidence.Record
	truncated bool
}

func (t Tracer) add(ctx context.Context, into *gathered, q Query) error {
	q.Since, q.Limit = t.Since, TraceLimit+1
	narrow := t.Narrow && q.Task != ""
	if narrow {
		q.Limit = 0 // those of other tenants count for nothing
	}
	for r, err := range t.Each(ctx, q) {
		if err != nil {
			return err
		}
		if narrow && r.Details.Tenant != t.Tenant {
			continue
		}
		if len(into.records) >= TraceLimit {
			into.truncated = true
			return nil
		}
		into.records[r.ID] = r
	}
	return nil
}

// ofTask adds the records of a task, and those of the traces that it is part of.
func (t Tracer) ofTask(ctx context.Context, into *gathered, task string) error {
	if err := t.add(ctx, into, Query{Task: task}); err != nil {
		return err
	}
	// The decision about the call that began the task could not name it yet; its outcome
	// does.
	for _, r := range slices.Collect(maps.Values(into.records)) {
		of := r.Details.OutcomeOf
		if _, there := into.records[of]; there || of == "" {
			continue
		}
		first, err := t.Record(ctx, of)
		if err != nil {
			return err
		}
		into.records[of] = first
	}
	for _, trace := range into.traces() {
		if err := t.add(ctx, into, Query{Trace: trace}); err != nil {
			return err
		}
	}
	return nil
}

// ofRecord adds a record with its trace, or else its task, or else its outcome alone.
func (t Tracer) ofRecord(ctx context.Context, into *gathered, id string) error {
	r, err := t.Record(ctx, id)
	if err != nil {
		return err
	}
	into.records[r.ID] = r
	switch {
	case r.Details.OutcomeOf != "": // the outcome of a decision is told with it
		return t.ofRecord(ctx, into, r.Details.OutcomeOf)
	case r.Details.TraceID != "":
		return t.add(ctx, into, Query{Trace: r.Details.TraceID})
	case r.TaskID != "":
		t.Narrow, t.Tenant = true, r.Details.Tenant
		return t.ofTask(ctx, into, r.TaskID)
	}
	return t.add(ctx, into, Query{outcomeOf: id})
}

// Record looks one record up.
func (t Tracer) Record(ctx context.Context, id string) (evidence.Record, error) {
	r, err := t.Source.Record(ctx, id)
	if err != nil {
		err = fmt.Errorf("record %s: %w", id, err)
	}
	return r, err
}

func (g gathered) traces() []string {
	var out []string
	for _, r := range g.records {
		if id := r.Details.TraceID; id != "" && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// issued returns the records by which the capabilities of a tree, and those that
// they were narrowed from, were issued, by capability.
func (t Tracer) issued(ctx context.Context, of gathered) (map[string]evidence.Record, error) {
	out := map[string]evidence.Record{}
	looked := map[string]bool{"": true}
	var wanted []string
	for _, r := range of.records {
		wanted = append(wanted, r.Details.Capability)
	}
	slices.Sort(wanted)
	for len(wanted) > 0 {
		id := wanted[0]
		wanted = wanted[1:]
		if looked[id] || !strings.HasPrefix(id, "cap_") {
			continue // no record issued a capability that was derived offline
		}
		looked[id] = true
		for r, err := range t.Each(ctx, Query{Capability: id, Since: t.after(id, "cap_")}) {
			if err != nil {
				return nil, err
			}
			if issues(r) {
				out[id] = r
				wanted = append(wanted, parentOf(r))
			}
		}
	}
	return out, nil
}

// apart is by how much the times of records that were made together may differ: each node has its
// own clock.
const apart = time.Minute

// after is when the record was made of an id's beginning, or before: the id says when it was.
func (t Tracer) after(of, prefix string) time.Time {
	id, err := ulid.ParseStrict(strings.ToUpper(strings.TrimPrefix(of, prefix)))
	if err != nil {
		return t.Since
	}
	return id.Timestamp().Add(-apart)
}

// issues reports a record by which a capability was issued.
func issues(r evidence.Record) bool {
	return r.Decision == evidence.Allow && (action.CapabilityRequest.Is(r.ActionType) || action.CapabilityAttenuate.Is(r.ActionType) ||
		action.CapabilityOnce.Is(r.ActionType) || action.OperatorGrant.Is(r.ActionType))
}

// issuance is how the capabilities of a tree came about.
type issuance struct {
	records   map[string]evidence.Record // by which they were issued, by capability
	approvers map[string][]string        // who said yes, by question
}

// questionOf is the question that a record belongs to, "" for none.
func questionOf(r evidence.Record) string {
	var d struct {
		Question string `json:"question"`
	}
	_ = json.Unmarshal(r.Intent.Details, &d) // details of another form name no question
	return d.Question
}

// approvers returns who said yes to the questions for which capabilities were issued, as far as
// the reader may see the records of their answers.
func (t Tracer) approvers(ctx context.Context, issued map[string]evidence.Record) (map[string][]string, error) {
	said := map[string][]string{}
	for _, of := range issued {
		question := questionOf(of)
		if _, looked := said[question]; looked || question == "" {
			continue
		}
		said[question] = []string{}
		// The capability and the answer that completed it are issued together, in either order.
		q := Query{Agent: of.AgentID, Operation: capabilityOperation, Since: t.after(question, "ask_"), Until: of.Time.Add(apart)}
		for r, err := range t.Each(ctx, q) {
			if err != nil {
				return nil, err
			}
			if action.ApprovalAnswer.Is(r.ActionType) && r.Decision == evidence.Allow && questionOf(r) == question {
				said[question] = append(said[question], r.Details.Requester)
			}
		}
		slices.Sort(said[question])
	}
	return said, nil
}

// parentOf is the capability that one was narrowed from, "" for a root.
func parentOf(r evidence.Record) string {
	var d struct {
		Parent string `json:"parent"`
	}
	if !action.CapabilityAttenuate.Is(r.ActionType) || json.Unmarshal(r.Intent.Details, &d) != nil {
		return ""
	}
	return d.Parent
}

// lineage is how a capability came about, the root first.
func (i issuance) lineage(id string) []TraceStep {
	var out []TraceStep
	for seen := map[string]bool{}; id != "" && !seen[id]; {
		seen[id] = true
		r, ok := i.records[id]
		step := TraceStep{Capability: id, Granted: []string{}, Narrowed: []string{}}
		if ok {
			step.Record, step.By, step.Granted = r.ID, r.Details.Requester, orEmpty(r.Details.Granted)
			step.Policy, step.Question = r.Details.PolicyDigest, questionOf(r)
			step.GrantedBy = i.approvers[step.Question]
			if action.OperatorGrant.Is(r.ActionType) {
				step.By, step.GrantedBy = "", []string{r.Details.Requester}
			}
		}
		out = append(out, step)
		id = parentOf(r)
	}
	slices.Reverse(out)
	for i := 1; i < len(out); i++ {
		out[i].Narrowed = without(out[i-1].Granted, out[i].Granted)
	}
	return out
}

// without returns the values that are in the first list alone.
func without(all, less []string) []string {
	return slices.DeleteFunc(slices.Clone(orEmpty(all)), func(s string) bool { return slices.Contains(less, s) })
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
