package agentcard

// Behaviour is something that an agent was seen to do, for which a feature has to
// be declared.
type Behaviour string

// The behaviours, by the feature that each takes. What else an agent does is not
// the contract's.
const (
	Streams            Behaviour = "streaming"           // it answered with a stream
	StreamsMessages    Behaviour = "streaming_message"   // it streamed a Message with partial: true
	RegistersPush      Behaviour = "push_notifications"  // it took a registration for push notifications
	ServesExtendedCard Behaviour = "extended_agent_card" // it answered GetExtendedAgentCard with a card
	Pauses             Behaviour = "pause_resume"        // it said that a task is paused
)

// Drifts reports whether an agent does what its card does not declare (CARD-12).
func Drifts(c Card, b Behaviour) bool { return !c.Supports(string(b)) }

// DriftsVersion reports whether an agent answers calls of a version that its card
// has no interface for. Binding "" is any.
func DriftsVersion(c Card, binding string, v Version) bool {
	for _, i := range c.faces {
		if (binding == "" || i.Binding == binding) && i.Speaks(v) {
			return false
		}
	}
	return true
}

// NotServed is what an agent was seen to do that declares a behaviour and refuses it.
func NotServed(b Behaviour) string { return string(b) + ":not_served" }
