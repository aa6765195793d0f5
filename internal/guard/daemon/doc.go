// Package daemon decides the tool calls of coding agents on one machine, for one user.
//
// The laws:
//
//   - No evidence, no effect: a decision that cannot be recorded is a denial.
//   - One daemon runs for one folder. It listens on a Unix socket that its user alone may
//     open, and both ends check the user at the other end.
//   - A session is a holder. A sub-agent's lease is a token that is derived offline from its
//     parent's, and that ends with the sub-agent.
//   - What the daemon cannot tell apart is decided by the narrowest lease that it may be.
package daemon
