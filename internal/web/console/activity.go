package console

import (
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/web/lang"
)

// deeds are the names of actions on pages.
var deeds = map[string]string{
	"agent.register": lang.Mark("registered and asked to be let in"), "agent.register-again": lang.Mark("asked again to be let in"), "agent.request-capability": lang.Mark("asked for more"),
	"agent.reactivate": lang.Mark("asked to go on"), "agent.revoke": lang.Mark("revoked an agent"), "agent.claim": lang.Mark("an agent's history became yours"), "agent.rotate-key": lang.Mark("changed an agent's key"),
	"agent.ask-claim": lang.Mark("asked who takes over"), "host.invite": lang.Mark("made room for a host"), "host.enroll": lang.Mark("a host brought its key"),
	"host.register": lang.Mark("registered a host"), "host.revoke": lang.Mark("revoked a host"), "host.link": lang.Mark("linked a host"), "host.unlink": lang.Mark("unlinked a host"), "host.vouch": lang.Mark("let a host's agents have at once what changes something"), "host.rotate-key": lang.Mark("changed a host's key"),
	"agent.erase": lang.Mark("had an agent forgotten"), "grant.add": lang.Mark("gave an agent more"), "grant.revoke": lang.Mark("took a grant back"), "approval.answer": lang.Mark("answered a request"), "passkey.add": lang.Mark("added a passkey"), "passkey.remove": lang.Mark("removed a passkey"),
	"person.freeze": lang.Mark("froze a person"), "person.thaw": lang.Mark("let a person back in"), "person.remove": lang.Mark("removed a person"), "person.logout": lang.Mark("logged a person out"),
}

// did describes an action: an execution by the description of its capability.
func (k *Console) did(l *lang.Language, a provider.Action) string {
	if !a.Executed {
		if deed, ok := deeds[a.What]; ok {
			return l.T(deed)
		}
		return a.What
	}
	says := a.What
	if c := k.config.Offers.Capability(a.What); c != nil {
		says = c.Description
	}
	if !a.Allowed {
		return l.T("tried: %s", says)
	}
	return l.T("did: %s", says)
}
