// Package agentauth is the client of the Agent Auth Protocol, version 1.0-draft:
// it discovers a provider, registers agents with it, waits while a person
// approves, executes capabilities, and gives everything back.
//
// The laws:
//
//   - A token is for one audience, is signed for one request, and is never sent
//     twice: not when a request is repeated, not when a job is asked about again.
//   - A token goes nowhere but where its audience is. Redirects are not followed;
//     endpoints stand at the issuer's origin, a job at the origin of its location.
//   - What a server names is reached by https, or on loopback by anyone who talks to
//     a server on loopback anyway.
//   - What a person denied is not asked for again, unless a person says so.
//   - An agent stays within what it asked for, also where the server gave more.
//   - Keys are on disk under a passphrase, or not at all.
//
// # Choices
//
// The package shares no type with package holder, because it has the terms of
// another protocol. An execution is repeated only after 429: then the server has not
// looked at it. A denial is kept for 90 days under a hash of the request. A model
// may drive the client, and what it reads can ask for anything. So it holds the
// agent to the constraints that it requested, and follows only URLs of the issuer's
// origin. Keys are one JSON file under AES-256-GCM, with Argon2id from a passphrase;
// age would cost a second for every command.
package agentauth
