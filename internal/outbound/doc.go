// Package outbound is the way in which server and gateways call out: for agent
// cards, key sets, and configured upstreams.
//
// What it holds to:
//
//   - The address is checked when it is dialled, after the name was resolved,
//     so that a name which answers differently the second time gains nothing
//     (ATK-15, ATK-16).
//   - Loopback, private and special-purpose addresses are refused unless the
//     policy names them; link-local ones, where clouds keep credentials, are
//     refused always.
//   - Plain HTTP goes only to addresses that the policy names.
//   - No redirects, no proxy from the environment, no transparent
//     decompression; time and size are bounded.
package outbound
