// Package console serves the pages on which people log in, judge the requests of agents,
// and look after their own agents.
//
// Its laws: every page can be read, and everything denied, without script. An agent's
// words about itself are quoted and separate from the server's knowledge. A page is
// never framed, never cached and answers no other site. An approval is never of anything
// that differs from the shown page. A change is approved by a passkey that has signed
// that very answer. No agent has a session here.
//
// # Answers
//
// An agent may drive the person's browser. So an approval that changes something needs a
// passkey, which signs the digest of exactly the shown page and the choices. A random
// challenge would only show that a person was there. An approval that reads needs a
// login of at most approvals.fresh. Denying and revoking need any login. Deny has the
// focus, and nothing is preselected. The answer carries the digest of the page, so a
// request that changed since is not answered. The pages are rendered on the server,
// because a build step would put other people's scripts on the page that matters most.
// Sessions and challenges are in memory: a restart logs all visitors out.
package console
