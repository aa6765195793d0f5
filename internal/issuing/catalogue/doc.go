// Package catalogue is what an agent's resources are called: the list of items
// that can be asked for, the query that selects among them, and the sealed
// handles under which a caller gets them.
//
// The laws:
//
//   - Policy comes first. A query only ever sees the items that its principal
//     may see, so that hidden and missing items are one case in
//     results, errors and counts (SEP-5).
//   - An item's id never leaves towards a caller. What leaves is its name and a
//     handle (SEP-5, SEP-19).
//   - A handle names one resource, for one agent, under one root capability.
//     Every other string gets the same answer after the same work (ATK-19).
//   - Anything that is not known is refused: members, operators, attributes, types.
//
// The package reads no clock, opens no file and draws no randomness.
package catalogue
