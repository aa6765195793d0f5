package link

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/trust"
)

// Remote answers what a gateway and its gate ask, from the server or from what
// is known of it. Its methods can be called by many goroutines.
type Remote struct {
	Client *Client
	Agent  string
	Log    *slog.Logger
	Now    func() time.Time // required where levels of trust are asked for

	capabilities kept[string, Capability]
	owners       kept[inTenant, Owner]
	pseudonyms   kept[string, string]
	scopes       kept[string, ScopesIssued] // by hash of the token
	links        kept[string, string]       // link by its delegator and nonce
	labels       kept[string, time.Time]    // end of a label that was noted, by reader and label
	silent       atomic.Int64               // Unix time in ms before which reads do not wait for the server again

	mu     sync.Mutex // guards the fields below
	status Status
	said   time.Time // when the server said so
}

// levelsLife is for how long the levels of trust hold that the server told.
const levelsLife = 30 * time.Second

// Owner is to whom a task belongs, as gateway.Owner.
type Owner = struct{ Root, Principal, Holder string }

// keptLimit bounds the cache of each kind. Later look-ups come
// from the server.
const keptLimit = 1 << 14

// inTenant is a task or context of the agent.
type inTenant struct{ tenant, task string }

// kept holds what never changes.
type kept[K comparable, T any] struct {
	mu  sync.RWMutex
	all map[K]T
}

func (k *kept[K, T]) get(id K) (T, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	v, ok := k.all[id]
	return v, ok
}

func (k *kept[K, T]) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = nil
}

func (k *kept[K, T]) put(id K, v T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil || len(k.all) >= keptLimit {
		k.all = map[K]T{}
	}
	k.all[id] = v
}

// SetStatus takes over what the server says now. With other policies a
// capability may have fewer handles, so that all are asked for again.
func (r *Remote) SetStatus(s Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status.PolicyDigest != s.PolicyDigest {
		r.capabilities.forget()
	}
	r.status = s
	if r.Now != nil {
		r.said = r.Now()
	}
}

// CardSeen tells the server which card the agent has now, and returns when capabilities
// granted under narrower ones have stopped there, and here, where what the feed says
// is followed by feed.
func (r *Remote) CardSeen(ctx context.Context, raw []byte, feed gate.Revocations) error {
	var known CardKnown
	if err := r.Client.call(ctx, PathCard, CardSeen{Card: raw}, &known); err != nil {
		return err
	}
	for {
		changed := feed.Changed() // before the look, or a change in between is missed
		if feed.RevocationSequence() >= known.Sequence {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("what stopped with the card is not known here: %w", ctx.Err())
		case <-changed:
		}
	}
}

// Level implements [gate.Standing]. Where the server has not told it for a while
// no agent has reached a level (EXT-18).
func (r *Remote) Level(agent string) trust.Level {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Now == nil || r.Now().Sub(r.said) > levelsLife {
		return trust.None
	}
	return r.status.Trust[agent].OrNone()
}

// Status is what the server said last.
func (r *Remote) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// Follow asks for the status every so often, and as soon as moved says that the
// feed has advanced, until ctx ends, and tells it. On the way the server learns
// from reached how far that is. The last state stays while the server does
// not answer: the lease of the feed bounds it.
func (r *Remote) Follow(ctx context.Context, every time.Duration, moved <-chan struct{}, reached func() StatusQuery, tell func(Status)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-moved:
		case <-tick.C:
		}
		var s Status
		if err := r.Client.call(ctx, PathStatus, reached(), &s); err != nil {
			r.Log.WarnContext(ctx, "the server does not say how much is enforced", slog.Any("error", err))
			continue
		}
		r.SetStatus(s)
		tell(s)
	}
}

// ModeSet reports whether an operator set that mode.
func (r *Remote) ModeSet(context.Context, string) (bool, error) { return r.Status().ModeSet, nil }

// Mode is the mode that is in force for the agent.
func (r *Remote) Mode(context.Context, string) (gate.Mode, error) {
	return gate.ParseMode(r.Status().Mode)
}

// onRecord is a capability on record, from memory or from the server.
func (r *Remote) onRecord(ctx context.Context, id string) (Capability, error) {
	if c, ok := r.capabilities.get(id); ok {
		return c, nil
	}
	var c Capability
	if err := r.Client.call(ctx, PathCapability, CapabilityQuery{id}, &c); err != nil {
		return c, err
	}
	if c.ID != "" && c.ID != id {
		return Capability{}, errors.New("the server's answer is about another capability")
	}
	if c.ID != "" {
		r.capabilities.put(id, c)
	}
	return c, nil
}

// Unknown refuses a capability that the caller does not hold, at the server as at a gateway.
func Unknown() error {
	return &gate.Refusal{Reasons: []evidence.Reason{gate.Worded(powerbox.Reason{Code: gate.CodeCapabilityUnknown})}}
}

// References resolves capabilities by reference: a gate.Resolver.
type References struct{ *Remote }

// Resolve implements gate.Resolver.
func (r References) Resolve(ctx context.Context, call *gate.Call, p gate.Presented, _ time.Time) (gate.Held, error) {
	c, err := r.onRecord(ctx, p.Reference)
	if err != nil {
		return gate.Held{}, err
	}
	if c.ID == "" || c.Holder != call.Caller.Holder || call.Caller.Holder == "" {
		return gate.Held{}, Unknown()
	}
	return c.held()
}

// held is a capability as the gate decides under it.
func (c Capability) held() (gate.Held, error) {
	v, err := powerbox.ParseValue(c.Authority)
	if err != nil {
		return gate.Held{}, err
	}
	authority, err := powerbox.ParseAuthority(v)
	return gate.Held{
		Capability: c.ID, OnRecord: c.ID, Root: c.Root, Principal: c.Principal, Holder: c.Holder, Authority: authority, Links: c.Lineage, Legacy: c.Legacy, Digest: c.Digest,
	}, err
}

// OnRecord adds the data on record to a resolver's answer: a
// gate.Resolver. A chain whose capability is not on record was not issued by
// the server, whatever key signed it.
type OnRecord struct {
	*Remote
	Resolver gate.Resolver
}

// Resolve implements gate.Resolver.
func (r OnRecord) Resolve(ctx context.Context, call *gate.Call, p gate.Presented, now time.Time) (gate.Held, error) {
	held, err := r.Resolver.Resolve(ctx, call, p, now)
	if err != nil || held.Foreign != "" {
		return held, err
	}
	c, err := r.onRecord(ctx, held.OnRecord)
	if err != nil {
		return gate.Held{}, err
	}
	if c.ID == "" {
		return gate.Held{}, Unknown()
	}
	held.Task, held.Tenant = c.Task, c.Tenant
	held.Links, held.Through = append(held.Links, c.Links...), append(slices.Clone(c.Through), held.Through...)
	held.Issued = time.Unix(c.Issued, 0)
	held.Accounts, err = c.accounts()
	return held, err
}

// VetoUntold is the veto of a server or gateway that cannot ask the policies.
const VetoUntold = "whether the user's policy still allows it cannot be told now"

// Veto implements gate.Policy: the policies in force are the server's, and are
// asked where they are others than those that the capability was issued under.
func (r *Remote) Veto(ctx context.Context, call *gate.Call, held gate.Held) string {
	if held.Foreign != "" {
		return ""
	}
	c, err := r.onRecord(ctx, held.OnRecord)
	if err != nil {
		return VetoUntold
	}
	if c.PolicyDigest == r.Digest() {
		return ""
	}
	q := VetoQuery{ID: c.ID}
	for _, a := range call.Attempts {
		q.Attempts = append(q.Attempts, attemptOf(a))
	}
	var v Veto
	if err := r.Client.call(ctx, PathVeto, q, &v); err != nil {
		return VetoUntold
	}
	return v.Why
}

// Digest implements gate.Policy.
func (r *Remote) Digest() string { return r.Status().PolicyDigest }

// Owner returns to whom a task belongs. The first owner stays, so a known
// owner is cached forever; an unknown one is asked for every time.
func (r *Remote) Owner(ctx context.Context, _, tenant, task string) (Owner, bool, error) {
	if o, ok := r.owners.get(inTenant{tenant, task}); ok {
		return o, true, nil
	}
	var a TaskAnswer
	err := r.Client.call(ctx, PathTasks, TaskQuery{Do: "owner", Tenant: tenant, Task: task}, &a)
	if err == nil && a.Known {
		r.owners.put(inTenant{tenant, task}, a.Owner)
	}
	return a.Owner, a.Known, err
}

// Bind makes a task someone's, unless it is someone's already, and returns
// whose it is. Which of two gateways is first is the server's to say.
func (r *Remote) Bind(ctx context.Context, _, tenant, task string, o Owner) (Owner, error) {
	if known, ok := r.owners.get(inTenant{tenant, task}); ok {
		return known, nil
	}
	var a TaskAnswer
	err := r.Client.call(ctx, PathTasks, TaskQuery{Do: "bind", Tenant: tenant, Task: task, Owner: o}, &a)
	if err == nil {
		r.owners.put(inTenant{tenant, task}, a.Owner)
	}
	return a.Owner, err
}

// End ends the capabilities that were issued for a task.
func (r *Remote) End(ctx context.Context, _, tenant, task string) error {
	return r.Client.call(ctx, PathTasks, TaskQuery{Do: "end", Tenant: tenant, Task: task}, &TaskAnswer{})
}

// Resources opens handles with the shared key.
type Resources struct {
	*Remote
	Sealed func(agent, root, handle string) (id string, ok bool)
	Names  map[string]string // of resources, by id
}

// Open returns the resource behind a handle.
func (r Resources) Open(agent, root, handle string) (id, name string, ok bool) {
	if id, ok = r.Sealed(agent, root, handle); !ok {
		return "", "", false
	}
	return id, r.Names[id], true
}

// Held returns the handles of a capability on record, as far as policy gave them
// when they were asked for.
func (r Resources) Held(ctx context.Context, capability string) ([]string, error) {
	c, err := r.onRecord(ctx, capability)
	return append([]string{}, c.Handles...), err
}

// untoldPrincipal is the pseudonym of a user whose pseudonym cannot be told. It
// belongs to no user.
const untoldPrincipal = "pw_untold"

// Pseudonym returns a principal's name at the agent, which the authenticator has
// asked for.
func (r *Remote) Pseudonym(_, principal string) string {
	if principal == "" {
		return ""
	}
	if name, ok := r.pseudonyms.get(principal); ok {
		return name
	}
	return untoldPrincipal
}

// Authenticator says who calls, where the pseudonym of the user is known too:
// otherwise a user who was stopped could not be recognised.
type Authenticator struct {
	*Remote
	Inner interface {
		Authenticate(r *http.Request, audience string, now time.Time) (identity.Caller, bool, error)
	}
}

// Authenticate implements gateway.Authenticator.
func (a Authenticator) Authenticate(r *http.Request, audience string, now time.Time) (identity.Caller, bool, error) {
	caller, consumed, err := a.Inner.Authenticate(r, audience, now)
	if err != nil || caller.Principal == "" {
		return caller, consumed, err
	}
	if err := a.Know(r.Context(), caller.Principal); err != nil {
		return identity.Caller{}, consumed, err
	}
	return caller, consumed, nil
}

// silence is how long reads do not ask a server that did not answer: one that
// hangs would make each of them wait.
const silence = time.Second

// SessionProof is the id by which the server knows the proof of a caller, which is the
// caller's own and of any length.
func SessionProof(id string) string {
	sum := sha256.Sum256([]byte(id))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Replay keeps the ids of proofs for all gateways of the agent. A call that
// changes nothing continues with the local cache while the server does not
// answer.
type Replay struct {
	*Remote
	Own *gate.Memory // nil if another component remembers them
	// Sessions is set for proofs of callers, which authentication has used up here.
	Sessions bool
}

// Use implements gate.Replay.
func (r Replay) Use(id string, until, now time.Time) bool {
	fresh, err := r.UseFor(gate.ProofUse{}, id, until, now)
	return fresh && err == nil
}

// UseFor implements gate.EffectReplay.
func (r Replay) UseFor(use gate.ProofUse, id string, until, now time.Time) (bool, error) {
	if r.Own != nil && !r.Own.Use(id, until, now) {
		return false, nil
	}
	if use.Reads && now.UnixMilli() < r.silent.Load() {
		return true, nil
	}
	if r.Sessions {
		id = SessionProof(id)
	}
	var a ProofAnswer
	if err := r.Client.call(context.Background(), PathProof, ProofQuery{id, until.Unix(), r.Sessions}, &a); err != nil {
		r.Log.Warn("whether a proof was used at another gateway cannot be told", slog.Bool("reads", use.Reads), slog.Any("error", err))
		r.silent.Store(now.Add(silence).UnixMilli())
		if use.Reads {
			return true, nil
		}
		return false, err
	}
	return a.Fresh, nil
}

// Issuing refuses what a remote gateway cannot do itself; the methods that issue
// are passed to the server before they come here.
type Issuing struct{}

// elsewhere is a denial for what only the server's own gateway does.
type elsewhere struct{}

func (elsewhere) Error() string { return elsewhere{}.Denial().Message }

// Denial words it for the caller.
func (elsewhere) Denial() a2a.Denial {
	return a2a.Denial{Reason: "not_at_this_gateway", Message: "capabilities cannot be narrowed with a task at this gateway; narrow them first with a2a/capabilities/attenuate"}
}

// Request implements gateway.Issuing.
func (Issuing) Request(context.Context, string, identity.Caller, a2a.RequestParams) (a2a.CapabilitiesResult, error) {
	return a2a.CapabilitiesResult{}, elsewhere{}
}

// Attenuate implements gateway.Issuing.
func (Issuing) Attenuate(context.Context, string, identity.Caller, a2a.AttenuateParams) (a2a.CapabilitiesResult, error) {
	return a2a.CapabilitiesResult{}, elsewhere{}
}

// Revoke implements gateway.Issuing.
func (Issuing) Revoke(context.Context, string, identity.Caller, a2a.RevokeParams) (a2a.RevokeResult, error) {
	return a2a.RevokeResult{}, elsewhere{}
}

// List implements gateway.Issuing.
func (Issuing) List(context.Context, string, identity.Caller) (a2a.CapabilitiesResult, error) {
	return a2a.CapabilitiesResult{}, elsewhere{}
}

// IssuerOf implements gateway.Issuing.
func (Issuing) IssuerOf(context.Context, identity.Caller, string) (string, error) {
	return "", elsewhere{}
}

// Delegate implements gateway.Issuing.
func (Issuing) Delegate(context.Context, identity.Caller, []string, map[string]a2a.Attenuation, string) ([]struct{ Agent, ID string }, error) {
	return nil, elsewhere{}
}

// KeySet is the JWK Set that a gateway publishes: what capabilities are issued
// under, and what the agent's gateways sign contexts with.
func (r *Remote) KeySet(issuing json.RawMessage) ([]byte, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(issuing, &set); err != nil {
		return nil, err
	}
	set.Keys = append(set.Keys, r.Status().ContextKeys...)
	return json.Marshal(set)
}
