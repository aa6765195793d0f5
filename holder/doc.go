// Package holder is what the author of an agent uses to act with least
// authority: it asks for a capability for one task, narrows it, hands a part
// of it to another agent, presents it with every call, and gives it back.
//
// The laws:
//
//   - Nothing is presented to anybody but the agent that it is for: a card
//     that names another issuer than the place it speaks for is refused, and a
//     [Transport] signs only for the URL of its agent.
//   - A delegated capability is narrower, bound to the key of the one that gets it,
//     and by default cannot be passed on again.
//   - A capability that came with a request serves for that request: a
//     [Wallet] belongs to one task, and accepts only capabilities bound to its key.
//   - Narrowing and delegating need no network and no issuer.
//   - The bytes of a call are never changed; only headers are added.
//
// The protocol is that of internal/wire/a2a: the methods and members of the
// capability negotiation extension ([ExtensionURI]).
package holder
