package gate

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

// Chains resolves token chains offline: the chain under the target's own keys,
// then the proof of the last holder. It is the first of the two [Resolver]s.
type Chains struct {
	Memo        *token.Memo // required; remembers signatures, never verdicts
	Revocations Revocations // required
	// Started is when this gate began to remember proofs, to the second. Earlier
	// proofs are refused: nobody knows whether they were used.
	Started time.Time
}

// Resolve implements [Resolver].
func (c Chains) Resolve(_ context.Context, call *Call, p Presented, now time.Time) (Held, error) {
	v, err := c.Memo.Verify(token.JoinChain(p.Chain), call.Target.Anchors, token.Options{Now: now, Revoked: c.Revocations.Revoked})
	if err != nil {
		return Held{}, refusal(err)
	}
	if v.Issuer() != call.Target.URL {
		// The key is the agent's own, but the token names another issuer.
		return Held{}, &Refusal{[]Reason{{Code: string(token.CodeIssuer), Link: 0, Message: "the root token was not issued by this agent"}}}
	}
	private, ok := v.Private()
	if !ok {
		return Held{}, &Refusal{[]Reason{{Code: string(token.CodeMissingClaim), Link: 0, Message: "the root token does not say which capability it is"}}}
	}
	proof, err := c.proof(v, call, p.Proof, now)
	if err != nil {
		return Held{}, refusal(err)
	}
	if proof.IssuedAt.Unix() < c.Started.Unix() {
		return Held{}, &Refusal{[]Reason{{Code: CodeReplay, Link: -1, Message: "the proof is older than this gateway's memory; sign a new one"}}}
	}
	lineage := strings.Split(private.Capability, "/")
	return Held{
		Capability: v.ID(), OnRecord: lineage[len(lineage)-1], Root: lineage[0], Principal: private.Principal,
		Holder: "key:" + v.Holder().Thumbprint(), Authority: v.Authority(),
		Links: append(lineage, v.IDs()...), Chain: v.Tokens(), Legacy: private.Legacy,
		ProofID: v.Holder().Thumbprint() + "/" + proof.ID, ProofUntil: now.Add(2 * token.ProofWindow),
	}, nil
}

// proof checks that the holder meant this very call: its first attempt, at
// this agent, with these bytes.
func (c Chains) proof(v token.Verified, call *Call, compact string, now time.Time) (token.Proof, error) {
	op, args := Proves(call)
	return v.CheckProof(compact, token.Expected{
		Now: now, Operation: op, Arguments: args, Audience: call.Target.URL, Request: &call.Request,
	})
}

// Proves returns the operation and the arguments that the proof of a call must
// name: those of its first invocation. An admission is proven by the
// invocation of the message operation that goes with it.
func Proves(call *Call) (powerbox.Operation, powerbox.Value) {
	for _, a := range call.Attempts {
		if !a.IsAdmission() {
			return a.Operation(), a.Arguments()
		}
	}
	return powerbox.Operation{}, powerbox.Object()
}

func refusal(err error) error {
	var e *token.Error
	if !errors.As(err, &e) {
		return err
	}
	return &Refusal{[]Reason{{Code: string(e.Code), Link: e.Link, Message: e.Message}}}
}
