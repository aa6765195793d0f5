// Package issuer holds the use cases of issuing: request, narrow, revoke and
// list, freeze and thaw, and the enrolment of gateways with what they ship. It is the only writer of state. Every use case is one transaction of
// the [Store], with its evidence in it: an action without a record did not happen,
// and a denial is a record too.
//
// # Replaying decisions
//
// powerbox policy replay replays recorded decisions at the running server under other
// policies. Records have a pseudonym for the user and neither roles nor attributes,
// so a file of records is not enough, and must not be. A call is asked as the veto
// at use asks; a granted request is issued again without effect. Decisions that
// cannot be replayed are counted by reason, never guessed. Calls by role are among
// them: roles in every record would be personal data in the data that is kept longest.
package issuer

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/missing"
	"github.com/powerbox-project/powerbox/token"
)

// Grant is an offer: what an agent can issue (SEP-1).
type Grant struct {
	ID              string
	Description     string
	Operations      []string // as on the wire; "*" expands to what skills name for the grant (SEP-25)
	Attenuable      bool
	Legacy          bool
	Requires        []string
	MaximumLifetime time.Duration // 0 for the issuer's
	MaximumDepth    int           // how often a capability may be passed on
	Budgets         Budgets       // what one capability of it is good for in all
}

// Skill maps one skill of an agent to one operation of one grant (SEP-10).
type Skill struct {
	Skill     string
	Grant     string
	Operation string
	Handle    string // name of the argument that takes a handle, "" for none
	Write     bool   // whether the operation changes something
	Shape     powerbox.Shape
}

// Qualified returns the operation's name in the algebra.
func (s Skill) Qualified(agent string) string { return Qualify(agent, s.Grant, s.Operation) }

// Agent is a protected agent: a separate issuer with its own key.
type Agent struct {
	ID        string
	URL       string // public URL, which is the issuer URI and the audience
	Grants    []Grant
	Skills    []Skill
	Resources []catalogue.Item
	Live      []Live              // collections of other systems
	Signer    func() token.Signer // the key that signs now; it can be another one at the next call (EXT-34)
	// Accepts are the keys that verify issued capabilities now; nil for the one
	// that signs.
	Accepts func() token.KeySet
}

// accepts are the keys that verify issued capabilities now.
func (a *Agent) accepts() token.KeySet {
	if a.Accepts != nil {
		return a.Accepts()
	}
	return token.NewKeySet(a.Signer().Public())
}

// Grant returns the agent's grant of that id.
func (a *Agent) Grant(id string) (Grant, bool) {
	if a == nil {
		return Grant{}, false
	}
	i := slices.IndexFunc(a.Grants, func(g Grant) bool { return g.ID == id })
	if i < 0 {
		return Grant{}, false
	}
	return a.Grants[i], true
}

// check refuses two skills of one operation that take other arguments. A grant
// gives the operation, whose arguments [Agent.shapeOf] takes from the
// first: by way of the other its restriction to resources would be gone.
func (a *Agent) check() error {
	for n, s := range a.Skills {
		for _, o := range a.Skills[:n] {
			if o.Grant == s.Grant && o.Operation == s.Operation && (o.Handle != s.Handle || !o.Shape.Equal(s.Shape)) {
				return fmt.Errorf("issuer: agent %q: skills %q and %q are both operation %s of grant %q and take other arguments; want the same, or two operations",
					a.ID, o.Skill, s.Skill, s.Operation, s.Grant)
			}
		}
	}
	return nil
}

// operationsOf returns what a grant holds, with "*" expanded.
func (a *Agent) operationsOf(g Grant) []string {
	if !slices.Contains(g.Operations, "*") {
		return g.Operations
	}
	var names []string
	for _, s := range a.Skills {
		if s.Grant == g.ID {
			names = append(names, s.Operation)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// shapeOf returns the declared arguments of an operation and the name of its
// handle argument. An operation without a skill takes any arguments.
func (a *Agent) shapeOf(grant, operation string) (powerbox.Shape, string) {
	for _, s := range a.Skills {
		if s.Grant == grant && s.Operation == operation {
			return s.Shape, s.Handle
		}
	}
	return powerbox.AnyArguments(), ""
}

// Caps returns Caps(B): the authority of everything that the agent's skills
// map to. An unmapped skill adds nothing (GATE-4).
func (a *Agent) Caps(until time.Time) (powerbox.Authority, error) {
	var clauses []powerbox.Clause
	seen := map[string]bool{}
	for _, s := range a.Skills {
		name := s.Qualified(a.ID)
		if seen[name] {
			continue
		}
		seen[name] = true
		op, err := operation(name)
		if err != nil {
			return powerbox.Authority{}, err
		}
		clauses = append(clauses, powerbox.Clause{Pattern: powerbox.ExactPattern(op), Shape: s.Shape})
	}
	for _, name := range reservedOperations() {
		op, err := operation(name)
		if err != nil {
			return powerbox.Authority{}, err
		}
		clauses = append(clauses, powerbox.Clause{Pattern: powerbox.ExactPattern(op), Shape: powerbox.AnyArguments()})
	}
	return powerbox.NewAuthority(powerbox.Window{Until: until}, token.MaxDepth, clauses...)
}

// Policy says what a principal may do. It can only subtract: its answer is met
// with the offer and the request.
type Policy interface {
	// Permits rules on one operation and one resource; a nil resource stands
	// for the agent itself. An error in evaluation is a refusal.
	Permits(caller identity.Caller, agent, grant, operation string, resource *catalogue.Item) Ruling
	// Digest names the policies that are in force.
	Digest() string
}

// Ruling is a policy's answer.
type Ruling struct {
	Allow           bool
	Policies        []string      // those that decided, with file and line
	MaximumLifetime time.Duration // 0 for no limit of its own
	Approval        string        // who must approve, "" for none
}

// Config is what an issuer needs. Every field but Asker, Callers and Origin is required.
type Config struct {
	Store  Store
	Policy Policy
	// Asker makes what asks people, which knows the issuer; nil where people cannot be asked.
	// It must not call the issuer yet.
	Asker           func(*Issuer) (Asker, error)
	Sealer          *catalogue.Sealer
	Agents          []*Agent
	Callers         func() []string            // configured names of calling agents, now; optional
	Origin          func(holder string) string // configured name of a holder, "" for none; optional
	Recorder        string                     // name under which records are written
	Algorithm       string                     // of the signatures of records, which gateways must be as good as; optional
	Pairwise        []byte                     // key of the pseudonyms of principals, 32 bytes
	MaximumLifetime time.Duration              // of any capability (SEP-8)
	Draft           token.Draft                // of the tokens that are issued
	Strict          bool                       // no token with a constraint type that the draft does not define
	// Stale reports that others write the store and cannot be asked what; nil for a
	// process that writes alone.
	Stale  func() bool
	Now    func() time.Time
	Random io.Reader
	Log    *slog.Logger
}

// Issuer issues capabilities for its agents. Its methods can be called by many
// goroutines.
type Issuer struct {
	config  Config
	asker   Asker                             // nil where people cannot be asked
	agents  atomic.Pointer[map[string]*Agent] // replaced as a whole
	revoked atomic.Pointer[revocations]
	seeds   [2]maphash.Seed // of the hashes of revoked ids
	known   known
	modes   modes
	lists   statusLists
	cards   sync.Map  // digest by agent: which card it has now
	macs    sync.Pool // hash.Hash: HMAC under the key of pseudonyms, which takes two blocks to set up

	mu     sync.Mutex // guards random and the replacement of revoked
	random io.Reader
}

// New returns the issuer over a store, with the revocations of the store.
func New(ctx context.Context, config Config) (*Issuer, error) {
	if err := missing.Fields("issuer", config, "Store", "Policy", "Sealer", "Recorder", "Now", "Random", "Log"); err != nil {
		return nil, err
	}
	if len(config.Pairwise) != 32 || config.MaximumLifetime <= 0 {
		return nil, errors.New("issuer: a Pairwise key of 32 bytes and a positive MaximumLifetime are required")
	}
	if config.Origin == nil {
		config.Origin = func(string) string { return "" }
	}
	i := &Issuer{config: config, random: config.Random, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	i.macs.New = func() any { return hmac.New(sha256.New, config.Pairwise) }
	put, err := i.Replace(config.Agents)
	if err != nil {
		return nil, err
	}
	put()
	i.revoked.Store(&revocations{freezes: map[string]Revocation{}, epochs: map[bulk]epoch{}, changed: make(chan struct{})})
	if config.Asker != nil {
		if i.asker, err = config.Asker(i); err != nil {
			return nil, err
		}
	}
	return i, errors.Join(i.beginRevocations(ctx), i.loadModes(ctx))
}

// Replace returns what puts other agents instead of the present ones. Capabilities issued
// for an agent that is gone cannot be used until the agent is there again.
func (i *Issuer) Replace(agents []*Agent) (put func(), err error) {
	next := map[string]*Agent{}
	for _, a := range agents {
		if err := a.check(); err != nil {
			return nil, err
		}
		next[a.ID] = a
	}
	return func() { i.agents.Store(&next) }, nil
}

// LoadModes reads which modes operators set for the agents that there are now.
func (i *Issuer) LoadModes(ctx context.Context) error { return i.loadModes(ctx) }

// all are the agents by id. The map is never written to.
func (i *Issuer) all() map[string]*Agent { return *i.agents.Load() }

// Agent returns the agent of that id.
func (i *Issuer) Agent(id string) (*Agent, bool) {
	a, ok := i.all()[id]
	return a, ok
}

// PolicyDigest names the policies that are in force.
func (i *Issuer) PolicyDigest() string { return i.config.Policy.Digest() }

// NewID returns a fresh identifier with a prefix, such as "cap_01j...". Ids sort
// by the time of their making and cannot be guessed.
func (i *Issuer) NewID(prefix string) (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	id, err := ulid.New(ulid.Timestamp(i.config.Now()), i.random)
	if err != nil {
		return "", fmt.Errorf("issuer: making an id: %w", err)
	}
	return prefix + strings.ToLower(id.String()), nil
}

// Code names why the issuer refused. Codes are stable.
type Code string

// The codes of [Refusal].
const (
	CodeUnauthenticated  Code = "unauthenticated"
	CodeHolderUnknown    Code = "holder_unknown"
	CodeAgentUnknown     Code = "agent_unknown"
	CodeGrantUnknown     Code = "grant_unknown"
	CodePurposeMissing   Code = "purpose_missing"
	CodeRequiresMissing  Code = "grant_requires"
	CodeLegacyNotAllowed Code = "legacy_not_allowed"
	CodeQueryInvalid     Code = "resource_query_invalid"
	// CodeResourcesUnavailable is for a live collection whose source does not answer.
	CodeResourcesUnavailable Code = "resources_unavailable"
	CodeExpiryInvalid        Code = "expires_invalid"
	CodeNothingGranted       Code = "nothing_granted"
	CodeApprovalRequired     Code = "approval_required"
	CodeApprovalDenied       Code = "approval_denied"
	CodeApprovalExpired      Code = "approval_expired"
	CodeApprovalTooMany      Code = "approval_too_many"
	CodeApprovalNobody       Code = "approval_nobody"
	CodeNotExpressible       Code = "not_expressible"
	CodeCapabilityUnknown    Code = "capability_unknown"
	CodeCapabilityRevoked    Code = "capability_revoked"
	CodeCapabilityExpired    Code = "capability_expired"
	CodeNotPrincipal         Code = "principal_mismatch"
	CodeNotAttenuable        Code = "not_attenuable"
	CodeWider                Code = "attenuation_wider"
	CodeDelegationDepth      Code = "delegation_depth"
	CodeTaskUnknown          Code = "task_unknown"
	CodeFrozen               Code = "frozen"
	CodeCardWidened          Code = "card_widened"
)

// Refusal is a denial of the issuer. It is [powerbox.ErrDenied].
type Refusal struct {
	Code    Code
	Message string   // a sentence for the caller, without what it may not know
	Details []string // what exceeds or is missing
	Record  string   // id of the evidence record, "" where none could be made

	recorded string // in place of the message, where that repeats the caller's words
}

func (r *Refusal) Error() string {
	if len(r.Details) == 0 {
		return r.Message
	}
	return r.Message + ": " + strings.Join(r.Details, "; ")
}

// Is makes a refusal a [powerbox.ErrDenied].
func (r *Refusal) Is(target error) bool { return target == powerbox.ErrDenied }

func refuse(code Code, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}

// denied records a refusal and returns it with the id of its record. Where the
// record cannot be written the refusal stands all the same.
func (i *Issuer) denied(ctx context.Context, record evidence.Record, r *Refusal) error {
	record.Decision = evidence.Deny
	record.Details.Reasons = append(record.Details.Reasons, evidence.Reason{Code: string(r.Code), Message: r.onRecord()})
	err := i.config.Store.Update(ctx, func(tx Tx) error {
		_, err := tx.Append(record)
		return err
	})
	if err != nil {
		i.config.Log.ErrorContext(ctx, "a refusal was not recorded", slog.String("record", record.ID), slog.Any("error", err))
		return r
	}
	r.Record = record.ID
	return r
}
