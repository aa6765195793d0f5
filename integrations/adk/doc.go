// Package powerboxadk is for hierarchies of agents on the Agent Development Kit
// (google.golang.org/adk/v2): what an agent was wired with is held to what it was
// granted.
//
// A [Gate] is a plugin of the runner. It asks the local gate (docs/how-to/guards.md)
// before a tool runs, before transfer_to_agent, before a sub-agent runs, alone or as
// a tool, and before a session's state takes a key; it hides from the model the
// tools that the agent may not use, and tells what became of each. [Gate.Sessions]
// also asks before a key of the state is read. [Gate.Report] words the hierarchy,
// which is implicit in the wiring, as explicit scopes, and says where the wiring
// goes beyond them.
//
// The laws: who acts is the agent that ADK says is running, never an argument; a
// tool, agent or key that is not mapped is refused; no answer of the gate is a
// denial; a denial is a result that the model sees, with the missing set, and the
// tool's body never runs.
//
// Callbacks of an agent run behind those of plugins, and could change arguments
// after they were asked about: give agents none that do, and this plugin as the
// last one.
//
// # Reads of state
//
// Methods of a session's state take no context, and one session serves all agents of
// a run. So the package knows the reader from the plugin's callbacks, by a stack for
// each branch. If several agents could be the reader, a key must be permitted to
// each of them. Deciding for the last one would lend the rights of an agent that has
// ended, or of a sibling. The goroutine is no identity, because tools run on others.
// Outside a run nothing can be read.
package powerboxadk
