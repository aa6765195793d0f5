package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"strings"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// ModeRule is the mode of one caller at an agent, or of the calls about one of
// its grants: exactly one of the two is set.
type ModeRule struct {
	Caller string // configured name
	Grant  string
	Mode   gate.Mode
	Canary int // share of callers in percent that the mode holds for; the others are observed
}

// share returns the mode for one caller: that of the agent for the canary's
// share of callers, and observe for the others. A caller always gets the same.
// The share is for rolling a mode out, not a boundary: it is by the holder,
// which a caller can change.
func (a *agent) share(m gate.Mode, canary int, c identity.Caller) gate.Mode {
	sum := sha256.Sum256([]byte(a.ID + "\x00" + c.Holder.ID + "\x00" + c.Principal))
	if int(binary.BigEndian.Uint32(sum[:])%100) >= canary {
		return gate.Observe
	}
	return m
}

// modeNow returns the mode for an exchange whose caller is known: that of the
// first rule that is about it, and the agent's otherwise. What an operator has
// set goes over the rules, as it goes over the rest of the configuration.
func (g *Gateway) modeNow(ctx context.Context, x *decoded, readable bool) (gate.Mode, error) {
	configured := x.share(x.mode, x.Canary, x.caller)
	if len(x.Modes) == 0 {
		return configured, nil
	}
	if g.config.ModeSet != nil {
		if set, err := g.config.ModeSet(ctx, x.ID); set || err != nil {
			return configured, err
		}
	}
	grant := ""
	if readable {
		grant = x.by().wholly(x)
	}
	if own, err := g.inOwnSession(ctx, x, grant); err != nil {
		return configured, err
	} else if !own {
		grant = "" // whose the session is, is not a matter of the tool
	}
	for _, r := range x.Modes {
		if r.Caller != "" && r.Caller == x.caller.Agent || r.Grant != "" && r.Grant == grant {
			return x.share(r.Mode, r.Canary, x.caller), nil
		}
	}
	return configured, nil
}

// inOwnSession reports whether a call that a rule about a grant may be about is in no session
// of another caller. Only a caller that is known can have one.
func (g *Gateway) inOwnSession(ctx context.Context, x *decoded, grant string) (bool, error) {
	session, ok := x.session()
	if !ok || grant == "" {
		return true, nil
	}
	owner, known, err := g.config.Tasks.Owner(ctx, x.ID, "", sessionNamed(session).key())
	return !known || owner.Holder == x.caller.Holder.ID && owner.Principal == g.config.Pseudonym(x.ID, x.caller.Principal), err
}

// wholly implements [meaning]: words beside a named skill could ask for anything, which the mode of
// that skill's grant must not let through.
func (ofA2A) wholly(x *decoded) string {
	switch x.call.Method {
	case a2a.SendMessage, a2a.SendStreamingMessage, a2a.SkillInvoke, a2a.TaskSend:
	default:
		return ""
	}
	if c := x.call; c.Task != "" || c.Context != "" || len(c.ReferenceTasks) > 0 || c.Push != nil {
		return "" // whose the task is, and where events go, is not a matter of the skill
	}
	named, found, wrong := x.call.Naming(x.skill)
	if !found || wrong != nil || x.call.Message.Loose && x.skill == "" {
		return ""
	}
	return grantOf(x.Skills[named.Skill])
}

// grantOf is the grant whose operation a skill is, "" for none.
func grantOf(s Skill) string {
	parts := strings.Split(s.Operation.String(), "/")
	if len(parts) != 3 {
		return ""
	}
	return parts[1]
}
