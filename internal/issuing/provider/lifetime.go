package provider

import (
	"slices"
	"time"
)

// Lifetime is other clocks for some agents (section 2.4, AAP-L6). A selector that is
// empty selects all; a clock of 0 is not spoken of.
type Lifetime struct {
	Modes        []string
	Hosts        []string // by id
	Capabilities []string // that the agent was given one of
	Clocks       Clocks
}

// clocks are those of an agent: each the shortest that a lifetime has for it, or the
// provider's. With a capability they are those of anyone who is given it, 0 where nothing
// is said about it.
func (p *Provider) clocks(mode, host, capability string) Clocks {
	var out Clocks
	for _, l := range p.config.Lifetimes {
		if len(l.Modes) > 0 && !slices.Contains(l.Modes, mode) || len(l.Hosts) > 0 && !slices.Contains(l.Hosts, host) ||
			(len(l.Capabilities) > 0) != (capability != "") || capability != "" && !slices.Contains(l.Capabilities, capability) {
			continue
		}
		out = shortest(out, l.Clocks)
	}
	if capability != "" {
		return out
	}
	for _, c := range []struct{ of, otherwise *time.Duration }{
		{&out.Session, &p.config.Clocks.Session},
		{&out.Maximum, &p.config.Clocks.Maximum},
		{&out.Absolute, &p.config.Clocks.Absolute},
	} {
		if *c.of == 0 {
			*c.of = *c.otherwise
		}
	}
	return out
}

// shortest has of each clock the shorter one that is set.
func shortest(a, b Clocks) Clocks {
	less := func(x, y time.Duration) time.Duration {
		if x == 0 || y != 0 && y < x {
			return y
		}
		return x
	}
	return Clocks{less(a.Session, b.Session), less(a.Maximum, b.Maximum), less(a.Absolute, b.Absolute)}
}

// tighten has an agent that is given a capability live no longer than anyone who has it
// may, and the grant end when grants of it do.
func (p *Provider) tighten(tx HostWriter, a *Agent, g *Grant, now time.Time) error {
	if c := p.capabilities[g.Capability]; c != nil && c.Lifetime > 0 {
		if end := now.Add(c.Lifetime); g.Expires.IsZero() || end.Before(g.Expires) {
			g.Expires = end
		}
	}
	clocks := shortest(a.Clocks, p.clocks(a.Mode, a.Host, g.Capability))
	if clocks == a.Clocks {
		return nil
	}
	a.Clocks, a.Updated = clocks, now
	return tx.PutHostAgent(*a)
}

// longest is the longest session that an agent can have.
func (p *Provider) longest() time.Duration {
	out := p.config.Clocks.Session
	for _, l := range p.config.Lifetimes {
		out = max(out, l.Clocks.Session)
	}
	return out
}
