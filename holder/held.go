package holder

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// The states of a task that stands for a held call, while nothing came of it. 0.3 spells
// them in small letters.
const (
	stateWaits   = "AUTH_REQUIRED"
	stateWorking = "WORKING"
)

// heldTask is a task that stands for a call which a person has to approve.
type heldTask struct {
	ID     string `json:"id"`
	Status struct {
		State   string `json:"state"`
		Message struct {
			Parts, Content []struct {
				Text string `json:"text"`
			}
		} `json:"message"`
	} `json:"status"`
	Metadata map[string]struct {
		ApprovalURL string          `json:"approvalUrl"`
		Denied      powerbox.Code   `json:"denied"`
		Answer      json.RawMessage `json:"answer"`
	} `json:"metadata"`
}

// readHeld reads a task out of an answer: alone, or as the answer to a message.
func readHeld(answer json.RawMessage) heldTask {
	var sent struct {
		Task json.RawMessage `json:"task"`
	}
	if json.Unmarshal(answer, &sent) == nil && sent.Task != nil {
		answer = sent.Task
	}
	var t heldTask
	_ = json.Unmarshal(answer, &t) // an answer of another form is no such task
	t.Status.State = strings.ReplaceAll(strings.ToUpper(strings.TrimPrefix(t.Status.State, "TASK_STATE_")), "-", "_")
	return t
}

// text is what the task says of itself.
func (t heldTask) text() string {
	var all []string
	for _, p := range append(t.Status.Message.Parts, t.Status.Message.Content...) {
		all = append(all, p.Text)
	}
	return strings.Join(all, " ")
}

// Waiting returns the question that an answer to a call waits for, and false for an answer
// of the agent. Its ID is that of the task which stands for the call ([Client.Task]).
func Waiting(answer json.RawMessage) (*Pending, bool) {
	t := readHeld(answer)
	page := t.Metadata[ExtensionURI].ApprovalURL
	if t.ID == "" || page == "" || t.Status.State != stateWaits {
		return nil, false
	}
	return &Pending{ID: t.ID, ApprovalURL: page, Interval: int(firstLook.Seconds())}, true
}

// How long a client waits before it looks again what became of a call: longer and longer.
const (
	firstLook  = time.Second
	longestGap = 5 * time.Second
)

// looks waits between two looks, and fails when ctx ends.
type looks struct{ gap time.Duration }

func (l *looks) next(ctx context.Context, waits *Pending) error {
	l.gap = min(l.gap+firstLook, longestGap)
	timer := time.NewTimer(l.gap)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return errors.Join(waits, ctx.Err())
	case <-timer.C:
		return nil
	}
}

// Await returns the answer of the agent to a call that was held: answer is the task that
// stands for the call. If people have not answered yet, a client with Asked waits, and
// another one returns the task. Any other answer stays as it is. A no is a [*Denied].
func (c *Client) Await(ctx context.Context, agent Agent, held Capability, answer json.RawMessage) (json.RawMessage, error) {
	t := readHeld(answer)
	if came, over, err := t.over(); over {
		return came, err
	}
	waits, ok := Waiting(answer)
	if !ok || c.Asked == nil {
		return answer, nil
	}
	c.Asked(waits)
	var between looks
	for {
		if err := between.next(ctx, waits); err != nil {
			return nil, err
		}
		now, err := c.Task(ctx, agent, held, waits.ID)
		if err != nil {
			return nil, errors.Join(waits, cmp.Or(ctx.Err(), err))
		}
		t := readHeld(now)
		if came, over, err := t.over(); over {
			return came, err
		}
		if t.Status.State != stateWaits && t.Status.State != stateWorking {
			return nil, fmt.Errorf("holder: task %s is %s: %s", t.ID, strings.ToLower(t.Status.State), t.text())
		}
	}
}

// over reports whether people have answered, and what came of it: the answer of the agent,
// or their no.
func (t heldTask) over() (json.RawMessage, bool, error) {
	came := t.Metadata[ExtensionURI]
	if came.Denied != "" {
		return nil, true, &Denied{Code: came.Denied, Message: t.text()}
	}
	return came.Answer, came.Answer != nil, nil
}

// Task returns a task of the agent under a capability, such as one that stands for a call
// which a person has to approve. Without a capability, which is the zero one, the call has
// the user's session where the client has one.
func (c *Client) Task(ctx context.Context, agent Agent, held Capability, id string) (json.RawMessage, error) {
	if err := c.reaches(); err != nil {
		return nil, err
	}
	about := a2a.Call{Method: a2a.GetTask, Tenant: agent.Tenant, Task: id}
	ask := taskCall{proven: proven{about.Method.Operation(), about.TaskArguments()}}
	read := readAnswer
	switch agent.by {
	case a2a.JSONRPC:
		request, err := c.newID()
		if err != nil {
			return nil, err
		}
		ask.verb, ask.url, ask.body = http.MethodPost, agent.URL, askForTask(request, agent, id)
	case a2a.HTTPJSON:
		read = readTask
		ask.verb, ask.url = http.MethodGet, agent.taskURL(id)
	default:
		return nil, fmt.Errorf("holder: %s has tasks only over bindings that this client does not speak; ask for task %s with another client", agent.Base, id)
	}
	answer, err := c.sent(ctx, func() (*http.Response, error) { return c.sendTaskCall(ctx, agent, held, ask) })
	var task json.RawMessage
	if err == nil {
		task, err = read(answer)
	}
	if err != nil {
		return nil, fmt.Errorf("holder: task %s at %s: %w", id, agent.URL, err)
	}
	return task, nil
}

// taskCall is a call that reads a task.
type taskCall struct {
	verb, url string
	body      []byte
	proven
}

// askForTask is GetTask over JSON-RPC, in the version of the agent.
func askForTask(request string, agent Agent, id string) []byte {
	method := "GetTask"
	if agent.old {
		method = "tasks/get"
	}
	params := powerbox.Object(optional([]powerbox.Member{text("id", id)}, "tenant", agent.Tenant)...)
	return powerbox.Object(text("jsonrpc", "2.0"), text("id", request), text("method", method), powerbox.Member{Name: "params", Value: params}).AppendJSON(nil)
}

// taskURL is where a task is read over HTTP+JSON, in the version of the agent.
func (a Agent) taskURL(id string) string {
	at := strings.TrimRight(a.URL, "/")
	if a.old {
		at += "/v1"
	}
	if a.Tenant != "" {
		at += "/" + url.PathEscape(a.Tenant)
	}
	return at + "/tasks/" + url.PathEscape(id)
}

func (c *Client) sendTaskCall(ctx context.Context, agent Agent, held Capability, ask taskCall) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, ask.verb, ask.url, bytes.NewReader(ask.body))
	if err != nil {
		return nil, err
	}
	if ask.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	request.Header.Set("A2A-Version", a2a.Version1)
	if agent.old {
		request.Header.Set("A2A-Version", a2a.Version03)
	}
	if agent.Negotiates {
		request.Header.Set("A2A-Extensions", ExtensionURI)
	}
	if err := c.showTo(ctx, request, agent, held, ask); err != nil {
		return nil, err
	}
	return c.HTTP.Do(request)
}

// showTo puts on a call that reads a task what the call that began it had.
func (c *Client) showTo(ctx context.Context, request *http.Request, agent Agent, held Capability, ask taskCall) error {
	if held.ID != "" || held.ScopeToken != "" || held.Chain != nil {
		return c.showingAt(ctx, agent, held, ask.url)(request.Header, ask.verb, ask.proven, ask.body)
	}
	if !agent.Negotiates {
		return nil
	}
	return c.authorize(ctx, request.Header, agent, ask.verb, ask.url)
}

// readTask returns the task that HTTP+JSON answers, or its error.
func readTask(response *http.Response) (json.RawMessage, error) {
	defer func() { _ = response.Body.Close() }() // it was read; nothing is lost
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	case response.StatusCode == http.StatusOK:
		return body, nil
	}
	var failed struct {
		Error struct {
			Message string          `json:"message"`
			Details json.RawMessage `json:"details"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &failed) != nil || failed.Error.Message == "" {
		return nil, fmt.Errorf("HTTP status %s", response.Status)
	}
	wrong := wireError{Code: response.StatusCode, Message: failed.Error.Message, Data: failed.Error.Details}
	switch response.StatusCode {
	case http.StatusForbidden:
		wrong.Code = a2a.CodeUnauthorized
	case http.StatusUnauthorized:
		wrong.Code = a2a.CodeUnauthenticated
	}
	return nil, wrong.err()
}
