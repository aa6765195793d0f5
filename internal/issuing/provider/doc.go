// Package provider holds the use cases of an Agent Auth provider: hosts and
// agents with keys of their own, grants that people approve, and execution.
//
// Its laws: a state changes only as section 2 of the protocol has it, and what is
// terminal stays; nothing that escalates is approved by anything but a person;
// what is granted is never wider than what was asked for, offered and approved;
// a change and its record are one commit; a grant that is active is a capability
// on record, revoked like every other, and every execution is a [gate.Gate]'s
// decision.
//
// A state is computed from the clocks whenever it is asked for: what is stored
// says what happened, not what time it is.
package provider
