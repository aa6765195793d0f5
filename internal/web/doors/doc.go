// Package doors answers other gateways that ask whether a request may continue: Envoy's
// ext_authz over gRPC and HTTP, ext_proc, and the forward-auth convention of Caddy, nginx
// and Traefik (ADR 128).
//
// A door turns the question of a proxy into a request and hands it to the gateway, which
// decodes, decides and records it as a call of its own. A door decides nothing, and calls
// no agent.
package doors
