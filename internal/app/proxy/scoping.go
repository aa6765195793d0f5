package proxy

import (
	"fmt"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/agentcard"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/token"
)

// standing is an authority of exact operations with any arguments, together with A2A's
// own operations on the tasks that they start.
func standing(names []string) (powerbox.Authority, error) {
	var clauses []powerbox.Clause
	if len(names) > 0 {
		names = append(names, issuer.OperationMessage, issuer.OperationTaskRead, issuer.OperationTaskCancel, issuer.OperationPush, issuer.OperationCard)
	}
	for _, name := range names {
		op, err := powerbox.ParseOperation(name)
		if err != nil {
			return powerbox.Authority{}, err
		}
		clauses = append(clauses, powerbox.Clause{Pattern: powerbox.ExactPattern(op), Shape: powerbox.AnyArguments()})
	}
	return powerbox.NewAuthority(powerbox.Window{Until: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}, token.MaxDepth, clauses...)
}

// Scopes are what a configuration lets each caller do, whatever a capability allows.
type Scopes struct {
	names   *identity.Names
	scopes  map[string]powerbox.Authority // by caller, NUL and agent
	nothing powerbox.Authority            // of a caller without a scope
	plans   []agentcard.Plan
	// configured is false where callers have no scopes at all, and capabilities alone decide.
	configured bool
}

// ScopesOf returns the scopes of a configuration.
func ScopesOf(c *config.Config) (*Scopes, error) {
	names, err := identity.ParseNames(c.Identity.Callers)
	if err != nil {
		return nil, fmt.Errorf("identity.callers: %w", err)
	}
	s := &Scopes{plans: config.Declared(c.Plans), names: names, scopes: map[string]powerbox.Authority{}}
	return s, s.set(c.Scopes)
}

// Origin returns the configured name of a holder.
func (s *Scopes) Origin(holder string) string { return s.names.Of(holder) }

// Plans returns the declared plans.
func (s *Scopes) Plans() []agentcard.Plan { return s.plans }

// set makes Scope(A) for every configured caller.
func (s *Scopes) set(configured map[string]map[string][]string) (err error) {
	s.configured = len(configured) > 0
	if s.nothing, err = standing(nil); err != nil {
		return err
	}
	for origin, agents := range configured {
		for agent, operations := range agents {
			names := slices.Clone(operations)
			for n := range names {
				names[n] = agent + "/" + names[n]
			}
			a, err := standing(names)
			if err != nil {
				return fmt.Errorf("scopes.%s.%s: %w", origin, agent, err)
			}
			s.scopes[origin+"\x00"+agent] = a
		}
	}
	return nil
}

// Scope returns Scope(A), nil where no scopes are configured.
func (s *Scopes) Scope() func(origin, agent string) powerbox.Authority {
	if !s.configured {
		return nil
	}
	return s.At
}

// At returns Scope(A) of a caller at an agent.
func (s *Scopes) At(origin, agent string) powerbox.Authority {
	if a, ok := s.scopes[origin+"\x00"+agent]; ok {
		return a
	}
	return s.nothing
}
