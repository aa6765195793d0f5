// Package stdio speaks to MCP servers that are started as a command and read and
// write lines: one message of JSON-RPC a line. To the gateway it is an
// [http.RoundTripper] that answers as a server of Streamable HTTP would, so that
// everything is decided where it is for those.
//
// The laws: a session is a process of its own, which nobody else's messages reach
// and which ends with it; requests without sessions run in a process of their caller's,
// one at a time; the process gets what the operator names of the
// environment, and no more; whatever it writes is read within limits, and what
// could be read in two ways ends it; it is ended by its own id, with what it
// started.
package stdio
