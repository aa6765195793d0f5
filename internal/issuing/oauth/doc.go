// Package oauth is the server as an OAuth 2.1 authorization server, for clients that know
// no other way to get a capability (ADR 129).
//
// Its laws:
//
//   - An authorization request is a question at the desk, and its answer alone decides what
//     is issued. A client, scope or resource that is not known is refused before.
//   - A code is good once, for the client, redirect and PKCE challenge of its request. What
//     comes a second time, code or refresh token, revokes what the first time gave.
//   - An access token is for one resource and one client, and names capabilities on record.
//     It gives nothing that they do not give, and ends with them.
//   - Nothing is kept here: codes and refresh tokens are sealed, and the question has the rest.
package oauth
