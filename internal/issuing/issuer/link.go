package issuer

import (
	"context"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/token"
)

// shown is a chain that was presented so that its last link is revoked. The
// issuer may never have seen it: holders derive offline.
type shown struct {
	agent    *Agent
	verified token.Verified
	target   string // what revoking names: the hash of the link, or the id of a root
	until    time.Time
}

// show verifies a chain under the keys of the agent that its root names.
func (i *Issuer) show(chain []string) (shown, error) {
	u, err := token.ParseChain(chain)
	if err != nil {
		return shown{}, noTarget("the chain: %v", err)
	}
	var s shown
	named := u.Describe()[0].Issuer
	for _, a := range i.all() {
		if a.URL == named {
			s.agent = a
		}
	}
	if s.agent == nil {
		return shown{}, noTarget("the root of the chain is of %q, which is no agent here", named)
	}
	// A dead link is revoked all the same: it then stays dead if
	// its ancestor was revoked for a shorter time.
	s.verified, err = u.Verify(s.agent.accepts(), anyDraft(i.config.Now()))
	if err != nil {
		return shown{}, noTarget("the chain: %v", err)
	}
	ids, links := s.verified.IDs(), s.verified.Links()
	s.target, s.until = ids[len(ids)-1], links[len(links)-1].Expires
	if len(links) == 1 {
		s.target = ids[0] // by which capabilities attenuated here descend from it
	}
	return s, nil
}

// anyDraft are the options of revoking, which is possible in every draft.
func anyDraft(now time.Time) token.Options {
	return token.Options{Now: now, Revoked: token.UnsafeNothingRevoked, Draft01: true}
}

// linkArguments are what a proof for revoking a link names as its arguments:
// the id of the link, which is the base64url SHA-256 of its signing input.
func linkArguments(id string) powerbox.Value {
	return powerbox.Object(powerbox.Member{Name: "id", Value: powerbox.String(id)})
}

// RevokeLink ends the last link of a chain and everything that descends from it,
// whether or not it was seen here before. A holder of the chain may do it, with
// its key as the caller or by a proof over that link, and the principal behind
// it; every other caller is refused.
func (i *Issuer) RevokeLink(ctx context.Context, agentID string, caller identity.Caller, chain []string, proof string) (Revocation, error) {
	record, err := i.newRecord(agentID, caller, action.CapabilityRevoke, evidence.Intent{Operation: OperationCapability})
	if err != nil {
		return Revocation{}, err
	}
	s, err := i.show(chain)
	if err != nil || s.agent.ID != agentID || !i.mayRevoke(s, caller, chain, proof) {
		return Revocation{}, i.denied(ctx, record, refuse(CodeCapabilityUnknown, "the chain does not hold at this agent, or neither the caller nor the proof is of a holder or the user of it"))
	}
	return i.revoke(ctx, record, s.target, s.until, requester(caller))
}

// mayRevoke reports whether a caller is a holder of the chain or the user behind
// it, or the proof is of a holder. A proof is not used up: what it does, it does
// once.
func (i *Issuer) mayRevoke(s shown, caller identity.Caller, chain []string, proof string) bool {
	private, _ := s.verified.Private()
	if caller.Principal != "" && private.Principal == i.Pseudonym(s.agent.ID, caller.Principal) {
		return true
	}
	for _, h := range s.verified.Holders() {
		if caller.Holder.ID == "key:"+h.Thumbprint() {
			return true
		}
	}
	op, err := operation(OperationCapability)
	if err != nil || proof == "" {
		return false
	}
	now := i.config.Now()
	for n := range chain {
		u, err := token.ParseChain(chain[:n+1])
		if err != nil {
			return false
		}
		v, err := u.Verify(s.agent.accepts(), anyDraft(now))
		if err != nil {
			return false
		}
		if _, err := v.CheckProof(proof, token.Expected{Now: now, Operation: op, Arguments: linkArguments(s.target), Audience: s.agent.URL, Identity: v.Audiences()}); err == nil {
			return true
		}
	}
	return false
}
