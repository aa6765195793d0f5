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
//   - Only outcomes of allowed work count, once for each decision, as its
//     recorder saw them. Denials, calls that the caller cancelled or worded
//     wrongly, and failures of the gateway do not count.
//   - Where a score must be had and cannot, it is [None].
//
// Source: the A2A extension document, section 6, as the requirements read it.
//
// # Whose score
//
// A caller's score is that of the protected agent of its configured name. Other
// callers have [None], so that a new name does not wash off an old score (ATK-52).
// "No history is 1.0" holds only for agents behind a gateway, which sees every
// outcome. The server reads the log to compute scores: a tally in the commit would
// be a second truth. Where no level is required it keeps how far it has counted,
// bound to the tree of exactly those records. A start then does not read them
// again (ADR 150). A stale score counts as the lowest after 30 seconds. Ending a task needs no level: a caller with less trust must be able to
// stop. A token carries no score, because it would be stale and self-reported.
package trust
