// Package identity says who calls: the principal of a session, and the holder
// that speaks for it.
//
// What it holds to:
//
//   - Only a token of a configured issuer for our own audience makes a
//     principal; only a proven key, a verified client certificate or the
//     token's client makes a holder. Headers that merely name someone, such
//     as X-Forwarded-User, decide nothing (ATK-32).
//   - An Authorization value that names us as audience is consumed and never
//     forwarded (ATK-35), nor is a token that the server takes for itself; any
//     other value is not ours and decides nothing.
//   - The key decides the algorithm. Key ids are opaque map keys, and keys in
//     the headers of tokens are ignored (ATK-14).
//   - It complements authentication and grants nothing alone (EXT-38).
package identity
