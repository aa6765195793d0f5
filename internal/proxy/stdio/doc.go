// Package stdio speaks to MCP servers that are started as a command and read and
// write lines: one message of JSON-RPC a line. To the gateway it is an
// [http.RoundTripper] that answers as a server of Streamable HTTP would, so that
// everything is decided where it is for those.
//
// The laws: a session is a separate process, which no other caller's messages reach
// and which ends with it; requests without sessions run in a process of their caller's,
// one at a time; the process gets what the operator names of the
// environment, and no more; whatever it writes is read within limits, and what
// could be read in two ways ends it; it is ended by its own id, with what it
// started.
//
// # Why a RoundTripper
//
// Deciding on the lines themselves would be a second binding with its own rules. A
// bridge in front would be one more process that sees everything, and would share
// one child among all callers. The command is on the gateway's own command line and
// never in the server's configuration, because a captured server could otherwise run
// anything at its gateways. The child gets a short list of environment variables,
// because a gateway's environment has secrets. A session is a process, so that its
// memory is never another caller's.
package stdio
