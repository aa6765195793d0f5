package token

// Holders returns the keys of everyone that the chain was given to, the
// root's holder first; the last is [Verified.Holder].
func (v Verified) Holders() []PublicKey {
	if v.chain == nil {
		return nil
	}
	holders := make([]PublicKey, len(v.chain.links))
	for i, l := range v.chain.links {
		holders[i] = l.holder
	}
	return holders
}

// HolderNames returns the names of [Verified.Holders]: for each "key:" and its
// thumbprint (RFC 7638), as callers and records have it.
func (v Verified) HolderNames() []string {
	if v.chain == nil {
		return nil
	}
	names := make([]string, len(v.chain.links))
	for i, l := range v.chain.links {
		names[i] = l.holderName()
	}
	return names
}
