// Package trust says how far what an agent did speaks for it: one number that
// anybody with an export of the evidence computes again (EXT-18 to EXT-20).
//
// Its laws:
//
//   - The score is a pure function of verified records, of when the agent's
//     credentials were last renewed, and of a time. Nothing that an agent says
//     about itself is among them.
//   - A score only falls: it begins at 1 and everything is taken off. Who has
//     done nothing has lost nothing.
//   - What counts is what became of work that was allowed, once for each
//     decision, as its recorder saw it. What was denied, what the caller broke
//     off or asked for wrongly, and what the gateway itself could not do is not
//     the agent's doing.
//   - Where a score has to be had and cannot, it is [None].
//
// Source: the A2A extension document, section 6, as the requirements read it.
package trust
