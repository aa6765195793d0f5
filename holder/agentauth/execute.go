package agentauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/powerbox-project/powerbox"
	wire "github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// Execution is one use of a capability. Arguments are a JSON object, or nil.
type Execution struct {
	Capability string          `json:"capability"`
	Arguments  json.RawMessage `json:"arguments,omitempty"`
}

// plain has no arguments where they are null.
func (e Execution) plain() Execution {
	if string(bytes.TrimSpace(e.Arguments)) == "null" {
		e.Arguments = nil
	}
	return e
}

// Event is a piece of a stream: data, or done with the final result.
type Event struct {
	Name string
	Data json.RawMessage // null for none
}

// Result is what came of an execution.
type Result struct {
	Data     json.RawMessage // of a stream: what came with its end; null for nothing
	Decision string          // id of the provider's record, "" for none
}

// maxPoll is the longest time between two looks at a job.
const maxPoll = 30 * time.Second

// Execute uses a capability and waits for its result, asking about a job until it is
// done. Events get the pieces of a stream as they come; nil collects none. Errors
// are [*Error] where the provider, the service or a constraint says no.
func (c *Client) Execute(ctx context.Context, agent string, e Execution, events func(Event) error) (Result, error) {
	a, err := c.agent(ctx, agent)
	if err != nil {
		return Result{}, err
	}
	e = e.plain()
	at, err := c.locate(ctx, a, e)
	if err != nil {
		return Result{}, err
	}
	out, err := c.execute(ctx, a, at, e, events)
	c.stale(a.Issuer, err)
	return out, about(e.Capability, err)
}

// place is where an execution is sent.
type place struct {
	url   string
	bound bool // with a bound token alone
	own   bool // the provider's default, which moves with its document
}

// locate checks an execution and returns where it is sent (section 2.15).
func (c *Client) locate(ctx context.Context, a *signing, e Execution) (place, error) {
	arguments := powerbox.Object()
	if len(e.Arguments) > 0 {
		v, err := powerbox.ParseValue(e.Arguments)
		if err == nil && v.Kind() != powerbox.KindObject {
			err = errors.New("want an object")
		}
		if err != nil {
			return place{}, fmt.Errorf("agentauth: arguments of %s: %w", clip(e.Capability), err)
		}
		arguments = v
	}
	if err := a.within(e.Capability, arguments); err != nil {
		return place{}, err
	}
	d, err := c.Describe(ctx, a.Issuer, e.Capability, View{Agent: a.ID})
	if err != nil {
		return place{}, err
	}
	if d.Location == "" {
		return place{url: a.provider.Location, bound: d.Bound, own: true}, nil
	}
	if err := a.provider.reachable(d.Location); err != nil {
		return place{}, fmt.Errorf("agentauth: location of %s: %w", clip(e.Capability), err)
	}
	return place{url: d.Location, bound: d.Bound}, nil
}

// execute sends one execution. It is not sent twice, but where the service did not
// look at it.
func (c *Client) execute(ctx context.Context, a *signing, at place, e Execution, events func(Event) error) (Result, error) {
	location := at.url
	token := func() (string, error) {
		if at.bound {
			return c.boundToken(a, location, e.Capability)
		}
		return c.agentToken(a, location, e.Capability)
	}
	send := func() (*reply, error) {
		return c.do(ctx, &call{method: http.MethodPost, url: location, body: e, token: token, stream: true})
	}
	answer, err := send()
	if at.own && gone(err) { // AAP-CL4
		if p, discovery := c.rediscover(ctx, a.Issuer); discovery == nil && p.Location != location {
			a.provider, location = p, p.Location
			answer, err = send()
		}
	}
	if err != nil {
		return Result{}, err
	}
	out := Result{Decision: answer.header.Get("Powerbox-Decision")}
	if answer.stream != nil {
		out.Data, err = follow(answer.stream, events)
		return out, err
	}
	r, err := parseResult(answer, location)
	if err != nil {
		return out, err
	}
	out.Data, err = c.settled(ctx, r, location, answer.header, token)
	return out, err
}

// result is an answer to an execution: exactly one of four forms (section 5.11).
type result struct {
	Data   json.RawMessage `json:"data"`
	Status string          `json:"status"`
	At     string          `json:"status_url"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// parseResult reads an answer of a location. A job stands at the origin of what
// started it, or no token is shown there (AAP-CL7).
func parseResult(answer *reply, location string) (result, error) {
	var r result
	if err := jsonv2.Unmarshal(answer.body, &r); err != nil {
		return r, fmt.Errorf("the answer: %w", err)
	}
	switch {
	case r.Status == "" && r.Data != nil && r.At == "" && r.Result == nil && r.Error == nil:
		return r, nil
	case r.Status == "pending" && r.Data == nil && r.Result == nil && r.Error == nil:
		if r.At != "" && !sameOrigin(r.At, location) {
			return r, fmt.Errorf("%w: the job is at %q, and was started at %s", ErrAddress, clip(r.At), location)
		}
		return r, nil
	case r.Status == "completed" && r.Result != nil && r.Data == nil && r.Error == nil, r.Status == "failed" && r.Error != nil && r.Data == nil && r.Result == nil:
		return r, nil
	}
	return r, errors.New("the answer is none of data, a job, a result and an error")
}

// settled is the end of an execution: at once, or when its job is done. Every look
// has its own token (AAP-CL6).
func (c *Client) settled(ctx context.Context, r result, location string, h http.Header, token func() (string, error)) (json.RawMessage, error) {
	at, wait := r.At, firstWait
	for {
		switch r.Status {
		case "":
			return r.Data, nil
		case "completed":
			return r.Result, nil
		case "failed":
			return nil, refusal(0, r.Error)
		}
		if r.At != "" {
			at = r.At
		}
		if at == "" {
			return nil, errors.New("the answer names no status_url to ask at")
		}
		if err := pause(ctx, min(max(wait, c.retryAfter(h)), maxWait)); err != nil {
			return nil, fmt.Errorf("the job at %s is not done: %w", at, err)
		}
		wait = min(2*wait, maxPoll)
		answer, err := c.do(ctx, &call{method: http.MethodGet, url: at, safe: true, token: token})
		if err != nil {
			return nil, err
		}
		if r, err = parseResult(answer, location); err != nil {
			return nil, err
		}
		h = answer.header
	}
}

// Batched is what came of one of several executions.
type Batched struct {
	Result
	Err error
}

// maxBatch is how many executions are sent at once.
const maxBatch = 50

// Batch executes several capabilities, by one request where the provider can, in
// their order. That is an extension of the protocol (AAP-E11).
func (c *Client) Batch(ctx context.Context, agent string, es []Execution) ([]Batched, error) {
	a, err := c.agent(ctx, agent)
	if err != nil {
		return nil, err
	}
	out := make([]Batched, len(es))
	var together []int
	es = slices.Clone(es)
	for i, e := range es {
		e = e.plain()
		es[i] = e
		at, err := c.locate(ctx, a, e)
		switch {
		case err != nil:
			out[i].Err = err
		case at.url != a.provider.Location || a.provider.Endpoints["batch_execute"] == "":
			out[i].Result, out[i].Err = c.Execute(ctx, agent, e, nil)
		default:
			together = append(together, i)
		}
	}
	for len(together) > 0 {
		n := min(len(together), maxBatch)
		if err := c.batch(ctx, a, es, together[:n], out); err != nil {
			return nil, err
		}
		together = together[n:]
	}
	return out, nil
}

// batch sends those of the executions that are named.
func (c *Client) batch(ctx context.Context, a *signing, es []Execution, of []int, out []Batched) error {
	type part struct {
		ID string `json:"id"`
		Execution
	}
	var parts []part
	var names []string
	for _, i := range of {
		parts = append(parts, part{strconv.Itoa(i), es[i]})
		names = append(names, es[i].Capability)
	}
	location := a.provider.Location
	token := func() (string, error) { return c.agentToken(a, location, names...) }
	answer, err := c.do(ctx, &call{method: http.MethodPost, url: a.provider.Endpoints["batch_execute"], body: map[string]any{"requests": parts}, token: token})
	var e *Error
	if errors.As(err, &e) && (e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed) {
		for _, i := range of {
			out[i].Result, out[i].Err = c.Execute(ctx, a.ID, es[i], nil)
		}
		return nil
	}
	if err != nil {
		return about("batch", err)
	}
	var got struct {
		Responses []struct {
			ID     string          `json:"id"`
			Status string          `json:"status"`
			Data   json.RawMessage `json:"data"`
			At     string          `json:"status_url"`
			Error  *struct {
				Code    string `json:"code"`
				Message string `json:"message"`
			} `json:"error"`
		} `json:"responses"`
	}
	if err := jsonv2.Unmarshal(answer.body, &got); err != nil {
		return about("batch", err)
	}
	for _, i := range of {
		out[i].Err = errors.New("agentauth: the provider did not answer this part of the batch")
	}
	for _, r := range got.Responses {
		i, err := strconv.Atoi(r.ID)
		if err != nil || i < 0 || i >= len(out) {
			continue
		}
		switch {
		case r.Error != nil:
			out[i] = Batched{Err: about(es[i].Capability, &Error{Code: r.Error.Code, Message: r.Error.Message})}
			c.stale(a.Issuer, out[i].Err)
		case r.Status == string(wire.Pending) && sameOrigin(r.At, location):
			data, err := c.settled(ctx, result{Status: r.Status, At: r.At}, location, nil, token)
			out[i] = Batched{Result{Data: data}, about(es[i].Capability, err)}
		case r.Status == "completed":
			out[i] = Batched{Result{Data: r.Data}, nil}
		}
	}
	return nil
}
