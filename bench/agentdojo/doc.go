// Command agentdojo replays the AgentDojo benchmark of prompt injection without
// a model: what each user's task needs is granted before anything was read, and
// then the calls of the user and the calls of the attacker go through the
// running binary under that grant.
//
//	cd bench && go run ./agentdojo [-data FOLDER] [-pins] [-paraphrases FILE] [FILE.json ...]
//
// The benchmark is no part of this repository. FOLDER has its suites as JSON,
// one a file; docs/assurance/agentdojo.md says what the files hold, how a grant is derived,
// and what the figures mean.
//
// The laws of the derivation (prompt.go, schema.go, pin.go):
//
//   - It sees the prompt, and the schemas and annotations of the tools, and nothing else: no
//     environment, no ground truth, no result of a tool.
//   - It is a pure function of them, and names no suite, task, word or value.
//   - It only narrows: where it understands nothing, an argument stays open and a
//     tool that was granted can do all it can.
//
// Every suite is replayed without and with labels of results (docs/how-to/data-origin.md).
//
// # Why without a model
//
// A benchmark with a model measures the model and the day. The decisions of a gate
// depend only on the grants that were made before the attacker's words were read. A
// call counts as refused only if the grant does not hold it, and as allowed only if
// it reached its tool; anything else stops the replay. A model that writes grants
// would not be repeatable, and could be injected. A rule of the procedure is changed
// for all suites at once.
package main
