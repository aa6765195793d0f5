package powerboxa2a

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
)

// Outbound is the side of an agent on which it calls others. It is safe for use
// by several goroutines.
type Outbound struct {
	// Client signs, and asks for capabilities. Required.
	Client *holder.Client
	// Rule says what to ask a peer for when nothing that is held permits a call;
	// false is nothing. It needs the session of Client. Optional.
	Rule func(ctx context.Context, call Call) (holder.RequestParams, bool)
	// ForTasks has session and rule serve the work on a [Task], too. Without it a
	// task's calls use only the capabilities that came with the task, so that no
	// caller reaches others' data through the agent's session. Session and Rule
	// must tell users apart. They get the context of the call, in which
	// [TaskFrom] says for whom the agent works.
	ForTasks bool
}

// Call is a call that needs a capability.
type Call struct {
	Peer      holder.Agent
	Skill     string // that the call names; "" for none
	Operation powerbox.Operation
	Arguments powerbox.Value
}

// Peer is an agent that is called, as its card says.
type Peer struct {
	Agent holder.Agent
	Card  *a2a.AgentCard
	out   *Outbound
}

// Peer reads the card of the agent at a base URL. One that does not negotiate
// capabilities is called as it is, without anything of ours.
func (o *Outbound) Peer(ctx context.Context, base string) (*Peer, error) {
	if o.Client == nil {
		return nil, errors.New("powerbox: Outbound.Client is missing")
	}
	agent, err := o.Client.Discover(ctx, base)
	if err != nil {
		return nil, err
	}
	card, err := agentcard.NewResolver(o.Client.HTTP).Resolve(ctx, base)
	if err != nil {
		return nil, fmt.Errorf("powerbox: card at %s: %w", base, err)
	}
	return &Peer{Agent: agent, Card: card, out: o}, nil
}

// NewClient makes a client for calls of the peer by JSON-RPC or HTTP+JSON, with
// [Peer.Options] behind the given options, so that nothing comes after what
// takes away.
func (p *Peer) NewClient(ctx context.Context, options ...a2aclient.FactoryOption) (*a2aclient.Client, error) {
	return a2aclient.NewFromCard(ctx, p.Card, append(slices.Clone(options), p.Options()...)...)
}

// Options are what a factory of clients for this peer takes, as the last ones.
// They come together: the interceptor chooses the capability to present, the
// transports sign the bytes.
func (p *Peer) Options() []a2aclient.FactoryOption {
	client := func(rpc bool) *http.Client {
		return &http.Client{
			Transport: &signing{peer: p, rpc: rpc}, Timeout: p.out.Client.HTTP.Timeout,
			CheckRedirect: p.out.Client.HTTP.CheckRedirect, Jar: p.out.Client.HTTP.Jar,
		}
	}
	return []a2aclient.FactoryOption{
		a2aclient.WithJSONRPCTransport(client(true)), a2aclient.WithRESTTransport(client(false)),
		a2aclient.WithCallInterceptors(&presenting{peer: p}),
	}
}

type (
	walletKey   struct{}
	handOverKey struct{}
	outgoingKey struct{}
)

// WithWallet has calls present the capabilities of a wallet, for an agent that
// works on no [Task], or on one of its own.
func WithWallet(ctx context.Context, w *holder.Wallet) context.Context {
	return context.WithValue(ctx, walletKey{}, w)
}

// HandOver has the next messages hand capabilities over to their recipient.
// They must have been delegated to its key ([holder.Client.Delegate]); it is the
// only way in which anything is handed over.
func HandOver(ctx context.Context, capabilities ...holder.Capability) context.Context {
	return context.WithValue(ctx, handOverKey{}, capabilities)
}

func walletFrom(ctx context.Context) *holder.Wallet {
	if w, ok := ctx.Value(walletKey{}).(*holder.Wallet); ok {
		return w
	}
	if t, ok := TaskFrom(ctx); ok {
		return t.wallet
	}
	return nil
}

// outgoing is what the interceptor has decided about a call, for the transport
// that signs it.
type outgoing struct {
	peer     *Peer
	call     Call
	held     holder.Capability
	metadata powerbox.Value // under the extension's URI; null for none
}

type presenting struct {
	a2aclient.PassthroughInterceptor
	peer *Peer
}

// Before implements [a2aclient.CallInterceptor].
func (p *presenting) Before(ctx context.Context, req *a2aclient.Request) (context.Context, any, error) {
	stripPayload(req)
	stripParams(ctx, req.ServiceParams)
	o := &outgoing{peer: p.peer}
	ctx = context.WithValue(ctx, outgoingKey{}, o)
	if !p.peer.Agent.Negotiates {
		return ctx, nil, nil
	}
	req.ServiceParams.Append(a2a.SvcParamExtensions, holder.ExtensionURI)
	var err error
	if o.call, err = p.peer.call(ctx, req); err != nil {
		return ctx, nil, fmt.Errorf("powerbox: the call cannot be signed: %w", err)
	}
	if o.held, err = p.peer.out.choose(ctx, o.call); err != nil {
		return ctx, nil, err
	}
	handed, _ := ctx.Value(handOverKey{}).([]holder.Capability)
	if message, ok := req.Payload.(*a2a.SendMessageRequest); ok && len(handed) > 0 {
		member := holder.Delegations(handed...)
		message.SetMeta(holder.ExtensionURI, member)
		o.metadata, err = valueOf(member)
	}
	return ctx, nil, err
}

// stripPayload removes from a copy the values under the extension's names.
// Propagators, which copy incoming values, put them there, and so does code
// that passes a message on.
func stripPayload(req *a2aclient.Request) {
	switch p := req.Payload.(type) {
	case *a2a.SendMessageRequest:
		c := *p
		c.Metadata = withoutOurs(p.Metadata)
		if p.Message != nil {
			m := *p.Message
			m.Metadata = withoutOurs(m.Metadata)
			c.Message = &m
		}
		req.Payload = &c
	case *a2a.CancelTaskRequest:
		c := *p
		c.Metadata = withoutOurs(p.Metadata)
		req.Payload = &c
	}
}

func withoutOurs(metadata map[string]any) map[string]any {
	c := maps.Clone(metadata)
	maps.DeleteFunc(c, func(name string, _ any) bool { return isOurMember(name) })
	return c
}

func isOurMember(name string) bool {
	return name == holder.ExtensionURI || strings.HasPrefix(name, holder.ExtensionURI+"/")
}

// stripParams removes from the headers those of Powerbox, and
// credentials that came in.
func stripParams(ctx context.Context, params a2aclient.ServiceParams) {
	maps.DeleteFunc(params, func(name string, _ []string) bool { return isOurHeader(name) })
	for name, values := range params {
		if params[name] = slices.DeleteFunc(values, func(v string) bool { return cameIn(ctx, name, v) }); len(params[name]) == 0 {
			delete(params, name)
		}
	}
}

// isOurHeader takes both spellings that servers make one of.
func isOurHeader(name string) bool {
	return strings.HasPrefix(strings.ReplaceAll(strings.ToLower(name), "_", "-"), "powerbox-")
}

// credentials are the headers in which a caller says who it is.
var credentials = []string{"authorization", "dpop", "cookie", "proxy-authorization"}

// cameIn reports whether a header is a credential of the caller that the agent
// works for. Those were for the agent itself.
func cameIn(ctx context.Context, name, value string) bool {
	if !slices.Contains(credentials, strings.ToLower(name)) {
		return false
	}
	inbound, ok := a2asrv.CallContextFrom(ctx)
	if !ok || inbound.ServiceParams() == nil {
		return false
	}
	values, _ := inbound.ServiceParams().Get(name)
	return slices.Contains(values, value)
}

// call works out what the proof of a call is about, as the gateway in front of
// the peer does.
func (p *Peer) call(ctx context.Context, req *a2aclient.Request) (Call, error) {
	c := Call{Peer: p.Agent}
	read, err := readCall(req.Payload)
	if err != nil {
		return c, err
	}
	if read.tenant == "" {
		read.tenant = tenantOf(ctx, req)
	}
	if at := p.urlSkill(req.BaseURL); at != "" && read.message {
		if read.skill != "" && read.skill != at {
			return c, fmt.Errorf("the message names skill %q and its URL %q; name one", read.skill, at)
		}
		read.skill = at
	}
	name := read.operation
	c.Arguments = read.taskArguments()
	if mapped, ok := p.Agent.Skills[read.skill]; ok && read.message {
		c.Skill, c.Operation, c.Arguments = read.skill, mapped.Operation, read.arguments
		return c, nil
	}
	if read.push {
		name = opPush
	}
	c.Operation, err = powerbox.ParseOperation(name)
	return c, err
}

// tenantOf is the tenant that the client of a2a-go sends with a call that names none:
// that of the interface, or else of the call that the agent works for.
func tenantOf(ctx context.Context, req *a2aclient.Request) string {
	if req.Card != nil {
		for _, i := range req.Card.SupportedInterfaces {
			if i != nil && i.URL == req.BaseURL && i.Tenant != "" {
				return i.Tenant
			}
		}
	}
	tenant, _ := a2a.TenantFrom(ctx)
	return tenant
}

// urlSkill is the skill that a URL of the peer stands for, "" for none.
func (p *Peer) urlSkill(url string) string {
	rest, ok := strings.CutPrefix(url, base(p.Agent.Issuer)+"/skills/")
	if !ok {
		return ""
	}
	skill, _, _ := strings.Cut(rest, "/")
	return skill
}

// choose returns the capability to present: one held for the task, one handed
// over with it, or one that a rule asks for. Where nothing permits the call
// something of the peer's is presented all the same, if there is any: the peer
// refuses with its reason, on record.
func (o *Outbound) choose(ctx context.Context, c Call) (holder.Capability, error) {
	wallet := walletFrom(ctx)
	if wallet == nil {
		return holder.Capability{}, nil
	}
	claimed := o.claim(ctx, wallet, c.Peer)
	pick := func() (holder.Capability, bool) {
		held, ok := wallet.Pick(c.Peer.Issuer, c.Operation, c.Arguments, o.Client.Now())
		return held, ok && len(held.Chain) > 0
	}
	if held, ok := pick(); ok {
		return held, nil
	}
	if o.Rule != nil && o.lends(ctx) {
		if params, wanted := o.Rule(ctx, c); wanted {
			got, err := o.Client.Request(ctx, c.Peer, params)
			if err != nil {
				return holder.Capability{}, err
			}
			wallet.Forget(o.Client.Now())
			if err := wallet.Add(got...); err != nil {
				return holder.Capability{}, err
			}
			if held, ok := pick(); ok {
				return held, nil
			}
		}
	}
	for _, held := range wallet.Of(c.Peer.Issuer, o.Client.Now()) {
		if len(held.Chain) > 0 {
			return held, nil
		}
	}
	return holder.Capability{}, claimed
}

// lends reports whether a call may use the session of the agent.
func (o *Outbound) lends(ctx context.Context) bool {
	_, cameIn := TaskFrom(ctx)
	return o.ForTasks || !cameIn
}

// claim fetches the capabilities handed over with the task by reference
// (SEP-13), each once.
func (o *Outbound) claim(ctx context.Context, wallet *holder.Wallet, peer holder.Agent) error {
	t, ok := TaskFrom(ctx)
	if !ok || wallet != t.wallet {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var failed error
	for _, d := range t.Context.Delegated {
		if d.Agent != peer.Issuer || t.claimed[d] {
			continue
		}
		held, err := o.Client.Claim(ctx, peer, d.Capability)
		if err == nil {
			t.claimed[d] = true
			err = wallet.Add(held)
		}
		failed = cmp.Or(failed, err)
	}
	return failed
}
