// Package a2a reads and writes A2A as bytes: the operations of a call, the tasks of an
// answer, the skills of a card. It decides nothing, knows no handler, no client and no
// clock, and never changes its input in place.
//
// Its laws:
//
//   - A decision is about the same values that the agent reads. JSON is decoded
//     strictly; a member name that some reader would take for another (letter
//     case, U+017F for s, snake_case for camelCase) is refused, and so are
//     duplicates, batches and calls without id (ATK-27, ATK-28).
//   - A skill that is named in several places is named the same in all of
//     them, or the call is refused.
//   - Bytes that need not change do not change: the edits of cards and of task
//     lists leave every other value as it was written.
//   - Methods, parameters and results are normalised over protocol versions
//     1.0 and 0.3. [Call] says nothing about the binding that it came by, so
//     that every binding ends in the same decision.
//
// Sources: A2A specification 1.0 sections 3, 4, 5 and 9, A2A 0.3, and the
// capability negotiation extension of docs/reference/extension.
package a2a
