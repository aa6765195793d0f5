package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/guard"
	"github.com/powerbox-project/powerbox/internal/guard/clients"
	"github.com/powerbox-project/powerbox/internal/store/keyring"
)

// Config is what a daemon needs. Every field is required.
type Config struct {
	State  string // the folder of keys, log, grants and sessions
	Home   string // of the user
	Now    func() time.Time
	Random io.Reader
}

// Daemon decides. Its methods can be called by many goroutines.
type Daemon struct {
	config Config
	mint   *Mint
	log    *Log

	mu        sync.Mutex // guards the fields below
	sessions  map[string]*session
	revoked   map[string]bool
	pending   map[string]evidence.Record // decisions whose outcome a client will tell, by call
	questions map[string]*Question
	asked     int // questions so far
}

// maxPending bounds the decisions whose outcome is awaited.
const maxPending = 4096

// New opens the folder of a daemon. One process has it open.
func New(c Config) (*Daemon, error) {
	keys, err := keyring.Open(filepath.Join(c.State, "keys"), c.Random, nil)
	if err != nil {
		return nil, err
	}
	mint, err := NewMint(c.Random)
	if err != nil {
		return nil, err
	}
	log, err := openLog(c.State, keys, c.Random)
	if err != nil {
		return nil, err
	}
	return &Daemon{
		config: c, mint: mint, log: log, sessions: map[string]*session{}, revoked: map[string]bool{}, pending: map[string]evidence.Record{}, questions: map[string]*Question{},
	}, nil
}

// Close closes the log.
func (d *Daemon) Close() error { return d.log.close() }

// Hook answers one hook of a client.
func (d *Daemon) Hook(_ context.Context, c clients.Client, raw []byte) clients.Output {
	e, err := c.Read(raw)
	if err != nil {
		return c.Write(guard.Event{Moment: guard.Before}, clients.Reply{Answer: guard.Deny, Text: "Powerbox guard: " + err.Error()})
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	reply, err := d.event(c, e)
	if err != nil {
		return c.Refusal(raw, "Powerbox guard: "+err.Error())
	}
	return c.Write(e, reply)
}

func (d *Daemon) event(c clients.Client, e guard.Event) (clients.Reply, error) {
	now := d.config.Now()
	if e.Moment == guard.Other {
		return clients.Reply{}, nil
	}
	s, err := d.open(c.Name, e, now)
	if err != nil {
		return clients.Reply{}, err
	}
	switch e.Moment {
	case guard.SessionStart:
		return d.lifecycle(s, s.agent(""), e, now)
	case guard.SessionEnd:
		for _, a := range s.live() {
			if err := d.end(s, a); err != nil {
				return clients.Reply{}, err
			}
		}
		s.Ended = true
		if s.root.id != "" {
			d.revoked[s.root.id] = true
		}
		if err := d.save(s); err != nil {
			return clients.Reply{}, err
		}
		return d.lifecycle(s, s.agent(""), e, now)
	case guard.AgentStart:
		a, err := d.start(s, e, now)
		if err != nil {
			return clients.Reply{}, err
		}
		return d.lifecycle(s, a, e, now)
	case guard.AgentEnd:
		a := s.agent(e.Agent)
		if a == nil || a.Ended {
			return clients.Reply{}, nil
		}
		if err := d.end(s, a); err != nil {
			return clients.Reply{}, err
		}
		return d.lifecycle(s, a, e, now)
	case guard.After, guard.Failed:
		return clients.Reply{}, d.outcome(s, e, now)
	default:
	}
	return d.call(c, s, e, now)
}

// lifecycle records that a lease begins or ends, and says what it permits.
func (d *Daemon) lifecycle(s *session, a *agent, e guard.Event, now time.Time) (clients.Reply, error) {
	operation := map[guard.Moment]string{guard.SessionStart: "lease.begin", guard.AgentStart: "lease.begin", guard.SessionEnd: "lease.end", guard.AgentEnd: "lease.end"}[e.Moment]
	r, err := d.record(s, a, operation, now)
	if err != nil {
		return clients.Reply{}, err
	}
	r.Decision = evidence.Allow
	authority, err := d.mint.Authority(a.lease, d.isRevoked, now)
	if err != nil && operation == "lease.begin" {
		return clients.Reply{}, err
	}
	r.Details.Granted = authority.Names()
	if err := d.log.append(r); err != nil {
		return clients.Reply{}, err
	}
	return clients.Reply{Text: "Powerbox guards this session. It permits: " + guard.Describe(authority, s.Project)}, nil
}

// holders returns the leases by which a call is decided: that of its agent, or all that it may
// be where the client does not say which agent calls.
func (d *Daemon) holders(c clients.Client, s *session, e guard.Event, now time.Time) ([]*agent, error) {
	if s.Ended {
		return nil, errEnded
	}
	if c.Anonymous && e.Agent == "" {
		out := []*agent{s.agent("")}
		for _, other := range d.sessions {
			if other.Client == s.Client && other.Project == s.Project {
				out = append(out, other.live()...)
			}
		}
		return out, nil
	}
	a := s.agent(e.Agent)
	if a == nil { // its start was not seen
		var err error
		if a, err = d.start(s, e, now); err != nil {
			return nil, err
		}
	}
	if a.Ended {
		return nil, errEnded
	}
	return []*agent{a}, nil
}

// CodeEnded is of a call under a lease that has ended.
const CodeEnded = "lease_ended"

var errEnded = errors.New("the lease of this sub-agent or session has ended with its task")

// call decides one call, and records the decision before it is answered.
func (d *Daemon) call(c clients.Client, s *session, e guard.Event, now time.Time) (clients.Reply, error) {
	holders, err := d.holders(c, s, e, now)
	if errors.Is(err, errEnded) {
		v := guard.Verdict{Answer: guard.Deny, Reasons: []guard.Reason{{Code: CodeEnded, Text: err.Error()}}}
		a := s.agent(e.Agent)
		if a == nil {
			a = s.agent("")
		}
		return d.conclude(s, a, e, v, now)
	}
	if err != nil {
		return clients.Reply{}, err
	}
	steps, unjudged := guard.Attempts(e.Call, Place(e.Dir, d.config.Home))
	var worst guard.Verdict
	by := holders[0]
	for i, a := range holders {
		var v guard.Verdict
		if unjudged != nil {
			v = guard.Unjudged(unjudged)
		} else if v, err = d.verdict(s, a, steps, now); err != nil {
			return clients.Reply{}, err
		}
		if i == 0 || v.Answer > worst.Answer {
			worst, by = v, a
		}
	}
	return d.conclude(s, by, e, worst, now)
}

func (d *Daemon) verdict(s *session, a *agent, steps []guard.Step, now time.Time) (guard.Verdict, error) {
	authority, err := d.mint.Authority(a.lease, d.isRevoked, now)
	if errors.Is(err, powerbox.ErrDenied) {
		return guard.Verdict{Answer: guard.Deny, Reasons: []guard.Reason{{Code: CodeEnded, Text: "the lease is not good any more: " + err.Error()}}}, nil
	}
	if err != nil {
		return guard.Verdict{}, err
	}
	var needs []guard.Need
	for _, step := range steps {
		needs = slices.Concat(needs, step.Always, step.Table)
	}
	reads, err := s.grant.Untrusted.Sources(needs, Place(s.Project, d.config.Home))
	if err != nil {
		return guard.Verdict{}, err
	}
	l := guard.Lease{Authority: authority, Approved: a.approved, Frame: guard.Frame{Project: s.Project, State: d.config.State}, Read: s.Read, Reads: reads, Untrusted: s.grant.Untrusted}
	return l.Decide(steps, now), nil
}

// conclude records a verdict and says it.
func (d *Daemon) conclude(s *session, a *agent, e guard.Event, v guard.Verdict, now time.Time) (clients.Reply, error) {
	if v.Answer == guard.Ask && d.once(s, a, e, v) {
		v.Answer, v.Asks = guard.Allow, nil
	}
	r, err := d.record(s, a, operationOf(e, v), now)
	if err != nil {
		return clients.Reply{}, err
	}
	if r.Details.Arguments, err = arguments(s.Project, v.Needs); err != nil {
		return clients.Reply{}, err
	}
	text := "allowed by the grant"
	switch v.Answer {
	case guard.Allow:
		r.Decision = evidence.Allow
		if e.Call.Kind == guard.Starting {
			s.spawns = append(s.spawns, spawn{call: e.Call.ID, parent: a.ID, kind: e.Call.Type})
		}
		if e.Call.ID != "" && len(d.pending) < maxPending {
			r.OutcomeStatus = evidence.Pending
		}
	case guard.Ask:
		r.Decision = evidence.Abstain
		q := d.ask(s, a, e, v, now)
		r.Details.Reasons = []evidence.Reason{{Code: guard.CodeAsk, Message: "a person is asked"}}
		text = q.text(e.CanAsk)
	case guard.Deny:
		r.Decision = evidence.Deny
		for _, why := range v.Reasons {
			r.Details.Reasons = append(r.Details.Reasons, evidence.Reason{Code: why.Code, Operation: why.Need.Operation})
		}
		text = denial(v)
	}
	if err := d.log.append(r); err != nil {
		return clients.Reply{}, err
	}
	if r.OutcomeStatus == evidence.Pending {
		d.pending[s.Client+"\n"+s.ID+"\n"+e.Call.ID] = r
	}
	answer := v.Answer
	if answer == guard.Ask && !e.CanAsk {
		answer = guard.Deny
	}
	if answer != guard.Deny { // the client makes the call
		if err := d.noteRead(s, v); err != nil {
			return clients.Reply{}, err
		}
	}
	return clients.Reply{Answer: answer, Text: "Powerbox guard: " + text}, nil
}

// maxSources is how many sources of untrusted data a session names.
const maxSources = 32

// noteRead keeps the sources of untrusted data that a call reads, before it is made. What
// people approved before the first of them counts no more.
func (d *Daemon) noteRead(s *session, v guard.Verdict) error {
	sources, err := s.grant.Untrusted.Sources(v.Needs, Place(s.Project, d.config.Home))
	if err != nil {
		return err
	}
	before := len(s.Read)
	for _, source := range sources {
		if !slices.Contains(s.Read, source) && len(s.Read) < maxSources {
			s.Read = append(s.Read, source)
		}
	}
	if len(s.Read) == before {
		return nil
	}
	if before == 0 {
		for _, a := range s.Agents {
			a.approved = nil
		}
		maps.DeleteFunc(d.questions, func(_ string, q *Question) bool { return q.session == s && q.once })
	}
	return d.save(s)
}

// maxReasons is how many reasons of a denial are said.
const maxReasons = 5

func denial(v guard.Verdict) string {
	text := "denied"
	for i, r := range v.Reasons {
		if i == maxReasons {
			return text + fmt.Sprintf("; and %d more", len(v.Reasons)-i)
		}
		text += "; " + r.Text
	}
	return text
}

func (d *Daemon) outcome(s *session, e guard.Event, now time.Time) error {
	if e.Call.Kind == guard.Starting { // the announced sub-agent has started by now
		s.spawns = deleteCall(s.spawns, e.Call.ID)
	}
	key := s.Client + "\n" + s.ID + "\n" + e.Call.ID
	decision, ok := d.pending[key]
	if !ok {
		return nil
	}
	delete(d.pending, key)
	id, err := newID("rec_", d.config.Random)
	if err != nil {
		return err
	}
	status := evidence.Achieved
	if e.Moment == guard.Failed {
		status = evidence.Failed
	}
	r, err := evidence.Outcome(decision, id, now, status, nil)
	if err != nil {
		return err
	}
	return d.log.append(r)
}

func deleteCall(list []spawn, call string) []spawn {
	var out []spawn
	for _, sp := range list {
		if call == "" || sp.call != call {
			out = append(out, sp)
		}
	}
	return out
}
