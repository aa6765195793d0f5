// Package operations serves the console's pages for operators.
//
// A page shows what the operators' interface under /v1 says, and changes only what that
// interface changes: the pages have no entrance of their own. They call it in this
// process, under the name of the person who is logged in, and the record of a change
// names that person.
//
// The console owns the frame, the login and the passkeys. It lets operators in alone, and
// it has a passkey sign the form of every change.
package operations
