package backend

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// A2A calls one skill of an A2A agent over JSON-RPC. A call is a message with one data part
// {skill, arguments}, as the gateway sends it for a2a/skill/invoke.
type A2A struct {
	HTTP
	URL     string // where the agent takes JSON-RPC
	Skill   string
	Version string // of the agent: 1.0 or 0.3
	Token   string // bearer token of the agent, "" for none
	Streams bool   // whether the agent is asked for a stream, whose events are passed on
}

// taskPrefix begins the name of a job that is a task of the agent.
const taskPrefix = "a2a:task:"

// maxTaskID bounds the id of a task that an agent chooses.
const maxTaskID = 256

// Execute implements [provider.Backend].
func (a A2A) Execute(ctx context.Context, e provider.Execution) (provider.Result, error) {
	p := a2a.InvokeParams{Skill: a.Skill, Arguments: e.Arguments}
	if a.Streams {
		return a.open(ctx, e, a2a.ComposeStreaming(p, []byte("1"), a.Version, rand.Text()))
	}
	return a.ask(ctx, e, a2a.Compose(p, []byte("1"), a.Version, rand.Text()), "")
}

// Poll implements [provider.Backend].
func (a A2A) Poll(ctx context.Context, e provider.Execution, status string) (provider.Result, error) {
	id, ok := strings.CutPrefix(status, taskPrefix)
	if !ok {
		return provider.Result{}, errors.New("backend: the status names no task")
	}
	method := "GetTask"
	if a.Version == a2a.Version03 {
		method = "tasks/get"
	}
	body := powerbox.Object(
		powerbox.Member{Name: "jsonrpc", Value: powerbox.String("2.0")}, powerbox.Member{Name: "id", Value: powerbox.Number(powerbox.Int(1))},
		powerbox.Member{Name: "method", Value: powerbox.String(method)},
		powerbox.Member{Name: "params", Value: powerbox.Object(powerbox.Member{Name: "id", Value: powerbox.String(id)})}).AppendJSON(nil)
	return a.ask(ctx, e, body, id)
}

// ask makes one call. about is the id of the task that it polls, "" for a new task.
func (a A2A) ask(ctx context.Context, e provider.Execution, body []byte, about string) (provider.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, max(a.Time, time.Second))
	defer cancel()
	req, err := a.request(ctx, http.MethodPost, a.URL, e, body)
	if err != nil {
		return provider.Result{}, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("A2A-Version", a.Version)
	bearer(req.Header, a.Token)
	resp, err := a.Client.Do(req)
	if err != nil {
		return provider.Result{}, fmt.Errorf("backend: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or useless
	return a.whole(resp, about)
}

// whole reads an answer that is no stream.
func (a A2A) whole(resp *http.Response, about string) (provider.Result, error) {
	data, err := a.read(resp)
	if err != nil {
		return provider.Result{}, err
	}
	v, err := powerbox.DecodeValue(data, powerbox.Limits{Bytes: len(data), Depth: 64, Nodes: maxNodes})
	if err != nil {
		return provider.Result{}, fmt.Errorf("backend: the agent's answer of status %d is no JSON: %w", resp.StatusCode, err)
	}
	if problem, ok := v.Get("error"); ok && problem.Kind() != powerbox.KindNull {
		return refusedBy(problem)
	}
	result, _ := v.Get("result")
	return outcomeOf(result, about)
}

// refusedBy reads an error of the agent. An error in the call is the result of the call. After
// any other error the result is unknown, so it is an error here too.
func refusedBy(problem powerbox.Value) (provider.Result, error) {
	message, _ := text(problem, "message")
	code, _ := problem.Get("code")
	n, _ := code.Decimal()
	if at, _ := n.Int64(); at == -32602 || at == -31403 {
		return provider.Result{Failed: agentauth.Errorf(agentauth.CodeInvalidRequest, "the agent: %s", clipped(message))}, nil
	}
	return provider.Result{}, fmt.Errorf("backend: the agent answered with error %s: %s", code, clipped(message))
}

// outcomeOf reads a message or a task, of either version.
func outcomeOf(result powerbox.Value, about string) (provider.Result, error) {
	if m, ok := result.Get("message"); ok { // 1.0
		return provider.Result{Data: content(m), HasData: true}, nil
	}
	if kind, _ := text(result, "kind"); kind == "message" { // 0.3
		return provider.Result{Data: content(result), HasData: true}, nil
	}
	task := result
	if t, ok := result.Get("task"); ok {
		task = t
	}
	id, _ := text(task, "id")
	status, _ := task.Get("status")
	state, _ := text(status, "state")
	if id == "" || len(id) > maxTaskID || state == "" || about != "" && id != about {
		return provider.Result{}, errors.New("backend: the agent's answer is neither a message nor the task that was asked about")
	}
	state = stateOf(status)
	switch state {
	case "completed":
		return provider.Result{Data: artifacts(task, status), HasData: true}, nil
	case "submitted", "working":
		return provider.Result{Job: taskPrefix + id}, nil
	}
	return provider.Result{Failed: ended(state, status)}, nil
}

// ended says why a task failed.
func ended(state string, status powerbox.Value) *agentauth.Error {
	said := ""
	if m, ok := status.Get("message"); ok {
		said, _ = content(m).Text()
	}
	return agentauth.Errorf(agentauth.CodeInvalidRequest, "the agent's task is %s: %s", clipped(state), clipped(said))
}

// stateOf is the state of a status, in the words of 0.3.
func stateOf(status powerbox.Value) string {
	state, _ := text(status, "state")
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(state, "TASK_STATE_"), "_", "-"))
}

// artifacts returns the results of a task: one as it is, several as a list. Without artifacts it
// is the message of the status.
func artifacts(task, status powerbox.Value) powerbox.Value {
	list, _ := task.Get("artifacts")
	all, _ := list.Elements()
	var out []powerbox.Value
	for _, a := range all {
		out = append(out, content(a))
	}
	switch len(out) {
	case 0:
		m, _ := status.Get("message")
		return content(m)
	case 1:
		return out[0]
	}
	return powerbox.List(out...)
}

// content reads the parts of a message or an artifact: one data part as it is, texts as one
// text, a mixture as a list.
func content(of powerbox.Value) powerbox.Value {
	list, _ := of.Get("parts")
	parts, _ := list.Elements()
	var data, texts []powerbox.Value
	for _, p := range parts {
		if d, ok := p.Get("data"); ok {
			data = append(data, d)
		} else if t, ok := p.Get("text"); ok {
			texts = append(texts, t)
		}
	}
	switch {
	case len(data) == 1 && len(texts) == 0:
		return data[0]
	case len(data) > 0:
		return powerbox.List(slices.Concat(data, texts)...)
	}
	var lines []string
	for _, t := range texts {
		line, _ := t.Text()
		lines = append(lines, line)
	}
	return powerbox.String(strings.Join(lines, "\n"))
}
