package quarterly

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

// Incoming is the request that an agent is working on when it calls a peer: where its right to call could come from.
type Incoming struct {
	// Agent is the name of the agent that works on the request.
	Agent string
	// Text is the words of the message: what the caller says that it wants.
	Text string
	// Headers are the request's HTTP headers, names in lower case.
	Headers map[string][]string
	// Metadata is the request's, MessageMetadata that of the message in it.
	Metadata, MessageMetadata map[string]any
	TaskID, ContextID         string
	// Body is the bytes of the request, to which a signed context is bound.
	Body []byte
}

// Peer is an agent to be called: its name in the caller's configuration, and its base URL there.
type Peer struct{ Name, URL string }

// Outgoing is the only way from one agent to another. It opens a client for calls to a peer on behalf of in; interceptors and the
// HTTP client are its choice. The caller destroys the client after one call.
type Outgoing interface {
	Client(ctx context.Context, to Peer, in Incoming) (*a2aclient.Client, error)
}

// Direct calls a peer as its card says, with nothing added.
type Direct struct {
	// HTTP is required.
	HTTP *http.Client
}

// Client implements Outgoing.
func (d Direct) Client(ctx context.Context, to Peer, _ Incoming) (*a2aclient.Client, error) {
	card, err := agentcard.NewResolver(d.HTTP).Resolve(ctx, to.URL)
	if err != nil {
		return nil, err
	}
	return a2aclient.NewFromCard(ctx, card, a2aclient.WithJSONRPCTransport(d.HTTP))
}

// Invoke asks the agent at the other end of client for one skill, in a data part.
// The error is the agent's: its JSON-RPC error, or the reason in the status of a task that did not complete.
func Invoke(ctx context.Context, client *a2aclient.Client, skill string, args map[string]any) (Answer, error) {
	return send(ctx, client, a2a.NewDataPart(map[string]any{"skill": skill, "arguments": args}))
}

// Say sends words to the agent at the other end of client. Errors are those of Invoke.
func Say(ctx context.Context, client *a2aclient.Client, text string) (Answer, error) {
	return send(ctx, client, a2a.NewTextPart(text))
}

func send(ctx context.Context, client *a2aclient.Client, part *a2a.Part) (Answer, error) {
	result, err := client.SendMessage(ctx, &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, part)})
	if err != nil {
		return Answer{}, err
	}
	switch r := result.(type) {
	case *a2a.Message:
		return answerOf(r.Parts), nil
	case *a2a.Task:
		if r.Status.State != a2a.TaskStateCompleted {
			return Answer{}, fmt.Errorf("task is %s: %s", r.Status.State, statusText(r))
		}
		var parts a2a.ContentParts
		for _, artifact := range r.Artifacts {
			parts = append(parts, artifact.Parts...)
		}
		return answerOf(parts), nil
	default:
		return Answer{}, fmt.Errorf("answer is a %T, a message or a task is wanted", result)
	}
}

func statusText(t *a2a.Task) string {
	if t.Status.Message == nil {
		return "no reason given"
	}
	return answerOf(t.Status.Message.Parts).Text
}

func answerOf(parts a2a.ContentParts) Answer {
	var answer Answer
	var words []string
	for _, p := range parts {
		if text := p.Text(); text != "" {
			words = append(words, text)
		}
		if data, ok := p.Data().(map[string]any); ok {
			answer.Data = data
		}
	}
	answer.Text = strings.Join(words, "\n")
	return answer
}

// call asks a peer for a skill while working on in, and puts the outcome on record.
func (a *agent) call(ctx context.Context, in Incoming, c Call) (Answer, error) {
	answer, err := a.invokePeer(ctx, in, c)
	if err != nil {
		err = fmt.Errorf("%s at %s: %w", c.Skill, c.To, err)
	}
	c.From, c.Err = a.name, err
	a.record(c)
	return answer, err
}

func (a *agent) invokePeer(ctx context.Context, in Incoming, c Call) (Answer, error) {
	url, ok := a.peers[c.To]
	if !ok {
		return Answer{}, fmt.Errorf("%s is no peer of %s", c.To, a.name)
	}
	client, err := a.outgoing.Client(ctx, Peer{Name: c.To, URL: url}, in)
	if err != nil {
		return Answer{}, err
	}
	answer, err := Invoke(ctx, client, c.Skill, c.Arguments)
	if closing := client.Destroy(); err == nil {
		err = closing
	}
	return answer, err
}

// obey is the hijack: it does whatever the text that the agent has just read asks for, and says nothing about it.
func (a *agent) obey(ctx context.Context, in Incoming, text string) {
	last := text
	for _, c := range a.model.Instructions(text) {
		answer, err := a.call(ctx, in, Call{To: c.Agent, Skill: c.Skill, Arguments: c.With(last), Injected: true})
		if err == nil && answer.Text != "" {
			last = answer.Text
		}
	}
}

// incoming collects from an execution what an onward call may need.
func incoming(ctx context.Context, agent string, ec *a2asrv.ExecutorContext) Incoming {
	in := Incoming{
		Agent: agent, Headers: map[string][]string{}, Metadata: ec.Metadata,
		TaskID: string(ec.TaskID), ContextID: ec.ContextID,
		MessageMetadata: ec.Message.Metadata, Text: answerOf(ec.Message.Parts).Text, Body: bodyOf(ctx),
	}
	for name, values := range ec.ServiceParams.List() {
		in.Headers[name] = values
	}
	return in
}
