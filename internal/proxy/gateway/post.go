package gateway

import (
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// The headers under which agents show the token of a configuration.
var tokenHeaders = []string{"A2A-Notification-Token", "X-A2A-Notification-Token"}

// posted takes one event from the agent behind, decides and records it, and posts
// it to where the caller wanted it. The agent learns whether that went well, and
// nothing of the answer there (ATK-17).
func (g *Gateway) posted(w http.ResponseWriter, r *http.Request, a *agent, _ string) {
	p, ok := g.unseal(a, r.PathValue("posting"))
	if !a.Relay.On || !ok || carriesOf(w) != nil { // it would be posted from here
		http.Error(w, "there is nothing here", http.StatusNotFound)
		return
	}
	if !p.shown(r.Header) {
		g.config.Log.WarnContext(r.Context(), "an event came without the token of its configuration", "agent", a.ID, "registration", p.Decision)
		http.Error(w, "the token of the configuration is missing or another one", http.StatusUnauthorized)
		return
	}
	select {
	case g.posts <- struct{}{}:
		defer func() { <-g.posts }()
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many events are being posted; try again", http.StatusServiceUnavailable)
		return
	}
	if !g.limiter.allow(g, []share{once("push:" + a.ID + "\x00" + p.Decision)}) {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "events of this configuration come too fast", http.StatusTooManyRequests)
		return
	}
	body, status, err := readBody(r, g.config.BodyLimit)
	if err != nil {
		http.Error(w, err.Error(), status)
		return
	}
	task, ended, err := eventOf(r, body, powerbox.Limits{Bytes: g.config.BodyLimit, Depth: 64})
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	x := g.poster(r, a, p, task, body)
	if !g.admitsEvent(w, x, p) {
		return
	}
	x.learned.ended = ended
	g.post(w, x, p)
}

// shown reports whether an event shows the secret of its configuration, in every
// place where it shows one and in at least one.
func (p posting) shown(h http.Header) bool {
	var given []string
	for _, name := range tokenHeaders {
		given = append(given, h.Values(name)...)
	}
	for _, v := range h.Values("Authorization") {
		scheme, credentials, _ := strings.Cut(v, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return false
		}
		given = append(given, credentials)
	}
	for _, s := range given {
		if subtle.ConstantTimeCompare([]byte(s), []byte(p.Secret)) != 1 {
			return false
		}
	}
	return len(given) > 0
}

// eventOf reads which task an event is about: exactly one.
func eventOf(r *http.Request, body []byte, limits powerbox.Limits) (task a2a.TaskRef, ended []string, err error) {
	if wrong := a2a.CheckType(a2a.JSONRPC, r.Header.Values("Content-Type"), len(body) == 0); wrong != nil {
		return task, nil, wrong
	}
	if coding(r.Header) != "" {
		return task, nil, errors.New("the event is compressed; send it as it is")
	}
	if _, err := powerbox.DecodeValue(body, limits); err != nil {
		return task, nil, err
	}
	said := a2a.ReadResponse(body)
	if err := said.OneReading(); err != nil {
		return task, nil, err
	}
	refs, ended := said.Told()
	for _, ref := range refs {
		if ref.Task == "" || task.Task != "" && ref != task {
			return a2a.TaskRef{}, nil, errors.New("the event names no task, or several; want one of A2A's events")
		}
		task = ref
	}
	if task.Task == "" {
		return task, nil, errors.New("the event names no task; want one of A2A's events")
	}
	return task, ended, nil
}

// admitsEvent decides and records an event, and answers where it does not continue.
func (g *Gateway) admitsEvent(w http.ResponseWriter, x *decided, p posting) bool {
	ctx := x.request.Context()
	unavailable := func(what string, err error) bool {
		g.config.Log.ErrorContext(ctx, "an event cannot be posted", "agent", x.ID, "what", what, "error", err)
		w.Header().Set("Retry-After", "1")
		http.Error(w, what, http.StatusServiceUnavailable)
		return false
	}
	undone := func(answer func()) bool { g.posting(w, x, notTheAgent(evidence.Failed), answer); return false }
	var err error
	if x.mode, err = g.config.Mode(ctx, x.ID); err == nil {
		x.mode, err = g.modeNow(ctx, x.decoded, true)
	}
	if err != nil {
		return unavailable("the mode of the agent cannot be told", err)
	}
	if x.view, err = x.agent.view(ctx); err != nil {
		return unavailable("the agent's card cannot be had", err)
	}
	call, err := g.event(ctx, x, p)
	if err != nil {
		return unavailable("the event cannot be decided now", err)
	}
	if x.verdict, err = g.config.Gate.Check(ctx, call); err != nil {
		return unavailable("the decision could not be recorded, so the event does not go on", err)
	}
	w.Header().Set(HeaderDecision, x.verdict.Record.ID)
	if x.verdict.Allowed && x.claims {
		mine, err := g.config.Tasks.Bind(ctx, x.ID, p.Tenant, taskNamed(x.call.Task).key(), p.Owner)
		if err != nil {
			return undone(func() { unavailable("whose the task is cannot be remembered", err) })
		}
		if mine != p.Owner {
			return undone(func() { notPosted(w, gate.CodeForeignTask) })
		}
	}
	if !x.verdict.Allowed {
		reason := gate.CodeForeignTask
		if len(x.verdict.Reasons) > 0 {
			reason = x.verdict.Reasons[0].Code
		}
		notPosted(w, reason)
		return false
	}
	return true
}

func notPosted(w http.ResponseWriter, reason string) {
	w.Header().Set(HeaderReason, reason)
	http.Error(w, "the event is not posted: "+reason, http.StatusForbidden)
}

// posting records the outcome of an event and then answers the agent that sent it. Where
// the outcome cannot be recorded the agent is told that instead.
func (g *Gateway) posting(w http.ResponseWriter, x *decided, o outcome, answer func()) {
	if _, err := g.finish(x, o); err != nil {
		w.Header().Set(HeaderReason, codeUnrecorded)
		http.Error(w, "the outcome of posting this event could not be recorded", http.StatusInternalServerError)
		return
	}
	answer()
}

// postable is asked before every event: what a name resolves to, and where the
// operator lets events go, may be something else by now.
func (g *Gateway) postable(x *decoded) *evidence.Reason {
	if err := g.pushAddress(x); err != nil {
		return &evidence.Reason{Code: a2a.ReasonPush, Message: err.Error()}
	}
	return nil
}

// post posts an event that may continue, with what the caller wants shown. The bytes
// are the agent's.
func (g *Gateway) post(w http.ResponseWriter, x *decided, p posting) {
	h := http.Header{"Content-Type": x.request.Header.Values("Content-Type")}
	for _, name := range []string{"A2A-Version", "A2A-Extensions"} {
		if v := x.request.Header.Get(name); v != "" {
			h.Set(name, v)
		}
	}
	if p.Config.Token != "" {
		for _, name := range tokenHeaders { // agents differ in which one they use
			h.Set(name, p.Config.Token)
		}
	}
	if len(p.Config.Schemes) > 0 && p.Config.Credentials != "" {
		h.Set("Authorization", p.Config.Schemes[0]+" "+p.Config.Credentials)
	}
	status, err := g.config.PushPost(x.request.Context(), p.Config.URL, x.PushPrivate, h, x.decoded.body)
	if err == nil && status < http.StatusMultipleChoices {
		g.posting(w, x, outcome{status: evidence.Achieved}, func() { w.WriteHeader(http.StatusNoContent) })
		return
	}
	g.config.Log.WarnContext(x.request.Context(), "an event was not taken where it was posted to", "agent", x.ID, "record", x.verdict.Record.ID, "status", status, "error", err)
	g.posting(w, x, notTheAgent(evidence.Failed), func() { http.Error(w, "the event was not taken where it was posted to", http.StatusBadGateway) })
}

// hostOf is the host of an address, "" where it has none.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}
