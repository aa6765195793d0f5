package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
)

// open asks the agent for a stream. An agent that answers with one answer is taken
// by its word.
func (a A2A) open(ctx context.Context, e provider.Execution, body []byte) (provider.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(max(a.Time, time.Second), cancel)
	streams := false
	defer func() {
		if late.Stop(); !streams {
			cancel()
		}
	}()
	req, err := a.request(ctx, http.MethodPost, a.URL, e, body)
	if err != nil {
		return provider.Result{}, err
	}
	req.Header.Set("Accept", "text/event-stream, application/json;q=0.9")
	req.Header.Set("A2A-Version", a.Version)
	bearer(req.Header, a.Token)
	resp, err := a.Client.Do(req)
	if err != nil {
		return provider.Result{}, fmt.Errorf("backend: %w", err)
	}
	if streams = isStream(resp); streams {
		return provider.Result{Stream: &taskStream{stream: newStream(resp.Body, cancel, a.Limit)}}, nil
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or useless
	return a.whole(resp, "")
}

// taskStream translates the stream of an A2A agent into events of Agent Auth: messages and
// artifacts are data, a failed task is an error, and the task's end is the end.
type taskStream struct {
	*stream
	over bool
}

// Next implements [provider.Stream].
func (t *taskStream) Next() (string, []byte, error) {
	for !t.over {
		_, data, err := t.stream.Next()
		switch {
		case errors.Is(err, io.EOF):
			return "", nil, errors.New("backend: the agent's stream ended before its task")
		case err != nil:
			return "", nil, err
		case len(data) == 0:
			continue // it says nothing
		}
		v, err := powerbox.ParseValue(data)
		if err != nil {
			return "", nil, fmt.Errorf("backend: an event that is no JSON: %w", err)
		}
		if problem, ok := v.Get("error"); ok && problem.Kind() != powerbox.KindNull {
			r, err := refusedBy(problem)
			if t.over = true; err != nil {
				return "", nil, err
			}
			return "error", r.Failed.JSON().AppendJSON(nil), nil
		}
		result, _ := v.Get("result")
		if name, said, some := t.event(result); some {
			return name, said.AppendJSON(nil), nil
		}
	}
	return "", nil, io.EOF
}

// event is one event of a task, of either version; false for one that says nothing.
func (t *taskStream) event(result powerbox.Value) (string, powerbox.Value, bool) {
	kind, inner := "", result
	for _, name := range []string{"message", "task", "statusUpdate", "artifactUpdate"} { // 1.0
		if v, ok := result.Get(name); ok && v.Kind() == powerbox.KindObject {
			kind, inner = name, v
			break
		}
	}
	if said, ok := text(result, "kind"); ok { // 0.3
		kind = map[string]string{"message": "message", "task": "task", "status-update": "statusUpdate", "artifact-update": "artifactUpdate"}[said]
		inner = result
	}
	switch kind {
	case "message":
		t.over = true
		return "data", content(inner), true
	case "artifactUpdate":
		made, _ := inner.Get("artifact")
		return "data", content(made), true
	case "task", "statusUpdate":
		status, _ := inner.Get("status")
		return t.status(inner, status, kind == "task")
	}
	return "", powerbox.Value{}, false
}

// status returns the event that a state of the task becomes.
func (t *taskStream) status(of, status powerbox.Value, whole bool) (string, powerbox.Value, bool) {
	said, some := status.Get("message")
	switch state := stateOf(status); state {
	case "submitted", "working":
		if !some || said.Kind() != powerbox.KindObject {
			return "", powerbox.Value{}, false
		}
		return "data", content(said), true
	case "completed":
		t.over = true
		if whole {
			return "data", artifacts(of, status), true
		}
		if !some || said.Kind() != powerbox.KindObject {
			return "", powerbox.Value{}, false
		}
		return "data", content(said), true
	default:
		t.over = true
		return "error", ended(state, status).JSON(), true
	}
}

// progressToken names the one call of a session.
const progressToken = "call"

// maxProgress is how many events may wait for their reader; further ones are
// left out.
const maxProgress = 64

// open calls the tool and passes on its progress.
func (m MCP) open(ctx context.Context, e provider.Execution) (provider.Result, error) {
	// The session outlives the call, so that the server hears that it is given up.
	whole, end := context.WithCancel(context.WithoutCancel(ctx))
	ctx, cancel := context.WithCancel(ctx)
	s := &toolStream{cancel: cancel, told: make(chan []byte, maxProgress), came: make(chan toolAnswer, 1)}
	late := time.AfterFunc(max(m.Time, time.Second), end)
	session, err := Session(whole, m.URL, m.client(e), m.Limit, s.progress)
	if late.Stop(); err != nil {
		cancel()
		end()
		return provider.Result{}, err
	}
	go func() {
		defer end()
		r, err := m.call(ctx, session, e, progressToken)
		s.came <- toolAnswer{r, err}
		defer time.AfterFunc(closeTime, end).Stop()
		if ctx.Err() != nil {
			<-time.After(cancelTime)
		}
		_ = session.Close() // it was answered; the server ends it in time
	}()
	return provider.Result{Stream: s}, nil
}

// The end of a session: how long it may take, and how long the server has to hear
// that the call is given up, which the client says on its own way.
const (
	closeTime  = 5 * time.Second
	cancelTime = time.Second
)

type toolAnswer struct {
	result provider.Result
	err    error
}

// toolStream is the progress of a tool, and its answer.
type toolStream struct {
	cancel func()
	told   chan []byte
	came   chan toolAnswer
	answer *toolAnswer // that is sent after the rest of its progress
	over   bool
}

func (s *toolStream) progress(p *mcp.ProgressNotificationParams) {
	if p == nil || p.ProgressToken != progressToken {
		return
	}
	said := map[string]any{"progress": p.Progress}
	if p.Total > 0 {
		said["total"] = p.Total
	}
	if p.Message != "" {
		said["message"] = p.Message
	}
	data, err := json.Marshal(said)
	if err != nil {
		return // not a number
	}
	select {
	case s.told <- data:
	default:
	}
}

// Next implements [provider.Stream].
func (s *toolStream) Next() (string, []byte, error) {
	if s.over {
		return "", nil, io.EOF
	}
	if s.answer == nil {
		select {
		case data := <-s.told:
			return "data", data, nil
		case a := <-s.came:
			s.answer = &a
		}
	}
	select {
	case data := <-s.told:
		return "data", data, nil
	default:
	}
	s.over = true
	switch a := s.answer; {
	case a.err != nil:
		return "", nil, a.err
	case a.result.Failed != nil:
		return "error", a.result.Failed.JSON().AppendJSON(nil), nil
	default:
		return "data", a.result.Data.AppendJSON(nil), nil
	}
}

// Close implements [provider.Stream].
func (s *toolStream) Close() error {
	s.cancel()
	return nil
}
