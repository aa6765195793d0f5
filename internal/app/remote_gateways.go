package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/internal/app/proxy"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/remote/link"
	"github.com/powerbox-project/powerbox/internal/web/api"
	oauthweb "github.com/powerbox-project/powerbox/internal/web/oauth"
)

// apart makes the server's side of remote gateways.
func (i *Instance) apart(ctx context.Context, a Assembly, began time.Time) (*api.Gateways, error) {
	tokens, err := i.issuesTokens()
	if err != nil {
		return nil, err
	}
	g := &api.Gateways{
		Issuer: i.Issuer, Tasks: api.Tasks{Store: i.Store, Issuer: i.Issuer}, Links: api.Nonces{Store: i.Store}, Agents: i.gateway, Key: i.feedKey, URL: i.Config.Issuer.URL,
		Setup:  func(agent string) (link.Setup, error) { return i.setup(a, agent, tokens) },
		Levels: i.scores.Levels, CardSeen: i.agreed.Seen,
		InForce:     func() string { digest, _ := i.Force.Now.Load().digest(); return digest }, // nothing in memory fails to be written out
		Issues:      func(agent string) string { return string(i.publishedKeys(agent)) },
		RemoteCalls: api.RemoteCalls{Receipt: i.Admin.ReceiptAt, Data: i.remoteData(a.Now)},
		Mode:        i.mode, ModeSet: i.Admin.ModeSet, Used: i.replays("proof at a gateway"), Keeper: i.keeper(), Began: began.Truncate(time.Second), ProofWindow: i.Config.Defaults.ProofWindow, Now: a.Now, Log: a.Log,
	}
	if h, ok := i.holds(); ok {
		g.Held = h.heldRemote
	}
	i.Admin.Gateways = g
	return g, g.Load(ctx)
}

// here lets calls through to the agents whose gateway is this server's own.
func (i *Instance) here(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/agents/"), "/")
		if c := i.configured(id); c != nil && c.GatewayURL != "" {
			http.Error(w, "the gateway of this agent is at "+i.AgentURL(id), http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// setup returns the setup of a gateway of one agent: the configuration of that agent,
// and the files that it refers to.
func (i *Instance) setup(a Assembly, id string, tokens *identity.Provider) (link.Setup, error) {
	out := link.Setup{Files: map[string][]byte{}, Names: map[string]string{}}
	f := i.Force.Now.Load()
	now, c := f.config, *f.config
	c.Agents, c.Policies, c.Resources, c.Include = nil, nil, nil, nil
	c.Issuer.TLS = config.TLS{}
	c.Store = config.Store{Durability: c.Store.Durability, Connections: c.Store.Connections} // a gateway never learns where the store is
	// Each node may have its own, and the same gateways ask all of them.
	c.Listen, c.Issuer.Directory, c.Telemetry = proxy.GatewayListen, "", config.Telemetry{}
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
	if !a.Dev {
		out.Dev = nil
	}
	if err := i.setupAgent(f, id, &c, &out); err != nil {
		return out, err
	}
	setupData(id, now, &c, &out)
	err := i.setupOAuth(id, tokens, &c, &out)
	if err != nil {
		return out, err
	}
	if out.OwnTokens, err = i.ownTokens(); err != nil {
		return out, err
	}
	text, err := c.Effective()
	out.Configuration = string(text)
	return out, err
}

// setupOAuth has the gateway of an agent that OAuth clients reach believe their tokens. It
// gets the public key alone, and no client: clients speak to the server.
func (i *Instance) setupOAuth(id string, tokens *identity.Provider, c *config.Config, out *link.Setup) (err error) {
	c.OAuth = config.OAuth{AccessToken: c.OAuth.AccessToken, Code: c.OAuth.Code}
	for _, r := range i.oauthResources() {
		if r.Agent == id && tokens != nil {
			c.OAuth.Agents, out.OAuth.Keys = []string{id}, tokens.JWKS
			out.OAuth.Resource, err = json.Marshal(oauthweb.Metadata(tokens.Issuer, r))
		}
	}
	return err
}

func (i *Instance) setupAgent(f *InForce, id string, c *config.Config, out *link.Setup) error {
	var err error
	if out.Sealing, err = i.Ring.Secret("handles"); err != nil {
		return err
	}
	var files []config.Path
	for n, agent := range f.config.Agents {
		if agent.ID != id {
			continue
		}
		c.Agents = []config.Agent{agent}
		c.Agents[0].Credential = config.AgentCredential{} // a remote gateway names its own
		c.Agents[0].GRPC = config.AgentGRPC{}             // has an address of its own at every gateway
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
	var keys []config.Path
	for _, p := range c.Identity.Providers {
		keys = append(keys, p.JWKSFile)
	}
	for _, d := range c.Identity.TrustDomains {
		keys = append(keys, d.BundleFile)
	}
	for _, name := range keys {
		// Keys that are missing here are missing there: nothing is believed by them.
		if data, err := os.ReadFile(string(name)); name != "" && err == nil {
			out.Files[string(name)] = data
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
func (i *Instance) publishedKeys(agent string) []byte {
	if keys := i.keys(agent); keys != nil {
		return keys.Published()
	}
	return nil
}
