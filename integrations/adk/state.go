package powerboxadk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"

	"google.golang.org/adk/v2/session"

	"github.com/powerbox-project/powerbox/holder/guard"
)

// Sessions has what agents read of the session's state asked about: give the
// runner this instead of base. What may not be read is not there, for tools,
// callbacks and instruction templates alike; what may is by [Config.Reads].
//
// The program itself reads and writes by base: of a session that comes from here
// nothing is to be read where no agent runs. Without the plugin no agent is known
// to run.
func (g *Gate) Sessions(base session.Service) session.Service { return &heldSessions{base, g} }

type heldSessions struct {
	session.Service
	gate *Gate
}

func (s *heldSessions) hold(of session.Session) session.Session {
	if of == nil {
		return nil
	}
	return &heldSession{Session: of, gate: s.gate}
}

// Create implements [session.Service].
func (s *heldSessions) Create(ctx context.Context, r *session.CreateRequest) (*session.CreateResponse, error) {
	got, err := s.Service.Create(ctx, r)
	if err != nil || got == nil {
		return got, err
	}
	return &session.CreateResponse{Session: s.hold(got.Session)}, nil
}

// Get implements [session.Service].
func (s *heldSessions) Get(ctx context.Context, r *session.GetRequest) (*session.GetResponse, error) {
	got, err := s.Service.Get(ctx, r)
	if err != nil || got == nil {
		return got, err
	}
	return &session.GetResponse{Session: s.hold(got.Session)}, nil
}

// List implements [session.Service].
func (s *heldSessions) List(ctx context.Context, r *session.ListRequest) (*session.ListResponse, error) {
	got, err := s.Service.List(ctx, r)
	if err != nil || got == nil {
		return got, err
	}
	out := &session.ListResponse{}
	for _, of := range got.Sessions {
		out.Sessions = append(out.Sessions, s.hold(of))
	}
	return out, nil
}

// AppendEvent implements [session.Service]. Services know their own sessions.
func (s *heldSessions) AppendEvent(ctx context.Context, of session.Session, e *session.Event) error {
	if held, ok := of.(*heldSession); ok {
		of = held.Session
	}
	return s.Service.AppendEvent(ctx, of, e)
}

// heldSession is a session whose state is asked about. The runner has one of its
// own for every invocation.
type heldSession struct {
	session.Session
	gate *Gate
	of   atomic.Pointer[invocation]
}

// invocation is that of a run, with its context for the questions.
type invocation struct {
	ctx context.Context
	id  string
}

// State implements [session.Session].
func (s *heldSession) State() session.State {
	state := s.Session.State()
	if state == nil {
		return nil
	}
	return &heldState{state, s}
}

// Events implements [session.Session]. Events have no state in them: nothing of the
// ADK looks for it there, and an agent would find what it may not read.
func (s *heldSession) Events() session.Events {
	events := s.Session.Events()
	if events == nil {
		return nil
	}
	return heldEvents{events}
}

type heldEvents struct{ session.Events }

func bare(e *session.Event) *session.Event {
	if e == nil || len(e.Actions.StateDelta) == 0 {
		return e
	}
	own := *e
	own.Actions.StateDelta = map[string]any{}
	return &own
}

// All implements [session.Events].
func (e heldEvents) All() iter.Seq[*session.Event] {
	return func(yield func(*session.Event) bool) {
		for one := range e.Events.All() {
			if !yield(bare(one)) {
				return
			}
		}
	}
}

// At implements [session.Events].
func (e heldEvents) At(i int) *session.Event { return bare(e.Events.At(i)) }

type heldState struct {
	session.State
	of *heldSession
}

// Get implements [session.State]. What may not be read does not exist; where the
// gate does not answer it cannot be told.
func (s *heldState) Get(key string) (any, error) {
	err := s.of.ask(s.of.gate.config.Reads, key)
	switch {
	case isRefused(err):
		return nil, session.ErrStateKeyNotExist
	case err != nil:
		return nil, fmt.Errorf("powerbox: whether state %q may be read: %w", key, err)
	}
	return s.State.Get(key)
}

// All implements [session.State].
func (s *heldState) All() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for key, value := range s.State.All() {
			if s.of.ask(s.of.gate.config.Reads, key) == nil && !yield(key, value) {
				return
			}
		}
	}
}

// Set implements [session.State]. Others see a written key before its event, so
// the gate is asked at once.
func (s *heldState) Set(key string, value any) error {
	if s.of.gate.config.State == nil {
		return s.State.Set(key, value)
	}
	if err := s.of.ask(s.of.gate.config.State, key); err != nil {
		return fmt.Errorf("powerbox: state %q: %w", key, err)
	}
	return s.State.Set(key, value)
}

// ask asks about a key for every agent that could be the one.
func (s *heldSession) ask(skills map[string]Skill, key string) error {
	of := s.of.Load()
	if of == nil {
		return errNobody
	}
	agents := s.gate.acting(of.id)
	if len(agents) == 0 {
		return errNobody
	}
	for _, name := range agents {
		if err := s.gate.askState(of.ctx, skills, name, key, s.ID(), of.id); err != nil {
			return err
		}
	}
	return nil
}

// errNobody is of state that is used where no agent runs.
var errNobody error = &guard.Refused{Decision: guard.Decision{Text: "state is used where no agent runs"}}

func isRefused(err error) bool {
	refused := (*guard.Refused)(nil)
	return errors.As(err, &refused)
}

// askState asks whether an agent may use a key, by what the key is among skills. One
// that is nothing there is asked about by its own name, so that it is refused on
// record.
func (g *Gate) askState(ctx context.Context, skills map[string]Skill, from, key, sessionID, invocation string) error {
	mapped, ok := skillOf(skills, key)
	if !ok {
		mapped = Skill{Agent: "state", Skill: key}
	}
	arguments, err := json.Marshal(map[string]string{"key": key})
	if err != nil {
		return err
	}
	d, err := g.config.Gate.Check(ctx, guard.Attempt{
		From: g.named(from), To: mapped.Agent, Skill: mapped.Skill, Arguments: arguments, Context: sessionID, Trace: invocation,
	})
	if err != nil {
		g.refused(ctx, from, "state "+key, err)
		return err
	}
	g.tell(ctx, d, nil)
	return nil
}
