// Package token reads and writes Attenuating Authorization Tokens
// (draft-niyikiza-oauth-attenuating-agent-tokens-02, and -01 where that is accepted): a
// root token that an issuer signs, tokens that holders derive from it offline, and the
// proof that a holder signs for each call. The header of the root fixes the draft
// ([Draft]).
//
// The laws:
//
//   - Verification state is a type. [ParseChain] gives an [Unverified], which
//     yields no authority; only [Unverified.Verify] makes a [Verified].
//   - A derived token is never wider than its parent, by the table of the
//     draft's section 4.5, and deriving uses the same table as verifying.
//   - The key decides the algorithm. The header members jwk, jku, x5c and x5u
//     are ignored; a key that is not known refuses.
//   - Cheap refusals come before signatures: size, form, structure, time. What
//     is read before a signature is checked can only refuse.
//   - A signature may be remembered ([Memo]), a verdict never: time and the
//     revocation of every link are looked at on every call.
//   - Anything that is absent is refused.
//   - An audience excludes all others: a token with an audience, a proof with one,
//     and a root whose issuer is not that of the keys ([KeySet.Of]).
//
// The package takes bytes, keys and times. It opens nothing, reads no clock
// and knows no network.
//
// # Memo
//
// The memo finds a verified prefix by a seeded, non-cryptographic hash of its length
// and its last 64 bytes. It then compares all bytes, and the fingerprint of the key
// set, so a collision cannot be a hit. A SHA-256 over the chain would give the same
// guarantee for 0.2 to 0.4 us more on every call. Refused chains are not stored. A
// caller that fills the memo evicts entries of others, which costs them one cold
// verification.
package token
