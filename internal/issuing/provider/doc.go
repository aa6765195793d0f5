// Package provider holds the use cases of an Agent Auth provider: hosts and
// agents with their own keys, grants that people approve, and execution.
//
// Its laws: a state changes only as section 2 of the protocol has it, and a terminal one
// stays. Only a person approves an escalation. A grant is never wider than the request,
// the offer and the approval. A change and its record are one commit. An active grant is
// a capability on record, revoked like every other, and every execution is a
// [gate.Gate]'s decision.
//
// A state is computed from the clocks whenever it is asked for: the store keeps events,
// and never the state that follows from the time.
//
// # Tokens ahead of the clock
//
// Used tokens are remembered in memory, and a restart refuses tokens that were
// signed before it. The token of a clock that is ahead could say that it was signed
// after the restart. Only such tokens are written to the store when they are used.
// Writing every token would cost a write for each request.
//
// # Snapshots
//
// The provider caches the stored hosts, agents and grants until any change begins. Every
// change goes through Provider.update, which counts it before and after its transaction.
// One counter cannot miss a relation between a host, its agents and its user, and a
// revocation is in force with the next request. Signatures, clocks, used tokens and
// revocations are checked in every request.
//
// # Tokens for grants
//
// A token for a grant is a child of the capability on record, bound to the agent's
// key. So revoking the grant, the agent or the host revokes it. It ends with the
// agent's session, because a gateway does not ask the provider about its clocks.
// Grants with a budget have no token, because only the provider counts.
//
// # Claims and enrolment
//
// Only the host under which an agent runs can ask for a claim. An agent's id is in
// logs and on pages, so other hosts could otherwise ask a person under a name that
// the agent chose. An enrolment token is used up in the transaction that stores the
// host. The key of a known host is not enrolled again, because the holder of a token
// would become that host's user.
//
// # CIBA
//
// A login_hint that names no person gets the same answer after the same work:
// unknown_user_id, or falling back to a code, would be an oracle. The question is
// stored, and only administrators see it. Only the person, or an administrator,
// answers a question without a code. An autonomous agent cannot choose who answers
// for it.
//
// # Records of executions
//
// A record has the jti of the agent's token, the grant, and a keyed digest of the
// arguments. A plain hash would leak: an amount is found by trying. The key is
// HMAC-SHA-256 of the record's id under a secret of the server, so nothing is
// stored, and the operator can give an auditor the key of one record.
// body_commitment is not used: verifiers would say that a body is missing.
//
// # Linking a host
//
// The page shows the effect of a link, computed by the function that links. Defaults
// that change something need the administrator's passkey over the digest of the
// page, which is computed again in the transaction. Without a passkey the host is
// linked, and its agents ask for those defaults.
package provider
