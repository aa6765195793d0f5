package console

import (
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
)

// deeds are the names of actions on pages.
var deeds = map[string]string{
	"agent.register": "registered and asked to be let in", "agent.register-again": "asked again to be let in", "agent.request-capability": "asked for more",
	"agent.reactivate": "asked to go on", "agent.revoke": "revoked an agent", "agent.claim": "an agent's history became yours", "agent.rotate-key": "changed an agent's key",
	"agent.ask-claim": "asked who takes over", "host.invite": "made room for a host", "host.enroll": "a host brought its key",
	"host.register": "registered a host", "host.revoke": "revoked a host", "host.link": "linked a host", "host.unlink": "unlinked a host", "host.vouch": "let a host's agents have at once what changes something", "host.rotate-key": "changed a host's key",
	"agent.erase": "had an agent forgotten", "grant.add": "gave an agent more", "grant.revoke": "took a grant back", "approval.answer": "answered a request", "passkey.add": "added a passkey", "passkey.remove": "removed a passkey",
	"person.freeze": "froze a person", "person.thaw": "let a person back in", "person.remove": "removed a person",
}

// did describes an action: an execution by the description of its capability.
func (k *Console) did(a provider.Action) string {
	if !a.Executed {
		if deed, ok := deeds[a.What]; ok {
			return deed
		}
		return a.What
	}
	says := a.What
	if c := k.config.Approvals.Capability(a.What); c != nil {
		says = c.Description
	}
	if !a.Allowed {
		return "tried: " + says
	}
	return "did: " + says
}
