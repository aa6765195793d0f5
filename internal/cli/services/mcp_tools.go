package services

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/powerbox-project/powerbox/holder/agentauth"
	"github.com/powerbox-project/powerbox/internal/cli/auth"
)

// nothing is the input of a tool without any.
type nothing struct{}

// providerJSON is a provider in the form of section 6.2.
type providerJSON struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Issuer      string `json:"issuer"`
}

func providersOf(all []agentauth.Provider) []providerJSON {
	out := make([]providerJSON, 0, len(all))
	for _, p := range all {
		out = append(out, providerJSON{p.Name, p.Description, p.Issuer})
	}
	return out
}

func (t *tools) listProviders(context.Context, *mcp.CallToolRequest, nothing) (any, error) {
	all, err := t.client.Providers()
	return providersOf(all), err
}

func (t *tools) search(ctx context.Context, _ *mcp.CallToolRequest, in struct {
	Intent string `json:"intent"`
},
) (any, error) {
	all, err := t.client.Search(ctx, in.Intent)
	return providersOf(all), err
}

func (t *tools) find(ctx context.Context, _ *mcp.CallToolRequest, in struct {
	Query string `json:"query"`
	Limit int    `json:"limit"`
},
) (any, error) {
	found, err := t.client.Find(ctx, in.Query, in.Limit)
	return map[string]any{"results": append([]agentauth.Found{}, found...)}, err
}

func (t *tools) enroll(ctx context.Context, r *mcp.CallToolRequest, in struct {
	Provider string `json:"provider"`
	Token    string `json:"enrollment_token"`
	Name     string `json:"name"`
},
) (any, error) {
	if err := t.admitted(r, in.Provider); err != nil {
		return nil, err
	}
	return t.client.Enroll(ctx, in.Provider, in.Token, in.Name)
}

func (t *tools) claim(ctx context.Context, r *mcp.CallToolRequest, in asking) (any, error) {
	a, err := t.client.Claim(ctx, in.Agent, in.with())
	return t.answered(ctx, r, a, err, in.Wait)
}

func (t *tools) discover(ctx context.Context, r *mcp.CallToolRequest, in struct {
	URL string `json:"url"`
},
) (any, error) {
	if err := t.admitted(r, in.URL); err != nil {
		return nil, err
	}
	p, err := t.client.Discover(ctx, in.URL)
	if err != nil {
		return nil, err
	}
	return providersOf([]agentauth.Provider{p})[0], nil
}

// looking is the input of the tools about capabilities.
type looking struct {
	Provider string `json:"provider"`
	Name     string `json:"name"`
	Query    string `json:"query"`
	Agent    string `json:"agent_id"`
}

func (t *tools) list(ctx context.Context, r *mcp.CallToolRequest, in looking) (any, error) {
	if err := t.admitted(r, in.Provider); err != nil {
		return nil, err
	}
	all, err := t.client.List(ctx, in.Provider, agentauth.View{Agent: in.Agent, Query: in.Query})
	return map[string]any{"capabilities": append([]agentauth.Capability{}, all...)}, err
}

func (t *tools) describe(ctx context.Context, r *mcp.CallToolRequest, in looking) (any, error) {
	if err := t.admitted(r, in.Provider); err != nil {
		return nil, err
	}
	return t.client.Describe(ctx, in.Provider, in.Name, agentauth.View{Agent: in.Agent})
}

// asking is the input of the tools that ask a person.
type asking struct {
	Provider     string            `json:"provider"`
	Agent        string            `json:"agent_id"`
	Name         string            `json:"name"`
	Mode         string            `json:"mode"`
	Capabilities []json.RawMessage `json:"capabilities"`
	Reason       string            `json:"reason"`
	Method       string            `json:"preferred_method"`
	LoginHint    string            `json:"login_hint"`
	Message      string            `json:"binding_message"`
	Wait         int               `json:"wait_seconds"`
}

// asks reads names, and objects with name and constraints.
func (in *asking) asks() ([]agentauth.Ask, error) {
	out := make([]agentauth.Ask, len(in.Capabilities))
	for i, raw := range in.Capabilities {
		if json.Unmarshal(raw, &out[i].Capability) == nil {
			continue
		}
		if err := json.Unmarshal(raw, &out[i]); err != nil || out[i].Capability == "" {
			return nil, fmt.Errorf("capabilities[%d]; want a name, or an object with name and constraints", i)
		}
	}
	return out, nil
}

// with is how the person is asked. A model cannot say that a denial is to be asked
// again.
func (in *asking) with() agentauth.Asking {
	return agentauth.Asking{Reason: in.Reason, Method: in.Method, LoginHint: in.LoginHint, Message: in.Message, NoWait: true}
}

func (t *tools) connect(ctx context.Context, r *mcp.CallToolRequest, in asking) (any, error) {
	asks, err := in.asks()
	if err != nil {
		return nil, err
	}
	if err := t.admitted(r, in.Provider); err != nil {
		return nil, err
	}
	a, err := t.client.Connect(ctx, in.Provider, agentauth.Connection{Name: in.Name, Mode: in.Mode, Capabilities: asks, Asking: in.with()})
	return t.answered(ctx, r, a, err, in.Wait)
}

func (t *tools) request(ctx context.Context, r *mcp.CallToolRequest, in asking) (any, error) {
	asks, err := in.asks()
	if err != nil {
		return nil, err
	}
	a, err := t.client.RequestCapability(ctx, in.Agent, asks, in.with())
	var pending *agentauth.Pending
	if errors.As(err, &pending) {
		a.Status = "pending" // of the request; the agent stays active
	}
	return t.answered(ctx, r, a, err, in.Wait)
}

// answered tells how a request stands, after the person was waited for as long as
// the model wants. A client with progress notifications sees meanwhile what the person must do.
func (t *tools) answered(ctx context.Context, r *mcp.CallToolRequest, a agentauth.Agent, err error, wait int) (any, error) {
	var pending *agentauth.Pending
	if !errors.As(err, &pending) {
		return a, err
	}
	if wait <= 0 || pending.Approval == nil {
		return a, nil
	}
	watched(ctx, r, 0, pending.Approval.String())
	return t.waited(ctx, a.ID, wait)
}

// maxToolWait bounds what a model may have waited for, in seconds.
const maxToolWait = 300

// waited waits for a person. After a timeout it reports the present state.
func (t *tools) waited(ctx context.Context, agent string, seconds int) (any, error) {
	limited, cancel := context.WithTimeout(ctx, time.Duration(min(seconds, maxToolWait))*time.Second)
	defer cancel()
	now, err := t.client.Wait(limited, agent)
	if limited.Err() != nil || errors.As(err, new(*agentauth.Pending)) {
		return t.client.Status(ctx, agent)
	}
	return now, err
}

// watched sends progress to clients that asked for it.
func watched(ctx context.Context, r *mcp.CallToolRequest, n float64, message string) {
	if token := r.Params.GetProgressToken(); token != nil {
		_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Message: message, Progress: n}) // a client may ignore progress
	}
}

// ofAgent is the input of the tools about one agent.
type ofAgent struct {
	Agent string `json:"agent_id"`
	Wait  int    `json:"wait_seconds"`
}

func (t *tools) status(ctx context.Context, _ *mcp.CallToolRequest, in ofAgent) (any, error) {
	if in.Wait <= 0 {
		return t.client.Status(ctx, in.Agent)
	}
	return t.waited(ctx, in.Agent, in.Wait)
}

func (t *tools) reactivate(ctx context.Context, r *mcp.CallToolRequest, in ofAgent) (any, error) {
	a, err := t.client.Reactivate(ctx, in.Agent, true)
	return t.answered(ctx, r, a, err, 0)
}

func (t *tools) disconnect(ctx context.Context, _ *mcp.CallToolRequest, in ofAgent) (any, error) {
	return map[string]string{"agent_id": in.Agent, "status": "revoked"}, t.client.Disconnect(ctx, in.Agent)
}

func (t *tools) rotateAgent(ctx context.Context, _ *mcp.CallToolRequest, in ofAgent) (any, error) {
	return map[string]any{"agent_id": in.Agent, "rotated": true}, t.client.RotateAgentKey(ctx, in.Agent)
}

func (t *tools) rotateHost(ctx context.Context, r *mcp.CallToolRequest, in struct {
	Issuer string `json:"issuer"`
},
) (any, error) {
	var at []string
	if in.Issuer != "" {
		if err := t.admitted(r, in.Issuer); err != nil {
			return nil, err
		}
		at = append(at, in.Issuer)
	}
	rotated, err := t.client.RotateHostKey(ctx, at...)
	return map[string]any{"rotated": append([]string{}, rotated...)}, err
}

func (t *tools) sign(ctx context.Context, _ *mcp.CallToolRequest, in struct {
	Agent        string   `json:"agent_id"`
	Audience     string   `json:"aud"`
	Capabilities []string `json:"capabilities"`
},
) (any, error) {
	return t.client.SignJWT(ctx, in.Agent, in.Audience, in.Capabilities)
}

// executed is an execution as it is told. Events are the pieces of a stream.
type executed struct {
	Events []json.RawMessage `json:"events,omitempty"`
	auth.ResultJSON
}

// maxEvents bounds the stored events of a stream; progress notifications carry all of them.
const maxEvents = 1000

func (t *tools) execute(ctx context.Context, r *mcp.CallToolRequest, in struct {
	Agent string `json:"agent_id"`
	agentauth.Execution
},
) (any, error) {
	var out executed
	n := 0
	result, err := t.client.Execute(ctx, in.Agent, in.Execution, func(e agentauth.Event) error {
		n++
		watched(ctx, r, float64(n), string(e.Data))
		if e.Name == "data" && len(out.Events) < maxEvents {
			out.Events = append(out.Events, e.Data)
		}
		return nil
	})
	out.ResultJSON = auth.ResultOf(result)
	return out, err
}

func (t *tools) batch(ctx context.Context, _ *mcp.CallToolRequest, in struct {
	Agent    string                `json:"agent_id"`
	Requests []agentauth.Execution `json:"requests"`
},
) (any, error) {
	all, err := t.client.Batch(ctx, in.Agent, in.Requests)
	out := make([]any, 0, len(all))
	for i, one := range all {
		if one.Err != nil {
			out = append(out, map[string]any{"id": i, "status": "failed", "error": one.Err.Error()})
			continue
		}
		out = append(out, map[string]any{"id": i, "status": "completed", "data": auth.ResultOf(one.Result).Data})
	}
	return map[string]any{"responses": out}, err
}
