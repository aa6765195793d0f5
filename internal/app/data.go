package app

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
	"github.com/powerbox-project/powerbox/internal/web/api"
)

// dataOf is how labels of results are kept (ADR 149), nil where nothing is labelled.
func (i *Instance) dataOf(now func() time.Time) *gateway.Data {
	if i.Config.Data.Mode == "off" {
		return nil
	}
	return &gateway.Data{
		Observe:   i.Config.Data.Mode == "observe",
		Delegates: func(caller string) bool { return slices.Contains(i.Config.Data.Delegates, caller) },
		Book:      api.Data{Store: i.Store, Pseudonym: i.Issuer.Pseudonym, Keep: i.Config.Data.Keep, Now: now},
	}
}

// labelOf is a configured label of results.
func labelOf(agent string, y config.Yields) gate.Label {
	return gate.Label{Source: cmp.Or(y.Source, agent), Untrusted: y.Trust != "trusted", Confidential: y.Confidential}
}

// flowOf is the label of a skill's results, and what may flow into its calls.
func (i *Instance) flowOf(agent string, s config.Skill) gateway.Flow {
	if i.Config.Data.Mode == "off" {
		return gateway.Flow{}
	}
	a := s.Accepts
	untrusted := a.Untrusted
	if untrusted == "" && s.Effect != "read" {
		untrusted = i.Config.Data.Writes
	}
	f := gateway.Flow{
		Yields: labelOf(agent, s.Yields),
		Sink:   gate.Sink{Untrusted: effectOf(untrusted), Confidential: effectOf(a.Confidential), Deciding: a.Deciding, Otherwise: effectOf(a.Otherwise)},
		Paths:  i.earnedAt(issuer.Qualify(agent, s.Grant, s.Operation)),
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
func (i *Instance) earnedAt(operation string) []string { return earnedOf(i.Config, "")[operation] }

// earnedOf are the paths of results that rules name, by operation of the agent; "" is every
// agent. Rules of other agents name them.
func earnedOf(c *config.Config, agent string) map[string][]string {
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
