// Package attach is the loopback process beside one agent or client, in
// whatever language it is: it holds the agent's key, and makes the calls that
// the agent sends through it carry capability and proof.
//
// Its laws:
//
//   - Calls go to the configured agents and nowhere else. It is for the agent
//     beside it alone: it listens on loopback, and what a browser could have
//     sent is refused.
//   - The bytes of a call and of its answer are never changed, except for cards,
//     which get the URLs of this process. Only headers are added.
//   - A capability that came with a task serves that task. A call without a known
//     task has the declared floor and nothing else.
//   - It decides nothing: what the capability does not cover is presented all
//     the same, so that the gateway refuses it, with its reason, on record.
//   - Keys, tokens and sessions stay in the process and out of its log.
package attach
