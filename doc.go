// Package powerbox is least authority for AI agents as an algebra: who may do
// which operations, with which argument values, for how long, and how far it
// may be passed on. Every protocol that the product speaks is a thin codec
// onto this package; none makes decisions of its own.
//
// The nouns. An [Operation] is one thing that can be done, by exact name. A
// [Pattern] names one operation or a subtree of them, a [Shape] says which
// arguments an operation may be called with, a [Constraint] is a predicate on
// one argument. An [Authority] is a set of patterns with shapes, a time window
// and a delegation depth. An [Attempt] is one action that is tried.
//
// The laws, each a property test of this package:
//
//   - Authority is passed on only by narrowing: [Authority.Meet] admits exactly
//     the invocations that both sides admit, and no admission that either
//     refuses; it is commutative, associative and idempotent.
//   - [Authority.Covers] is reflexive and transitive, and always sound: when
//     it says yes, no attempt is admitted by the covered side and refused by
//     the covering one. It is complete where its documentation says so.
//   - Absent means nothing. The zero Authority admits nothing, the zero Shape
//     admits only a call without arguments, an empty list of values admits no
//     value, an admission that requires nothing is refused.
//   - Within one authority at most one shape applies to an operation.
//   - [Decide] is pure and total. It evaluates everything, so that its reasons
//     are complete, and it denies by default.
//
// The package imports nothing but the standard library, reads no clock and
// opens no file.
package powerbox
