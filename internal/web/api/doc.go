// Package api puts the issuer behind HTTP. It serves the extension's methods, the feed
// of revocations, and the operator's interface under /v1. Gateways in this process and
// remote ones ask the issuer through it.
//
// # Pages of records
//
// GET /v1/records returns at most 1,000 matching records of at most 20,000 that it
// looked at, newest first. For an agent, a requester or a principal it looks at
// those that name it, by an index that the server makes behind the log. Powerbox-Next names the id before which the next page
// begins. A cursor is an id and not an offset, because appends between two pages
// would move offsets. The order never changes, so no page misses or repeats a
// record, and a bundle answers the same queries. since uses the index on ids, which
// begin with their time. A misspelt filter is refused, because it would select
// everything.
//
// # Map
//
// The map draws the wires of the running server: the scopes, and the pairs on record
// that were denied for lack of scope. It shows what agents try, not what a file
// says. Only administrators and approvals.operators see it, because scopes of others
// are on it. Pictures are SVG without style, script or link, so the content security
// policy of the pages needs no exception.
package api
