package guard

// Kind is the kind of a tool.
type Kind uint8

// The kinds of tools. The zero kind is a tool that no client file knows; it is denied.
const (
	Unknown   Kind = iota
	Shell          // Command
	Reading        // Paths
	Editing        // Paths; Deleted are removed
	Listing        // Paths, and Pattern below them
	Fetching       // URL
	Searching      // the web
	MCP            // Server and Tool
	Starting       // a sub-agent of type Type
	Harmless       // changes and reveals nothing outside the conversation
)

// Call is one tool call, in the terms that all clients share.
type Call struct {
	Kind    Kind
	Tool    string // as the client calls it
	ID      string // of the call; "" where the client has none
	Command string
	Paths   []string
	Deleted []string
	Pattern string
	URL     string
	Server  string
	Type    string
}

// Moment is when in a session an event happens.
type Moment uint8

// The moments. The zero moment asks for nothing.
const (
	Other Moment = iota
	SessionStart
	SessionEnd
	AgentStart
	AgentEnd
	Before // a call, which can still be stopped
	After  // a call, which has happened
	Failed // a call, which has failed
)

// Event is what a hook of a client says.
type Event struct {
	Moment    Moment
	Name      string // of the client's hook
	Session   string
	Agent     string // the sub-agent; "" for the session's main agent
	AgentType string
	// Parent is the agent that started Agent, "" for the main agent, where ParentKnown says
	// that the client tells.
	Parent      string
	ParentKnown bool
	Dir         string // absolute: where commands run
	Call        Call
	CanAsk      bool // the client itself can ask the user about this call
}
