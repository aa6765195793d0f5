package quarterly

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/token"
)

// Negotiating calls a peer whose card negotiates capabilities under a capability for the task at hand, and every other peer as
// [Direct] does. An agent asks for what its own work needs ([asks]), uses what came with a request for that request alone, and hands
// on a part of what it has to those that work for it ([handovers]). What a text asks for changes nothing of that.
//
// It must not be copied after first use.
type Negotiating struct {
	// HTTP is required.
	HTTP *http.Client
	// Keys are the holder keys of the agents by name; "" is the user's own client. An agent without a key calls as Direct does.
	Keys map[string]*token.PrivateKey
	// Session returns the access token with which an agent acts for the user behind a request, "" for none. Optional.
	Session func(ctx context.Context, in Incoming, audience string) (string, error)
	// Now is the clock. Required.
	Now func() time.Time
	// Random gives ids that cannot be guessed. Required.
	Random io.Reader

	mu    sync.Mutex
	tasks map[taskName]*task
}

// ask is what an agent needs of a peer for its own work.
type ask struct {
	skills []string
	// resources says that the words of the task select reports.
	resources bool
}

// asks is what every agent asks of which peer, as its author knows it. "" is the user's client.
var asks = map[string]map[string]ask{
	"":           {Orchestrator: {skills: []string{"report"}}},
	Orchestrator: {Documents: {[]string{"search_documents", "retrieve_document"}, true}, Summariser: {skills: []string{"summarize"}}},
}

// handover is what a peer needs of another one to do its work for the caller.
type handover struct{ of, skill string }

// handovers is what every agent hands to which peer.
var handovers = map[string]map[string]handover{Orchestrator: {Summariser: {Documents, "retrieve_document"}}}

type taskName struct{ agent, id string }

// task is what one agent holds while it works on one request.
type task struct {
	client *holder.Client
	wallet *holder.Wallet

	mu    sync.Mutex // guards peers, and held while one is asked
	peers map[string]holder.Agent
}

// Publishes is the extension of a card by which others find the key to delegate to.
func Publishes(key token.PublicKey) (a2a.AgentExtension, error) {
	params, err := holder.CardParams(key)
	return a2a.AgentExtension{URI: holder.ExtensionURI, Description: "Takes capabilities that are bound to this key.", Params: params}, err
}

// Client implements Outgoing.
func (n *Negotiating) Client(ctx context.Context, to Peer, in Incoming) (*a2aclient.Client, error) {
	t, err := n.task(in)
	if err != nil {
		return nil, err
	}
	if t == nil {
		return Direct{HTTP: n.HTTP}.Client(ctx, to, in)
	}
	peer, err := t.client.Discover(ctx, to.URL)
	if err != nil {
		return nil, err
	}
	if err := t.ask(ctx, to.Name, peer, in); err != nil {
		return nil, err
	}
	card, err := agentcard.NewResolver(n.HTTP).Resolve(ctx, to.URL)
	if err != nil {
		return nil, err
	}
	signing := &http.Client{
		Transport: &holder.Transport{Base: n.HTTP.Transport, Client: t.client, Agent: peer, Wallet: t.wallet},
		Timeout:   n.HTTP.Timeout,
	}
	return a2aclient.NewFromCard(ctx, card, a2aclient.WithJSONRPCTransport(signing),
		a2aclient.WithCallInterceptors(&handing{task: t, what: handovers[in.Agent][to.Name], to: peer}))
}

// Held is what an agent holds at this moment, of all its tasks: what it was given, and what came with requests.
func (n *Negotiating) Held(agent string) []holder.Capability {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []holder.Capability
	for name, t := range n.tasks {
		if name.agent == agent {
			all = append(all, t.wallet.All(n.Now())...)
		}
	}
	slices.SortFunc(all, func(a, b holder.Capability) int { return cmp.Compare(a.Agent+a.ID, b.Agent+b.ID) })
	return all
}

// task is what the agent that works on in holds for it; nil for an agent without a key.
func (n *Negotiating) task(in Incoming) (*task, error) {
	key := n.Keys[in.Agent]
	if key == nil {
		return nil, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	name := taskName{in.Agent, in.TaskID}
	if t := n.tasks[name]; t != nil && in.TaskID != "" {
		return t, nil
	}
	t := &task{wallet: holder.NewWallet(key.Public()), peers: map[string]holder.Agent{}}
	t.client = &holder.Client{Key: key, HTTP: n.HTTP, Now: n.Now, Random: n.Random}
	if n.Session != nil {
		t.client.Session = func(ctx context.Context, audience string) (string, error) { return n.Session(ctx, in, audience) }
	}
	if err := t.wallet.Receive(in.Metadata, n.Now()); err != nil {
		return nil, err
	}
	n.forget()
	n.tasks[name] = t
	return t, nil
}

// forget drops the tasks whose capabilities have all ended, and makes room for one more.
func (n *Negotiating) forget() {
	if n.tasks == nil {
		n.tasks = map[taskName]*task{}
	}
	for name, t := range n.tasks {
		if len(n.tasks) > 64 && !n.Now().Before(t.wallet.Expires()) {
			delete(n.tasks, name)
		}
	}
}

// ask requests, at the first contact of a task with a peer, what the agent's own work needs of it.
func (t *task) ask(ctx context.Context, name string, peer holder.Agent, in Incoming) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.peers[name]; known {
		return nil
	}
	need, needed := asks[in.Agent][name]
	if needed && peer.Negotiates {
		grants, operations, err := peer.Needs(need.skills...)
		if err != nil {
			return err
		}
		request := holder.RequestParams{Grants: grants, Operations: operations, Purpose: cmp.Or(in.Text, "To call "+name+" for the user.")}
		if need.resources {
			request.Query = queryIn(in.Text)
		}
		got, err := t.client.Request(ctx, peer, request)
		if err != nil {
			return err
		}
		if err := t.wallet.Add(got...); err != nil {
			return err
		}
	}
	t.peers[name] = peer
	return nil
}

var quarterWord = regexp.MustCompile(`(?i)\bq([1-4])\b`)

// queryIn selects the reports that the words mean: those of the quarter of 2025 that they name, or all.
func queryIn(words string) powerbox.Value {
	text := func(name, value string) powerbox.Member {
		return powerbox.Member{Name: name, Value: powerbox.String(value)}
	}
	query := []powerbox.Member{text("collection", "reports")}
	if found := quarterWord.FindStringSubmatch(words); found != nil {
		query = append(query, powerbox.Member{Name: "filter", Value: powerbox.Object(text("quarter", "2025-Q"+found[1]))})
	}
	return powerbox.Object(query...)
}

// handing puts into the metadata of a message what the peer needs for the resources that the message names.
type handing struct {
	a2aclient.PassthroughInterceptor
	task *task
	what handover
	to   holder.Agent
}

// Before implements a2aclient.CallInterceptor.
func (h *handing) Before(ctx context.Context, req *a2aclient.Request) (context.Context, any, error) {
	message, ok := req.Payload.(*a2a.SendMessageRequest)
	if !ok || h.what.skill == "" || message.Message == nil {
		return ctx, nil, nil
	}
	handed, err := h.task.handOver(h.what, h.to, message.Message)
	if err != nil {
		return ctx, nil, fmt.Errorf("handing over %s of %s: %w", h.what.skill, h.what.of, err)
	}
	if len(handed) > 0 {
		message.SetMeta(holder.ExtensionURI, holder.Delegations(handed...))
		req.ServiceParams.Append("A2A-Extensions", holder.ExtensionURI)
	}
	return ctx, nil, nil
}

// handOver derives, for the holder key of the recipient, what calls one skill with one of the handles that the message names.
func (t *task) handOver(what handover, to holder.Agent, message *a2a.Message) ([]holder.Capability, error) {
	t.mu.Lock()
	of := t.peers[what.of]
	t.mu.Unlock()
	skill, ok := of.Skills[what.skill]
	if !ok {
		return nil, nil // that peer does not negotiate, or was not asked
	}
	var named []string
	for _, p := range message.Parts {
		named = appendTexts(named, p.Data())
	}
	var handed []holder.Capability
	for _, held := range t.wallet.Of(of.Issuer, t.client.Now()) {
		for _, h := range held.Handles {
			use := powerbox.Object(powerbox.Member{Name: skill.Handle, Value: powerbox.String(h.Handle)})
			if !slices.Contains(named, h.Handle) || !held.Permits(skill.Operation, use, t.client.Now()) {
				continue
			}
			if to.Holder.IsZero() {
				return nil, errors.New("the card of the recipient publishes no key to delegate to")
			}
			narrow, err := t.client.Delegate(held, to.Holder, holder.Narrowing{Operations: []string{skill.Operation.String()}, Handles: []string{h.Handle}})
			if err != nil {
				return nil, err
			}
			handed = append(handed, narrow)
		}
	}
	return handed, nil
}

func appendTexts(found []string, v any) []string {
	switch v := v.(type) {
	case string:
		return append(found, v)
	case map[string]any:
		for _, member := range v {
			found = appendTexts(found, member)
		}
	case []any:
		for _, element := range v {
			found = appendTexts(found, element)
		}
	}
	return found
}
