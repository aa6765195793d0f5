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
