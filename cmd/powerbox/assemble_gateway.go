package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/a2a"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/gateway"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuer"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/server"
	"github.com/powerbox-project/powerbox/token"
)

// front makes the gateway and the handler of everything.
func (i *instance) front(a assembly, w *wiring) error {
	client := outbound.New(outbound.Policy{AllowLoopback: true, AllowPrivate: outbound.PrivateNetworks()})
	started, err := i.started(a)
	if err != nil {
		return err
	}
	believed, err := identity.Configured(i.config, identity.Surroundings{Read: os.ReadFile, Fetch: client, Dev: a.dev, Started: started})
	if err != nil {
		return err
	}
	auth, err := identity.New(believed)
	if err != nil {
		return err
	}
	g := &gate.Gate{
		Chains:      server.OnRecord{Resolver: gate.Chains{Memo: token.NewMemo(memoBytes), Revocations: i.issuer, Started: started}, Issuer: i.issuer},
		References:  server.OnRecord{Resolver: server.References{Issuer: i.issuer}, Issuer: i.issuer},
		Recorder:    server.Recorder{Store: i.store},
		Revocations: i.issuer,
		Policy:      server.Veto{Issuer: i.issuer},
		Replay:      gate.NewMemory(replayEntries),
		RecorderID:  recorderID,
		NewID:       func() (string, error) { return i.issuer.NewID("rec_") },
		Now:         a.now, Log: a.log,
	}
	c := gateway.Config{
		Gate: g, Identity: auth, Tasks: server.Tasks{Store: i.store, Issuer: i.issuer},
		Issuing:   server.Issuing{Issuer: i.issuer, Recipient: w.recipient},
		Resources: server.Resources{Issuer: i.issuer, Sealer: w.sealer},
		Cards:     client, Transport: client.Transport(),
		Mode: i.admin.Mode, Origin: func(holder string) string { return w.origins[holder] }, Scope: w.scopes,
		Pseudonym: i.issuer.Pseudonym, Redact: redaction(i.config.Evidence.Arguments),
		BodyLimit: int(i.config.Defaults.BodyLimit), Rate: i.config.Defaults.RequestRate, Now: a.now, Log: a.log,
	}
	for n, agent := range i.config.Agents {
		front, err := i.gatewayAgent(agent, w.agents[n])
		if err != nil {
			return err
		}
		c.Agents = append(c.Agents, front)
	}
	if i.gateway, err = gateway.New(c); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/agents/", i.gateway)
	mux.Handle("/v1/", i.admin.Handler())
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { i.ready(w, r, a.now().Before(started)) })
	i.handler = mux
	return nil
}

// started is from when on proofs are believed. Proofs have whole seconds: after
// a restart those of the running second may have been used before it, so they
// are refused too.
func (i *instance) started(a assembly) (time.Time, error) {
	empty, err := i.store.Empty(context.Background())
	if empty || err != nil {
		return a.now(), err
	}
	return a.now().Truncate(time.Second).Add(time.Second), nil
}

// ready says whether calls can be decided and recorded. Early is the time after
// a restart in which proofs are still refused.
func (i *instance) ready(w http.ResponseWriter, r *http.Request, early bool) {
	if early {
		http.Error(w, "proofs of this second may have been used before the restart", http.StatusServiceUnavailable)
		return
	}
	err := i.store.View(r.Context(), func(rd issuer.Reader) error {
		_, err := rd.Revocations(i.issuer.RevocationSequence())
		return err
	})
	if err != nil {
		http.Error(w, "the store does not answer", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

// recipient is the holder that a configured agent is: the first that the
// configuration names.
func (w *wiring) recipient(agent string) (identity.Holder, bool) {
	for _, c := range w.callers {
		if c.Agent == agent {
			return identity.Holder{ID: holderID(c)}, true
		}
	}
	return identity.Holder{}, false
}

func (i *instance) gatewayAgent(c config.Agent, agent *issuer.Agent) (gateway.Agent, error) {
	// With names, so that a token that names another key is told from a broken
	// one (SEP-11).
	keys, err := token.ParseKeySet(token.JWKS(agent.Signer.Public()).AppendJSON(nil))
	if err != nil {
		return gateway.Agent{}, err
	}
	out := gateway.Agent{
		ID: c.ID, URL: agent.URL, Upstream: c.Upstream, Keys: keys, Signer: agent.Signer,
		Skills: map[string]gateway.Skill{}, EnforcesContext: c.Enforces == "context", AdmitFreeText: c.AdmitFreeText == "unsafe",
		RefuseAmbient: c.RefuseUndeclared, Canary: c.Canary, DenyStatus: c.DenyStatus, InvokeNative: c.Invoke == "native",
		Methods: c.UnknownMethods, LegacyMember: c.CardLegacyMember,
	}
	for _, root := range c.TrustRoots {
		data, err := os.ReadFile(string(root.JWKSFile))
		if err != nil {
			return gateway.Agent{}, fmt.Errorf("agents, %s, trust_roots: %w", c.ID, err)
		}
		keys, err := token.ParseKeySet(data)
		if err != nil {
			return gateway.Agent{}, fmt.Errorf("agents, %s, trust_roots, %s: %w", c.ID, root.JWKSFile, err)
		}
		if out.Foreign == nil {
			out.Foreign = map[string]token.KeySet{}
		}
		out.Foreign[root.Issuer] = keys
	}
	for _, s := range i.config.Skills[c.ID] {
		op, err := powerbox.ParseOperation(issuer.Qualify(c.ID, s.Grant, s.Operation))
		if err != nil {
			return gateway.Agent{}, err
		}
		shape, err := declaredShape(s)
		if err != nil {
			return gateway.Agent{}, fmt.Errorf("skills.%s, skill %q: %w", c.ID, s.Skill, err)
		}
		out.Skills[s.Skill] = gateway.Skill{Operation: op, Handle: s.Handle, Write: s.Effect != "read", Shape: shape}
	}
	for _, g := range agent.Grants {
		out.Grants = append(out.Grants, a2a.CardGrant{
			ID: g.ID, Description: g.Description, Operations: g.Operations, Attenuable: g.Attenuable, Requires: g.Requires, Legacy: g.Legacy,
		})
	}
	for _, name := range c.Required {
		op, err := powerbox.ParseOperation(c.ID + "/" + name)
		if err != nil {
			return gateway.Agent{}, err
		}
		out.Required = append(out.Required, op)
	}
	return out, nil
}

// redaction returns what records keep of arguments: nothing, everything, or
// their names with the kind of each value.
func redaction(how string) func(powerbox.Value) []byte {
	switch how {
	case "none":
		return func(powerbox.Value) []byte { return nil }
	case "full":
		return func(v powerbox.Value) []byte { return v.AppendJSON(nil) }
	}
	return func(v powerbox.Value) []byte {
		members, _ := v.Members()
		kinds := make([]powerbox.Member, len(members))
		for n, m := range members {
			kinds[n] = powerbox.Member{Name: m.Name, Value: powerbox.String(m.Value.Kind().String())}
		}
		return powerbox.Object(kinds...).AppendJSON(nil)
	}
}
