package agentauth

import "strings"

// InvitationPrefix begins a token for a host, so that people and scanners recognise it.
const InvitationPrefix = "enr_"

// IsInvitation reports whether a text is a token for a host, or was one.
func IsInvitation(text string) bool { return strings.HasPrefix(text, InvitationPrefix) }
