package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/a2apb"
)

// With a relay the agent behind has our URL and our token instead of the
// caller's, so that events pass here. Nothing of it is kept: what the caller
// wanted, and under what, is sealed into the URL, which any gateway of the agent
// opens (ADR 81).

const (
	// relayPath is below the agent's URL, where no method of A2A is.
	relayPath = "/.well-known/powerbox-push/"
	// maxRelayed bounds the texts of a configuration that is relayed, together:
	// they become part of a URL, with what the events are decided under.
	maxRelayed = 2 << 10
	// maxRelayURL bounds that URL.
	maxRelayURL = 8 << 10
	// relayLife is how long events are posted that no capability bounds.
	relayLife = 24 * time.Hour
	// maxPosts is how many events are posted at once.
	maxPosts = 64
)

// Relay says how events of an agent's tasks pass the gateway; the zero one has
// them leave the agent directly.
type Relay struct {
	On  bool
	Via string // base URL at which the agent behind reaches this gateway; "" for the public one
}

// posting is what our own URL stands for.
type posting struct {
	Config   a2a.PushConfig
	Secret   string   `json:"k"`           // what the agent has to show
	Made     int64    `json:"m"`           // Unix seconds
	Tenant   string   `json:"t,omitempty"` // that the call named, which no event does
	Task     string   `json:"i,omitempty"`
	Owner    Owner    `json:"o"`
	Decision string   `json:"d"`
	Trace    string   `json:"r,omitempty"`
	Ambient  bool     `json:"a,omitempty"`
	Holder   string   `json:"h,omitempty"`
	Name     string   `json:"n,omitempty"`
	User     string   `json:"p,omitempty"`
	Groups   []string `json:"g,omitempty"`
	Roles    []string `json:"l,omitempty"`
	Held     *keptHeld
}

// keptHeld is a capability as far as it must be looked at again: that it holds
// the right to post was decided, so that its end and its line remain.
type keptHeld struct {
	Capability string   `json:"c,omitempty"`
	OnRecord   string   `json:"r,omitempty"`
	Root       string   `json:"t,omitempty"`
	Principal  string   `json:"p,omitempty"`
	Holder     string   `json:"h,omitempty"`
	Links      []string `json:"l,omitempty"`
	Through    []string `json:"w,omitempty"`
	Issued     int64    `json:"i,omitempty"`
	Until      int64    `json:"u"`
	Foreign    string   `json:"f,omitempty"`
	Task       string   `json:"k,omitempty"`
	Tenant     string   `json:"e,omitempty"` // of that task
	Legacy     bool     `json:"y,omitempty"`
}

func keptOf(h gate.Held) *keptHeld {
	k := &keptHeld{
		Capability: h.Capability, OnRecord: h.OnRecord, Root: h.Root, Principal: h.Principal, Holder: h.Holder, Links: h.Links, Through: h.Through,
		Until: h.Authority.Window().Until.Unix(), Foreign: h.Foreign, Task: h.Task, Tenant: h.Tenant, Legacy: h.Legacy,
	}
	if !h.Issued.IsZero() {
		k.Issued = h.Issued.Unix()
	}
	return k
}

// held is the capability again, for the one thing that was decided under it.
func (k *keptHeld) held() (*gate.Held, error) {
	h := &gate.Held{
		Capability: k.Capability, OnRecord: k.OnRecord, Root: k.Root, Principal: k.Principal, Holder: k.Holder, Links: k.Links, Through: k.Through,
		Foreign: k.Foreign, Task: k.Task, Tenant: k.Tenant, Legacy: k.Legacy,
	}
	if k.Issued != 0 {
		h.Issued = time.Unix(k.Issued, 0)
	}
	var err error
	h.Authority, err = powerbox.NewAuthority(powerbox.Window{Until: time.Unix(k.Until, 0)}, 0,
		powerbox.Clause{Pattern: powerbox.ExactPattern(reserved[a2a.OperationPush]), Shape: powerbox.AnyArguments()})
	return h, err
}

// relays reports whether the events of a call are to pass here. In observe
// nothing is changed.
func (x *decoded) relays() bool {
	return x.Relay.On && x.call.Push != nil && x.mode != gate.Observe
}

// signatures are the headers by which a client signs the bytes of its body, which
// would not be true of what continues.
var signatures = []string{"Content-Digest", "Repr-Digest", "Digest", "Signature-Input"}

// relayable returns why a configuration cannot be relayed, "" where it can.
func (x *decoded) relayable() string {
	size := len(x.call.Push.URL) + len(x.call.Push.Token) + len(x.call.Push.Credentials)
	for _, s := range x.call.Push.Schemes {
		size += len(s)
	}
	switch {
	case x.call.Push.Places != 1:
		return "the call says in more than one place where events are posted to, and the gateway has to change it; say it once"
	case size > maxRelayed:
		return "the address and what is shown there are longer than 2048 bytes together, which a relay cannot carry"
	case slices.ContainsFunc(signatures, func(name string) bool { return x.request.Header.Get(name) != "" }):
		return "the request signs its body (Content-Digest or Signature), and the gateway has to put itself in the place of the address; leave that out"
	}
	return ""
}

// errRelay is a configuration that cannot be relayed after all.
var errRelay = errors.New("what the events would be posted under is too long for a relay; use a capability that came through fewer hands")

// relay puts our address into what continues to the agent.
func (g *Gateway) relay(x *forwardable) error {
	if !x.relays() {
		return nil
	}
	to, err := g.seal(x.decided)
	if err != nil {
		return err
	}
	if x.call.Binding == a2a.GRPC {
		message, err := a2apb.Unframe(x.body)
		if err == nil {
			message, err = a2apb.WithPush(x.call.Wire, message, to)
		}
		if err != nil {
			return err
		}
		x.body = a2apb.Frame(message)
	} else if x.body, err = a2a.WithPush(x.body, &x.call, to); err != nil {
		return err
	}
	return x.relayed(g, to)
}

// relayed reads what continues as it came: the agent must find our address in it
// and no other.
func (x *forwardable) relayed(g *Gateway, to a2a.PushConfig) error {
	again := &decoded{identified: x.identified, body: x.body}
	bindingOf(again.binding).decode(again, powerbox.Limits{Bytes: g.config.BodyLimit + 2*maxRelayURL, Depth: maxDepth})
	if again.wrong != nil {
		return again.wrong
	}
	call := again.call
	if p := call.Push; p == nil || p.Places != 1 || p.URL != to.URL || p.Token != to.Token || p.Credentials != to.Credentials || p.Inline != x.call.Push.Inline || call.Task != x.call.Task || call.Tenant != x.call.Tenant {
		return errors.New("what would go on to the agent does not say what it was made to say")
	}
	return nil
}

// seal makes the configuration that the agent gets.
func (g *Gateway) seal(x *decided) (a2a.PushConfig, error) {
	var secret [16]byte
	_, _ = rand.Read(secret[:]) // never fails
	v := x.verdict
	p := posting{
		Config: x.call.Push.PushConfig, Secret: base64.RawURLEncoding.EncodeToString(secret[:]), Made: g.config.Now().Unix(),
		Tenant: x.call.Tenant, Task: x.call.Task, Owner: g.ownerOf(x.decoded, v.Held), Decision: v.Record.ID, Trace: v.Record.Details.TraceID,
		Ambient: x.request.Header.Get(HeaderAmbient) != "" || x.call.Members != nil && x.call.Members.Ambient,
		Holder:  x.caller.Holder.ID, Name: x.caller.Agent, User: x.caller.Principal,
	}
	switch v.Basis {
	case gate.OnCapability:
		p.Held, p.Holder, p.Name = keptOf(v.Held), v.Held.Holder, v.Held.Origin
	case gate.OnPolicy:
		p.Groups, p.Roles = x.caller.Groups, x.caller.Roles
	default:
	}
	plain, err := json.Marshal(p) //nolint:gosec // it is sealed
	if err != nil {
		return a2a.PushConfig{}, err
	}
	sealed := g.config.Pages.Seal(nil, nil, plain, x.relayOwner()) //nolint:gosec // the nonce is random, and Pages puts it in front
	to := a2a.PushConfig{URL: x.relayURL() + base64.RawURLEncoding.EncodeToString(sealed), Token: p.Secret, Schemes: []string{"Bearer"}, Credentials: p.Secret}
	if len(to.URL) > maxRelayURL {
		return a2a.PushConfig{}, errRelay
	}
	return to, nil
}

// relayOwner is what a sealed posting is bound to.
func (a *agent) relayOwner() []byte { return []byte("push\x00" + a.ID) }

// relayURL is where the agent behind posts events, up to the sealed part.
func (a *agent) relayURL() string {
	if a.Relay.Via != "" {
		return strings.TrimSuffix(a.Relay.Via, "/") + "/agents/" + a.ID + relayPath
	}
	return a.URL + relayPath
}

// unseal returns what our own URL stands for, false where it is none.
func (g *Gateway) unseal(a *agent, sealed string) (posting, bool) {
	var p posting
	raw, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil || len(raw) < g.config.Pages.Overhead() {
		return p, false
	}
	plain, err := g.config.Pages.Open(nil, nil, raw, a.relayOwner())
	if err != nil {
		return p, false
	}
	return p, json.Unmarshal(plain, &p) == nil
}

// restore has the answer to a method about configurations show the caller's own.
func (g *Gateway) restore(x *decided, body []byte) ([]byte, error) {
	switch x.call.Method {
	case a2a.CreatePushConfig, a2a.GetPushConfig, a2a.ListPushConfigs:
	default:
		return body, nil
	}
	open := func(address string) (c a2a.PushConfig, ours, opened bool) {
		sealed, ours := strings.CutPrefix(address, x.relayURL())
		if !ours {
			// Under the address that the gateway had before it was another one.
			if _, sealed, ours = strings.Cut(address, "/agents/"+x.ID+relayPath); !ours {
				return c, false, false
			}
		}
		p, opened := g.unseal(x.agent, sealed)
		// What someone else set is not shown, whatever the agent thinks.
		opened = opened && (p.Owner == g.ownerOf(x.decoded, x.verdict.Held) || x.mode == gate.Observe)
		return p.Config, true, opened
	}
	if x.call.Binding == a2a.GRPC {
		return a2apb.RestorePush(x.call.Wire, body, open)
	}
	return a2a.RestorePush(body, open)
}

// restored is restore for an answer, which is not signed any more where it became
// another one.
func (g *Gateway) restored(r *http.Response, x *decided, body []byte) ([]byte, error) {
	out, err := g.restore(x, body)
	if err == nil && !bytes.Equal(out, body) {
		for _, name := range append(signatures, "Signature") {
			r.Header.Del(name)
		}
	}
	return out, err
}

// poster is the call that an event is decided as: what the caller asked for continues.
func (g *Gateway) poster(r *http.Request, a *agent, p posting, task a2a.TaskRef, body []byte) *decided {
	from := &received{agent: a, request: r, trace: within(p.Trace), notes: &notes{}}
	by := &identified{
		received: from, released: &Released{Agent: a.ID, Owner: p.Owner},
		caller: identity.Caller{Agent: p.Name, Principal: p.User, Groups: p.Groups, Roles: p.Roles, Holder: identity.Holder{ID: p.Holder}},
	}
	return &decided{learned: &learned{}, decoded: &decoded{identified: by, body: body, call: a2a.Call{
		Method: a2a.CreatePushConfig, Version: a2a.Version1, Tenant: p.Tenant, Task: task.Task, Context: task.Context,
		Content: a2a.Content{Push: &a2a.Push{PushConfig: p.Config, Places: 1}},
	}}}
}

// event is the call that posting an event is, as the gate decides it: the right
// to post is asked for again, of the same caller, under the same capability.
func (g *Gateway) event(ctx context.Context, x *decided, p posting) (*gate.Call, error) {
	target := x.view.target
	target.Anchors = x.Keys()
	c := &gate.Call{
		Target: &target, Mode: x.mode, Origin: g.config.Origin, Action: action.PushEvent.String(), Ambient: p.Ambient,
		Caller: gate.Caller{Name: p.Name, Principal: g.config.Pseudonym(x.ID, p.User), Holder: p.Holder},
		Tenant: x.call.Tenant, Task: x.call.Task, Context: x.call.Context, Ask: gate.Ask{Last: func() *evidence.Reason { return g.postable(x.decoded) }},
		Record: evidence.Record{Details: evidence.Details{TraceID: p.Trace, Arguments: powerbox.Object(
			powerbox.Member{Name: "host", Value: powerbox.String(hostOf(p.Config.URL))},
			powerbox.Member{Name: "registration", Value: powerbox.String(p.Decision)},
		).AppendJSON(nil)}},
	}
	c.Scope = g.config.scopeAt(x.ID)
	switch {
	case p.Held != nil:
		held, err := p.Held.held()
		if err != nil {
			return nil, err
		}
		c.Presented = []gate.Presented{{Kept: held}}
		c.Caller.Principal = held.Principal
	case g.config.Now().Sub(time.Unix(p.Made, 0)) > relayLife:
		c.Refused = []evidence.Reason{{Code: string(powerbox.CodeExpired), Message: "events that no capability bounds are posted for a day; set the configuration again"}}
	case g.config.ByPolicy != nil && x.Scopes.byPolicy() && p.User != "":
		c.ByPolicy = func() (powerbox.Authority, error) { return g.config.ByPolicy(ctx, x.ID, x.caller) }
	}
	owned, err := g.ownsEvent(ctx, x, p)
	if err != nil {
		return nil, err
	}
	c.Ask.Owns = func(gate.Held) bool { return owned }
	return c, try(c, reserved[a2a.OperationPush], x.call.TaskArguments())
}

// ownsEvent reports whether an event is about a task of the one who set the
// configuration: the one that it was set for, or, if a message began it, one
// without an owner yet, which the agent has made for that message. No event names a
// tenant: it is in that of the configuration.
func (g *Gateway) ownsEvent(ctx context.Context, x *decided, p posting) (bool, error) {
	if p.Task != "" && x.call.Task != p.Task {
		return false, nil
	}
	o, known, err := g.config.Tasks.Owner(ctx, x.ID, p.Tenant, taskNamed(x.call.Task).key())
	if err != nil {
		return false, err
	}
	x.claims = !known && p.Task == ""
	return x.claims || known && (o == p.Owner || p.Held != nil && p.Held.Task == x.call.Task && p.Held.Tenant == p.Tenant && o.Principal == p.Owner.Principal), nil
}
