package agentcard

import (
	"slices"
	"strings"
)

// ContractURI names the extension by which an agent declares its contract on a
// card of today (CARD-20, ADR 50). It is compared exactly.
const ContractURI = "https://github.com/powerbox-project/powerbox/extensions/capability-contract/v1"

// Tier says how an agent comes to have a feature.
type Tier string

// The tiers of the proposal.
const (
	Implicit   Tier = "implicit"   // every agent has it without declaring it (CARD-1)
	Declared   Tier = "declared"   // who has it declares it (CARD-2)
	Deprecated Tier = "deprecated" // supported and discouraged (CARD-4)
	Vendor     Tier = "vendor"     // an extension's, or a vendor's own (CARD-3)
)

// Feature is one capability of an agent as a peer, which the proposal calls a
// capability: what it can do in the protocol, not what it is allowed to.
type Feature struct {
	Name        string `json:"name"`
	Tier        Tier   `json:"tier"`
	Meaning     string `json:"meaning"`
	Replacement string `json:"replacement,omitempty"` // of a deprecated one
	member      string // of capabilities, in JSON
	native      bool   // a member that A2A itself has
	since       Version
}

var v10 = Version{major: 1, patch: -1, set: true}

// features are the ones that have a name. Vendors add theirs under names of
// their own.
var features = []Feature{
	{Name: "send_message", Tier: Implicit, Meaning: "SendMessage with one message and no history"},
	{Name: "get_task", Tier: Implicit, Meaning: "GetTask"},
	{Name: "list_tasks", Tier: Implicit, Meaning: "ListTasks; not demanded of agents that speak 0.3 alone", since: v10},
	{Name: "error_handling", Tier: Implicit, Meaning: "the protocol's own errors, with their codes"},

	{Name: "pause_resume", Tier: Declared, Meaning: "tasks can be paused and resumed", member: "pauseResume"},
	{Name: "streaming_message", Tier: Declared, Meaning: "Message objects are streamed with partial: true", member: "streamingMessage"},
	{Name: "push_notifications", Tier: Declared, Meaning: "push notifications can be registered", member: "pushNotifications", native: true},
	{Name: "context_reuse", Tier: Declared, Meaning: "context ids can be shared across separate calls", member: "contextReuse"},
	{Name: "multi_tenant", Tier: Declared, Meaning: "the agent works in multi-tenant mode", member: "multiTenant"},
	{Name: "message_history_injection", Tier: Declared, Meaning: "SendMessage takes an injected message history", member: "messageHistoryInjection"},
	{Name: "streaming", Tier: Declared, Meaning: "SendStreamingMessage and SubscribeToTask", member: "streaming", native: true},
	{Name: "extended_agent_card", Tier: Declared, Meaning: "GetExtendedAgentCard", member: "extendedAgentCard", native: true},

	{Name: "artifact_streaming", Tier: Deprecated, Meaning: "artifacts are streamed directly", Replacement: "streaming_message", member: "artifactStreaming"},
	{Name: "state_transition_history", Tier: Deprecated, Meaning: "state transitions are kept; 1.0 has it no longer", Replacement: "the history of GetTask", member: "stateTransitionHistory", native: true},
}

// Features returns every feature that has a name here.
func Features() []Feature { return slices.Clone(features) }

// LookupFeature returns a feature by its name.
func LookupFeature(name string) (Feature, bool) {
	i := slices.IndexFunc(features, func(f Feature) bool { return f.Name == name })
	if i < 0 {
		return Feature{}, false
	}
	return features[i], true
}

// isVendorName reports whether a name is one that vendors give to their features:
// a namespace with a dot, a slash, and a name, such as com.example/fast_lane, or
// an absolute URI, which is that of an extension.
func isVendorName(name string) bool {
	if isAbsolute(name) {
		return true
	}
	space, rest, ok := strings.Cut(name, "/")
	return ok && rest != "" && strings.Contains(strings.Trim(space, "."), ".") && !strings.ContainsAny(name, " \t\r\n")
}

// Declaration is what a card says about one feature.
type Declaration struct {
	Feature
	Supported bool     `json:"supported"`
	Pointers  []string `json:"pointers,omitempty"` // where the card says so
	Signed    bool     `json:"-"`                  // at least one of them is what a signature is about
	Schema    string   `json:"schema,omitempty"`   // of a vendor's, as JSON
	said      []bool   // at each of the pointers; nil where it is there or not
}

// declare reads what the card says about every feature that has a name. False
// anywhere makes it false: what contradicts itself is not relied on.
func (c *Card) declare() {
	params, at0 := c.contract()
	caps := c.root.get("capabilities")
	speaks := len(c.faces) == 0 || slices.ContainsFunc(c.faces, func(i Interface) bool { return i.Binding != mcp })
	for _, f := range features {
		d := Declaration{Feature: f}
		switch {
		case f.Tier == Implicit:
			d.Supported, d.Signed = speaks && (f.since.IsZero() || c.dialects&in10 != 0), true
		case f.Name == "extended_agent_card" && caps.get("extendedAgentCard", "extended_agent_card") == nil:
			d.read(c.root.get("supportsAuthenticatedExtendedCard"), "/supportsAuthenticatedExtendedCard", true)
		default:
			for _, name := range []string{f.member, f.Name} {
				d.read(caps.get(name), at("/capabilities", name), f.native)
				if f.member == f.Name {
					break
				}
			}
		}
		if f.Tier != Implicit && !f.native {
			d.read(params.get(f.Name), at(at0, f.Name), true)
		}
		c.declared = append(c.declared, d)
	}
	c.vendors(params, at(at0, "vendor"))
}

// read takes one place of the card into account.
func (d *Declaration) read(n *node, pointer string, signed bool) {
	switch {
	case n.is('t'):
		d.Supported = d.Supported || len(d.Pointers) == 0
	case n.is('f'):
		d.Supported = false
	default:
		return
	}
	d.Pointers, d.said, d.Signed = append(d.Pointers, pointer), append(d.said, n.is('t')), d.Signed || signed
}

// vendors reads what the contract and the extensions of the card add.
func (c *Card) vendors(params *node, pointer string) {
	for _, m := range params.get("vendor").object() {
		d := Declaration{Feature: Feature{Name: m.name, Tier: Vendor, Meaning: m.value.get("description").str()}, Signed: true}
		d.read(m.value.get("supported"), at(at(pointer, m.name), "supported"), true)
		if s := m.value.get("schema"); s.is('{') {
			d.Schema = string(s.append(nil))
		}
		c.declared = append(c.declared, d)
	}
	for i, e := range c.root.get("capabilities").get("extensions").elements() {
		if uri := e.get("uri").str(); uri != "" {
			c.declared = append(c.declared, Declaration{
				Feature: Feature{Name: uri, Tier: Vendor, Meaning: e.get("description").str()}, Supported: true, Signed: true,
				Pointers: []string{atIndex("/capabilities/extensions", i)},
			})
		}
	}
}

// object returns the members of an object.
func (n *node) object() []member {
	if n == nil {
		return nil
	}
	return n.members
}

// contract returns the params of the contract extension and where they are.
func (c *Card) contract() (*node, string) {
	for i, e := range c.root.get("capabilities").get("extensions").elements() {
		if e.get("uri").str() == ContractURI {
			return e.get("params"), at(atIndex("/capabilities/extensions", i), "params")
		}
	}
	return nil, ""
}
