// Package sources asks live systems which resources a principal may use: PostgreSQL,
// OpenFGA, SpiceDB, an AuthZEN search endpoint, an HTTP interface and an MCP server.
//
// The laws:
//
//   - A source proposes, and policy decides. Every resource is checked against the
//     declaration of its collection before anything else looks at it.
//   - The principal and the values of a query are bound as parameters or encoded by the
//     format. They are never part of a statement, a path or a name.
//   - Time, bytes, resources and calls at once are bounded. A source that exceeds a bound
//     has failed.
//   - A failure yields no resources. Its cause goes to the operator's log, without text of
//     the source, of the principal or of the query.
package sources
