// Package console serves the pages on which people log in, judge what agents ask
// for, and look after the agents that they have.
//
// Its laws: every page can be read, and everything denied, without script; what an
// agent says of itself is quoted and apart from what the server knows; a page is
// never framed, never cached and answers no other site; nothing is approved that
// differs from what was shown; what changes something is approved by a passkey
// that has signed that very answer; no agent has a session here.
package console
