package a2a

// credentials are the members under [ExtensionURI] that show authority to the gateway,
// which has consumed them. What the agent behind may know of it is in the context.
var credentials = []string{"capabilityId", "capabilities", "attenuations", "chain", "proof", "ambient"}

// HasCredentials reports whether members show authority that does not go on.
func (m *Members) HasCredentials() bool {
	return m != nil && (m.ScopeToken != nil || m.Links != nil || m.CapabilityID != "" || m.Capabilities != nil || m.Attenuations != nil || m.Chain != nil || m.Proof != "" || m.Ambient)
}

// CredentialMembers are the names under [ExtensionURI] that do not go on, and those
// beside it.
func CredentialMembers() (inside, beside []string) {
	return credentials, []string{MemberScopeToken, MemberLinks}
}

// WithoutCredentials returns the body of a call without the credentials in the metadata
// of the request.
func WithoutCredentials(body []byte, c *Call) ([]byte, error) {
	if !c.Members.HasCredentials() || c.Method.IsExtension() {
		return body, nil
	}
	path := []string{"metadata"}
	if c.Binding == JSONRPC {
		path = []string{"params", "metadata"}
	}
	body, _, err := editAt(body, path, func(o *rawObject) bool {
		o.drop(MemberScopeToken)
		o.drop(MemberLinks)
		return true
	})
	if err != nil {
		return nil, err
	}
	body, _, err = editAt(body, append(path, ExtensionURI), func(o *rawObject) bool {
		for _, name := range credentials {
			o.drop(name)
		}
		return true
	})
	return body, err
}
