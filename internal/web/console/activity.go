package console

import (
	"cmp"
	"strings"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/web/lang"
	"github.com/powerbox-project/powerbox/internal/web/operations"
)

// deedsSaid are the names of actions on pages.
var deedsSaid = map[string]string{
	"agent.register": lang.Mark("registered and asked to be let in"), "agent.register-again": lang.Mark("asked again to be let in"), "agent.request-capability": lang.Mark("asked for more"),
	"agent.reactivate": lang.Mark("asked to go on"), "agent.revoke": lang.Mark("revoked an agent"), "agent.claim": lang.Mark("an agent's history became yours"), "agent.rotate-key": lang.Mark("changed an agent's key"),
	"agent.ask-claim": lang.Mark("asked who takes over"), "host.invite": lang.Mark("made room for a host"), "host.enroll": lang.Mark("a host brought its key"),
	"host.register": lang.Mark("registered a host"), "host.revoke": lang.Mark("revoked a host"), "host.link": lang.Mark("linked a host"), "host.unlink": lang.Mark("unlinked a host"), "host.vouch": lang.Mark("let a host's agents have at once what changes something"), "host.rotate-key": lang.Mark("changed a host's key"),
	"agent.erase": lang.Mark("had an agent forgotten"), "grant.add": lang.Mark("gave an agent more"), "grant.revoke": lang.Mark("took a grant back"), "approval.answer": lang.Mark("answered a request"), "passkey.add": lang.Mark("added a passkey"), "passkey.remove": lang.Mark("removed a passkey"),
	"person.freeze": lang.Mark("froze a person"), "person.thaw": lang.Mark("let a person back in"), "person.remove": lang.Mark("removed a person"), "person.logout": lang.Mark("logged a person out"),
	"capability.request": lang.Mark("asked for a capability"), "capability.attenuate": lang.Mark("narrowed a capability"), "capability.revoke": lang.Mark("revoked a capability"),
	"capability.once": lang.Mark("was given one call that a person approved"), "capability.use": lang.Mark("used a capability once"), "approval.ask": lang.Mark("asked people to approve a request"),
	"approval.withdraw": lang.Mark("withdrew a request"), "approval.expire": lang.Mark("a request expired without an answer"), "approval.revoke": lang.Mark("took an approval back"),
	"approval.alert": lang.Mark("asked again and again after denials"),
}

// deed is an action as a page shows it.
type deed struct {
	provider.Action

	You    bool   // the visitor did it
	Says   string // in words
	What   string // as on record, where the words do not have it
	Word   string // the decision
	Class  string // of its colour
	Why    string
	Linked bool // the visitor may read the record
}

// deeds words actions for a visitor.
func (k *Console) deeds(v *visit, who provider.Person, actions []provider.Action) []deed {
	rights, out := k.rights(who), make([]deed, 0, len(actions))
	for _, a := range actions {
		r := a.Record
		d := deed{
			Action: a, You: a.By == who.Principal, Says: k.did(v.Language, a),
			Linked: k.config.Operations != nil && rights.MayAt(people.Evidence, r.AgentID),
		}
		if d.What = cmp.Or(a.Executed, r.ActionType); d.What == d.Says || a.Executed == "" && audit.IsCall(r) {
			d.What = "" // the words have it
		}
		if d.Word, d.Class = operations.Said(v.Language, r); r.Decision == evidence.Allow && !audit.IsCall(r) {
			d.Word, d.Class = v.T("done"), "quiet" // nothing was decided
		}
		if len(r.Details.Reasons) > 0 {
			d.Why = v.Said(r.Details.Reasons[0].Message)
		}
		out = append(out, d)
	}
	return out
}

// did describes an action: an execution by the description of its capability, another call by its
// operation.
func (k *Console) did(l *lang.Language, a provider.Action) string {
	r := a.Record
	allowed := r.Decision == evidence.Allow
	switch {
	case a.Executed != "":
		says := a.Executed
		if c := k.config.Offers.Capability(a.Executed); c != nil {
			says = c.Description
		}
		if allowed {
			return l.T("did: %s", says)
		}
		return l.T("tried: %s", says)
	case audit.IsFreeText(r):
		return l.T("sent free text to agent %s", r.AgentID)
	case audit.IsCall(r):
		operation := strings.TrimPrefix(audit.SubjectOf(r), r.AgentID+"/")
		if allowed {
			return l.T("called %s at agent %s", operation, r.AgentID)
		}
		return l.T("tried to call %s at agent %s", operation, r.AgentID)
	}
	if says, ok := deedsSaid[r.ActionType]; ok {
		return l.T(says)
	}
	return r.ActionType
}

// activityPage has the actions, and how long they are shown.
type activityPage struct {
	Deeds     []deed
	All       bool   // the actions of everyone
	AgentAuth bool   // agents can register
	Kept      string // "" for no end
}

func (k *Console) activity(v *visit) error {
	who, err := k.person(v)
	if err != nil {
		return err
	}
	actions, err := k.config.Activity.Activity(v.r.Context(), who)
	if err != nil {
		return err
	}
	page := activityPage{Deeds: k.deeds(v, who, actions), All: k.config.People.Administrator(who), AgentAuth: len(k.config.Offers.Offered()) > 0}
	if d := k.config.Activity.Retention(); d > 0 {
		page.Kept = lasting(v.Language, d)
	}
	return k.show(v, "activity", page)
}
