package holder

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

// Narrowing is the narrower form that a holder makes of its capability offline.
// Nil and zero members stay as they are, except for Depth: without it the capability
// cannot be passed on.
type Narrowing struct {
	Operations []string // as the capability has them, or qualified
	Handles    []string // an operation that takes a handle and none of these is gone
	Expires    time.Time
	Depth      int // how often the result may be passed on, or narrowed again
	// Audience are the enforcement points that the result may be presented to. Nil adds no
	// limit to one for the same holder; to another one goes a capability for its agent alone.
	Audience []string
	// Strict leaves nothing to constraint types that the token draft does not define, and
	// refuses what has some.
	Strict bool
}

// Narrow derives a narrower capability for the same holder, offline. A wider
// capability is refused, and the error names it. A capability by reference has to
// be attenuated by its issuer.
func (c *Client) Narrow(held Capability, n Narrowing) (Capability, error) {
	return c.derive(held, n, token.PublicKey{})
}

// Delegate derives a narrower capability for the holder of another key,
// offline: it may go in request metadata, since without that key it is of no
// use. The capability of the delegating holder itself is never handed on.
func (c *Client) Delegate(held Capability, to token.PublicKey, n Narrowing) (Capability, error) {
	if to.IsZero() {
		return Capability{}, errors.New("holder: delegating needs the recipient's key; its card publishes none")
	}
	if c.Key != nil && to == c.Key.Public() {
		return Capability{}, errors.New("holder: the recipient has the same key, and so could use the wider capability; use Narrow for the same holder")
	}
	if n.Audience == nil && held.Grant != "" { // the agent that issued it decides on it
		n.Audience = []string{held.Agent}
	}
	return c.derive(held, n, to)
}

func (c *Client) derive(held Capability, n Narrowing, to token.PublicKey) (Capability, error) {
	if err := c.check(); err != nil {
		return Capability{}, err
	}
	if held.Chain == nil {
		return Capability{}, errors.New("holder: the capability is by reference only; use Attenuate")
	}
	_, parent, err := fromChain(held.Chain, c.Now())
	if err != nil {
		return Capability{}, err
	}
	tools, err := n.tools(held, parent.Tools())
	if err != nil {
		return Capability{}, err
	}
	links := parent.Links()
	if last := links[len(links)-1]; last.Depth >= last.MaxDepth {
		return Capability{}, &token.Error{Code: token.CodeWidened, Link: token.NoLink, Message: "the capability can be narrowed or delegated no further; derive it again from the one before, with a depth"}
	}
	id, err := c.newID()
	if err != nil {
		return Capability{}, err
	}
	if to.IsZero() {
		to = c.Key.Public()
	}
	child, err := token.Derive(parent, c.Key, token.Narrowing{
		ID: id, Now: c.Now(), Tools: tools, Expires: n.Expires, MaxDepth: n.Depth, Holder: to,
		Audience: n.Audience, Strict: n.Strict,
	})
	if err != nil {
		return Capability{}, err
	}
	out, _, err := fromChain(append(slices.Clone(held.Chain), child), c.Now())
	if err != nil {
		return Capability{}, err
	}
	out.Task, out.Tenant = held.Task, held.Tenant
	for _, h := range held.Handles {
		if n.Handles == nil || slices.Contains(n.Handles, h.Handle) {
			out.Handles = append(out.Handles, h)
		}
	}
	return out, nil
}

// tools returns the remaining operations of the parent.
func (n Narrowing) tools(held Capability, parent []powerbox.Clause) ([]powerbox.Clause, error) {
	keptOperations, keptHandles := map[string]bool{}, map[string]bool{}
	var kept []powerbox.Clause
	for _, clause := range parent {
		name := clause.Pattern.Name()
		if n.Operations != nil && !reserved(name) {
			i := slices.IndexFunc(n.Operations, func(o string) bool { return o == name || o == wireName(name, held.Grant) })
			if i < 0 {
				continue
			}
			keptOperations[n.Operations[i]] = true
		}
		if n.Handles != nil && !reserved(name) {
			shape, ok, err := n.shape(held, clause.Shape, keptHandles)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
			clause.Shape = shape
		}
		kept = append(kept, clause)
	}
	for _, o := range n.Operations {
		if !keptOperations[o] {
			return nil, fmt.Errorf("holder: operation %q is not in the capability or takes none of the handles; it has %v", o, held.Operations)
		}
	}
	for _, h := range n.Handles {
		if !keptHandles[h] {
			return nil, errors.New("holder: a handle of the narrowing is not in the capability")
		}
	}
	return kept, nil
}

// shape narrows the arguments that take a handle, which are those that are
// bound to some of the handles of the capability. The result is false where no
// handle is left.
func (n Narrowing) shape(held Capability, s powerbox.Shape, seen map[string]bool) (powerbox.Shape, bool, error) {
	fields := slices.Clone(s.Fields())
	for i, f := range fields {
		var values []powerbox.Value
		if c, ok := f.Constraint.(powerbox.OneOf); ok {
			values = c.Values
		} else if c, ok := f.Constraint.(powerbox.ExactValue); ok {
			values = []powerbox.Value{c.Value} // the only one
		}
		if !slices.ContainsFunc(values, func(v powerbox.Value) bool { return n.isHandle(held, v) }) {
			continue
		}
		var left []powerbox.Value
		for _, v := range values {
			if h, _ := v.Text(); slices.Contains(n.Handles, h) {
				left = append(left, v)
				seen[h] = true
			}
		}
		if len(left) == 0 {
			return s, false, nil
		}
		if len(left) < len(values) {
			fields[i].Constraint = powerbox.OneOf{Values: left}
		}
	}
	narrowed, err := powerbox.NewShape(s.Rest(), fields...)
	return narrowed, true, err
}

// isHandle reports whether a value is a handle that we know. Handles cannot be
// guessed, so no other argument has such a value by chance.
func (n Narrowing) isHandle(held Capability, v powerbox.Value) bool {
	s, ok := v.Text()
	return ok && (slices.Contains(n.Handles, s) || slices.ContainsFunc(held.Handles, func(h Handle) bool { return h.Handle == s }))
}
