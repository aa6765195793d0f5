package gate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
)

// The codes of a gate's reasons, beside those of [powerbox.Decide] and of the
// token package.
const (
	CodeCapabilityRequired = "capability_required"
	CodeCapabilityUnknown  = "capability_unknown"
	CodeRevoked            = "revoked"
	CodeFrozen             = "frozen"
	CodeCardWidened        = "card_widened"
	CodeStale              = "revocations_stale"
	CodeNotHolder          = "caller_not_holder"
	CodePrincipal          = "principal_mismatch"
	CodeReplay             = "proof_replayed"
	CodeProofBefore        = "proof_before_start"
	CodeScope              = "outside_caller_scope"
	CodeCaps               = "not_offered_by_agent"
	CodeByPolicy           = "outside_role"
	CodeVeto               = "policy_veto"
	CodeArgumentNumber     = "argument_number"
	CodeMessageNotBound    = "message_not_bound"
	CodeUndeclaredAmbient  = "ambient_not_declared"
	CodeUnavailable        = "authorization_unavailable"
	CodeForeignTask        = "task_foreign"
	CodeHandle             = "handle_not_granted"
	codeOtherTask          = "task_not_the_capabilitys"
	CodeTrust              = "insufficient_trust"
	CodePath               = "path_incompatible"
	CodeApproval           = "approval_required"
	codeOtherRequest       = "approval_other_request"
	CodeLimit              = "limit_exceeded"
	CodeSpelling           = "argument_spelling"
	codeBudgetElsewhere    = "budget_elsewhere"
)

// Refusal is a resolver's answer that a presented credential does not hold.
type Refusal struct{ Reasons []evidence.Reason }

func (r *Refusal) Error() string {
	texts := make([]string, len(r.Reasons))
	for i, reason := range r.Reasons {
		texts[i] = reason.Message
	}
	return strings.Join(texts, "; ")
}

// Is makes a refusal a [powerbox.ErrDenied].
func (r *Refusal) Is(target error) bool { return target == powerbox.ErrDenied }

// refused are the reasons of the decoder, and arguments that the receiver of the call
// would read as others than were decided on (ATK-39).
func (c *Call) refused() []evidence.Reason {
	all := slices.Clip(c.Refused)
	for _, a := range c.Attempts {
		if name, found := powerbox.RoundedArgument(a.Arguments()); found {
			all = append(all, Worded(powerbox.Reason{Code: CodeArgumentNumber, Operation: a.Operation().String(), Argument: name}))
		}
	}
	return all
}

// last returns why a call that everything else allows is denied.
func (c *Call) last() []evidence.Reason {
	if c.Ask.Last != nil {
		if why := c.Ask.Last(); why != nil {
			return []evidence.Reason{*why}
		}
	}
	return nil
}

// path returns why a call is not made along a path that the operator declared.
func (c *Call) path(origin string) []evidence.Reason {
	if c.Ask.Path == nil || origin == "" {
		return nil
	}
	return c.Ask.Path(origin)
}

// observe lets a denied call continue where the operator only looks on, unless an
// operator has stopped it.
func (g *Gate) observe(call *Call, v Verdict) Verdict {
	if call.Mode == Observe && !v.Allowed && !slices.ContainsFunc(v.Reasons, isFrozen) {
		if !v.Waits {
			v.Basis = OnAmbient
		}
		v.Allowed, v.Waits = true, false
		if call.Ask.Data != nil && v.Data == nil {
			v.Data = &Read{By: Reading{Holders: call.readers(v.Held), Principal: call.Ask.Data.Principal, Task: call.Ask.Data.Task}, Labels: unknownOrigin}
		}
	}
	return v
}

// withCapability decides a call under one presented capability, which is
// enforced in every mode but Observe.
// Another caller's capability admits no call.
func (g *Gate) withCapability(ctx context.Context, call *Call, p Presented, now time.Time, admitted bool) Verdict {
	held, err := g.resolve(ctx, call, p, now)
	if err != nil {
		return unresolved(call, err)
	}
	if held.Origin = call.Origin(held.Holder); held.Origin == "" {
		held.Origin = call.Caller.Name
	}
	v := Verdict{Held: held, asker: asker{admitted: admitted}}
	if call.Ask.Admit != nil && !admitted && held.by(call) {
		if v.admitted, v.stop = true, call.Ask.Admit(held); v.stop != nil {
			return v
		}
	}
	if why, stopped := g.frozen(call, held); stopped {
		v.Reasons = []evidence.Reason{why}
		return v
	}
	v.Reasons = g.standing(call, held)
	g.against(call, held.Authority, now, "", &v)
	g.layers(call, held.Origin, now, &v)
	v.Reasons = append(v.Reasons, foreign(call, held)...)
	v.Reasons = append(v.Reasons, otherTask(call, held)...)
	v.Reasons = append(v.Reasons, g.untrusted(call, held.Origin)...)
	v.Reasons = append(v.Reasons, call.path(held.Origin)...)
	if held.bound(call) {
		v.Reasons = append(v.Reasons, says(CodeMessageNotBound, notBound(call.Free.First))...)
	} else if held.summed(call) {
		v.Reasons = append(v.Reasons, says(CodeMessageNotBound, "free text cannot be counted towards what an argument of the capability may add up to; name the skill and its arguments, and nothing beside")...)
	}
	if why := g.Policy.Veto(ctx, call, held); why != "" {
		v.Reasons = append(v.Reasons, says(CodeVeto, why)...)
	}
	v.Reasons = append(v.Reasons, g.flows(ctx, call, func() []pinning { return call.pinned(held) }, &v)...)
	if len(v.Reasons) == 0 {
		v.Reasons = call.last()
	}
	if len(v.Reasons) == 0 {
		v.Reasons = g.name(ctx, held, now)
	}
	if len(v.Reasons) == 0 {
		v.take, v.Reasons = g.spend(call, held)
	}
	// A proof is used up last, by a call that would otherwise be allowed: an
	// attacker must not be able to burn it (ATK-9).
	if len(v.Reasons) == 0 && held.ProofID != "" {
		v.Reasons = g.use(call, g.Replay, held.ProofID, held.ProofUntil, now)
	}
	if len(v.Reasons) == 0 {
		v.Reasons = g.useSession(call, OnCapability, now)
	}
	if len(v.Reasons) > 0 {
		return v
	}
	v.Allowed, v.Basis = true, OnCapability
	v.Under = g.under(call, held.Origin, held.Authority)
	return v.waiting(call)
}

// unresolved is the verdict on a call whose capability was not resolved.
func unresolved(call *Call, err error) Verdict {
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		return Verdict{Reasons: untold("whether the capability holds cannot be told now")}
	}
	v := Verdict{Reasons: refusal.Reasons}
	if by := (*provenRefusal)(nil); errors.As(err, &by) {
		v.refused = cmp.Or(call.Origin(by.holder), by.holder)
	}
	return v
}

// waiting has a call that everything else allows wait for a person, unless it
// comes under what a person gave for it alone. It takes nothing from budgets.
func (v Verdict) waiting(call *Call) Verdict {
	if !v.Allowed || !call.Approval && len(v.asks) == 0 || v.Held.Digest != "" {
		return v
	}
	v.Allowed, v.Waits, v.take = false, true, nil
	v.Reasons = append(because(CodeApproval), v.asks...)
	return v
}

// useSession uses up the proof of the caller where others take it, too (ATK-20). A
// call on ambient authority of a caller without a session rests on no proof: anyone who
// makes up keys must not fill the memory of others' proofs.
func (g *Gate) useSession(call *Call, basis Basis, now time.Time) []evidence.Reason {
	c := call.Caller
	if g.Sessions == nil || c.ProofID == "" || basis == OnAmbient && c.Principal == "" {
		return nil
	}
	return g.use(call, g.Sessions, c.Holder+" "+c.ProofID, c.ProofUntil, now)
}

// UseCaller uses up the proof of a caller whose request presents no capability and makes no
// call, such as one for capabilities. It returns why the proof does not serve: it may have
// been used at another gateway of the agent (ATK-128).
func (g *Gate) UseCaller(agent string, c Caller) []evidence.Reason {
	if g.Sessions == nil || c.ProofID == "" {
		return nil
	}
	return g.proofUsed(g.Sessions, ProofUse{Agent: agent}, c.Holder+" "+c.ProofID, c.ProofUntil, g.Now())
}

// use uses up a proof of a call, and returns why it does not serve.
func (g *Gate) use(call *Call, replay Replay, id string, until, now time.Time) []evidence.Reason {
	why := g.proofUsed(replay, ProofUse{call.Target.ID, call.Reads}, id, until, now)
	if why == nil && g.Revocations.Stale(call.Reads) {
		return because(CodeStale) // the answer may have come late
	}
	return why
}

// proofUsed uses up a proof.
func (*Gate) proofUsed(replay Replay, call ProofUse, id string, until, now time.Time) []evidence.Reason {
	fresh, err := false, error(nil)
	if r, ok := replay.(EffectReplay); ok {
		fresh, err = r.UseFor(call, id, until, now)
	} else {
		fresh = replay.Use(id, until, now)
	}
	switch {
	case err != nil:
		return untold("whether the proof was used before cannot be told now; sign a new one in a moment")
	case !fresh:
		return because(CodeReplay)
	default:
		return nil
	}
}

func (g *Gate) resolve(ctx context.Context, call *Call, p Presented, now time.Time) (Held, error) {
	if p.Kept != nil {
		return *p.Kept, nil
	}
	if p.Scopes != nil {
		if g.Scopes == nil {
			return Held{}, &Refusal{says(codeScopesNotTaken, "scope tokens are not taken at this gateway; present a token chain")}
		}
		return g.Scopes.Resolve(ctx, call, p, now)
	}
	if len(p.Chain) == 0 && p.Proof == "" {
		return g.References.Resolve(ctx, call, p, now)
	}
	return g.Chains.Resolve(ctx, call, p, now)
}

// by reports whether the caller has proven that it holds a capability: by a proof of the
// call, or as who it is.
func (h Held) by(call *Call) bool {
	return h.ProofID != "" || h.Holder != "" && h.Holder == call.Caller.Holder
}

// standing checks what does not depend on the attempt: revocation of every
// link, the session's principal and, for references, the holder.
func (g *Gate) standing(call *Call, held Held) []evidence.Reason {
	var out []evidence.Reason
	if n, yes := g.revoked(call, held); yes {
		out = append(out, atLink(n, because(CodeRevoked))...)
	}
	if call.Caller.Principal != "" && held.Principal != "" && call.Caller.Principal != held.Principal {
		out = append(out, because(CodePrincipal)...)
	}
	if held.Digest != "" && (held.Digest != call.Bound || !call.Released) {
		out = append(out, because(codeOtherRequest)...)
	}
	if !held.by(call) {
		out = append(out, because(CodeNotHolder)...)
	}
	return out
}

// against decides every attempt under one authority and notes the reasons.
func (g *Gate) against(call *Call, a powerbox.Authority, now time.Time, layer string, v *Verdict) {
	for _, attempt := range call.Attempts {
		d := powerbox.Decide(attempt, a, now)
		for _, r := range d.Reasons {
			v.Reasons = append(v.Reasons, layered(call, r, layer))
		}
		v.Reasons = append(v.Reasons, misspelt(attempt, a)...)
		v.Missing = append(v.Missing, d.Missing()...)
	}
	slices.Sort(v.Missing)
	v.Missing = slices.Compact(v.Missing)
}

// misspelt refuses arguments that a reader which ignores letter case takes for one that
// an authority holds to a constraint: the constraint would not be asked (ATK-27).
func misspelt(attempt powerbox.Attempt, a powerbox.Authority) []evidence.Reason {
	var out []evidence.Reason
	for _, op := range attempt.Required() {
		shape, ok := a.Shape(op)
		if !ok {
			continue
		}
		members, _ := attempt.Arguments().Members()
		var folded map[string]bool // of the fields, once one of the arguments is none of them
		for _, m := range members {
			if _, exact := shape.Field(m.Name); exact || len(shape.Fields()) == 0 {
				continue
			}
			if folded == nil {
				folded = foldedFields(shape)
			}
			if folded[powerbox.FoldCase(m.Name)] {
				out = append(out, Worded(powerbox.Reason{Code: CodeSpelling, Operation: op.String(), Argument: m.Name}))
			}
		}
	}
	return out
}

// foldedFields are the names of a shape's fields as readers see them that ignore letter case.
func foldedFields(shape powerbox.Shape) map[string]bool {
	folded := map[string]bool{}
	for _, f := range shape.Fields() {
		folded[powerbox.FoldCase(f.Name)] = true
	}
	return folded
}

// layers holds the attempts against Caps(B) and Scope(A) (GATE-1).
func (g *Gate) layers(call *Call, origin string, now time.Time, v *Verdict) {
	g.against(call, call.Target.Caps, now, CodeCaps, v)
	if call.Scope != nil {
		g.against(call, call.scope(origin), now, CodeScope, v)
	}
}

func (g *Gate) under(call *Call, origin string, a powerbox.Authority) powerbox.Authority {
	a = a.Meet(call.Target.Caps)
	if call.Scope != nil {
		a = a.Meet(call.Scope(origin))
	}
	return a
}

// bound reports free content under a capability whose operations are
// constrained, at an agent that would not hold its later effects against it:
// the message could ask for anything, and nothing would stop it.
func (h Held) bound(call *Call) bool {
	if !call.Free.Any || call.Target.EnforcesContext || call.Target.AdmitFreeText {
		return false
	}
	return constrained(h.Authority, call.Free.Of)
}

// summed reports free content under a capability one of whose arguments is added
// up: the agent's use of the content cannot be added up, wherever it is
// decided.
func (h Held) summed(call *Call) bool {
	return call.Free.Any && !call.Target.AdmitFreeText && slices.ContainsFunc(h.Accounts, func(a Account) bool { return len(a.Budgets.Sum) > 0 })
}

// constrained reports whether an operation that content can be about is held to
// arguments.
func constrained(a powerbox.Authority, about powerbox.Operation) bool {
	return slices.ContainsFunc(a.Clauses(), func(c powerbox.Clause) bool {
		if about != (powerbox.Operation{}) && !c.Pattern.Matches(about) {
			return false
		}
		return len(c.Shape.Fields()) > 0 || c.Shape.Rest() == powerbox.RestNone
	})
}

// withoutCapability decides a call that presents nothing.
func (g *Gate) withoutCapability(call *Call, now time.Time) Verdict {
	if call.ByPolicy != nil && call.Mode != Observe {
		// Where nothing else could allow the call, what policy says of it is the
		// answer.
		if v := g.byPolicy(call, now); v.Allowed || call.Mode == Require {
			return v
		}
	}
	needed := because(CodeCapabilityRequired)
	switch call.Mode {
	case Require:
		v := Verdict{Reasons: needed}
		for _, a := range call.Attempts {
			for _, op := range a.Required() {
				v.Missing = append(v.Missing, op.String())
			}
		}
		slices.Sort(v.Missing)
		v.Missing = slices.Compact(v.Missing)
		return v
	case Prefer:
		if call.Target.RefuseAmbient && !call.Ambient {
			return Verdict{Reasons: says(CodeUndeclaredAmbient, "the call presents no capability and does not declare that it relies on ambient authority")}
		}
		if reasons := foreign(call, Held{}); len(reasons) > 0 {
			return Verdict{Reasons: reasons}
		}
		return Verdict{Allowed: true, Basis: OnAmbient, Reasons: undeclared(call)}
	case Observe:
		// What scoped would say, and that require would say no.
		v := g.scoped(call, now)
		v.Allowed, v.Basis, v.Under = false, OnNothing, powerbox.Authority{}
		v.Reasons = append(append(v.Reasons, needed...), undeclared(call)...)
		return v
	case Scoped:
	}
	return g.scoped(call, now)
}

// foreign refuses a task or context of someone else (ATK-18).
func foreign(call *Call, held Held) []evidence.Reason {
	if call.Ask.Owns == nil || call.Ask.Owns(held) {
		return nil
	}
	return because(CodeForeignTask)
}

// otherTask refuses a call that names another task than the one that the
// capability is for, and free text that names none, which would begin one
// (SEP-22).
func otherTask(call *Call, held Held) []evidence.Reason {
	named := call.Task != "" || call.Context != ""
	switch {
	case held.Task == "", call.Tenant == held.Tenant && (call.Task == held.Task || call.Context == held.Task), !named && !call.Free.Any:
		return nil
	}
	return because(codeOtherTask)
}

func undeclared(call *Call) []evidence.Reason {
	if call.Ambient {
		return nil
	}
	return says(CodeUndeclaredAmbient, "the call relied on ambient authority without saying so")
}

// scope is Scope(A) of a caller, which holds no operation where nothing is
// configured. It has not expired then: it never began.
func (c *Call) scope(origin string) powerbox.Authority {
	var a powerbox.Authority
	if c.Scope != nil {
		a = c.Scope(origin)
	}
	return unexpired(a)
}

// unexpired is an authority that says of nothing that it has expired, where it
// holds nothing.
func unexpired(a powerbox.Authority) powerbox.Authority {
	if a.IsEmpty() {
		// Without clauses there is nothing that could be refused.
		a, _ = powerbox.NewAuthority(powerbox.Window{Until: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}, 0)
	}
	return a
}

// scoped decides under the caller's configured scope alone. A caller without a
// name, or without a scope, has none.
func (g *Gate) scoped(call *Call, now time.Time) Verdict {
	var v Verdict
	scope := call.scope(call.Caller.Name)
	g.against(call, scope, now, CodeScope, &v)
	return g.own(call, scope, now, OnStanding, v)
}

// byPolicy decides under what policy allows the caller alone.
func (g *Gate) byPolicy(call *Call, now time.Time) Verdict {
	var v Verdict
	allowed, err := call.ByPolicy()
	if err != nil {
		return Verdict{Reasons: untold("what policy allows the caller cannot be told now; try again in a moment")}
	}
	allowed = unexpired(allowed)
	g.against(call, allowed, now, CodeByPolicy, &v)
	if call.Scope != nil {
		g.against(call, call.scope(call.Caller.Name), now, CodeScope, &v)
	}
	return g.own(call, allowed, now, OnPolicy, v)
}

// own decides what remains of a call under an authority that is the caller's own,
// and not a capability's.
func (g *Gate) own(call *Call, a powerbox.Authority, now time.Time, basis Basis, v Verdict) Verdict {
	g.against(call, call.Target.Caps, now, CodeCaps, &v)
	v.Reasons = append(v.Reasons, foreign(call, Held{})...)
	if call.Free.Any && !call.Target.EnforcesContext && !call.Target.AdmitFreeText && constrained(a, call.Free.Of) {
		v.Reasons = append(v.Reasons, says(CodeMessageNotBound, notBound(call.Free.First))...)
	}
	if len(v.Reasons) > 0 {
		return v
	}
	v.Allowed, v.Basis = true, basis
	v.Under = g.under(call, call.Caller.Name, a)
	return v
}
