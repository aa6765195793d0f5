// Package powerboxa2a is for agents that are written on a2a-go v2: it holds an
// agent to the capability behind each call, and has its own calls made under
// capabilities.
//
// An [Inbound] stands in an agent that has a Powerbox gateway in front.
// [Inbound.Handler] refuses what comes past the gateway, [Inbound.Interceptor]
// decides each call once more, in process, under the authority that the gateway
// has signed, and [Inbound.Guard] gives the executor a [Task], which says what
// it may do for that call and for no other. An [Outbound] stands where the agent
// calls others: the clients that are made with [Outbound.Peer] present for every
// call the capability that permits it, and pass on nothing else.
//
// The laws:
//
//   - What comes past the gateway is refused, regardless of who sends it: without the
//     signed context of exactly this request nothing is let through, and a
//     context is good once.
//   - The gateway's answer and the one in process are made by the same function,
//     powerbox.Decide, and can only differ in that this one refuses more.
//   - What came with a task serves for that task. Nothing that came in goes out
//     unasked: not a header, not metadata under the extension's URI, whatever
//     other interceptors copy.
//   - Anything that is not known is refused: a skill without an operation, a method that
//     is new, keys that cannot be had.
//
// What an agent cannot know: whether a capability was revoked, or an agent
// frozen, since the call came. The gateway does, and cuts the streams of such
// calls; work that continues behind an answer ends only when the capability
// expires.
package powerboxa2a
