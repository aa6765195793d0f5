// Package remote runs a remote gateway: its keys and enrolment, its spool, the state
// that it learns from the server, and the client on standard input.
package remote

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/app/proxy"
	"github.com/powerbox-project/powerbox/internal/app/serve"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/credential"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/identity/spiffe"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
	"github.com/powerbox-project/powerbox/internal/proxy/stdio"
	"github.com/powerbox-project/powerbox/internal/remote/feed"
	"github.com/powerbox-project/powerbox/internal/remote/link"
	"github.com/powerbox-project/powerbox/internal/shed"
	"github.com/powerbox-project/powerbox/internal/store/spool"
	"github.com/powerbox-project/powerbox/internal/telemetry"
	"github.com/powerbox-project/powerbox/internal/version"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/signed"
	"github.com/powerbox-project/powerbox/token"
)

// remoteGateway is a running remote gateway.
type remoteGateway struct {
	options  Options
	keys     *Keys
	enrolled Enrolment
	client   *link.Client
	remote   *link.Remote
	follower *feed.Subscriber
	spool    *spool.Spool
	writes   *serve.Dependency // of the spool
	book     *link.Book        // of calls that wait for people
	holds    *remoteHolds
	replay   *gate.Memory
	memo     *token.Memo
	started  time.Time         // proofs before it are not believed
	before   *proxy.UsedProofs // the proofs that the process before this one used; nil for none
	tls      *serve.TLS        // nil where it is not spoken
	upstream *outbound.Client
	// strangers calls hosts that only the agent's card names.
	strangers *outbound.Client
	queue     *shed.Queue
	face      atomic.Pointer[revision]
	moved     chan struct{} // holds one when the feed has moved since the server was told
	now       func() time.Time
	log       *slog.Logger

	telemetry *telemetry.Telemetry // nil where nothing is counted, traced or sent
	secret    *credential.Placed   // for the agent behind; nil for none
	child     *stdio.Server        // of --mcp-exec; nil without

	mu       sync.Mutex // guards the fields below
	made     []*gateway.Gateway
	draining bool
}

// revision is the gateway under one configuration of the server.
type revision struct {
	setup   link.Setup
	config  *config.Config
	gateway *gateway.Gateway
	sources []*serve.Source
	callers *identity.Authenticator
	began   time.Time // since when callers remembers proofs
	// workloads are the trust domains of SPIFFE; nil until callers can be told.
	workloads *proxy.TrustDomains
}

// statusEvery is how often a gateway asks how much is enforced.
const statusEvery = 2 * time.Second

// Run runs until ctx ends.
func Run(ctx context.Context, p Process, o Options) (err error) {
	g := &remoteGateway{options: o, moved: make(chan struct{}, 1), now: p.Now, log: slog.New(slog.NewJSONHandler(p.Stderr, nil))}
	if g.telemetry, err = serve.NewTelemetry(ctx, o.Telemetry); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, serve.CloseTelemetry(g.telemetry)) }() // when nothing is logged any more
	g.log = g.telemetry.Log(g.log)
	if g.secret, err = loadCredential(ctx, &o, p.Now); err != nil {
		return err
	}
	if o.MCP.Exec {
		if g.child, err = o.MCP.Child(p, g.log); err != nil {
			return err
		}
		defer g.child.Close() // when no call is under way any more
	}
	if err := g.open(ctx); err != nil {
		return errors.Join(err, g.close())
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Listen)
	if err == nil {
		err = listenOn(p, o, listener)
	}
	if err != nil {
		return errors.Join(err, g.close())
	}
	fronts, err := g.fronts(ctx, listener)
	if err != nil {
		return errors.Join(err, g.close())
	}
	background, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { g.follower.Run(background) })
	wg.Go(func() { g.spool.Ship(background, g.sends(), g.log) })
	wg.Go(func() { g.watchEnd(background) })
	wg.Go(func() { g.holds.tend(background) })
	wg.Go(func() { gateway.Release(background, g.holds, func() *gateway.Gateway { return g.face.Load().gateway }) })
	wg.Go(func() {
		g.remote.Follow(background, statusEvery, g.moved, g.reached, func(s link.Status) { g.renew(background, s) })
	})
	g.tellStart(ctx, listener.Addr())
	if o.MCP.Stdio {
		ctx, err = g.speak(ctx, p, listener.Addr())
		if err != nil {
			stop()
			wg.Wait()
			return errors.Join(err, serve.CloseAll(fronts), g.close())
		}
	}
	err = g.serving().Serve(ctx, fronts)
	stop()
	wg.Wait()
	g.shipRest(ctx)
	g.keepUsed()
	return errors.Join(err, g.close())
}

func (g *remoteGateway) close() error {
	if f := g.face.Load(); f != nil {
		f.workloads.Close()
	}
	var err error
	if g.book != nil {
		err = g.book.Close()
	}
	if g.spool != nil {
		err = errors.Join(err, g.spool.Close())
	}
	if g.keys != nil {
		err = errors.Join(err, g.keys.Ring.Close()) // records are signed until the spool is closed
	}
	return err
}

func (g *remoteGateway) open(ctx context.Context) error {
	var err error
	domains := func() *spiffe.Domains { return g.face.Load().workloads.Domains }
	if g.tls, err = serve.NewTLS("--tls-certificate", g.options.TLS, domains); err != nil {
		return err
	}
	if g.keys, err = OpenKeys(g.options.State, g.options.Passphrase, "", g.now); err != nil {
		return err
	}
	if g.enrolled, err = g.keys.enrolled(); err != nil {
		return err
	}
	g.upstream, g.strangers = outbound.New(outbound.Configured()), outbound.New(outbound.Strangers())
	g.client = &link.Client{Server: g.enrolled.Server, Key: g.keys.Own, Transport: g.upstream.Transport(), Now: g.now}
	f, err := g.load(ctx)
	if err != nil {
		return err
	}
	g.client.Patience, g.queue = f.config.Limits.DependencyTime, proxy.QueueOf(f.config.Limits, g.now)
	if err := g.follow(); err != nil {
		return err
	}
	signer, _, err := g.keys.Ring.Evidence(g.enrolled.algorithm(), g.enrolled.Gateway)
	if err != nil {
		return err
	}
	if g.spool, err = spool.Open(spool.Config{
		Dir: filepath.Join(g.options.State, "spool"), Agent: g.enrolled.Agent, Recorder: g.enrolled.Gateway, Signer: signer, Random: rand.Reader, WentBack: g.wentBack, Patience: f.config.Limits.DependencyTime,
	}); err != nil {
		return adviseSpool(err, g.options.State)
	}
	g.writes = &serve.Dependency{Name: "spool", Down: "records cannot be written to the disk", Try: g.spool.Probe, Now: g.now}
	if err := g.checkOlder(ctx); err != nil {
		return err
	}
	g.replay, g.memo, g.started = gate.NewMemory(proxy.ReplayEntries), token.NewMemo(proxy.MemoBytes), g.now()
	if g.spool.Next() > 0 {
		g.started = g.started.Truncate(time.Second).Add(time.Second)
	}
	if g.before, err = proxy.TakeUsed(g.options.State, g.now(), g.log); err != nil {
		return err
	}
	if g.before != nil {
		g.started = g.before.Began
		g.replay.Restore(g.before.Proofs["proof"])
	}
	g.remote = &link.Remote{Client: g.client, Agent: g.enrolled.Agent, Log: g.log, Now: g.now}
	if g.book, err = link.OpenBook(filepath.Join(g.options.State, "held")); err != nil {
		return err
	}
	if g.holds, err = newRemoteHolds(g.remote, g.book, g.now, g.log); err != nil {
		return err
	}
	g.remote.SetStatus(link.Status{Mode: f.setup.Mode, ModeSet: f.setup.ModeSet, PolicyDigest: f.setup.PolicyDigest, ContextKeys: f.setup.ContextKeys, Digest: f.setup.Digest, Trust: f.setup.Trust})
	watched := g.telemetry.Watch(telemetry.State{RevocationSequence: g.follower.RevocationSequence, Records: g.spool.Next, Shed: g.queue.Shed})
	return errors.Join(watched, g.front(f))
}

// load asks the server for the gateway's setup.
func (g *remoteGateway) load(ctx context.Context) (*revision, error) {
	var err error
	f := &revision{}
	if f.setup, err = g.client.Setup(ctx, g.enrolled.Feed, g.enrolled.Gateway); err != nil {
		return nil, fmt.Errorf("the server did not send the gateway's setup: %w", err)
	}
	if f.config, err = config.Load("the server's setup", f.read, nil); err != nil {
		return nil, err
	}
	f.takeRules()
	return f, f.dev(g.options.Dev)
}

// takeRules puts the rules about data of other agents back into the skills.
func (f *revision) takeRules() {
	for agent, skills := range f.config.Skills {
		for n := range skills {
			for _, from := range f.setup.Data.From[skills[n].Skill] {
				skills[n].Accepts.From = append(skills[n].Accepts.From, config.From(from))
			}
		}
		f.config.Skills[agent] = skills
	}
	if f.setup.Data.Paths == nil {
		f.setup.Data.Paths = map[string][]string{}
	}
}

// data is how labels of results are kept at the server, nil where nothing is labelled.
func (g *remoteGateway) data(f *revision) *gateway.Data {
	c := f.config.Data
	return proxy.DataOf(c, link.Data{Remote: g.remote, Observe: c.Mode == "observe", Keep: c.Keep, Now: g.now})
}

// renew takes over another configuration of the server. Calls that are under way
// end under the one that they began with.
func (g *remoteGateway) renew(ctx context.Context, s link.Status) {
	if s.Digest == g.face.Load().setup.Digest {
		return
	}
	before := g.face.Load()
	f, err := g.load(ctx)
	if err == nil {
		err = g.front(f)
	}
	if err == nil {
		before.workloads.Close()
	} else if f != nil && f.workloads != nil {
		f.workloads.Close()
	}
	if err != nil {
		g.log.ErrorContext(ctx, "the server's configuration has changed and cannot be taken over; the one before it stays", slog.Any("error", err))
		return
	}
	g.log.InfoContext(ctx, "the server's configuration has changed and was taken over")
}

// read returns a file that the setup's configuration refers to.
func (f *revision) read(name string) ([]byte, error) {
	if name == "the server's setup" {
		return []byte(f.setup.Configuration), nil
	}
	if data, ok := f.setup.Files[name]; ok {
		return data, nil
	}
	return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
}

// follow makes the subscriber, which continues from where it was.
func (g *remoteGateway) follow() error {
	reached := ReachedFile(filepath.Join(g.options.State, "feed"))
	floor, err := reached.Read()
	if err != nil {
		return err
	}
	relays, err := Relayed(g.options.Feeds, g.options.FeedToken)
	if err != nil {
		return err
	}
	g.follower, err = feed.New(feed.Config{
		Relays: relays, Server: g.enrolled.Server, Issuer: g.enrolled.Server, Keys: []signed.Public{g.enrolled.Feed}, Transport: g.upstream.Transport(),
		Lease: g.options.Lease, Lazy: g.options.Lazy, Floor: floor, Authorize: g.client.Authorize, Now: g.now, Log: g.log,
		Moved: func(n int64) {
			select {
			case g.moved <- struct{}{}:
			default:
			}
			reached.Keep(n, g.log)
		},
	})
	return err
}

// reached is how far the feed was followed, for the server to know.
func (g *remoteGateway) reached() link.StatusQuery {
	return link.StatusQuery{
		Sequence: g.follower.RevocationSequence(), Lease: g.follower.Lease().Milliseconds(), Version: version.Read().Short(), Unsent: g.spool.Unsent(),
	}
}

// front puts the gateway together and in place.
func (g *remoteGateway) front(f *revision) error {
	sealer, err := catalogue.NewSealer(f.setup.Sealing)
	if err != nil {
		return err
	}
	pages, err := proxy.SealerFor(f.setup.Sealing, "powerbox tokens of pages")
	if err != nil {
		return err
	}
	auth, err := g.callers(f)
	if err != nil {
		return err
	}
	p := &proxy.Proxy{Config: f.config, Read: f.read, Now: g.now, Earned: f.setup.Data.Paths}
	scopes, err := proxy.ScopesOf(f.config)
	if err != nil {
		return err
	}
	agent, err := g.agent(p, f)
	if err != nil {
		return err
	}
	chains := gate.Chains{Memo: g.memo, Revocations: g.follower, Started: g.started, Drafts: proxy.DraftsOf(f.config)}
	c := gateway.Config{
		Agents: []gateway.Agent{agent},
		Gate: &gate.Gate{
			Chains:     link.OnRecord{Remote: g.remote, Resolver: chains},
			References: link.OnRecord{Remote: g.remote, Resolver: link.References{Remote: g.remote}},
			Scopes:     g.scopeTokens(f), Nonces: link.Nonces{Remote: g.remote},
			Recorder: link.Ledger{Remote: g.remote, Recorder: g.spool}, Revocations: g.follower, Policy: g.remote,
			Standing:   g.remote,
			Replay:     link.Replay{Remote: g.remote, Own: g.replay},
			Sessions:   link.Replay{Remote: g.remote, Sessions: true},
			RecorderID: g.enrolled.Gateway, NewID: proxy.RecordIDs(g.now), Now: g.now, Log: g.log,
		},
		Identity: link.Authenticator{Remote: g.remote, Inner: auth}, Tasks: g.remote, Issuing: link.Issuing{}, Asking: gateway.Asking{Holds: g.holds, Releases: g.holds, Asks: remoteAsks{Remote: g.remote}},
		Resources: link.Resources{Remote: g.remote, Sealed: sealer.Open, Names: f.setup.Names}, Cards: g.upstream,
		Network: proxy.Network(g.upstream, g.strangers),
		Answers: g.answers(f, scopes, chains),
		Limits:  proxy.LimitsOf(f.config, g.queue), Pages: pages, Now: g.now, Log: g.log,
	}
	if f.gateway, err = gateway.New(g.observed(c)); err != nil {
		return err
	}
	f.sources = p.Rereads.All()
	g.put(f)
	return nil
}

// scopeTokens resolves scope tokens by the records of the server.
func (g *remoteGateway) scopeTokens(f *revision) gate.Resolver {
	return link.OnRecord{Remote: g.remote, Resolver: gate.Scopes{
		Records: link.ScopeRecords{Remote: g.remote}, Revocations: g.follower, MaxLifetime: f.config.Issuer.MaximumLifetime,
	}}
}

// answers are the questions of the gateway to the server.
func (g *remoteGateway) answers(f *revision, s *proxy.Scopes, chains gate.Chains) gateway.Answers {
	return gateway.Answers{
		Delegating: link.Issuing{},
		CardSeen:   func(ctx context.Context, _ string, raw []byte) error { return g.remote.CardSeen(ctx, raw, g.follower) },
		Vouches:    chains.Vouches,
		Mode:       g.remote.Mode, ModeSet: g.remote.ModeSet, Origin: s.Origin, Scope: s.Scope, Plans: s.Plans,
		ByPolicy: g.remote.ByPolicy, Pseudonym: g.remote.Pseudonym, Redact: proxy.Redaction(f.config.Evidence.Arguments),
		Receipt: g.remote.Receipt, Data: g.data(f),
	}
}

// observed has the meter told of the outcomes of calls, where there is one.
func (g *remoteGateway) observed(c gateway.Config) gateway.Config {
	if g.telemetry != nil {
		c.Observer, c.Gate.Took = g.telemetry, g.telemetry.Took
	}
	return c
}

// put puts a configuration in place.
func (g *remoteGateway) put(f *revision) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.draining {
		f.gateway.Drain()
	}
	g.made = append(g.made, f.gateway)
	g.face.Store(f)
}

// serving is how the gateway serves, within the limits of the server's
// configuration as it was at the start.
func (g *remoteGateway) serving() serve.Server {
	c := g.face.Load().config
	return serve.Server{
		Limits: c.Limits, Notice: c.Defaults.DrainNotice, Drain: c.Defaults.Drain, Streams: g,
		Sources: g.sources, Log: g.log,
	}
}

// sources are the files that are read again.
func (g *remoteGateway) sources() []*serve.Source {
	all := slices.Clone(g.face.Load().sources)
	if g.tls != nil {
		all = append(all, g.tls.Source)
	}
	return all
}

// Drain has no new streams begin, under whichever configuration.
func (g *remoteGateway) Drain() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.draining = true
	for _, one := range g.made {
		one.Drain()
	}
}

// EndStreams ends every stream, also those that began under an earlier
// configuration.
func (g *remoteGateway) EndStreams() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, one := range g.made {
		one.EndStreams()
	}
}

// agent is the agent behind, as in the server's configuration.
func (g *remoteGateway) agent(p *proxy.Proxy, f *revision) (gateway.Agent, error) {
	c := f.config.Agents[0]
	if g.options.Upstream != "" {
		c.Upstream = g.options.Upstream
	}
	a := &issuer.Agent{ID: c.ID, URL: p.URLOf(&c), Signer: func() token.Signer { return g.keys.Context }}
	for _, o := range f.config.Offers[c.ID] {
		a.Grants = append(a.Grants, issuer.Grant{ID: o.ID, Description: o.Description, Operations: o.Operations, Attenuable: o.Attenuable, Legacy: o.Legacy, Requires: o.Requires})
	}
	out, err := p.GatewayAgent(c, a)
	if err != nil {
		return out, err
	}
	if g.child != nil {
		if out.MCP == nil {
			return out, fmt.Errorf("--mcp-exec is for agents with protocol: mcp, and %s is none", c.ID)
		}
		out.Transport, out.HTTP2, out.Public, out.PublicHTTP2 = g.child, g.child, g.child, g.child
	}
	out.Credential = g.secret
	if out.GRPC = g.options.Address; out.GRPC == "" {
		out.GRPC = g.options.GRPC
	}
	// The server alone signs the capabilities that it issues.
	keys, err := token.ParseKeySet(f.setup.Issuing)
	out.Keys, out.Published = func() token.KeySet { return keys }, func() []byte { return f.setup.Issuing }
	return out, err
}

// handler is the gateway, with the paths that the server answers in its stead.
func (g *remoteGateway) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/agents/", g.issuing(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.face.Load().gateway.ServeHTTP(w, r) })))
	mux.HandleFunc("GET /agents/"+g.enrolled.Agent+"/.well-known/jwks.json", func(w http.ResponseWriter, r *http.Request) {
		set, err := g.remote.KeySet(g.face.Load().setup.Issuing)
		if err != nil {
			g.log.ErrorContext(r.Context(), "the keys cannot be told", slog.Any("error", err))
			http.Error(w, "the keys cannot be told", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/jwk-set+json")
		w.Header().Set("Cache-Control", "public, max-age=60")
		_, _ = w.Write(set)
	})
	mux.HandleFunc("GET "+link.PathResource+"/agents/"+g.enrolled.Agent, func(w http.ResponseWriter, r *http.Request) {
		metadata := g.face.Load().setup.OAuth.Resource
		if len(metadata) == 0 {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(metadata)
	})
	recorders := "/agents/" + g.enrolled.Agent + "/.well-known/recorders.json"
	mux.Handle("GET "+recorders, http.RedirectHandler(g.enrolled.Server+recorders, http.StatusTemporaryRedirect))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		answer := g.ready(r.Context())
		answer.Write(w)
	})
	return mux
}

// issuing passes calls that issue, list or end capabilities to the server unchanged: the
// server authenticates the caller.
func (g *remoteGateway) issuing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		config := g.face.Load().config
		limit, bodyTime := int64(config.Defaults.BodyLimit), config.Limits.BodyTime
		if r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		if err := gateway.Timely(w, r, bodyTime); err != nil {
			http.Error(w, "this gateway cannot bound the time of a body", http.StatusInternalServerError)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit+1))
		if err != nil && int64(len(body)) <= limit {
			http.Error(w, "the body could not be read", http.StatusBadRequest)
			return
		}
		call, _ := a2a.Decode(body, a2a.Header{Version: r.Header.Get("A2A-Version")}, powerbox.Limits{Bytes: int(limit), Depth: 64})
		switch call.Method {
		case a2a.CapabilitiesRequest, a2a.CapabilitiesAttenuate, a2a.CapabilitiesRevoke, a2a.CapabilitiesList:
			g.pass(w, r, body)
		default:
			r.Body = io.NopCloser(bytes.NewReader(body))
			next.ServeHTTP(w, r)
		}
	})
}

// pass sends one call to the server and the answer back.
func (g *remoteGateway) pass(w http.ResponseWriter, r *http.Request, body []byte) {
	server, err := url.Parse(g.enrolled.Server + link.PathIssue)
	if err != nil {
		http.Error(w, "the server's URL is none", http.StatusInternalServerError)
		return
	}
	out := r.Clone(r.Context())
	out.URL, out.Host, out.RequestURI = server, server.Host, ""
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	for _, h := range []string{"Connection", "Upgrade", "Te", "Trailer", "Transfer-Encoding", "Accept-Encoding"} {
		out.Header.Del(h)
	}
	err = g.client.Sign(out, body)
	var response *http.Response
	if err == nil {
		response, err = g.upstream.Transport().RoundTrip(out)
	}
	if err != nil {
		g.log.ErrorContext(r.Context(), "the server does not answer", slog.Any("error", err))
		http.Error(w, "capabilities cannot be issued now", http.StatusBadGateway)
		return
	}
	defer func() { _ = response.Body.Close() }() // it was read
	for _, h := range []string{"Content-Type", "Cache-Control", gateway.HeaderDecision, gateway.HeaderOutcome, gateway.HeaderReason} {
		if v := response.Header.Get(h); v != "" {
			w.Header().Set(h, v)
		}
	}
	w.WriteHeader(response.StatusCode)
	_, _ = io.Copy(w, response.Body) // the client has gone: there is no caller to tell
}
