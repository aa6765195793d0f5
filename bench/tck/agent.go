package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/push"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"google.golang.org/grpc"
)

// skill is the one that the agent has.
const skill = "tck"

// scripted does what the id of a message asks for, as the kit's scenarios have
// it; a task that is gone on with is completed.
type scripted struct{}

// Execute implements a2asrv.AgentExecutor.
func (scripted) Execute(_ context.Context, x *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		id := x.Message.ID
		if strings.HasPrefix(id, "tck-message-response") {
			yield(a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("Direct message response")), nil)
			return
		}
		if x.StoredTask == nil && !yield(a2a.NewSubmittedTask(x, x.Message), nil) {
			return
		}
		for _, event := range script(x, id) {
			if !yield(event, nil) {
				return
			}
		}
	}
}

// Cancel implements a2asrv.AgentExecutor.
func (scripted) Cancel(_ context.Context, x *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(x, a2a.TaskStateCanceled, nil), nil)
	}
}

// script is what happens to a task.
func script(x *a2asrv.ExecutorContext, id string) []a2a.Event {
	is := func(prefix string) bool { return strings.HasPrefix(id, prefix) }
	state := func(s a2a.TaskState) a2a.Event { return a2a.NewStatusUpdateEvent(x, s, nil) }
	text := func(words string) a2a.Event { return a2a.NewArtifactEvent(x, a2a.NewTextPart(words)) }
	working, done := state(a2a.TaskStateWorking), state(a2a.TaskStateCompleted)
	file := a2a.NewRawPart([]byte("file"))
	file.Filename, file.MediaType = "output.txt", "text/plain"
	linked := a2a.NewFileURLPart("https://example.com/output.txt", "text/plain")
	linked.Filename = "output.txt"
	switch {
	case is("tck-input-required"):
		return []a2a.Event{state(a2a.TaskStateInputRequired)}
	case is("tck-reject-task"):
		return []a2a.Event{a2a.NewStatusUpdateEvent(x, a2a.TaskStateRejected, a2a.NewMessageForTask(a2a.MessageRoleAgent, x, a2a.NewTextPart("rejected")))}
	case is("tck-artifact-text"):
		return []a2a.Event{text("Generated text content"), done}
	case is("tck-artifact-file-url"):
		return []a2a.Event{a2a.NewArtifactEvent(x, linked), done}
	case is("tck-artifact-file"):
		return []a2a.Event{a2a.NewArtifactEvent(x, file), done}
	case is("tck-artifact-data"):
		return []a2a.Event{a2a.NewArtifactEvent(x, a2a.NewDataPart(map[string]any{"key": "value", "count": 42})), done}
	case is("tck-stream-002"):
		return []a2a.Event{done}
	case is("tck-stream-artifact-file"):
		return []a2a.Event{working, a2a.NewArtifactEvent(x, file), done}
	case is("tck-stream-artifact-chunked"):
		first := a2a.NewArtifactEvent(x, a2a.NewTextPart("chunk-1 "))
		last := a2a.NewArtifactUpdateEvent(x, first.Artifact.ID, a2a.NewTextPart("chunk-2"))
		last.LastChunk = true
		return []a2a.Event{working, first, last, done}
	case is("tck-stream-"):
		return []a2a.Event{working, text("Stream hello from TCK"), done}
	default:
		return []a2a.Event{a2a.NewStatusUpdateEvent(x, a2a.TaskStateCompleted, a2a.NewMessageForTask(a2a.MessageRoleAgent, x, a2a.NewTextPart("Hello from TCK")))}
	}
}

// serveAgent serves a new agent on every binding until the context ends, and
// returns its URL.
func serveAgent(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	at := l.Addr().String()
	card := &a2a.AgentCard{
		Name: "TCK agent", Description: "Does what the id of a message asks for", Version: "1.0.0",
		SupportedInterfaces: []*a2a.AgentInterface{
			a2a.NewAgentInterface("http://"+at+"/invoke", a2a.TransportProtocolJSONRPC),
			a2a.NewAgentInterface("http://"+at+"/rest", a2a.TransportProtocolHTTPJSON),
			a2a.NewAgentInterface(at, a2a.TransportProtocolGRPC),
		},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Capabilities: a2a.AgentCapabilities{Streaming: true, PushNotifications: true, ExtendedAgentCard: true},
		Skills:       []a2a.AgentSkill{{ID: skill, Name: "TCK", Description: "What the kit's scenarios ask for", Tags: []string{"test"}}},
	}
	// Everybody is one: the kit proves nothing about itself.
	store := taskstore.NewInMemory(&taskstore.InMemoryStoreConfig{Authenticator: func(context.Context) (string, error) { return "anybody", nil }})
	handler := a2asrv.NewHandler(scripted{},
		a2asrv.WithTaskStore(store), a2asrv.WithExtendedAgentCard(card), a2asrv.WithCapabilityChecks(&card.Capabilities), a2asrv.WithLogger(slog.New(slog.DiscardHandler)),
		a2asrv.WithPushNotifications(push.NewInMemoryStore(), push.NewHTTPPushSender(&push.HTTPSenderConfig{AllowPrivateNetworks: true})))
	services := grpc.NewServer()
	a2agrpc.NewHandler(handler).RegisterWith(services)
	mux := http.NewServeMux()
	mux.Handle("/invoke", a2asrv.NewJSONRPCHandler(handler))
	mux.Handle("/invoke/{$}", a2asrv.NewJSONRPCHandler(handler)) // which is where the kit calls it
	mux.Handle("/rest/", http.StripPrefix("/rest", a2asrv.NewRESTHandler(handler)))
	mux.Handle("/lf.a2a.v1.A2AService/", services)
	mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(card))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true) // gRPC
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("the agent ended", "error", err)
		}
	}()
	return fmt.Sprintf("http://%s", at), nil
}
