package premises

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/powerbox-project/powerbox/examples/quarterly"
)

// Agent is an A2A agent as its author would write it on a2a-go: skills that are
// asked for in a data part, and nothing about who may ask.
type Agent struct {
	Name   string
	Skills map[string]Skill // by id
	// Trust is the level that anyone who calls it needs, whatever is asked: HIGH,
	// MODERATE or LOW. Empty for none. It counts behind Powerbox alone.
	Trust string

	guard *quarterly.Guarded
}

// Skill does one thing for any caller, and answers in words.
type Skill func(ctx context.Context, in Incoming) (string, error)

// ErrBroken is what a skill returns, wrapped, that fails by the agent's own fault.
// Every other error says that the agent was asked for nonsense, which does not
// speak against it.
var ErrBroken = errors.New("it broke")

// Incoming is what an agent is asked.
type Incoming struct {
	Arguments map[string]any
	Metadata  map[string]any // of the request
	// Resources are what the call may touch, by handle: what the gateway in front
	// has signed for this very call. nil where no gateway is, or nothing is bounded.
	Resources map[string]string
}

// protects tells the agent which gateway's word on resources it takes. It is all
// that an agent knows of Powerbox.
func (a *Agent) protects(url, id string, client *http.Client) {
	a.guard = &quarterly.Guarded{URL: url, ID: id, HTTP: client, Now: time.Now}
}

// threshold is the agent's level as in configuration.
func (a *Agent) threshold() string {
	if a.Trust == "" {
		return ""
	}
	return ", trust: " + a.Trust
}

type bodyKey struct{}

// served is a running agent.
type served struct {
	url    string
	server *http.Server
	ended  chan error
}

func (a Agent) serve(ctx context.Context) (*served, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	url := "http://" + l.Addr().String()
	card := &a2a.AgentCard{
		Name: a.Name, Description: a.Name, Version: "1.0.0",
		SupportedInterfaces: []*a2a.AgentInterface{a2a.NewAgentInterface(url+"/invoke", a2a.TransportProtocolJSONRPC)},
		DefaultInputModes:   []string{"text"}, DefaultOutputModes: []string{"text"},
	}
	for id := range a.Skills {
		card.Skills = append(card.Skills, a2a.AgentSkill{ID: id, Name: id, Description: id, Tags: []string{a.Name}})
	}
	mux := http.NewServeMux()
	mux.Handle("/invoke", keepBody(a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(a, a2asrv.WithLogger(slog.New(slog.DiscardHandler))))))
	mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(card))
	s := &served{url: url, server: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}, ended: make(chan error, 1)}
	go func() { s.ended <- s.server.Serve(l) }()
	return s, nil
}

func (s *served) close() error {
	err := s.server.Close()
	if ended := <-s.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// keepBody keeps the bytes of a request, which the gateway's signature is about.
func keepBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 4<<20))
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), bodyKey{}, body)))
	})
}

// Execute implements a2asrv.AgentExecutor.
func (a Agent) Execute(ctx context.Context, call *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		words, err := a.answer(ctx, call)
		if errors.Is(err, ErrBroken) {
			yield(nil, a2a.NewError(a2a.ErrInternalError, err.Error()))
			return
		}
		if err != nil {
			yield(nil, a2a.NewError(a2a.ErrInvalidParams, err.Error()))
			return
		}
		yield(a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart(words)), nil)
	}
}

// Cancel implements a2asrv.AgentExecutor.
func (a Agent) Cancel(_ context.Context, call *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(call, a2a.TaskStateCanceled, nil), nil)
	}
}

func (a Agent) answer(ctx context.Context, call *a2asrv.ExecutorContext) (string, error) {
	for _, part := range call.Message.Parts {
		data, _ := part.Data().(map[string]any)
		id, _ := data["skill"].(string)
		skill := a.Skills[id]
		if skill == nil {
			continue
		}
		in := Incoming{Metadata: call.Metadata}
		in.Arguments, _ = data["arguments"].(map[string]any)
		if a.guard != nil {
			var err error
			if in.Resources, err = a.resources(ctx, call); err != nil {
				return "", err
			}
		}
		return skill(ctx, in)
	}
	return "", fmt.Errorf("%s has no such skill: send a data part with skill and arguments", a.Name)
}

// resources asks the gateway's signed word which resources the call may touch.
func (a Agent) resources(ctx context.Context, call *a2asrv.ExecutorContext) (map[string]string, error) {
	body, _ := ctx.Value(bodyKey{}).([]byte)
	in := quarterly.Incoming{Headers: map[string][]string{}, Body: body}
	for name, values := range call.ServiceParams.List() {
		in.Headers[strings.ToLower(name)] = values
	}
	byHandle, _, err := a.guard.Handles(in)
	return byHandle, err
}

// Effects counts what agents have done, for examples to show that a refusal has
// none. The zero value is ready.
type Effects struct{ n atomic.Int64 }

// Add counts one more and returns how many there are.
func (e *Effects) Add() int64 { return e.n.Add(1) }

// Count is how many there are.
func (e *Effects) Count() int64 { return e.n.Load() }
