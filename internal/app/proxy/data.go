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
func (p *Proxy) flowOf(agent string, s config.Skill) gateway.Flow {
	if p.Config.Data.Mode == "off" {
		return gateway.Flow{}
	}
	a := s.Accepts
	untrusted := a.Untrusted
	if untrusted == "" && s.Effect != "read" {
		untrusted = p.Config.Data.Writes
	}
	f := gateway.Flow{
		Yields: labelOf(agent, s.Yields),
		Sink:   gate.Sink{Untrusted: effectOf(untrusted), Confidential: effectOf(a.Confidential), Deciding: a.Deciding, Otherwise: effectOf(a.Otherwise)},
		Paths:  p.earnedAt(issuer.Qualify(agent, s.Grant, s.Operation)),
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

// earnedAt are the paths of an operation's results that some rule names.
func (p *Proxy) earnedAt(operation string) []string { return EarnedOf(p.Config, "")[operation] }

// EarnedOf are the paths of results that rules name, by operation of the agent; "" is every
// agent. Rules of other agents name them.
func EarnedOf(c *config.Config, agent string) map[string][]string {
	out := map[string][]string{}
	for _, skills := range c.Skills {
		for _, s := range skills {
			for _, from := range s.Accepts.From {
				of, _, _ := strings.Cut(from.Operation, "/")
				if (agent == "" || agent == of) && !slices.Contains(out[from.Operation], from.Path) {
					out[from.Operation] = append(out[from.Operation], from.Path)
				}
			}
		}
	}
	for _, paths := range out {
		slices.Sort(paths)
	}
	return out
}
