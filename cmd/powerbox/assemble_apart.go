package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/remote/link"
	"github.com/powerbox-project/powerbox/internal/web/api"
)

// apart makes the server's side of gateways apart from it.
func (i *instance) apart(ctx context.Context, a assembly, began time.Time) (*api.Gateways, error) {
	g := &api.Gateways{
		Issuer: i.issuer, Tasks: api.Tasks{Store: i.store, Issuer: i.issuer}, Links: api.Nonces{Store: i.store}, Agents: i.gateway, Key: i.feedKey, URL: i.config.Issuer.URL,
		Setup:  func(agent string) (link.Setup, error) { return i.setup(a, agent) },
		Levels: i.scores.Levels, CardSeen: i.agreed.Seen,
		InForce: func() string { return i.force.now.Load().digest },
		Issues:  func(agent string) string { return string(i.publishedKeys(agent)) },
		Receipt: i.admin.ReceiptAt,
		Mode:    i.admin.Mode, ModeSet: i.admin.ModeSet, Used: i.replays("proof at a gateway"), Keeper: i.keeper(), Began: began.Truncate(time.Second), ProofWindow: i.config.Defaults.ProofWindow, Now: a.now, Log: a.log,
	}
	if h, ok := i.holds().(holds); ok {
		g.Held = h.heldApart
	}
	i.admin.Gateways = g
	return g, g.Load(ctx)
}

// here lets calls through to the agents whose gateway is this server's own.
func (i *instance) here(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/agents/"), "/")
		if c, ok := configuredAgent(i.current(), id); ok && c.GatewayURL != "" {
			http.Error(w, "the gateway of this agent is at "+i.agentURL(id), http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// setup is what a gateway of one agent is made of: what the configuration says
// of that agent, and the files that it refers to.
func (i *instance) setup(a assembly, id string) (link.Setup, error) {
	out := link.Setup{Files: map[string][]byte{}, Names: map[string]string{}}
	f := i.force.now.Load()
	now, c := f.config, *f.config
	c.Agents, c.Policies, c.Resources, c.Include = nil, nil, nil, nil
	c.Issuer.TLS = config.TLS{}
	c.Store = config.Store{Durability: c.Store.Durability, Connections: c.Store.Connections} // where it is is nobody's business
	// Each node may have its own, and the same gateways ask all of them.
	c.Listen, c.Issuer.Directory, c.Telemetry.Listen = gatewayListen, "", ""
	c.Identity.Guards, c.Issuer.Feed.Relays = nil, nil // ask the server, and may be of other agents
	c.Offers = map[string][]config.Offer{id: now.Offers[id]}
	c.Skills = map[string][]config.Skill{id: now.Skills[id]}
	c.Plans = config.PlansTo(id, now.Plans)
	c.Scopes = map[string]map[string][]string{}
	for caller, agents := range now.Scopes {
		// A caller without a scope here still is one: nothing is allowed to it.
		c.Scopes[caller] = map[string][]string{}
		if operations, ok := agents[id]; ok {
			c.Scopes[caller][id] = operations
		}
	}
	for _, u := range c.Identity.Dev {
		out.Dev = append(out.Dev, link.DevUser{Name: u.Name, Token: u.Token.Reveal(), Groups: u.Groups, Roles: u.Roles, Attributes: link.AttributesOf(u.Attributes)})
	}
	c.Identity.Dev = nil
	if !a.dev {
		out.Dev = nil
	}
	if err := i.setupAgent(f, id, &c, &out); err != nil {
		return out, err
	}
	var err error
	if out.OwnTokens, err = i.ownTokens(); err != nil {
		return out, err
	}
	text, err := c.Effective()
	out.Configuration = string(text)
	return out, err
}

func (i *instance) setupAgent(f *inForce, id string, c *config.Config, out *link.Setup) error {
	var err error
	if out.Sealing, err = i.ring.Secret("handles"); err != nil {
		return err
	}
	var files []config.Path
	for n, agent := range f.config.Agents {
		if agent.ID != id {
			continue
		}
		c.Agents = []config.Agent{agent}
		c.Agents[0].GRPC = config.AgentGRPC{} // has an address of its own at every gateway
		if agent.CardKeys != "" {
			files = append(files, agent.CardKeys)
		}
		if agent.CardPin != "" {
			files = append(files, agent.CardPin)
		}
		out.Issuing = i.publishedKeys(id)
		for _, item := range f.agents[n].Resources {
			out.Names[item.ID] = item.Name
		}
		for _, root := range agent.TrustRoots {
			files = append(files, root.JWKSFile)
		}
	}
	if len(c.Agents) == 0 {
		return fmt.Errorf("no agent %q is protected here", id)
	}
	for _, p := range c.Identity.Providers {
		if p.JWKSFile != "" {
			files = append(files, p.JWKSFile)
		}
	}
	for _, name := range files {
		if out.Files[string(name)], err = os.ReadFile(string(name)); err != nil {
			return err
		}
	}
	return nil
}

// publishedKeys is the key set that an agent issues under now, nil for one that there is not.
func (i *instance) publishedKeys(agent string) []byte {
	if keys := i.keys(agent); keys != nil {
		return keys.Published()
	}
	return nil
}
