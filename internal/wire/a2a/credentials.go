package a2a

import (
	"slices"

	"github.com/powerbox-project/powerbox"
)

// credentials are the members under [ExtensionURI] that show authority to the gateway,
// which has consumed them. The context has the parts that the agent may know.
var credentials = []string{"capabilityId", "capabilities", "attenuations", "chain", "proof", "ambient", MemberChain, MemberProof}

// HasCredentials reports whether members show authority that does not continue.
func (m *Members) HasCredentials() bool {
	return m != nil && (m.ScopeToken != nil || m.Links != nil || m.CapabilityID != "" || m.Capabilities != nil || m.Attenuations != nil || m.Chain != nil || m.Proof != "" || m.Ambient)
}

// CredentialMembers are the names under [ExtensionURI] that do not continue, and those
// beside it.
func CredentialMembers() (inside, beside []string) {
	return credentials, []string{MemberScopeToken, MemberLinks}
}

// Body is the body that continues: the request as it was read, written again, without
// the credentials in its metadata. It is nil where the call has none, and for gRPC,
// whose message is in [Call.Written].
func (c *Call) Body() []byte {
	body := c.sent
	if body.Kind() == powerbox.KindNull {
		return nil
	}
	if c.Members.HasCredentials() && !c.Method.IsExtension() {
		in := func(metadata powerbox.Value) powerbox.Value {
			return edited(without(metadata, MemberScopeToken, MemberLinks), ExtensionURI, func(v powerbox.Value) powerbox.Value { return without(v, credentials...) })
		}
		if c.Binding == JSONRPC {
			body = edited(body, "params", func(params powerbox.Value) powerbox.Value { return edited(params, "metadata", in) })
		} else {
			body = edited(body, "metadata", in)
		}
	}
	return body.AppendSource(make([]byte, 0, c.came))
}

// edited returns an object with another value of a member, where it has the member.
func edited(object powerbox.Value, name string, edit func(powerbox.Value) powerbox.Value) powerbox.Value {
	members, _ := object.Members()
	at := slices.IndexFunc(members, func(m powerbox.Member) bool { return m.Name == name })
	if at < 0 {
		return object
	}
	members = slices.Clone(members)
	members[at].Value = edit(members[at].Value)
	return powerbox.Object(members...)
}

// without returns an object without members of these names, and any other value as it is.
func without(v powerbox.Value, names ...string) powerbox.Value {
	members, ok := v.Members()
	if !ok {
		return v
	}
	return powerbox.Object(slices.DeleteFunc(slices.Clone(members), func(m powerbox.Member) bool { return slices.Contains(names, m.Name) })...)
}
