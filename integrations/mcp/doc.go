// Package powerboxmcp is for MCP servers that are written on the go-sdk: it holds
// a server to the capability behind each request, in its own process.
//
// A server whose code cannot be changed stands behind the gateway instead
// (docs/how-to/mcp.md); this is for one that is reached directly. [Server.Handler]
// stands in front of the SDK's HTTP handler and asks the local gate
// (docs/how-to/guards.md) about every request, by the capability and proof in its
// headers; [Server.Hold] goes into the server itself, cuts lists, and lets nothing
// run that was not asked about. [Client] is the other side.
//
// The laws:
//
//   - Without a decision of the gate about exactly this request nothing runs: what
//     did not come through the handler is refused.
//   - A message is read strictly, once, and the arguments that were decided on are
//     compared with those that the tool is about to get.
//   - Anything that is not known is refused: a method, a member of the parameters, a session
//     of someone else, a request of the server to its client.
//   - 401 says that a capability is missing or does not hold, 403 that it does not
//     reach, with the operations that are unmet and no others.
//
// # Lists
//
// The proof of a request is used once, so the server cannot ask the gate about each
// entry of a list. Instead a question for the right to talk to an agent returns the
// authority, and the package cuts the list with powerbox.Decide. A batch of
// questions would be a second way to decide, with state. In observe the answer says
// ambient, and lists are not cut.
package powerboxmcp
