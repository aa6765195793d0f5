package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/token"
)

// Try is a call that is not made. It names a caller, a capability on record or a token, or
// a caller and one of these.
type Try struct {
	Agent      string          `json:"agent"`
	Operation  string          `json:"operation"` // grant/operation, as the agent offers it
	Arguments  json.RawMessage `json:"arguments,omitempty"`
	Caller     string          `json:"caller,omitempty"`     // configured name; its scope is asked
	Capability string          `json:"capability,omitempty"` // id
	Token      string          `json:"token,omitempty"`      // a compact chain, root first
}

// Verdict says whether the call would be allowed, and what each layer says.
type Verdict struct {
	Allowed bool    `json:"allowed"`
	Layers  []Layer `json:"layers"` // in the order in which they are asked
	// Untried names the checks that a call that is not made cannot pass.
	Untried []string `json:"untried"`
}

// Layer is one check.
type Layer struct {
	Name  string `json:"name"`
	Holds bool   `json:"holds"`
	Code  string `json:"code,omitempty"` // of the first reason, as a denial has it
	Says  string `json:"says"`
}

func (v *Verdict) layer(name string, holds bool, code, says string) {
	v.Layers = append(v.Layers, Layer{name, holds, code, says})
	v.Allowed = v.Allowed && holds
}

// reasoned adds a layer that holds without reasons against it.
func (v *Verdict) reasoned(name string, denied []evidence.Reason, held string) {
	if len(denied) == 0 {
		v.layer(name, true, "", held)
		return
	}
	says := make([]string, len(denied))
	for i, r := range denied {
		says[i] = r.Message
	}
	v.layer(name, false, denied[0].Code, strings.Join(says, "; "))
}

// decided adds what the algebra says.
func (v *Verdict) decided(name string, d powerbox.Decision, held string) {
	denied := make([]evidence.Reason, len(d.Reasons))
	for i, r := range d.Reasons {
		denied[i] = evidence.Reason{Code: string(r.Code), Message: r.String()}
	}
	v.reasoned(name, denied, held)
}

// tries answers a call that is not made. Nothing of it is kept.
func (a *Admin) tries(r *http.Request) (any, error) {
	var q Try
	if err := decode(r, &q); err != nil {
		return nil, err
	}
	if q.Caller == "" && q.Capability == "" && q.Token == "" {
		return nil, status{http.StatusBadRequest, "name a caller, a capability or a token"}
	}
	if q.Capability != "" && q.Token != "" {
		return nil, status{http.StatusBadRequest, "name a capability or a token, not both"}
	}
	if !at(r, q.Agent) {
		return nil, status{http.StatusNotFound, unknownAgent(q.Agent)}
	}
	attempt, err := a.attempt(q)
	if err != nil {
		return nil, err
	}
	v := &Verdict{Allowed: true, Untried: []string{"the proof of the holder", "budgets", "policies that look at the single call", "approvals of people"}}
	if a.Issuer.Frozen(issuer.AgentTarget(q.Agent)) {
		v.layer("agent", false, gate.CodeFrozen, "an operator froze the agent "+q.Agent)
	} else {
		v.layer("agent", true, "", q.Agent+" offers the operation and is not frozen")
	}
	switch {
	case q.Token != "":
		err = a.tryToken(v, q, attempt)
	case q.Capability != "":
		err = a.tryCapability(r, v, q, attempt)
	}
	if err != nil {
		return nil, err
	}
	if q.Caller != "" {
		if err := a.knows(r, q.Caller, q.Agent); err != nil {
			return nil, err
		}
		v.reasoned("scope", a.Can(q.Caller, q.Agent, attempt), "the scope of "+q.Caller+" at "+q.Agent+" allows it")
	}
	return v, nil
}

// attempt reads what would be called.
func (a *Admin) attempt(q Try) (powerbox.Attempt, error) {
	name := q.Agent + "/" + strings.TrimPrefix(q.Operation, q.Agent+"/")
	if err := a.Issuer.Offers(q.Agent, name); err != nil {
		return powerbox.Attempt{}, status{http.StatusNotFound, err.Error()}
	}
	op, err := powerbox.ParseOperation(name)
	if err != nil {
		return powerbox.Attempt{}, status{http.StatusBadRequest, "operation: " + err.Error()}
	}
	args := powerbox.Object()
	if len(q.Arguments) > 0 {
		if args, err = powerbox.ParseValue(q.Arguments); err != nil {
			return powerbox.Attempt{}, status{http.StatusBadRequest, "arguments: " + err.Error()}
		}
	}
	attempt, err := powerbox.Invocation(op, args)
	if err != nil {
		return attempt, status{http.StatusBadRequest, err.Error()}
	}
	return attempt, nil
}

// tryToken checks every link of a chain, so that the first that fails is named.
func (a *Admin) tryToken(v *Verdict, q Try, attempt powerbox.Attempt) error {
	keys, ok := a.Issuing(q.Agent)
	if !ok {
		return status{http.StatusNotFound, "no agent " + q.Agent + " issues here"}
	}
	chain := token.SplitChain(q.Token)
	o := token.Options{Now: a.Now(), Revoked: a.Issuer.Revoked, Draft01: a.Drafts.Old, Strict: a.Drafts.Strict}
	for n := range chain {
		u, err := token.ParseChain(chain[:n+1])
		if err != nil {
			return status{http.StatusBadRequest, "token: " + err.Error()}
		}
		links := u.Describe()
		name := "link " + links[n].ID
		verified, err := u.Verify(keys.Accepted(), o)
		if err != nil {
			code := ""
			if problem := (*token.Error)(nil); errors.As(err, &problem) {
				code = string(problem.Code)
			}
			v.layer(name, false, code, err.Error())
			return nil
		}
		v.layer(name, true, "", "signed, in time, no wider than the link before, not revoked; until "+links[n].Expires.UTC().Format(time.RFC3339))
		if n == len(chain)-1 {
			if id := a.frozenOf(verified); id != "" {
				v.layer("freeze", false, gate.CodeFrozen, "an operator froze "+id)
			}
			v.decided("authority", powerbox.Decide(attempt, verified.Authority(), a.Now()), "the token allows the operation with these arguments")
		}
	}
	return nil
}

// frozenOf is what of a chain is frozen, "" for nothing.
func (a *Admin) frozenOf(t token.Verified) string {
	ids := append(t.IDs(), t.HolderNames()...)
	if private, ok := t.Private(); ok {
		ids = append(append(ids, issuer.ParseLineage(private.Capability)...), private.Principal)
	}
	for _, id := range ids {
		if a.Issuer.Frozen(id) {
			return id
		}
	}
	return ""
}

// tryCapability asks a capability on record.
func (a *Admin) tryCapability(r *http.Request, v *Verdict, q Try, attempt powerbox.Attempt) error {
	c, err := a.ofOwn(r, q.Capability)
	switch {
	case errors.Is(err, issuer.ErrNotFound):
		return status{http.StatusNotFound, "no capability " + q.Capability + " is on record"}
	case err != nil:
		return err
	case c.Agent != q.Agent:
		v.layer("capability", false, gate.CodeCapabilityUnknown, "it is for agent "+c.Agent)
		return nil
	}
	if until := c.Expires.UTC().Format(time.RFC3339); c.Expires.After(a.Now()) {
		v.layer("time", true, "", "it holds until "+until)
	} else {
		v.layer("time", false, string(powerbox.CodeExpired), "it ended at "+until)
	}
	if a.Issuer.Dead(c) {
		v.layer("revocation", false, gate.CodeRevoked, "it was revoked, or something that it descends from")
	} else {
		v.layer("revocation", true, "", "neither it nor anything that it descends from was revoked")
	}
	if a.Issuer.Stopped(c) {
		v.layer("freeze", false, gate.CodeFrozen, "an operator froze it, its holder, its person or its agent")
	}
	v.decided("authority", powerbox.Decide(attempt, c.Authority, a.Now()), "it allows the operation with these arguments")
	return nil
}
