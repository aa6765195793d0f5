package gate

import (
	"context"
	"errors"
	"fmt"
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
	// proofs are refused: it is unknown whether they were used.
	Started time.Time
	// Drafts are the versions and constraint types that are accepted; the zero one accepts
	// draft -02 with every extension type.
	Drafts Drafts
}

// Drafts say which chains are accepted by their form.
type Drafts struct {
	Old    bool // draft -01 as well (ADR 133)
	Strict bool // constraint types of the draft alone
}

// options are those of every verification.
func (d Drafts) options(now time.Time, r Revocations) token.Options {
	return token.Options{Now: now, Revoked: r.Revoked, Draft01: d.Old, Strict: d.Strict}
}

// Resolve implements [Resolver].
func (c Chains) Resolve(_ context.Context, call *Call, p Presented, now time.Time) (Held, error) {
	anchors, issuer := call.Target.anchors(p.Chain)
	v, err := c.Memo.Verify(token.JoinChain(p.Chain), anchors, c.Drafts.options(now, c.Revocations))
	if err != nil {
		return Held{}, c.named(call, p, now, err)
	}
	if v.Issuer() != issuer {
		// The key is the agent's own, but the token names another issuer.
		return Held{}, notIssued()
	}
	held, err := heldBy(v, call.Target, issuer)
	if err != nil {
		return Held{}, err
	}
	proof, err := c.proof(v, call, p.Proof, now)
	if err != nil {
		return Held{}, refusal(err)
	}
	if proof.IssuedAt.Unix() < c.Started.Unix() {
		return Held{}, &Refusal{because(CodeProofBefore)}
	}
	// Times in proofs are whole seconds, so a proof is good until the second
	// after its window.
	held.ProofID, held.ProofUntil = strings.TrimPrefix(held.Holder, "key:")+"/"+proof.ID, proof.IssuedAt.Add(token.ProofWindow+time.Second)
	return held, nil
}

// named is the refusal of a chain that did not verify. If only a revocation stands against it
// and the call has the proof of its holder, the record can say who asked.
func (c Chains) named(call *Call, p Presented, now time.Time, why error) error {
	refused := refusal(why)
	var e *token.Error
	if !errors.As(why, &e) || e.Code != token.CodeRevoked {
		return refused
	}
	o := c.Drafts.options(now, c.Revocations)
	o.Revoked = token.UnsafeNothingRevoked // the call is refused already
	anchors, issuer := call.Target.anchors(p.Chain)
	v, err := c.Memo.Verify(token.JoinChain(p.Chain), anchors, o)
	if err != nil || v.Issuer() != issuer {
		return refused
	}
	if proof, err := c.proof(v, call, p.Proof, now); err != nil || proof.IssuedAt.Unix() < c.Started.Unix() {
		return refused
	}
	names := v.HolderNames()
	return &provenRefusal{refused, names[len(names)-1]}
}

// provenRefusal is a refusal of a holder that has proven its key with the call.
type provenRefusal struct {
	error

	holder string
}

// Unwrap returns the refusal.
func (r *provenRefusal) Unwrap() error { return r.error }

// Vouches reports whether a chain stands under the keys of a target: someone whom the
// agent trusts has signed its root, and every holder what follows. It says nothing of who
// presents it, and is for what must be decided before the call is read, such as how much
// of it is read. What it checks is remembered for [Chains.Resolve].
func (c Chains) Vouches(target *Target, chain []string, now time.Time) bool {
	anchors, issuer := target.anchors(chain)
	v, err := c.Memo.Verify(token.JoinChain(chain), anchors, c.Drafts.options(now, c.Revocations))
	return err == nil && v.Issuer() == issuer
}

// anchors returns the keys under which a chain must verify, and the issuer that
// its root must name: the agent itself, or one of the issuers that are pinned
// for it. What the token says of its issuer chooses between pinned key sets and
// nothing else.
func (t *Target) anchors(chain []string) (token.KeySet, string) {
	if len(t.Foreign) == 0 || len(chain) == 0 {
		return t.Anchors, t.URL
	}
	root, err := token.ParseChain(chain[:1])
	if err != nil {
		return t.Anchors, t.URL
	}
	issuer := root.Describe()[0].Issuer
	if keys, pinned := t.Foreign[issuer]; pinned && issuer != t.URL {
		return keys, issuer
	}
	return t.Anchors, t.URL
}

// heldBy is what a verified chain amounts to. Another issuer's private claim is
// its own business, and handles of ours do not open under its capabilities.
func heldBy(v token.Verified, target *Target, issuer string) (Held, error) {
	names := v.HolderNames()
	last := len(names) - 1
	held := Held{Capability: v.ID(), Holder: names[last], Authority: v.Authority(), Links: v.IDs(), Chain: v.Tokens()}
	if last > 0 {
		held.Through = names[:last:last]
	}
	if issuer != target.URL {
		held.Foreign, held.Root = issuer, issuer+"#"+held.Links[0]
		return held, nil
	}
	private, ok := v.Private()
	if !ok {
		return Held{}, &Refusal{atLink(0, says(string(token.CodeMissingClaim), "the root token does not say which capability it is"))}
	}
	lineage := strings.Split(private.Capability, "/")
	held.OnRecord, held.Root, held.Principal = lineage[len(lineage)-1], lineage[0], private.Principal
	held.Links, held.Legacy = append(lineage, held.Links...), private.Legacy
	return held, nil
}

// proof checks that the holder meant this very call: its first attempt, at
// this agent, with these bytes.
func (c Chains) proof(v token.Verified, call *Call, compact string, now time.Time) (token.Proof, error) {
	op, args := proves(call)
	return v.CheckProof(compact, token.Expected{
		Now: now, Operation: op, Arguments: args, Audience: call.Target.URL, Request: &call.Request,
	})
}

// proves returns the operation and the arguments that the proof of a call must
// name: those of its first invocation. An admission is proven by the
// invocation of the message operation that goes with it.
func proves(call *Call) (powerbox.Operation, powerbox.Value) {
	for _, a := range call.Attempts {
		if !a.IsAdmission() {
			return a.Operation(), a.Arguments()
		}
	}
	return powerbox.Operation{}, powerbox.Object()
}

// notIssued refuses a chain whose root is another issuer's.
func notIssued() *Refusal {
	return &Refusal{atLink(0, says(string(token.CodeIssuer), "the root token was not issued by this agent"))}
}

func refusal(err error) error {
	var e *token.Error
	if !errors.As(err, &e) {
		return err
	}
	message := e.Message
	if e.Link >= 0 {
		message = fmt.Sprintf("token %d of the chain: %s", e.Link+1, message)
	}
	return &Refusal{atLink(e.Link, says(string(e.Code), message))}
}
