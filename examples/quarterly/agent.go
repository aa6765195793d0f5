package quarterly

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

// Answer is what a skill gives back: words, and the same as data where there is something to compute with.
type Answer struct {
	Text string
	Data map[string]any
}

// skill is one thing that an agent does for others.
type skill struct {
	id, name, description string
	do                    func(ctx context.Context, in Incoming, args map[string]any) (Answer, error)
	follow                func(ctx context.Context, in Incoming, args map[string]any) iter.Seq2[Answer, error] // instead of do: answers as they come
}

// agent is the part that the four have in common: an a2a-go executor that finds out which skill a message asks for, and does it.
type agent struct {
	name, description string
	skills            []skill
	// asTask answers with a task and an artifact instead of a single message.
	asTask bool
	// plain understands a message of words alone. nil: the agent's model reads it as an instruction for one of its own skills.
	plain func(text string) (request, bool)

	ctx      context.Context // of the town: a2a-go lets executions outlive their request, but they end with the town
	running  sync.RWMutex    // held for reading by every execution
	peers    map[string]string
	outgoing Outgoing
	record   func(Call)
	model    Model // may call every skill of every peer
}

var _ a2asrv.AgentExecutor = (*agent)(nil)

// Execute implements a2asrv.AgentExecutor.
func (a *agent) Execute(ctx context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		a.running.RLock()
		defer a.running.RUnlock()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(a.ctx, cancel)()

		in := incoming(ctx, a.name, ec)
		req, err := a.read(in, ec.Message)
		if err != nil {
			yield(nil, err)
			return
		}
		if follow := a.follows(req.Skill); follow != nil {
			a.runFollowing(ec, follow(ctx, in, req.Arguments), yield)
		} else if a.asTask {
			a.runTask(ctx, ec, in, req, yield)
		} else if answer, err := a.perform(ctx, in, req); err != nil {
			yield(nil, err)
		} else {
			yield(a2a.NewMessage(a2a.MessageRoleAgent, answer.parts()...), nil)
		}
	}
}

// runTask does req as a task, so that a failure stands in the task's history with its reason.
func (a *agent) runTask(ctx context.Context, ec *a2asrv.ExecutorContext, in Incoming, req request, yield func(a2a.Event, error) bool) {
	if !yield(a2a.NewSubmittedTask(ec, ec.Message), nil) || !yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateWorking, nil), nil) {
		return
	}
	answer, err := a.perform(ctx, in, req)
	if err != nil {
		why := a2a.NewMessageForTask(a2a.MessageRoleAgent, ec, a2a.NewTextPart(err.Error()))
		yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateFailed, why), nil)
		return
	}
	if yield(a2a.NewArtifactEvent(ec, answer.parts()...), nil) {
		yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCompleted, nil), nil)
	}
}

// runFollowing gives every answer as a piece of one artifact, while the one who asked listens.
func (a *agent) runFollowing(ec *a2asrv.ExecutorContext, answers iter.Seq2[Answer, error], yield func(a2a.Event, error) bool) {
	if !yield(a2a.NewSubmittedTask(ec, ec.Message), nil) || !yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateWorking, nil), nil) {
		return
	}
	var artifact a2a.ArtifactID
	for answer, err := range answers {
		if err != nil {
			why := a2a.NewMessageForTask(a2a.MessageRoleAgent, ec, a2a.NewTextPart(err.Error()))
			yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateFailed, why), nil)
			return
		}
		event := a2a.NewArtifactEvent(ec, answer.parts()...)
		if artifact != "" {
			event = a2a.NewArtifactUpdateEvent(ec, artifact, answer.parts()...)
		}
		artifact = event.Artifact.ID
		if !yield(event, nil) {
			return
		}
	}
	yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCompleted, nil), nil)
}

// follows returns how a skill answers piece by piece, nil where it does not.
func (a *agent) follows(id string) func(context.Context, Incoming, map[string]any) iter.Seq2[Answer, error] {
	for _, s := range a.skills {
		if s.id == id {
			return s.follow
		}
	}
	return nil
}

// Cancel implements a2asrv.AgentExecutor.
func (a *agent) Cancel(_ context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCanceled, nil), nil)
	}
}

func (a *agent) perform(ctx context.Context, in Incoming, req request) (Answer, error) {
	for _, s := range a.skills {
		if s.id == req.Skill {
			return s.do(ctx, in, req.Arguments)
		}
	}
	return Answer{}, invalid("%s has no skill %q, it has %s", a.name, req.Skill, strings.Join(a.skillIDs(), ", "))
}

// request is a skill with its arguments, as a message asks for it.
type request struct {
	Skill     string
	Arguments map[string]any
}

// read finds the request in a message: in a data part, in metadata, or in words. All that name a skill have to agree: anyone who
// checks one of them on the way must not be shown another one than the agent runs.
func (a *agent) read(in Incoming, msg *a2a.Message) (request, error) {
	var found []request
	for _, p := range msg.Parts {
		found = appendRequest(found, p.Data())
	}
	for _, meta := range []map[string]any{in.MessageMetadata, in.Metadata} {
		found = appendRequest(found, meta)
		for _, member := range meta {
			found = appendRequest(found, member)
		}
	}
	if len(found) == 0 {
		return a.readWords(in.Text)
	}
	req := found[0]
	for _, f := range found[1:] {
		if f.Skill != req.Skill || f.Arguments != nil && req.Arguments != nil && !reflect.DeepEqual(f.Arguments, req.Arguments) {
			return request{}, invalid("the message asks for two different things, name one skill with one set of arguments")
		}
		if req.Arguments == nil {
			req.Arguments = f.Arguments
		}
	}
	return req, nil
}

func appendRequest(found []request, v any) []request {
	m, _ := v.(map[string]any)
	id, ok := m["skill"].(string)
	if !ok {
		return found
	}
	args, isObject := m["arguments"].(map[string]any)
	if given := m["arguments"]; given != nil && !isObject {
		args = map[string]any{"arguments": given} // which no skill has: to take it for no arguments could mean "everything"
	}
	return append(found, request{Skill: id, Arguments: args})
}

func (a *agent) readWords(text string) (request, error) {
	if a.plain != nil {
		if req, ok := a.plain(text); ok {
			return req, nil
		}
	}
	if calls := (Model{Tools: a.asTools()}).Instructions(text); len(calls) > 0 {
		return request{Skill: calls[0].Skill, Arguments: calls[0].With("")}, nil
	}
	return request{}, invalid(`%s understands a data part {"skill": ..., "arguments": {...}}; skills are %s`, a.name, strings.Join(a.skillIDs(), ", "))
}

func (a *agent) skillIDs() []string {
	var ids []string
	for _, s := range a.skills {
		ids = append(ids, s.id)
	}
	return ids
}

// asTools is the agent's own skills, as a model sees them.
func (a *agent) asTools() []Tool {
	var own []Tool
	for _, id := range a.skillIDs() {
		own = append(own, Tool{Agent: a.name, Skill: id})
	}
	return own
}

func (a *agent) card(cfg Agent) *a2a.AgentCard {
	card := &a2a.AgentCard{
		Name:                a.name,
		Description:         a.description,
		Version:             "1.0.0",
		SupportedInterfaces: []*a2a.AgentInterface{a2a.NewAgentInterface(cfg.URL, a2a.TransportProtocolJSONRPC)},
		Capabilities:        a2a.AgentCapabilities{Streaming: true, Extensions: cfg.Extensions},
		DefaultInputModes:   []string{"text/plain", "application/json"},
		DefaultOutputModes:  []string{"text/plain", "application/json"},
	}
	for _, s := range a.skills {
		card.Skills = append(card.Skills, a2a.AgentSkill{ID: s.id, Name: s.name, Description: s.description, Tags: []string{a.name}})
	}
	return card
}

// serve answers on the agent's listener until the town's context ends, and returns when the last connection and the last execution are gone.
func (a *agent) serve(cfg Agent, log *slog.Logger) error {
	mux := http.NewServeMux()
	mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(a.card(cfg)))
	mux.Handle("/", keepBody(a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(a, a2asrv.WithLogger(log)))))
	srv := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return a.ctx },
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(cfg.Listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("quarterly: agent %s: %w", a.name, err)
	case <-a.ctx.Done():
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), grace)
	defer cancel()
	err := srv.Shutdown(late)
	if err != nil {
		err = errors.Join(fmt.Errorf("quarterly: agent %s did not stop in %v: %w", a.name, grace, err), srv.Close())
	}
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("quarterly: agent %s: %w", a.name, served))
	}
	a.running.Lock() // after the last execution
	defer a.running.Unlock()
	return err
}

func (a Answer) parts() []*a2a.Part {
	var parts []*a2a.Part
	if a.Text != "" {
		parts = append(parts, a2a.NewTextPart(a.Text))
	}
	if a.Data != nil {
		parts = append(parts, a2a.NewDataPart(a.Data))
	}
	return parts
}

func invalid(format string, args ...any) error {
	return a2a.NewError(a2a.ErrInvalidParams, fmt.Sprintf(format, args...))
}

// onlyArguments refuses arguments that a skill does not have: a misspelt filter must not list everything.
func onlyArguments(args map[string]any, names ...string) error {
	for name, v := range args {
		if !slices.Contains(names, name) {
			return invalid("unknown argument %q, known are %s", name, strings.Join(names, ", "))
		}
		if _, ok := v.(string); !ok {
			return invalid("argument %q is a %T, a string is wanted", name, v)
		}
	}
	return nil
}

func stringArgument(args map[string]any, name string) string {
	s, _ := args[name].(string)
	return s
}
