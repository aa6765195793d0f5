// Package api puts the issuer behind HTTP: the answers to the extension's
// methods, what gateways in this process and apart from it need of the issuer,
// the feed of revocations, and the operator's interface under /v1.
package api
