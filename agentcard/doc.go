// Package agentcard reads A2A agent cards as contracts: what an agent declares,
// whether that is enough for a task, along a whole path of agents, and what
// became of it from one version to the next.
//
// Its laws:
//
//   - Anything that is not declared is not there. A feature counts when the card says
//     true and nowhere false; an answer is never yes because something could
//     not be read.
//   - Every answer is complete and the same for the same input: [Lint],
//     [Compatible], [CheckPath] and the differences list everything that they
//     find, in one order, and not what they find first (CARD-8, CARD-10,
//     CARD-14).
//   - A card is judged as it was written. Members are known by their exact
//     names; what another reader could take for one of them is a problem.
//   - A signature is worth what its key is: keys are handed in, and no URL in a
//     card adds to them (CARD-15).
//
// The package takes bytes, keys and times. It opens nothing and fetches
// nothing.
//
// Sources: A2A 1.0, sections 4.4, 5.7 and 8, and a2a.proto; A2A 0.3, section 5;
// the proposal "AgentCard capability contract" (docs/reference/specification.md).
package agentcard
