package handoff

import "github.com/powerbox-project/powerbox/agentcard"

// SkillIDs returns the ids of the skills of an agent card, in the card's order.
func SkillIDs(raw []byte) ([]string, error) {
	card, err := agentcard.Parse(raw)
	if err != nil {
		return nil, err
	}
	ids := []string{}
	for _, s := range card.Skills() {
		ids = append(ids, s.ID)
	}
	return ids, nil
}
