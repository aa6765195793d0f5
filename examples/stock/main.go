// Command stock is a small A2A agent as its author would write it on a2a-go:
// it keeps notes, can search, read and delete them, and knows nothing of
// Powerbox. It is what docs/tutorials/a2a-agent.md protects.
package main

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"net/http"
	"os"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

// notes answers every message with what it was asked to do.
type notes struct{}

// Execute implements a2asrv.AgentExecutor.
func (notes) Execute(_ context.Context, call *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		answer := "say which skill you want, in a data part"
		for _, part := range call.Message.Parts {
			if data, ok := part.Data().(map[string]any); ok {
				answer = fmt.Sprintf("did %v with %v", data["skill"], data["arguments"])
			} else if text := part.Text(); text != "" {
				answer = "read: " + text
			}
		}
		yield(a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart(answer)), nil)
	}
}

// Cancel implements a2asrv.AgentExecutor.
func (notes) Cancel(_ context.Context, call *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(call, a2a.TaskStateCanceled, nil), nil)
	}
}

func main() {
	listen := flag.String("listen", "127.0.0.1:9101", "address to listen on")
	flag.Parse()
	card := &a2a.AgentCard{
		Name: "Notes", Description: "Keeps notes", Version: "1.0.0",
		SupportedInterfaces: []*a2a.AgentInterface{a2a.NewAgentInterface("http://"+*listen+"/invoke", a2a.TransportProtocolJSONRPC)},
		DefaultInputModes:   []string{"text"}, DefaultOutputModes: []string{"text"},
		Skills: []a2a.AgentSkill{
			{ID: "search_notes", Name: "Search", Description: "Finds notes by a word", Tags: []string{"notes"}},
			{ID: "read_note", Name: "Read", Description: "Reads one note", Tags: []string{"notes"}},
			{ID: "delete_note", Name: "Delete", Description: "Deletes one note", Tags: []string{"notes"}},
		},
	}
	mux := http.NewServeMux()
	mux.Handle("/invoke", a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(notes{})))
	mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(card))
	server := &http.Server{Addr: *listen, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	fmt.Fprintln(os.Stderr, "stock:", server.ListenAndServe())
	os.Exit(1)
}
