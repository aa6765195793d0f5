package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// resolveTime bounds the look-up of an address that events are to be posted to.
const resolveTime = 5 * time.Second

// pushable returns why the events of a task may not be posted to where a call
// wants them, nil where they may. It is asked of callers that may have them
// posted at all: other callers cannot have names looked up.
func (g *Gateway) pushable(x *decoded) *evidence.Reason {
	if x.Drift == DriftBlock && x.mode != gate.Observe && !x.view.contract.Supports(string(registersPush)) {
		// Events would leave the agent directly, so that it is refused before.
		return &evidence.Reason{Code: codeUndeclared, Message: "the agent's card does not declare push notifications"}
	}
	if g.pushes.full(x) {
		return &evidence.Reason{
			Code: a2a.ReasonPush, Message: fmt.Sprintf("a task can have its events posted to %d addresses at most; delete one", maxPushes),
		}
	}
	if x.relays() {
		if why := x.relayable(); why != "" {
			return &evidence.Reason{Code: a2a.ReasonPush, Message: why}
		}
	}
	if err := g.pushAddress(x); err != nil {
		return &evidence.Reason{Code: a2a.ReasonPush, Message: err.Error()}
	}
	return nil
}

// pushAddress returns why the events of a task may not be posted to where the
// call wants them (ATK-17). Without a relay they leave the agent without passing
// the gateway, so that this is where it can be said.
func (g *Gateway) pushAddress(x *decoded) error {
	address := x.call.Push.URL
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return errors.New("events cannot be posted there; want an absolute URL without user name and fragment")
	}
	if len(x.PushHosts) > 0 && !slices.ContainsFunc(x.PushHosts, func(pattern string) bool { return matchesHost(pattern, u.Hostname()) }) {
		return fmt.Errorf("events may not be posted to %q; the operator of this agent names the hosts that they may", u.Hostname())
	}
	ctx, cancel := context.WithTimeout(x.request.Context(), resolveTime)
	defer cancel()
	if err := g.config.PushAddress(ctx, address, x.PushPrivate); err != nil {
		// The address of a name here is private.
		g.config.Log.WarnContext(ctx, "an address for events was refused", "agent", x.ID, "error", err)
		return fmt.Errorf("events may not be posted to %q; want https, to a host with public addresses alone", u.Hostname())
	}
	return nil
}

// matchesHost reports whether a host is the named one, or, with *. in front, one
// below it.
func matchesHost(pattern, host string) bool {
	pattern, host = strings.ToLower(pattern), strings.ToLower(strings.TrimSuffix(host, "."))
	if below, ok := strings.CutPrefix(pattern, "*"); ok {
		return strings.HasSuffix(host, below) && len(host) > len(below)
	}
	return host == pattern
}

// Bounds of what a counter remembers, and allows.
const (
	maxPushes  = 16 // configurations of one task
	maxCounted = 1 << 16
)

// counter bounds how many addresses events of one task are posted to. It is of
// this process, and begins anew when it is full.
type counter struct {
	mu    sync.Mutex
	tasks map[counted]int
}

// counted is a task, as it is told from others.
type counted struct{ agent, tenant, task string }

func (x *decoded) counted() counted { return counted{x.ID, x.call.Tenant, x.call.Task} }

func newCounter() *counter { return &counter{tasks: map[counted]int{}} }

// full reports whether a task has as many configurations as it can have.
func (n *counter) full(x *decoded) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return x.call.Task != "" && n.tasks[x.counted()] >= maxPushes
}

// count takes up the place of a configuration that may be set.
func (n *counter) count(x *decoded) {
	if x.call.Push == nil || x.call.Task == "" {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.tasks) >= maxCounted {
		clear(n.tasks)
	}
	n.tasks[x.counted()]++
}

// deleted gives up the place of a configuration that the agent has deleted.
func (n *counter) deleted(x *decoded) {
	if x.call.Method != a2a.DeletePushConfig {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if task := x.counted(); n.tasks[task] > 0 {
		n.tasks[task]--
	}
}
