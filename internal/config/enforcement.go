package config

import (
	"fmt"
	"strings"

	"github.com/powerbox-project/powerbox/agentcard"
)

// Enforcement is how far a gateway can enforce anything in front of an
// unchanged agent: L0 caller, agent and method; L1 skill; L2 arguments; L3 handles.
type Enforcement struct {
	Agent    string          `json:"agent"`
	Level    string          `json:"level"` // the lowest of its skills
	Skills   []enforcedSkill `json:"skills"`
	FreeText string          `json:"free_text"`
}

type enforcedSkill struct {
	Skill string `json:"skill"`
	Level string `json:"level"`
	Why   string `json:"why"`
}

// Enforced says it for an agent of a configuration and the skills on its card.
func Enforced(c *Config, id string, card agentcard.Card) (*Enforcement, error) {
	var agent *Agent
	for i := range c.Agents {
		if c.Agents[i].ID == id {
			agent = &c.Agents[i]
			break
		}
	}
	if agent == nil {
		return nil, fmt.Errorf("the configuration has no agent %q", id)
	}
	mapped := map[string]Skill{}
	for _, s := range c.Skills[id] {
		mapped[s.Skill] = s
	}
	resources := c.Resources[id].File != "" || len(c.Resources[id].Items)+len(c.Resources[id].Live) > 0
	e := &Enforcement{Agent: id, Skills: []enforcedSkill{}, FreeText: freeText(*agent)}
	for _, s := range card.Skills() {
		level := enforcedSkill{s.ID, "L0", "maps to no operation, so it cannot be granted on its own"}
		if m, ok := mapped[s.ID]; ok {
			level.Level, level.Why = levelOf(m, resources)
		}
		e.Skills = append(e.Skills, level)
		if e.Level == "" || level.Level < e.Level {
			e.Level = level.Level
		}
	}
	if e.Level == "" {
		e.Level = "L0"
	}
	return e, nil
}

func levelOf(s Skill, resources bool) (level, why string) {
	operation := s.Grant + "/" + s.Operation
	switch {
	case s.Handle != "" && resources:
		return "L3", operation + ", on resources named by handles in argument " + s.Handle
	case s.Arguments != nil:
		return "L2", operation + ", with the arguments that are declared, where a call names the skill with them"
	default:
		return "L1", operation + "; declare its arguments in skills to hold calls to them"
	}
}

// freeText says what becomes of messages that name no skill.
func freeText(a Agent) string {
	switch {
	case len(a.Required) == 0:
		return "refused, since no operations are required for it"
	case a.Enforces == "context":
		return "admitted with " + strings.Join(a.Required, ", ") + "; the agent enforces the context itself"
	case a.AdmitFreeText == "unsafe":
		return "admitted with " + strings.Join(a.Required, ", ") + ", though the agent enforces nothing (unsafe)"
	}
	return "admitted with " + strings.Join(a.Required, ", ") + ", and refused under a capability with constrained operations"
}
