package app

import (
	"slices"
	"time"

	"github.com/powerbox-project/powerbox/internal/config"
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
