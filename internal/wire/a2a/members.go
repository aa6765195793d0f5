package a2a

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
)

// Members has the members of a call under [ExtensionURI] in its request metadata, or in
// the parameters of a method of the extension (SEP-10, SEP-13).
type Members struct {
	Skill        string                 // skill that the message is meant for; "" when unnamed
	Arguments    *powerbox.Value        // arguments of that skill; nil when unnamed
	CapabilityID string                 // capability to decide under, by reference
	Capabilities []string               // capabilities that the task is to run under
	Attenuations map[string]Attenuation // by capability id; each id is one of Capabilities
	Chain        []string               // compact JWS, root first
	Proof        string                 // compact JWS
	Purpose      string                 // in the agent's own words
	Ambient      bool                   // the caller declares that it acts on ambient authority (SEP-18)
	Delegations  []Delegation           // capabilities handed over with the message
	// ScopeToken and Links are the members of the authorization extension under keys of its
	// own (EXT-5, EXT-8), as they stand there; nil where they do not.
	ScopeToken *powerbox.Value
	Links      *powerbox.Value
}

// The members of the authorization extension in request metadata.
const (
	AuthorizationURI = "urn:a2a:ext:authorization:v1"
	MemberScopeToken = AuthorizationURI + "/capability_token"
	MemberLinks      = AuthorizationURI + "/delegation_chain"
)

// Attenuation narrows a capability. A nil or zero member leaves its part as it was.
type Attenuation struct {
	ResourceHandles []string
	Operations      []string
	Expires         time.Time // UTC
}

// Delegation is a capability for another agent, handed to anyone who gets the
// message. It is bound to the recipient's key and so no secret.
type Delegation struct {
	Agent string   // URL of the agent that issued the root
	Chain []string // compact JWS, root first
}

var memberNames = []string{
	"skill", "arguments", "capabilityId", "capabilities", "attenuations", "chain", "proof", "purpose", "ambient", "delegations",
	MemberChain, MemberProof,
}

// The members of a presentation by the names of the token draft (-02, section 7.4). They
// mean chain and proof.
const (
	MemberChain = "aat_chain"
	MemberProof = "aat_pop"
)

// parseMembers reads the members of the extension. Unknown members are refused (SEP-23):
// a caller's statement about its authority is not skipped.
func parseMembers(where string, v powerbox.Value) (*Members, *Error) {
	r := openStrict(where, v, memberNames...)
	m := &Members{
		Skill:        r.text("skill"),
		CapabilityID: r.text("capabilityId"),
		Capabilities: r.texts("capabilities"),
		Chain:        r.chain(r.either("chain", MemberChain)),
		Proof:        r.text(r.either("proof", MemberProof)),
		Purpose:      r.bounded(r.text("purpose"), "purpose"),
		Ambient:      r.flag("ambient"),
	}
	if arguments := r.object("arguments"); arguments.Kind() == powerbox.KindObject {
		m.Arguments = &arguments
	}
	if m.Arguments != nil && m.Skill == "" {
		r.fail(ReasonParams, "%s has arguments and no skill; name the skill", where)
	}
	m.Attenuations = r.attenuations(m.Capabilities)
	delegations := r.elements("delegations")
	if !r.short("delegations", len(delegations)) {
		return m, r.err
	}
	for i, e := range delegations {
		at := openStrict(r.at("delegations")+"["+strconv.Itoa(i)+"]", e, "agent", "chain")
		d := Delegation{Agent: at.required("agent"), Chain: at.chain("chain")}
		if d.Chain == nil {
			at.fail(ReasonParams, "%s is missing; want an array of compact JWS, root first", at.at("chain"))
		}
		r.join(at.err)
		m.Delegations = append(m.Delegations, d)
	}
	return m, r.err
}

// attenuations reads the attenuations of a call, which may be of listed
// capabilities only (SEP-13).
func (r *objectReader) attenuations(listed []string) map[string]Attenuation {
	members, _ := r.object("attenuations").Members()
	if len(members) == 0 || !r.short("attenuations", len(members)) {
		return nil
	}
	out := make(map[string]Attenuation, len(members))
	for _, m := range members {
		if !slices.Contains(listed, m.Name) {
			r.fail(ReasonAttenuated, "%s names %q, which is not in %s; list it there or leave it out", r.at("attenuations"), m.Name, r.at("capabilities"))
		}
		a, err := parseAttenuation(r.at("attenuations")+"."+m.Name, m.Value)
		r.join(err)
		out[m.Name] = a
	}
	return out
}

func parseAttenuation(where string, v powerbox.Value) (Attenuation, *Error) {
	r := openStrict(where, v, "resourceHandles", "operations", "expires")
	a := Attenuation{ResourceHandles: r.texts("resourceHandles"), Operations: r.texts("operations"), Expires: r.time("expires")}
	if r.err == nil && a.ResourceHandles == nil && a.Operations == nil && a.Expires.IsZero() {
		r.fail(ReasonParams, "%s narrows nothing; want resourceHandles, operations or expires", where)
	}
	return a, r.err
}

// checkKept refuses members of the extension in the metadata of a message,
// which agents keep in their history, whatever method carries the message.
func checkKept(message powerbox.Value) *Error {
	metadata, _ := message.Get("metadata")
	name := ours(metadata)
	if _, there := metadata.Get(MemberScopeToken); there && name == "" {
		name = MemberScopeToken
	}
	if _, there := metadata.Get(MemberLinks); there && name == "" {
		name = MemberLinks
	}
	if name != "" {
		return invalidParams(ReasonMember, "params.message.metadata has a member %q; it belongs in params.metadata, since agents keep a message's metadata", name)
	}
	return nil
}

// membersOf finds the members of a call of the core protocol. They belong in
// the metadata of the request, under one key: a member on its own key is one
// that we would overlook.
func membersOf(params powerbox.Value) (*Members, *Error) {
	r := open("params", params)
	metadata := r.object("metadata")
	if r.err != nil {
		return nil, r.err
	}
	name := ours(metadata)
	var m *Members
	switch name {
	case "":
	case ExtensionURI:
		v, _ := metadata.Get(name)
		var err *Error
		if m, err = parseMembers("params.metadata["+ExtensionURI+"]", v); err != nil {
			return m, err
		}
	default:
		return nil, invalidParams(ReasonMember, "params.metadata has a member %q; want one object under %s", name, ExtensionURI)
	}
	return scopesOf(metadata, m)
}

// scopesOf finds scope token and links. A name that a reader without regard for letter
// case would take for them is refused: this one would overlook it (ATK-27).
func scopesOf(metadata powerbox.Value, m *Members) (*Members, *Error) {
	members, _ := metadata.Members()
	for _, member := range members {
		at := -1
		for n, name := range []string{MemberScopeToken, MemberLinks} {
			if powerbox.FoldCase(member.Name) == powerbox.FoldCase(name) {
				at = n
			}
			if at == n && member.Name != name {
				return nil, invalidParams(ReasonMember, "params.metadata has a member %q; want %s", member.Name, name)
			}
		}
		if at >= 0 && m == nil {
			m = &Members{}
		}
		switch at {
		case 0:
			m.ScopeToken = &member.Value
		case 1:
			m.Links = &member.Value
		}
	}
	return m, nil
}

var foldedURI = powerbox.FoldCase(ExtensionURI)

// ours returns the first member name that begins with the URI of the
// extension, however it is spelt.
func ours(metadata powerbox.Value) string {
	members, _ := metadata.Members()
	for _, m := range members {
		rest, ok := strings.CutPrefix(powerbox.FoldCase(m.Name), foldedURI)
		if ok && m.Name != ExtensionURI && (rest == "" || rest[0] == '/') {
			return m.Name
		}
	}
	if _, ok := metadata.Get(ExtensionURI); ok {
		return ExtensionURI
	}
	return ""
}
