// Package quarterly is a small town of A2A agents that share a company's quarterly reports:
// documents keeps them, mail sends letters, summariser reads a document and reports its
// content, orchestrator finds the document that a user means and has it summarised. They are
// what their authors would write on a2a-go (A2A 1.0, JSON-RPC) and package holder: an agent
// whose peer's card offers capabilities asks for what its work needs.
//
// One report carries an injected instruction, and the [Model] of every agent obeys what it reads, as a hijacked model does. Wired
// directly, the town mails the salary table to a stranger. Nothing in the agents changes when they are protected: only the URLs of
// their peers ([Agent].Peers) and of the gateway in front ([Guarded].URL).
//
// Laws: an agent talks to another only through Outgoing; every such call is on record in [Town.Calls]; once [Town.Close] has
// returned, no agent listens or works any more.
package quarterly

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"golang.org/x/sync/errgroup"
)

// The agents of the town, by the names that Peers, calls and instructions use.
const (
	Documents    = "documents"
	Mail         = "mail"
	Summariser   = "summariser"
	Orchestrator = "orchestrator"
)

// Agent configures one agent of the town. The zero value listens on a free loopback port and calls its usual peers directly.
type Agent struct {
	// Listener is where the agent serves. Optional: a free port of 127.0.0.1. Run takes it over and closes it.
	Listener net.Listener
	// URL is the base URL that the agent's card gives. Optional: http:// and the listener's address.
	URL string
	// Peers maps names of agents to the base URLs where this agent reaches them, its gateway's for instance. Optional: a usual peer
	// that is missing here is called at its own URL. Any agent can be named, others are refused.
	Peers map[string]string
	// Extensions are declared by the agent's card. Optional. An agent that takes delegations publishes its key there ([Publishes]).
	Extensions []a2a.AgentExtension
}

// Config configures a town.
type Config struct {
	// Agents is by name. Optional: an agent that is missing has the zero value. Other names are refused.
	Agents map[string]Agent
	// Outgoing opens the clients for calls between agents. Optional: Direct.
	Outgoing Outgoing
	// Handles tells the documents agent by which opaque handles the caller of a request knows which documents. Bounded false means
	// that the caller uses ids and reaches everything; bounded true with an empty map means that it reaches nothing; an error
	// refuses the request. Optional: never bounded.
	Handles func(in Incoming) (idByHandle map[string]string, bounded bool, err error)
	// Log receives what a2a-go reports. Optional: nothing is logged.
	Log *slog.Logger
}

// usualPeers is who calls whom unless something else is configured; its keys are the agents.
var usualPeers = map[string][]string{
	Documents:    nil,
	Mail:         nil,
	Summariser:   {Documents, Mail},
	Orchestrator: {Documents, Summariser},
}

// Call is one call from an agent to a peer, as the caller saw it.
type Call struct {
	From, To, Skill string
	Arguments       map[string]any
	// Injected says that the call was not part of the task: a text that the agent read asked for it.
	Injected bool
	// Err is nil when the peer did the task.
	Err error
}

// Town is a running set of the four agents.
type Town struct {
	stop   context.CancelFunc
	agents *errgroup.Group
	idle   func()
	urls   map[string]string
	peers  map[string]map[string]string
	store  *library
	outbox *outbox

	mu    sync.Mutex
	calls []Call
}

// grace is how long a stopped agent may take to finish the calls that it is serving.
const grace = 2 * time.Second

// Run starts the agents and returns when all of them accept connections. They serve until ctx ends, Close is called or one of them
// fails. Run fails, with all listeners closed, when there is no free port or an agent's name is unknown.
func Run(ctx context.Context, cfg Config) (_ *Town, err error) {
	t := &Town{urls: map[string]string{}, peers: map[string]map[string]string{}, store: newLibrary(), outbox: &outbox{}}
	cfg = t.withDefaults(cfg)
	defer func() {
		if err != nil {
			err = errors.Join(err, closeListeners(cfg.Agents))
		}
	}()
	for name := range usualPeers {
		a := cfg.Agents[name]
		if a.Listener == nil {
			if a.Listener, err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
				return nil, fmt.Errorf("quarterly: agent %s finds no port on 127.0.0.1: %w", name, err)
			}
		}
		t.urls[name] = "http://" + a.Listener.Addr().String()
		a.URL = cmp.Or(a.URL, t.urls[name])
		cfg.Agents[name] = a
	}
	if err := t.wire(cfg.Agents); err != nil {
		return nil, err
	}
	ctx, t.stop = context.WithCancel(ctx)
	t.agents, ctx = errgroup.WithContext(ctx)
	for _, a := range t.build(ctx, cfg) {
		t.agents.Go(func() error { return a.serve(cfg.Agents[a.name], cfg.Log) })
	}
	return t, nil
}

// Close stops the agents, waits until they are gone and returns what went wrong while they served.
func (t *Town) Close() error {
	t.stop()
	err := t.agents.Wait()
	t.idle()
	return err
}

// URL is the base URL at which the named agent itself listens, whatever its card says.
func (t *Town) URL(agent string) string { return t.urls[agent] }

// Peers is whom the named agent is wired to, in order of their names.
func (t *Town) Peers(agent string) []string { return slices.Sorted(maps.Keys(t.peers[agent])) }

// Outbox is every letter that has left the town, oldest first.
func (t *Town) Outbox() []Letter { return t.outbox.letters() }

// Library is every document in the store, in order of id.
func (t *Town) Library() []Document { return t.store.all() }

// Calls is every call that an agent has made to a peer and that has ended, oldest first.
func (t *Town) Calls() []Call {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.calls)
}

func (t *Town) record(c Call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls = append(t.calls, c)
}

func (t *Town) withDefaults(cfg Config) Config {
	cfg.Agents = maps.Clone(cfg.Agents)
	if cfg.Agents == nil {
		cfg.Agents = map[string]Agent{}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Handles == nil {
		cfg.Handles = func(Incoming) (map[string]string, bool, error) { return nil, false, nil }
	}
	t.idle = func() {}
	if cfg.Outgoing == nil {
		pool := &http.Transport{}
		cfg.Outgoing = Direct{HTTP: &http.Client{Transport: pool, Timeout: 30 * time.Second}}
		t.idle = pool.CloseIdleConnections
	}
	return cfg
}

func closeListeners(agents map[string]Agent) error {
	var all error
	for _, a := range agents {
		if a.Listener != nil {
			all = errors.Join(all, a.Listener.Close())
		}
	}
	return all
}

// wire finds out whom every agent calls, and where.
func (t *Town) wire(agents map[string]Agent) error {
	known := slices.Sorted(maps.Keys(usualPeers))
	for name, a := range agents {
		if !slices.Contains(known, name) {
			return fmt.Errorf("quarterly: there is no agent %q, agents are %v", name, known)
		}
		peers := map[string]string{}
		for _, p := range usualPeers[name] {
			peers[p] = t.urls[p]
		}
		for p, url := range a.Peers {
			if !slices.Contains(known, p) {
				return fmt.Errorf("quarterly: agent %s has a peer %q, agents are %v", name, p, known)
			}
			peers[p] = url
		}
		t.peers[name] = peers
	}
	return nil
}
