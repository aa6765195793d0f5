package main

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"google.golang.org/grpc"
)

// stock is an agent as its author would build it on a2a-go, in all bindings.
func stock(listen string) *http.Server {
	base := "http://" + listen
	card := &a2a.AgentCard{
		Name: "Documents", Description: "Keeps documents", Version: "1.0.0",
		SupportedInterfaces: []*a2a.AgentInterface{
			a2a.NewAgentInterface(base+"/invoke", a2a.TransportProtocolJSONRPC),
			a2a.NewAgentInterface(base+"/rest", a2a.TransportProtocolHTTPJSON),
			a2a.NewAgentInterface(listen, a2a.TransportProtocolGRPC),
		},
		DefaultInputModes: []string{"text"}, DefaultOutputModes: []string{"text"},
		Capabilities: a2a.AgentCapabilities{Streaming: true},
		Skills:       []a2a.AgentSkill{{ID: "retrieve_document", Name: "Retrieve", Description: "Returns a document", Tags: []string{"documents"}}},
	}
	handler := a2asrv.NewHandler(teller{})
	services := grpc.NewServer()
	a2agrpc.NewHandler(handler).RegisterWith(services)
	mux := http.NewServeMux()
	mux.Handle("/invoke", a2asrv.NewJSONRPCHandler(handler))
	mux.Handle("/rest/", http.StripPrefix("/rest", a2asrv.NewRESTHandler(handler)))
	mux.Handle("/lf.a2a.v1.A2AService/", services)
	mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(card))
	s := &http.Server{Addr: listen, Handler: mux, ReadHeaderTimeout: time.Minute, Protocols: new(http.Protocols)}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	return s
}

// What the note of a call asks the agent for.
const (
	noteMessage = "message"
	noteTask    = "task" // which ends after some events
)

// events is how many updates a task has before it ends.
const events = 4

// teller answers with a message, or with a task that takes a while.
type teller struct{}

func (teller) Execute(ctx context.Context, x *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		asked := ""
		for _, p := range x.Message.Parts {
			if data, err := json.Marshal(p.Data()); err == nil {
				asked += string(data)
			}
		}
		if !strings.Contains(asked, `"note":"`+noteTask) {
			yield(a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("answer-1")), nil)
			return
		}
		if !yield(a2a.NewSubmittedTask(x, x.Message), nil) {
			return
		}
		for range events {
			select {
			case <-ctx.Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
			if !yield(a2a.NewStatusUpdateEvent(x, a2a.TaskStateWorking, nil), nil) {
				return
			}
		}
		yield(a2a.NewStatusUpdateEvent(x, a2a.TaskStateCompleted, a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("answer-1"))), nil)
	}
}

func (teller) Cancel(_ context.Context, x *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(x, a2a.TaskStateCanceled, nil), nil)
	}
}
