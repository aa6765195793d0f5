package proxy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
)

// labelOf is a configured label of results.
func labelOf(agent string, y config.Yields) gate.Label {
	return gate.Label{Source: cmp.Or(y.Source, agent), Untrusted: y.Trust != "trusted", Confidential: y.Confidential}
}

// flowOf is the label of a skill's results, and what may flow into its calls.
func (p *Proxy) flowOf(agent string, s config.Skill) gate.Flow {
	if p.Config.Data.Mode == "off" {
		return gate.Flow{}
	}
	f := flow(agent, s.Yields, s.Accepts, s.Effect != "read", p.Config.Data)
	f.Paths = p.earned()[issuer.Qualify(agent, s.Grant, s.Operation)]
	return f
}

// CapabilityFlow is the same of a capability of Agent Auth.
func CapabilityFlow(c *config.Config, agent, capability string) gate.Flow {
	for _, a := range c.Agents {
		for _, one := range a.AgentAuth.Capabilities {
			if a.ID != agent || one.Name != capability {
				continue
			}
			f := flow(agent, one.Yields, one.Accepts, one.Sensitivity != "read", c.Data)
			f.Paths = EarnedOf(c, agent)[issuer.Qualify(agent, config.GrantOfAgentAuth, capability)]
			return f
		}
	}
	return gate.Flow{Yields: labelOf(agent, config.Yields{}), Sink: gate.Sink{Untrusted: gate.Refuse, Confidential: gate.Refuse}}
}

func flow(agent string, y config.Yields, a config.Accepts, writes bool, c config.Data) gate.Flow {
	untrusted := a.Untrusted
	if untrusted == "" && writes {
		untrusted = c.Writes
	}
	f := gate.Flow{
		Yields: labelOf(agent, y),
		Sink:   gate.Sink{Untrusted: effectOf(untrusted), Confidential: effectOf(a.Confidential), Deciding: a.Deciding, Otherwise: effectOf(a.Otherwise)},
	}
	for _, from := range a.From {
		f.Sink.From = append(f.Sink.From, gate.From{Argument: from.Argument, Operation: from.Operation, Path: from.Path})
	}
	return f
}

func effectOf(name string) gate.Effect {
	if name == "allow" {
		return gate.Pass
	}
	return gate.Effect(name)
}

// earned are the paths of results that some rule names, by operation.
func (p *Proxy) earned() map[string][]string {
	if p.Earned != nil {
		return p.Earned
	}
	return EarnedOf(p.Config, "")
}

// DataOf is how a process labels results, and keeps the labels in a book; nil where the
// configuration has none.
func DataOf(c config.Data, book gate.DataKeeper) *gateway.Data {
	if c.Mode == "off" {
		return nil
	}
	return &gateway.Data{
		Book: book, Observe: c.Mode == "observe", Delegates: func(caller string) bool { return slices.Contains(c.Delegates, caller) },
	}
}

// LabelsOf are the labels that results of an agent can have.
func LabelsOf(c *config.Config, agent string) []gate.Label {
	var out []gate.Label
	for _, a := range c.Agents {
		if a.ID == agent {
			out = append(out, labelOf(agent, a.Yields))
		}
	}
	for _, s := range c.Skills[agent] {
		out = append(out, labelOf(agent, s.Yields))
	}
	return out
}

// AskedOf are the paths of results that rules of an agent name, by operation of any agent.
func AskedOf(c *config.Config, agent string) map[string][]string {
	out := map[string][]string{}
	for _, s := range c.Skills[agent] {
		for _, from := range s.Accepts.From {
			out[from.Operation] = append(out[from.Operation], from.Path)
		}
	}
	return out
}

// EarnedOf are the paths of results that rules name, by operation of the agent; "" is every
// agent. Rules of other agents name them.
func EarnedOf(c *config.Config, agent string) map[string][]string {
	out := map[string][]string{}
	add := func(rules []config.From) {
		for _, from := range rules {
			of, _, _ := strings.Cut(from.Operation, "/")
			if (agent == "" || agent == of) && !slices.Contains(out[from.Operation], from.Path) {
				out[from.Operation] = append(out[from.Operation], from.Path)
			}
		}
	}
	for _, skills := range c.Skills {
		for _, s := range skills {
			add(s.Accepts.From)
		}
	}
	for _, a := range c.Agents {
		for _, one := range a.AgentAuth.Capabilities {
			add(one.Accepts.From)
		}
	}
	for _, paths := range out {
		slices.Sort(paths)
	}
	return out
}
