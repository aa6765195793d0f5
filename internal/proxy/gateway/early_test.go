package gateway

import (
	"net/http"
	"testing"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/mcp"
)

// inMode is a call on its way to the agent, in a mode.
func inMode(mode gate.Mode, call a2a.Call) *forwardable {
	return &forwardable{decided: &decided{decoded: &decoded{mode: mode, call: call}}}
}

// TestEventsOfMCPPassInObserve: in observe, and where an event is empty, nothing of an event is
// read or cut. Elsewhere an event that cannot be read does not pass.
func TestEventsOfMCPPassInObserve(t *testing.T) {
	for name, c := range map[string]struct {
		mode  gate.Mode
		event string
		pass  bool
	}{
		"observe": {gate.Observe, "no JSON", true}, "an empty event": {gate.Require, " \n", true}, "require": {gate.Require, "no JSON", false},
	} {
		instead, pass, err := (&Gateway{}).mcpEvent(nil, inMode(c.mode, a2a.Call{Binding: a2a.MCP}), []byte(c.event))
		if instead != nil || pass != c.pass || (err == nil) != c.pass {
			t.Errorf("%s: %s %t %v", name, instead, pass, err)
		}
	}
}

// TestSessionOfTheCallIsNotBoundAgain: an answer that repeats the session of its call asks nothing
// of the store, which a remote gateway would ask over the network.
func TestSessionOfTheCallIsNotBoundAgain(t *testing.T) {
	r := &http.Response{Header: http.Header{}}
	r.Header.Set(mcp.HeaderSession, "session-1")
	if err := (&Gateway{}).bindSession(r, inMode(gate.Require, a2a.Call{Binding: a2a.MCP, Context: sessionPrefix + "session-1"})); err != nil {
		t.Error(err)
	}
	r.Header.Add(mcp.HeaderSession, "session-2")
	if err := (&Gateway{}).bindSession(r, inMode(gate.Require, a2a.Call{Binding: a2a.MCP})); err == nil {
		t.Error("an answer with two sessions is taken")
	}
}

// TestOnlyListsArePaged: other calls, and lists in observe, are not looked at for pages.
func TestOnlyListsArePaged(t *testing.T) {
	for _, x := range []*forwardable{inMode(gate.Require, a2a.Call{Method: a2a.GetTask, Context: "c1"}), inMode(gate.Observe, a2a.Call{Method: a2a.ListTasks, Context: "c1"})} {
		if err := (&Gateway{}).openPage(x, false); err != nil {
			t.Error(err)
		}
	}
}
