// Package quarterly is a small town of A2A agents that share a company's quarterly reports: documents keeps them, mail sends letters,
// summariser reads a document and tells what is in it, orchestrator finds the document that a user means and has it summarised.
// They are what their authors would write on a2a-go (A2A 1.0, JSON-RPC) and know nothing of capabilities.
//
// One report carries an injected instruction, and the [Model] of every agent obeys what it reads, as a hijacked model does. Wired
// directly, the town mails the salary table to a stranger. Nothing in the agents changes when they are protected: only the URLs of
// their peers ([Agent].Peers) and the client with which they call them ([Config].Outgoing).
//
// Laws: an agent talks to another only through Outgoing; every such call is on record in [Town.Calls]; once [Town.Close] has
// returned, no listener and no goroutine of the town is left.
package quarterly

import (
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
)

// The agents of the town, by the names that Peers, calls and instructions use.
const (
	Documents    = "documents"
	Mail         = "mail"
	Summariser   = "summariser"
	Orchestrator = "orchestrator"
)

// Agent configures one agent of the town. The zero value listens on a free loopback port and calls its peers directly.
type Agent struct {
	// Listener is where the agent serves. Optional: a free port of 127.0.0.1. Run takes it over and closes it.
	Listener net.Listener
	// URL is the base URL that the agent's card gives. Optional: http:// and the listener's address.
	URL string
	// Peers maps names of agents to the base URLs where this agent reaches them, its gateway's for instance. Optional: a name that
	// is missing here and belongs to the agent's usual peers gets that agent's own URL. Names that are no agent are refused.
	Peers map[string]string
}

// Config configures a town.
type Config struct {
	Documents, Mail, Summariser, Orchestrator Agent
	// Outgoing opens the clients for calls between agents. Optional: Direct.
	Outgoing Outgoing
	// Handles tells the documents agent by which opaque handles the caller of a request knows which documents. Bounded false means
	// that the caller uses ids and reaches everything; bounded true with an empty map means that it reaches nothing; an error
	// refuses the request. Optional: never bounded.
	Handles func(in Incoming) (idByHandle map[string]string, bounded bool, err error)
	// Log receives what a2a-go reports. Optional: nothing is logged.
	Log *slog.Logger
}

// Call is one call from an agent to a peer, as the caller saw it.
type Call struct {
	From, To, Skill string
	Arguments       map[string]any
	// Injected says that the call was not part of the task: a text that the agent read asked for it.
	Injected bool
	// Err is nil when the peer did what was asked.
	Err error
}

// Town is a running set of the four agents.
type Town struct {
	stop    context.CancelFunc
	running sync.WaitGroup
	urls    map[string]string
	peers   map[string]map[string]string
	store   *library
	outbox  *outbox
	closed  error

	mu    sync.Mutex
	calls []Call
}

// grace is how long a stopped agent may take to finish the calls that it is serving.
const grace = 2 * time.Second

// Run starts the agents and returns when all of them accept connections. The town runs until ctx ends or Close is called.
// It fails, with nothing left running, when a port cannot be had or a peer's name is unknown.
func Run(ctx context.Context, cfg Config) (*Town, error) {
	cfg, idle := withDefaults(cfg)
	given := map[string]Agent{
		Documents: cfg.Documents, Mail: cfg.Mail, Summariser: cfg.Summariser, Orchestrator: cfg.Orchestrator,
	}
	if err := listen(ctx, given); err != nil {
		return nil, errors.Join(err, closeListeners(given))
	}
	t := &Town{urls: map[string]string{}, peers: map[string]map[string]string{}, store: newLibrary(), outbox: &outbox{}}
	for name, a := range given {
		t.urls[name] = "http://" + a.Listener.Addr().String()
	}
	for name, a := range given {
		peers, err := t.peersOf(name, a)
		if err != nil {
			return nil, errors.Join(err, closeListeners(given))
		}
		t.peers[name] = peers
	}
	ctx, t.stop = context.WithCancel(ctx)
	var ended []<-chan error
	for _, ag := range t.agents(ctx, cfg) {
		ended = append(ended, ag.serve(ctx, &t.running, given[ag.name], cfg.Log))
	}
	t.running.Go(func() {
		for _, end := range ended {
			t.closed = errors.Join(t.closed, <-end)
		}
		idle()
	})
	return t, nil
}

// Close stops the agents, waits until they are gone and returns what went wrong while they served.
func (t *Town) Close() error {
	t.stop()
	t.running.Wait()
	return t.closed
}

// URL is the base URL at which the named agent itself listens, whatever its card says.
func (t *Town) URL(agent string) string { return t.urls[agent] }

// Peers is the wiring of the named agent: the agents that it calls, and where.
func (t *Town) Peers(agent string) map[string]string { return maps.Clone(t.peers[agent]) }

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

// withDefaults fills in what is optional; the function that it returns gives back what the defaults hold open.
func withDefaults(cfg Config) (Config, func()) {
	idle := func() {}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Handles == nil {
		cfg.Handles = func(Incoming) (map[string]string, bool, error) { return nil, false, nil }
	}
	if cfg.Outgoing == nil {
		pool := &http.Transport{}
		cfg.Outgoing = Direct{HTTP: &http.Client{Transport: pool, Timeout: 30 * time.Second}}
		idle = pool.CloseIdleConnections
	}
	return cfg, idle
}

func listen(ctx context.Context, given map[string]Agent) error {
	for name, a := range given {
		if a.Listener != nil {
			continue
		}
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("quarterly: agent %s finds no port on 127.0.0.1: %w", name, err)
		}
		a.Listener = l
		given[name] = a
	}
	return nil
}

func closeListeners(given map[string]Agent) error {
	var all error
	for _, a := range given {
		if a.Listener != nil {
			all = errors.Join(all, a.Listener.Close())
		}
	}
	return all
}

// usualPeers is who calls whom when nothing else is configured.
func usualPeers(agent string) []string {
	switch agent {
	case Orchestrator:
		return []string{Documents, Summariser}
	case Summariser:
		return []string{Documents, Mail}
	default:
		return nil
	}
}

func (t *Town) peersOf(name string, a Agent) (map[string]string, error) {
	peers := map[string]string{}
	for _, p := range usualPeers(name) {
		peers[p] = t.urls[p]
	}
	for p, url := range a.Peers {
		if _, known := t.urls[p]; !known {
			return nil, fmt.Errorf("quarterly: agent %s has a peer %q; agents are %v", name, p, slices.Sorted(maps.Keys(t.urls)))
		}
		peers[p] = url
	}
	return peers, nil
}
