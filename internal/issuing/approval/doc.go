// Package approval has people decide what policy and configuration leave to them:
// requests for capabilities, and single calls that a gateway holds back. It is a
// sibling of the issuer and shares its transaction.
//
// Its laws: a question is answered once, by people whom a rule names, and by as
// many of them as it wants; one no is enough, and no answer in time is a no; an
// answer narrows and never widens; it is bound to exactly the shown page, and is
// on record with who gave it; what it gives is used once, and for nothing else
// than the request.
//
// # Webhooks
//
// A message is stored in the transaction that asks, answers or ends the question,
// and sent from there: delivery is at least once, with one id for every try. From
// memory, a restart would lose it, and the question would end with a denial that
// no person chose. A separate queue would hold messages of transactions that did not
// commit.
//
// # Attempts of guards
//
// A guard keeps the attempt itself. Its question is a held call without bytes, whose
// key is the digest of the attempt, and the same evaluation finds it again. So stock
// AuthZEN clients need no new request, header or id. The digest omits the proof,
// which is used once, and the trace. The approval gives a capability for one call,
// and the gate decides the attempt again under it.
package approval
