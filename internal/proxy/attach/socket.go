package attach

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/token"
)

// API serves the agent beside us over a socket of its own, in the manner of
// ssh-agent: what it asks for is done with the key, which stays here.
//
//	POST /v1/request  {agent, purpose, skills | grants, ...}  asks for capabilities
//	POST /v1/derive   {agent, capability, ...}                narrows one, or delegates it
//	POST /v1/present  {agent, method, url, digest, ...}       the headers for one call
//
// For which task is said as in calls: by the headers Powerbox-Context,
// traceparent and tracestate, or by the member task.
func (a *Attach) API() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/request", a.answer(a.apiRequest, "agent", "purpose", "skills", "grants", "operations", "resourceQuery", "expires", "push", "card", "task"))
	mux.Handle("POST /v1/derive", a.answer(a.apiDerive, "agent", "capability", "operations", "handles", "expires", "depth", "to", "task"))
	mux.Handle("POST /v1/present", a.answer(a.apiPresent, "agent", "method", "url", "digest", "operation", "skill", "arguments", "task"))
	return mux
}

// maxAPI bounds one request on the socket.
const maxAPI = 1 << 20

// apiCall is one request on the socket, of any of the three.
type apiCall struct {
	Agent         string          `json:"agent"`
	Task          string          `json:"task"`
	Purpose       string          `json:"purpose"`
	Skills        []string        `json:"skills"`
	Grants        []string        `json:"grants"`
	Operations    []string        `json:"operations"`
	ResourceQuery json.RawMessage `json:"resourceQuery"`
	Expires       string          `json:"expires"`
	Push          bool            `json:"push"`
	Card          bool            `json:"card"`
	Capability    string          `json:"capability"`
	Handles       []string        `json:"handles"`
	Depth         int             `json:"depth"`
	To            string          `json:"to"`
	Method        string          `json:"method"`
	URL           string          `json:"url"`
	Digest        string          `json:"digest"`
	Operation     string          `json:"operation"`
	Skill         string          `json:"skill"`
	Arguments     json.RawMessage `json:"arguments"`

	peer *peer
	seen *seen
	task *task
}

// wrongCall is a request on the socket that must be fixed.
type wrongCall struct{ message string }

func (e wrongCall) Error() string { return e.message }

func wrongf(format string, args ...any) error { return wrongCall{fmt.Sprintf(format, args...)} }

// answer is the funnel of the socket: strict JSON in, the agent and the task
// found, JSON out.
func (a *Attach) answer(serve func(*http.Request, *apiCall) (any, error), members ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := a.readAPI(w, r, members)
		var result any
		if err == nil {
			result, err = serve(r, c)
		}
		status := http.StatusOK
		if err != nil {
			a.config.Log.WarnContext(r.Context(), "a request on the socket is refused", "path", r.URL.Path, "error", err)
			status, result = apiError(err)
		}
		w.Header().Set("Content-Type", typeJSON)
		w.WriteHeader(status)
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		_ = e.Encode(result) // the client has gone: there is no caller to tell
	})
}

func (a *Attach) readAPI(w http.ResponseWriter, r *http.Request, members []string) (*apiCall, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAPI))
	if err != nil {
		return nil, wrongf("the body cannot be read, or has more than 1 MiB")
	}
	v, err := powerbox.DecodeValue(body, powerbox.Limits{Bytes: maxAPI, Depth: 64})
	if err != nil || v.Kind() != powerbox.KindObject {
		return nil, wrongf("the body is no JSON object: %v", err)
	}
	given, _ := v.Members()
	for _, m := range given {
		if !slices.Contains(members, m.Name) {
			return nil, wrongf("the body has a member %q; known are %s", m.Name, strings.Join(members, ", "))
		}
	}
	c := &apiCall{}
	if err := json.Unmarshal(body, c); err != nil {
		return nil, wrongf("the body is not understood: %v", err)
	}
	var ok bool
	if c.peer, ok = a.peers[c.Agent]; !ok {
		return nil, wrongf("agent is %q; known are %s", c.Agent, strings.Join(a.names(), ", "))
	}
	if c.seen, err = c.peer.card.get(r.Context()); err != nil {
		return nil, err
	}
	if c.task = a.linked(r.Header, c.Agent, a2a.Call{Context: c.Task}); c.task == nil {
		if !slices.Contains(c.peer.Floor, "*") {
			return nil, errUncorrelated
		}
		c.task = a.own
	}
	return c, nil
}

// apiError words an error for the socket.
func apiError(err error) (int, any) {
	var wrong wrongCall
	d := denial(err)
	status := http.StatusForbidden
	switch {
	case errors.As(err, &wrong):
		d, status = a2a.Denial{Reason: "request", Message: wrong.message}, http.StatusBadRequest
	case d.Code == a2a.CodeInternal:
		status = http.StatusBadGateway
	case d.Reason == "approval_pending":
		status = http.StatusAccepted
	}
	return status, map[string]any{"error": apiDenial{d.Reason, d.Message, d.Missing, d.Fix, d.DecisionID, d.ApprovalURL, d.Retryable}}
}

type apiDenial struct {
	Code        string   `json:"code"`
	Message     string   `json:"message"`
	Missing     []string `json:"missing,omitempty"`
	Fix         string   `json:"fix,omitempty"`
	DecisionID  string   `json:"decision,omitempty"`
	ApprovalURL string   `json:"approvalUrl,omitempty"`
	Retryable   bool     `json:"retryable"`
}

// apiCapability is a capability as the agent beside us sees it. Its tokens are
// shown where they are for someone else alone.
type apiCapability struct {
	ID         string      `json:"id"`
	Agent      string      `json:"agent"`
	Grant      string      `json:"grant"`
	Operations []string    `json:"operations"`
	Handles    []apiHandle `json:"resourceHandles"`
	Expires    time.Time   `json:"expires"`
	// NextResources is the cursor of more resources.
	NextResources string `json:"nextResources,omitempty"`
}

type apiHandle struct {
	Handle      string `json:"handle"`
	DisplayName string `json:"displayName,omitempty"`
}

func shown(c holder.Capability) apiCapability {
	handles := make([]apiHandle, len(c.Handles))
	for i, h := range c.Handles {
		handles[i] = apiHandle(h)
	}
	return apiCapability{c.ID, c.Agent, c.Grant, append([]string{}, c.Operations...), handles, c.Expires.UTC(), c.NextResources}
}

// until reads a time, or how long from now; zero for "".
func (a *Attach) until(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return a.config.Client.Now().Add(d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, wrongf("expires is %q; want how long, such as 10m, or a time as in RFC 3339", text)
	}
	return t, nil
}

func (a *Attach) apiRequest(r *http.Request, c *apiCall) (any, error) {
	if c.Purpose == "" {
		return nil, wrongf("purpose is missing; want the task in the agent's own words")
	}
	if c.task.cameIn && !slices.ContainsFunc(c.peer.Rules, func(r Rule) bool { return r.Tasks }) {
		return nil, wrongf("the task came in: the session is not that of whoever it is for, and no rule for agent %q says tasks: true", c.Agent)
	}
	p := holder.RequestParams{Grants: c.Grants, Operations: c.Operations, Purpose: c.Purpose, Push: c.Push, Card: c.Card}
	var err error
	if p.Expires, err = a.until(c.Expires); err != nil {
		return nil, err
	}
	if len(c.ResourceQuery) > 0 {
		if p.Query, err = powerbox.ParseValue(c.ResourceQuery); err != nil {
			return nil, wrongf("resourceQuery: %v", err)
		}
	}
	switch {
	case len(c.Skills) > 0 && len(c.Grants)+len(c.Operations) > 0:
		return nil, wrongf("skills and grants are both given; name what is asked for one way")
	case len(c.Skills) > 0:
		if p.Grants, p.Operations, err = c.seen.agent.Needs(c.Skills...); err != nil {
			return nil, wrongf("%v", err)
		}
	case len(c.Grants) == 0:
		return nil, wrongf("skills or grants are missing")
	}
	if c.task.restrict {
		p.Purpose = "uncorrelated: " + p.Purpose
	}
	got, err := a.config.Client.Request(r.Context(), c.seen.agent, p)
	if err != nil {
		return nil, err
	}
	out := make([]apiCapability, len(got))
	for i, g := range got {
		out[i] = shown(g)
	}
	return map[string]any{"capabilities": out}, c.task.wallet.Add(got...)
}

func (a *Attach) apiDerive(r *http.Request, c *apiCall) (any, error) {
	c.task.mu.Lock()
	defer c.task.mu.Unlock()
	if err := a.claim(r.Context(), c.task, c.seen.agent); err != nil {
		return nil, err
	}
	all := c.task.wallet.Of(c.seen.agent.Issuer, a.config.Client.Now())
	i := slices.IndexFunc(all, func(h holder.Capability) bool { return h.ID == c.Capability })
	if i < 0 {
		return nil, wrongf("capability %q of %s is not held for this task, or has ended", c.Capability, c.Agent)
	}
	n := holder.Narrowing{Operations: c.Operations, Handles: c.Handles, Depth: c.Depth}
	var err error
	if n.Expires, err = a.until(c.Expires); err != nil {
		return nil, err
	}
	if c.To == "" {
		child, err := a.config.Client.Narrow(all[i], n)
		if err != nil {
			return nil, wrongf("%v", err)
		}
		return map[string]any{"capability": shown(child)}, c.task.wallet.Add(child)
	}
	to, ok := a.peers[c.To]
	if !ok {
		return nil, wrongf("to is %q; known are %s", c.To, strings.Join(a.names(), ", "))
	}
	known, err := to.card.get(r.Context())
	if err != nil {
		return nil, err
	}
	child, err := a.config.Client.Delegate(all[i], known.agent.Holder, n)
	if err != nil {
		return nil, wrongf("%v", err)
	}
	header, err := holder.JoinDelegations(child)
	if err != nil {
		header = "" // in metadata it can go all the same
	}
	return map[string]any{
		"capability": shown(child), "header": header,
		"metadata": map[string]any{a2a.ExtensionURI: holder.Delegations(child)},
	}, nil
}

func (a *Attach) apiPresent(r *http.Request, c *apiCall) (any, error) {
	operation := c.Operation
	if mapped, ok := c.seen.agent.Skills[c.Skill]; ok && operation == "" {
		operation = mapped.Operation.String()
	}
	op, err := powerbox.ParseOperation(operation)
	if err != nil {
		return nil, wrongf("operation is %q, and skill %q maps to none; want one of them", c.Operation, c.Skill)
	}
	arguments := powerbox.Object()
	if len(c.Arguments) > 0 {
		if arguments, err = powerbox.ParseValue(c.Arguments); err != nil || arguments.Kind() != powerbox.KindObject {
			return nil, wrongf("arguments is no JSON object: %v", err)
		}
	}
	if len(c.Digest) != len(token.DigestOf(nil)) || c.Method == "" || c.URL == "" {
		return nil, wrongf("method, url or digest is missing; digest is the SHA-256 of the body, in base64url without padding")
	}
	o := &outgoing{seen: c.seen, peer: c.peer.Peer, proven: a2a.Proven{Skill: c.Skill, Operation: op.String(), Arguments: arguments}}
	held, ok, err := a.under(r.Context(), c.task, o)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, &holder.Denied{Code: "capability_required", Message: "nothing is held of " + c.Agent + " for this task", Fix: "ask for it by POST /v1/request"}
	}
	h := http.Header{}
	if err := a.config.Client.Present(h, c.seen.agent, held, holder.Attempt{Operation: op, Arguments: arguments, Method: c.Method, URL: c.URL, Digest: c.Digest}); err != nil {
		return nil, wrongf("%v", err)
	}
	out := map[string]string{}
	for name := range h {
		out[name] = h.Get(name)
	}
	return map[string]any{"headers": out, "capability": held.ID}, nil
}
