// Package gateway is the reverse proxy in front of agents. It reads the bytes
// of a call, has the gate decide, and forwards the very bytes that were
// checked. What it adds is a signed context header, what it takes away are
// credentials that are its own.
//
// Bodies pass as they are, with these exceptions: the methods of the extension
// become messages for an agent that does not know them; cards, also those in
// answers, get our URLs; tasks of others are cut out of lists, whose page tokens
// are sealed, and a foreign context is replaced by an unknown one;
// a stream that may not continue ends with our own event; with a relay for events
// the agent has our address instead of the caller's.
//
// # Invoke
//
// No version of A2A has a2a/skill/invoke, so no agent answers it. For an agent with
// invoke: message, the gateway composes a SendMessage with one data part {"skill",
// "arguments"} from the argument bytes that it received. With invoke: native it
// forwards the request unchanged. A skill can be named in the request metadata, in a
// data part and by the URL. All namings must agree, because the agent could follow
// any of them. The gateway never replaces handles in a body: real identifiers travel
// only in the signed context.
//
// # Repeated denials
//
// Every denial is a durable write, so a caller in a loop could fill the disk. After
// limits.denials in one minute a burst begins. In a burst the gateway records the
// 1st, 10th, 100th and every 1,000th denial, with the number of omitted ones.
// Permitted calls are not slowed, because anyone who can speak as a caller could then
// stop its work. Callers without a name share the budget of ten callers, so that
// many addresses do not make many records.
//
// # Authorization extension
//
// The gateway writes all parameters of urn:a2a:ext:authorization:v1 on the card,
// instead of those in the agent's own card: a card must not promise what the gateway
// does not enforce. Empty parameters are omitted, because readers differ in whether
// they keep them, and the signature covers the result.
//
// # Held tasks
//
// A list of tasks begins with the caller's held calls, newest first; then the
// agent's list begins. Merging both by time would need pages of the agent to be cut
// and fetched again. If the caller names a page size, held calls have pages of their
// own, because an agent's page tokens can depend on the first page size.
//
// # Connections to agents
//
// Calls of all callers share connections, because a dial for each call costs more
// than the call. In HTTP/1.1 only the order tells to which request an answer
// belongs. An agent that reads one request as two would give the second answer to
// another caller (ATK-31). Therefore a request that could be read as two ends its
// connection, and so do bytes behind an answer. A call on a used connection waits
// until the transport has found no such bytes. Over TLS the gateway prefers HTTP/2,
// in which answers name their requests. A late answer on a shared HTTP/1.1
// connection cannot be detected; upstream_connections: fresh excludes it.
//
// # MCP without sessions
//
// Revision 2026-07-28 has no handshake and no sessions. One binding serves all
// revisions, and the gateway translates nothing between them, because a translation
// would encode messages anew. A request has the new revision only if header and
// _meta both say so. The gateway does not learn the schemas of tools from lists that
// pass: two gateways would then know different things. So Mcp-Param-* must equal the
// value of some argument, and the server checks which. A result with a request that
// server_requests does not list becomes an error: half an answer is none. cacheScope
// becomes private, because a shared cache would show one caller's result to another.
package gateway
