// Package gate is the enforcement point. [Gate.Check] is the only place where
// resolving, deciding and recording meet: it is the function that an auditor
// reads.
//
// Its laws: a credential is verified before it is believed; Effective is
// Caps(B) meet Scope(A) meet the capability, and Required must lie within it
// (GATE-1); several capabilities are never joined; policy can only subtract;
// nothing is allowed unless its record is durable, except where the operator
// chose to look on, or to continue reading ([Degraded]); what an operator has frozen is denied in every mode; the same call under the same declarations has the same
// answer, regardless of who is asked (GATE-11).
//
// The package knows no protocol, no store and no clock. What it needs is in
// the interfaces that it declares.
package gate

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/token"
	"github.com/powerbox-project/powerbox/trust"
)

// Mode says what a gate does with a call, per agent (SEP-18).
type Mode string

// The modes.
const (
	// Observe forwards everything and records what would have been denied.
	Observe Mode = "observe"
	// Scoped lets a call without a capability run under the caller's configured
	// scope.
	Scoped Mode = "scoped"
	// Prefer enforces a capability that is there and falls back to ambient
	// authority where none is.
	Prefer Mode = "prefer"
	// Require admits nothing without a capability.
	Require Mode = "require"
)

// ParseMode returns the mode of that name.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case Observe, Scoped, Prefer, Require:
		return m, nil
	}
	return "", errors.New("mode " + s + " is unknown; want observe, scoped, prefer or require")
}

// Target is an agent as its gate knows it.
type Target struct {
	ID       string               // required
	URL      string               // required; public URL, the audience of proofs
	Caps     powerbox.Authority   // what its skills map to (GATE-4)
	Required []powerbox.Operation // what a message that names no skill needs (GATE-5)
	Anchors  token.KeySet         // the keys that it issues under (SEP-16)
	// Foreign are other issuers whose capabilities the agent accepts, by issuer
	// URI; none unless an operator lists them.
	Foreign         map[string]token.KeySet
	EnforcesContext bool // whether it decides every effect by the forwarded context
	AdmitFreeText   bool // unsafe: free text under a constrained capability
	// Trust is the level that a calling agent must have reached for an operation,
	// by its name; none where it has none.
	Trust map[string]trust.Level
	// TrustAny is the level for whatever is asked of the agent, "" for none.
	TrustAny      trust.Level
	RefuseAmbient bool // in prefer: refuse a fallback that was not declared
	Degraded      Degraded
	Links         int // how many delegation links a scope token may come with; 0 refuses them (EXT-42)
}

// Presented is what a call carries to show its authority.
type Presented struct {
	Chain     []string // compact tokens, root first
	Proof     string
	Reference string // id of a capability on record
	Scopes    *PresentedScopes
	// Kept is a capability that was verified here at the request for something that
	// continues afterwards, such as the posting of events. The caller who sets it vouches
	// that it has not changed since; whether it still holds is decided as for any.
	Kept *Held
}

// IsZero reports whether nothing is presented.
func (p Presented) IsZero() bool {
	return len(p.Chain) == 0 && p.Proof == "" && p.Reference == "" && p.Scopes == nil && p.Kept == nil
}

// Caller is who makes the call, as authentication found it. Nothing of it
// comes from the message.
type Caller struct {
	Name      string // configured name of the calling agent, "" where it has none
	Principal string // pseudonym of the session's user at this agent, "" without a session
	Holder    string // holder id of the session, "" without one
	// ProofID is that of the proof by which authentication found the holder, and that
	// is used up where it did; "" without one. ProofUntil is until when it could be
	// repeated.
	ProofID    string
	ProofUntil time.Time
	Expires    time.Time // when the session ends; zero without one
}

// Call is one attempt at one agent, as a binding's decoder made it.
type Call struct {
	Target    *Target
	Mode      Mode
	Caller    Caller
	Presented []Presented
	// Beside wants [Verdict.Beside].
	Beside bool
	// Attempts must all be allowed. The first is the one that the record names
	// and that a proof must be about.
	Attempts []powerbox.Attempt
	// Origin returns the configured name of the agent that a holder is, ""
	// where it has none. Required.
	Origin func(holder string) string
	// Scope returns Scope(A), what the calling agent of that name may do at
	// this one: nothing where no scope is configured for it. nil where scopes
	// are not configured at all, which leaves the capability alone to decide.
	Scope func(origin string) powerbox.Authority
	// ByPolicy returns what policy allows the authenticated caller without a
	// capability, where that is the agent's authorization model: ROLE or ATTRIBUTE
	// (EXT-2). nil where a capability is, or the caller is not authenticated. An error says
	// that it cannot be told now.
	ByPolicy func() (powerbox.Authority, error)
	// Handle is the name of the argument that takes a handle, "" for none.
	Handle string
	// Free is the content of the call that names no skill.
	Free Free
	// Reads reports that the call is known to change nothing.
	Reads bool
	// Behind reports that the answer need not wait for the record of the outcome, if the
	// call reads and the operator chose so.
	Behind  bool
	Cancels bool // the call ends a task and does nothing else
	Ambient bool // the caller declares that it relies on ambient authority
	// Request is what the proof's req claim must say.
	Request token.Request
	// Bound is the digest of everything in the call: a person approves exactly this
	// call. "" if no person can be asked.
	Bound string
	// Released says that the gateway itself makes a call that it held, after a person
	// approved it. Only the gateway uses a capability for one call.
	Released bool
	// Approval says that a person must approve this very call: it continues under a
	// capability that was given for it alone, and under anything else it waits.
	Approval bool
	Tenant   string // in which the agent keeps what the call names, "" for none
	Task     string // that the call names, "" for none
	Context  string // that the call names, "" for none
	// Refused are reasons that the decoder already found; the call is denied
	// and recorded.
	Refused []evidence.Reason
	Action  string // action_type of the record
	// Record begins the record: purpose, trace, arguments, the body that it commits to,
	// reasons that decide nothing, and the task of a call that names none. The gate writes
	// the rest.
	Record evidence.Record
	Ask    Ask
}

// Free is content that a call has beside skills, or in their place: text, files, other data.
type Free struct {
	Any bool
	// Of is the one operation that the content can be about, where the binding says so;
	// the zero one for any.
	Of    powerbox.Operation
	First string // names the first place that has some, for the denial; "" for none
}

// Ask are the questions to the enforcement point that a decision needs. A nil one asks
// nothing.
type Ask struct {
	// Admit is asked once for every call, before it is decided further and recorded: with
	// the first presented capability that was verified and is the caller's, or with the
	// zero Held where none is. An error ends the call without a record.
	Admit func(held Held) error
	// Path returns why a call of the agent of that name is not made along a path that its
	// operator declared, nothing where no declared path is about it.
	Path func(origin string) []evidence.Reason
	// Owns reports whether the tasks and contexts that the call names belong to
	// anyone who presents held, or, with the zero Held, to the caller. nil where
	// the call names none.
	Owns func(held Held) bool
	// Given returns what an operator gave the caller for calls that present nothing. It is
	// asked where such a call is denied otherwise, in every mode but Observe.
	Given func(ctx context.Context) ([]Held, error)
	// Last is asked when everything else allows the call, before a proof is used
	// up; a reason denies it.
	Last func() *evidence.Reason
	// Data are the rules about the origin of the data in the call; nil for none.
	Data *Data
	// Denied is asked when the call is denied: what its record says of the denials before
	// it, nil for nothing, and whether it is recorded at all. An allowed call is recorded
	// in any case.
	Denied func(v Verdict) (note *evidence.Reason, recorded bool)
	// Details returns further details of the intent for the record, a JSON object, by
	// the id of the record and of the capability that was decided on last, "" for none.
	Details func(record, capability string) []byte
}

// Held is one presented capability after it was verified.
type Held struct {
	Capability string // id of the presented token, or on record
	OnRecord   string // id of the issuer's record that it comes from
	Root       string // id of the capability at the top
	Principal  string // pseudonym
	Holder     string
	Authority  powerbox.Authority
	Links      []string    // every id whose revocation ends it
	Through    []string    // holders that it came through, root's first; freezing one freezes it
	Issued     time.Time   // its root, by the issuer's clock
	Chain      []string    // the verified chain, root first; nil for a reference
	Named      []NamedLink // links of a scope token, which take their nonces with the call
	Legacy     bool
	Foreign    string // issuer, where that is not the agent itself
	Task       string // A2A task or context that it was issued for, "" for none
	Tenant     string // of that task
	Origin     string // configured name of the holder, "" where it has none
	// Digest is that of the one call that the capability is good for, as of
	// [Call.Bound]; "" for any.
	Digest     string
	Accounts   []Account // what its use is counted in
	ProofID    string    // to be used once; "" for a reference
	ProofUntil time.Time
}

// Resolver turns a presented credential into a verified capability. A refusal is a
// [*Refusal]; any other error means that no answer could be had, and the call
// is denied.
type Resolver interface {
	Resolve(ctx context.Context, call *Call, p Presented, now time.Time) (Held, error)
}

// Recorder makes a record durable. An error means that nothing was written.
type Recorder interface {
	Record(ctx context.Context, r evidence.Record) (evidence.Sealed, error)
}

// Revocations tells what has been revoked, and what an operator has frozen.
type Revocations interface {
	Revoked(id string) bool
	// Ended reports whether everything that name stands for and that was issued
	// up to a time has been revoked; of is one of the Bulk constants.
	Ended(of, name string, issued time.Time) bool
	// Frozen reports whether a freeze is in force for an id: of a capability, a
	// token, a derived link or a holder, "agent:" with a configured name, or the
	// pseudonym of a principal.
	Frozen(id string) bool
	// Stale reports whether the answers are too old to be relied on, for a call
	// that is known to change nothing or for any other.
	Stale(reads bool) bool
	// RevocationSequence is how far the answers are known.
	RevocationSequence() int64
	// Changed returns a channel that is closed when an answer may have become
	// another one. It is asked for before the answers are.
	Changed() <-chan struct{}
}

// Policy can veto at use. It can only subtract.
type Policy interface {
	// Veto returns why the principal may not do it now, "" where it may.
	Veto(ctx context.Context, call *Call, held Held) string
	// Digest names the policies that are in force.
	Digest() string
}

// Replay keeps the ids of proofs that were used.
type Replay interface {
	// Use returns false where id was used before and may still be repeated. It
	// remembers id until then.
	Use(id string, until, now time.Time) bool
}

// Standing tells how far what a calling agent did as an agent speaks for it.
type Standing interface {
	// Level returns the level that an agent has reached, by its configured name:
	// the lowest where that is not known, or not known any more.
	Level(agent string) trust.Level
}

// ProofUse is the call that a proof is used for.
type ProofUse struct {
	Agent string // id of the target
	Reads bool   // whether the call changes nothing
}

// EffectReplay is a [Replay] that is told which call a proof is for. One
// that is shared by several gateways can then let calls that change nothing go
// on while the others cannot be asked.
type EffectReplay interface {
	// UseFor is Use. An error says that whether id was used cannot be told now:
	// the call is denied as one that may be tried again.
	UseFor(call ProofUse, id string, until, now time.Time) (bool, error)
}

// Gate decides calls. Every field but Scopes, Nonces, Sessions, Standing, Log, Behind,
// Current and Took is required.
type Gate struct {
	Chains      Resolver // for chains with a proof
	References  Resolver // for capabilities on record
	Scopes      Resolver // for scope tokens; nil takes none
	Nonces      Nonces   // required where Scopes is set
	Recorder    Recorder
	Revocations Revocations
	Policy      Policy
	Replay      Replay
	Sessions    Replay   // of the proofs of callers, for other gateways of the agent; nil where there is none
	Standing    Standing // nil: no caller has a level
	RecorderID  string   // name under which records are written
	NewID       func() (string, error)
	Now         func() time.Time
	Log         *slog.Logger
	Behind      *Behind // nil: every answer waits for its outcome
	// Current returns when Revocations know everything that was committed before the last record
	// of this process. nil where no other process writes.
	Current func(ctx context.Context) error
	// Took is told how long the steps decide and record took, or nil.
	Took func(ctx context.Context, step, agent string, d time.Duration)

	gaps gaps
}

// Basis says what a call was allowed on.
type Basis string

// The bases.
const (
	OnNothing    Basis = ""
	OnCapability Basis = "capability"
	OnStanding   Basis = "standing" // the caller's configured scope
	OnPolicy     Basis = "policy"   // what policy allows the caller's role or attributes
	OnAmbient    Basis = "ambient"  // whatever the agent behind permits
)

// Verdict is the answer to a call.
type Verdict struct {
	Allowed bool // whether the call continues
	// Waits reports that nothing but a person's approval is missing. The call does
	// not continue; Under is what it would continue under.
	Waits bool
	Basis Basis
	Held  Held               // of the capability that allowed it
	Under powerbox.Authority // the effective authority: everything met
	// Beside are those of the other presented capabilities that allow the call too, where
	// Call.Beside wants them.
	Beside  []powerbox.Authority
	Reasons []evidence.Reason // why it was denied, or would have been
	Missing []string          // required operations that are not within the effective authority
	Record  evidence.Record   // the record
	Data    *Read             // what the caller had read; nil where nothing is labelled

	asks     []evidence.Reason // why a person must be asked about the origin of data
	observed []evidence.Reason // what the rules about it would have done

	call *Call         // whose answer it is; nil for none
	gap  bool          // the call continued without a record, and is counted as such
	take []Reservation // from budgets

	// without is the denial that stands if the budget of what an operator gave is used up.
	without *Verdict

	takenBack bool // it was allowed on record
	asker
}

// asker has the facts about who asked, beside those of the capability.
type asker struct {
	admitted bool   // Call.Admit was asked
	stop     error  // what it said
	refused  string // name or holder who has proven its key under a revoked capability, "" for none
}

// Digest is that of the call that was decided on.
func (v Verdict) Digest() string {
	if v.call == nil {
		return ""
	}
	return v.call.Bound
}

// Required are the operations that the call needs, each once.
func (v Verdict) Required() []powerbox.Operation {
	var out []powerbox.Operation
	if v.call == nil {
		return nil
	}
	for _, a := range v.call.Attempts {
		for _, op := range a.Required() {
			if !slices.Contains(out, op) {
				out = append(out, op)
			}
		}
	}
	return out
}

// took tells how long a step took and returns when the next one begins.
func (g *Gate) took(ctx context.Context, step string, call *Call, begin time.Time) time.Time {
	if g.Took == nil {
		return begin
	}
	end := g.Now()
	g.Took(ctx, step, call.Target.ID, end.Sub(begin))
	return end
}

// Recheck reports why a verdict no longer holds: an operator stopped what it is
// about, the capability, or the session that it rests on instead of one, has
// expired, or one of the capability's links was revoked. Streams ask
// before every event, and [Gate.Await] in between.
func (g *Gate) Recheck(v Verdict) (evidence.Reason, bool) {
	if v.call != nil {
		if why, stopped := g.frozen(v.call, v.Held); stopped && (v.call.Mode != Observe || isFrozen(why)) {
			return why, false
		}
		if g.Revocations.Stale(v.call.Reads) && v.call.Mode != Observe {
			return because(CodeStale)[0], false
		}
	}
	if until, what := v.ends(); !until.IsZero() && !g.Now().Before(until) {
		return evidence.Reason{Code: string(powerbox.CodeExpired), Message: "the " + what + " expired while the call was under way"}, false
	}
	if v.Basis != OnCapability {
		return evidence.Reason{}, true
	}
	if _, yes := g.revoked(v.call, v.Held); yes {
		return evidence.Reason{Code: CodeRevoked, Message: "the capability was revoked while the call was under way"}, false
	}
	return evidence.Reason{}, true
}

// Outcome records what became of a call that was allowed (EXT-25). After an error the
// caller of the call must not get the answer (ATK-75). There is none in Observe and in what
// [Degraded] admits, where the operator chose so.
func (g *Gate) Outcome(ctx context.Context, v Verdict, status evidence.OutcomeStatus, detail []byte) error {
	_, err := g.Conclude(ctx, v, status, detail)
	return err
}

// Conclude is [Gate.Outcome], and returns the id of the record of the outcome: "" where
// there is none, or none yet.
func (g *Gate) Conclude(ctx context.Context, v Verdict, status evidence.OutcomeStatus, detail []byte) (record string, err error) {
	if v.Record.OutcomeStatus != evidence.Pending {
		return "", nil
	}
	id, err := g.NewID()
	if err != nil {
		return "", err
	}
	r, err := evidence.Outcome(v.Record, id, g.Now(), status, detail)
	if err != nil {
		return "", err
	}
	if g.mayFollow(v) && g.behind(ctx, r) {
		return "", nil
	}
	if _, err = g.Recorder.Record(ctx, r); err != nil {
		if v.gap || v.call != nil && g.goesOn(v.call, &v, err, r.Time) {
			g.logUnrecorded(ctx, v.call, r, err)
			return "", nil
		}
		return "", err
	}
	return id, g.settleBudgets(ctx, v, status == evidence.Failed && unmade(detail))
}

// unmade reports whether an outcome says that the call was never made.
func unmade(detail []byte) bool {
	return string(detail) == neverMade || bytes.HasPrefix(detail, []byte(notMadeAndTold))
}

// notMadeAndTold is how neverMade begins where it also says what the caller was told.
const notMadeAndTold = `{"cause":"` + trust.CauseGateway + `","told":`

// neverMade is the outcome of a call that was allowed and not brought to the agent
// behind: what it took from budgets is given back.
const neverMade = `{"cause":"` + trust.CauseGateway + `"}`
