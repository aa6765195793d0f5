// Command doors measures what a door adds to a decision: ext_authz over gRPC and AuthZEN,
// over the gateway's own decision, beside OPA behind the same ext_authz. It writes the section
// "Decisions for other gateways" of docs/assurance/performance.md.
//
//	cd bench && go run ./doors [-rounds 6] [-cell 5s] [-rate 200] [-dir DIR] [-write]
//
// Powerbox and each OPA are separate processes, and each keeps a durable record of each
// decision. Requests come at a fixed rate, whether answers have come or not.
package main
