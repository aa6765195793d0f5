package app

import (
	"slices"
	"time"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/app/proxy"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
	"github.com/powerbox-project/powerbox/internal/remote/link"
	"github.com/powerbox-project/powerbox/internal/web/api"
)

// dataBook keeps what callers have read (ADR 149).
func (i *Instance) dataBook(now func() time.Time) api.Data {
	return api.Data{Store: i.Store, Pseudonym: i.Issuer.Pseudonym, Keep: i.Config.Data.Keep, Now: now}
}

// dataOf is how labels of results are kept, nil where nothing is labelled.
func (i *Instance) dataOf(now func() time.Time) *gateway.Data {
	return proxy.DataOf(i.Config.Data, i.dataBook(now))
}

// remoteData keeps what callers of remote gateways have read, nil where nothing is labelled.
func (i *Instance) remoteData(now func() time.Time) *api.RemoteData {
	if i.Config.Data.Mode == "off" {
		return nil
	}
	return &api.RemoteData{Book: i.dataBook(now), Labelled: func(agent string) api.Labelled {
		c := i.Force.Now.Load().config
		return api.Labelled{Labels: proxy.LabelsOf(c, agent), Earned: proxy.EarnedOf(c, agent), Asked: proxy.AskedOf(c, agent)}
	}}
}

// guardData keeps what callers read in programs that ask for decisions, nil where nothing is
// labelled.
func (i *Instance) guardData(w *Wiring, now func() time.Time) *api.GuardData {
	d := i.dataOf(now)
	if d == nil {
		return nil
	}
	return &api.GuardData{Book: i.dataBook(now), Observe: d.Observe, Delegates: d.Delegates, Holders: w.Force.Holders}
}

// providerData labels results of the capabilities of a provider, nil where nothing is labelled.
func (i *Instance) providerData(agent string, now func() time.Time) *provider.Data {
	if i.Config.Data.Mode == "off" {
		return nil
	}
	return &provider.Data{Book: i.dataBook(now), Observe: i.Config.Data.Mode == "observe", Flow: func(capability string) gate.Flow {
		return proxy.CapabilityFlow(i.current(), agent, capability)
	}}
}

// setupData moves the rules that name operations of other agents from the configuration of
// one agent to what its gateway is sent beside it.
func setupData(agent string, now, c *config.Config, out *link.Setup) {
	if now.Data.Mode == "off" {
		return
	}
	out.Data.Paths = proxy.EarnedOf(now, agent)
	skills := slices.Clone(c.Skills[agent])
	for n, s := range skills {
		for _, from := range s.Accepts.From {
			if out.Data.From == nil {
				out.Data.From = map[string][]link.DataFrom{}
			}
			out.Data.From[s.Skill] = append(out.Data.From[s.Skill], link.DataFrom(from))
		}
		skills[n].Accepts.From = nil
	}
	c.Skills = map[string][]config.Skill{agent: skills}
	// Executions are decided at the server.
	provided := slices.Clone(c.Agents[0].AgentAuth.Capabilities)
	for n := range provided {
		provided[n].Accepts.From = nil
	}
	c.Agents[0].AgentAuth.Capabilities = provided
}

// asksPeople reports whether a person is asked about calls of some skill.
func asksPeople(c *config.Config) bool {
	for _, skills := range c.Skills {
		for _, s := range skills {
			byData := s.Accepts.Untrusted == "ask" || s.Accepts.Untrusted == "" && c.Data.Writes == "ask" && s.Effect != "read" ||
				s.Accepts.Confidential == "ask" || len(s.Accepts.From) > 0 && s.Accepts.Otherwise == "ask"
			if s.Approval || c.Data.Mode == "enforce" && byData {
				return true
			}
		}
	}
	return false
}
