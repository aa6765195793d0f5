package provider

import "github.com/powerbox-project/powerbox/internal/wire/agentauth"

// The longest texts of an agent's own, in characters (AAP-A8).
const (
	maxNameText    = 80
	maxReasonText  = 500
	maxMessageText = 200
)

func plain(s string, longest int) string { return agentauth.Plain(s, longest) }
