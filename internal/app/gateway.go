package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/app/proxy"
	"github.com/powerbox-project/powerbox/internal/app/serve"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/registry"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
	"github.com/powerbox-project/powerbox/internal/remote/feed"
	"github.com/powerbox-project/powerbox/internal/remote/link"
	"github.com/powerbox-project/powerbox/internal/shed"
	"github.com/powerbox-project/powerbox/internal/store/postgres"
	"github.com/powerbox-project/powerbox/internal/web/api"
	"github.com/powerbox-project/powerbox/internal/wire/operators"
	"github.com/powerbox-project/powerbox/token"
)

// authenticate makes the authenticator of callers.
func (i *Instance) authenticate(a Assembly, client *outbound.Client, started time.Time) error {
	var err error
	if i.workloads, err = proxy.FollowDomains(i.Config, proxy.Following{Read: os.ReadFile, Now: a.Now, Log: a.Log}); err != nil {
		return err
	}
	believed, err := identity.Configured(i.Config, identity.Dependencies{
		Read: os.ReadFile, Fetch: client, FetchWith: proxy.FetchWith, Domains: i.workloads.Believed(), Dev: a.Dev, Started: started,
	})
	if err != nil {
		return err
	}
	if believed.Issued, err = i.issuesTokens(); err != nil {
		return err
	}
	believed.Replay = i.sharedReplays("session proof")
	own, err := i.ownTokens()
	if err != nil {
		return err
	}
	believed.Own = proxy.ServerTakes(own)
	if i.sessions, err = identity.New(believed); err != nil {
		return err
	}
	for _, s := range append(i.workloads.Sources, proxy.KeySources(i.Config, i.sessions)...) {
		i.Rereads.Add(s)
	}
	if i.before == nil {
		return nil
	}
	return i.sessions.Restore(i.before.Callers, a.Now())
}

// front makes the gateway, and then the handler of everything.
func (i *Instance) front(ctx context.Context, a Assembly, w *Wiring) error {
	dial := i.Config.Limits.DependencyTime
	client, strangers := outbound.New(proxy.Dialled(outbound.Configured(), dial)), outbound.New(proxy.Dialled(outbound.Strangers(), dial))
	started, err := i.started(ctx, a)
	if err != nil {
		return err
	}
	i.began = started
	if err := i.authenticate(a, client, started); err != nil {
		return err
	}
	chains := gate.Chains{Memo: token.NewMemo(proxy.MemoBytes), Revocations: i.Issuer, Started: started, Drafts: proxy.DraftsOf(i.Config)}
	g := &gate.Gate{
		Chains:     api.OnRecord{Resolver: chains, Issuer: i.Issuer},
		References: api.OnRecord{Resolver: api.References{Issuer: i.Issuer}, Issuer: i.Issuer},
		Scopes: api.OnRecord{Issuer: i.Issuer, Resolver: gate.Scopes{
			Records: api.ScopeRecords{Issuer: i.Issuer}, Revocations: i.Issuer, MaxLifetime: i.Config.Issuer.MaximumLifetime,
		}},
		Nonces:      api.Nonces{Store: i.Store},
		Recorder:    api.Recorder{Store: i.Store},
		Revocations: i.Issuer,
		Policy:      api.Veto{Issuer: i.Issuer},
		Replay:      api.ApartProofs{Own: i.replays("proof"), Gateways: func() *api.Gateways { return i.Admin.Gateways }},
		Sessions:    api.ApartProofs{Sessions: true, Gateways: func() *api.Gateways { return i.Admin.Gateways }},
		Standing:    i.scores,
		RecorderID:  RecorderID,
		NewID:       func() (string, error) { return i.Issuer.NewID("rec_") },
		Now:         a.Now, Log: a.Log,
		Behind: proxy.Behind(i.Config), Current: i.knowing(),
	}
	i.gate = g
	i.Admin.Unrecorded = func() map[string]int64 {
		_, untold := g.Unrecorded()
		return untold
	}
	i.agreed = &registry.Agreed{Store: i.Store, Stop: i.Issuer.StopCard, Go: i.Issuer.GoCard, Current: i.Issuer.KnowCard}
	issuing := api.Issuing{Issuer: i.Issuer, Recipient: w.recipient}
	c := gateway.Config{
		Gate: g, Identity: i.sessions, Tasks: api.Tasks{Store: i.Store, Issuer: i.Issuer},
		Issuing:   issuing,
		Resources: api.Resources{Issuer: i.Issuer, Sealer: w.sealer}, Asking: i.asking(), Cards: client,
		Network: proxy.Network(client, strangers),
		Answers: gateway.Answers{
			Delegating: issuing,
			CardSeen:   i.agreed.Seen, Vouches: chains.Vouches, Mode: i.mode, ModeSet: i.Admin.ModeSet, Origin: w.Force.Origin, Scope: w.Force.Scope, Plans: w.Force.Plans,
			ByPolicy: i.byPolicy, Given: api.References{Issuer: i.Issuer}.Given, Data: i.dataOf(a.Now), Pseudonym: i.Issuer.Pseudonym, Redact: proxy.Redaction(i.Config.Evidence.Arguments),
			Receipt: i.Admin.Receipt,
		},
		Limits: proxy.LimitsOf(i.Config, i.queue), Pages: w.pages, Now: a.Now, Log: a.Log,
	}
	if i.telemetry != nil {
		c.Observer, g.Took = i.telemetry, i.telemetry.Took
	}
	if c.Agents, err = i.gatewayAgents(w.Force.Now.Load().agents, func(string) bool { return false }); err != nil {
		return err
	}
	if i.gateway, err = gateway.New(c); err != nil {
		return err
	}
	return errors.Join(i.grpcFronts(), i.openDoors(a.Log), i.serveOn(ctx, a, w, started, g))
}

// byPolicy returns the authority that policy gives a caller without a capability.
func (i *Instance) byPolicy(_ context.Context, agent string, caller identity.Caller) (powerbox.Authority, error) {
	return i.Issuer.ByPolicy(agent, caller), nil
}

// grpcFronts notes where the gRPC of each agent is taken.
func (i *Instance) grpcFronts() error {
	for _, agent := range i.Config.Agents {
		if agent.GRPC.Listen == "" || agent.GatewayURL != "" {
			continue
		}
		handler, err := i.gateway.GRPC(agent.ID)
		if err != nil {
			return err
		}
		i.grpc = append(i.grpc, grpcFront{agent.ID, agent.GRPC.Listen, agent.GRPC.Address, i.caughtUp(handler)})
	}
	return nil
}

// serveOn makes the handler of everything.
func (i *Instance) serveOn(ctx context.Context, a Assembly, w *Wiring, started time.Time, g *gate.Gate) error {
	publisher, err := feed.NewPublisher(feed.PublisherConfig{
		Source: api.Events{Issuer: i.Issuer, Store: i.Store}, Key: i.feedKey, Issuer: i.Config.Issuer.URL,
		Heartbeat: i.Config.Issuer.Feed.Heartbeat, Streams: i.Config.Issuer.Feed.Streams, Done: ctx.Done(), Now: a.Now, Log: a.Log,
	})
	if err != nil {
		return fmt.Errorf("issuer.feed: %w", err)
	}
	apart, err := i.apart(ctx, a, started)
	if err != nil {
		return err
	}
	relays, err := i.relayTokens()
	if err != nil {
		return err
	}
	may := func(r *http.Request) (context.Context, bool) {
		if ctx, ok := i.Admin.MayFollow(r); ok {
			return ctx, true
		}
		if relays.Shown(r) {
			return r.Context(), true
		}
		return apart.MayFollow(r)
	}
	mux := http.NewServeMux()
	mux.Handle("/agents/", i.here(i.gateway))
	mux.HandleFunc("GET /agents/{agent}/.well-known/recorders.json", i.Admin.Recorders)
	mux.Handle("GET "+feed.PathEvents, api.Feed(publisher, may))
	mux.Handle("GET "+feed.PathSnapshot, api.Feed(publisher, may))
	mux.Handle("POST /v1/gateway/", apart.Handler())
	mux.Handle("POST "+link.PathShip, apart.Handler())
	mux.Handle("GET "+link.PathStatusLists+"{agent}", i.Admin.StatusLists())
	mux.Handle("POST "+link.PathStatusLists+"{agent}", i.standing(a, w, g))
	listed, err := i.list(ctx, a)
	if err != nil {
		return err
	}
	mux.Handle("/v1/registry/", i.inTime(api.Late(a.Log), listed))
	mux.HandleFunc("GET "+operators.PathLogin, i.Admin.LoginInfo)
	mux.Handle("/v1/", i.inTime(api.Late(a.Log), i.Admin.Handler()))
	decisions, err := i.decisions(a, w, g)
	if err != nil {
		return err
	}
	mux.Handle("POST /access/v1/", decisions.Handler())
	mux.Handle("GET /access/v1/", decisions.Handler())
	mux.Handle("GET "+api.PathAuthZEN, decisions.Handler())
	mux.HandleFunc("GET /checkpoint", i.public.Checkpoint)
	mux.HandleFunc("GET /tile/", i.public.Tile)
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { i.ready(w, r, a.Now().Before(started)) })
	if err := i.provide(ctx, a, w, mux, started, g); err != nil {
		return err
	}
	i.Handler = i.caughtUp(i.lost(mux))
	return i.follow(ctx, a, apart)
}

// started is from when on proofs are believed. Proofs have whole seconds: after
// a restart those of the running second may have been used before it, so they
// are refused too. Those of nodes that share a store are remembered in it, whichever of
// them begins, unless it was copied from one that does not remember them.
func (i *Instance) started(ctx context.Context, a Assembly) (time.Time, error) {
	switch {
	case i.shared != nil:
		copied, err := i.shared.Copied(ctx)
		if err != nil || copied.IsZero() {
			return time.Unix(0, 0), err
		}
		return copied.Add(time.Second), nil
	case i.unused:
		return a.Now(), nil
	}
	var err error
	if i.before, err = proxy.TakeUsed(string(i.Config.Issuer.Directory), a.Now(), a.Log); err != nil {
		return time.Time{}, err
	}
	if i.before != nil {
		return i.before.Began, nil
	}
	return a.Now().Truncate(time.Second).Add(time.Second), nil
}

// ready says whether calls can be decided and recorded. Early is the time after
// a restart in which proofs are still refused.
func (i *Instance) ready(w http.ResponseWriter, r *http.Request, early bool) {
	var answer serve.Readiness
	defer func() { answer.Write(w) }()
	if i.gateway.Draining() {
		answer.Unready("server", "it is being stopped")
		return
	}
	if early {
		answer.Unready("proofs", "proofs of this second may have been used before the restart")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), serve.TryTime)
	defer cancel()
	written := i.writes.Look(ctx)
	// If the operator lets calls continue without a record, they can be sent here.
	if _, untold := i.gate.Unrecorded(); len(untold) > 0 {
		answer.Status = "degraded"
		answer.Reasons = append(answer.Reasons, serve.DegradedBy{Dependency: "evidence", Reason: "calls continue without a record at " + strings.Join(slices.Sorted(maps.Keys(untold)), ", ")})
		return
	}
	if answer.By(written); written != nil {
		return
	}
	err := i.Store.View(ctx, func(rd issuer.Reader) error {
		_, err := rd.Revocations(i.Issuer.RevocationSequence())
		return err
	})
	if err == nil && i.shared != nil {
		err = errors.Join(i.follower.CatchUp(ctx), i.shared.Durable(ctx))
	}
	switch {
	case errors.Is(err, postgres.ErrNotDurable):
		answer.Unready("store", "the database does not replicate as store.durability: strict wants it")
	case err != nil:
		answer.Unready("store", "the store does not answer")
	}
}

// recipient is the holder that a configured agent is: the first that the
// configuration names.
func (w *Wiring) recipient(agent string) (identity.Holder, bool) {
	for _, c := range w.Force.Now.Load().config.Identity.Callers {
		if holder, err := c.Holder(); err == nil && c.Agent == agent && !c.Open() {
			return identity.Holder{ID: holder}, true
		}
	}
	return identity.Holder{}, false
}

// inTime has an entrance of operators, people or agents of Agent Auth answer in time when
// the store hangs: with late, which says so. Calls through the gateway have a deadline of
// their own.
func (i *Instance) inTime(late http.HandlerFunc, next http.Handler) http.Handler {
	return shed.Deadline(proxy.IssuePatience(i.Config.Limits.DependencyTime), late, next)
}
