// Package approval has people decide what policy and configuration leave to them:
// requests for capabilities, and single calls that a gateway holds back. It is a
// sibling of the issuer and shares its transaction.
//
// Its laws: a question is answered once, by people whom a rule names, and by as
// many of them as it wants; one no is enough, and no answer in time is a no; an
// answer narrows and never widens; it is bound to exactly what was shown, and is
// on record with who gave it; what it gives is used once, and for nothing else
// than what was asked.
package approval
