package provider

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/missing"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
	"github.com/powerbox-project/powerbox/token"
)

// label is the grant that capabilities of Agent Auth are operations of, so that
// their names cannot be taken for those of other protocols.
const label = "agent-auth"

// Config has the parts that a provider needs. Every field is required unless it says
// otherwise.
type Config struct {
	Store        Store
	Issuer       *issuer.Issuer
	Gate         *gate.Gate
	Agent        string // the protected agent whose capabilities these are
	Name         string // provider_name
	Description  string
	URL          string // issuer of the protocol, without a final slash
	ExecutePath  string // under URL; default_location is both
	Capabilities []Capability
	Modes        []string // that can be registered
	Clocks       Clocks
	Lifetimes    []Lifetime    // other clocks, for some of the agents
	Approval     time.Duration // how long an approval can be answered
	Interval     time.Duration // between two polls
	Retention    time.Duration // how long the data of an agent outlives it, 0 for no end
	CodeKey      []byte        // of the hashes of user codes, 32 bytes
	Options      agentauth.Options
	Tokens       Tokens // optional; the zero one issues none
	// RequireIssuer refuses agent tokens without iss. Off, they are taken as the
	// protocol's own client makes them (AAP-J2).
	RequireIssuer bool
	// RequireProof refuses agents' tokens that are not bound to a key or a certificate
	// (AAP-J9).
	RequireProof bool
	// IssuerAudience takes, at the default location, tokens whose audience is the
	// issuer (AAP-J3).
	IssuerAudience bool
	// AnyHost has hosts that no person approved begin autonomous agents with the
	// capabilities that an operator grants those (AAP-U2). Off, they wait as all others do
	// (AAP-M4, AAP-H13).
	AnyHost bool
	// Administrator reports whether a principal answers for hosts without a user; nil for
	// no principal.
	Administrator func(principal string, groups []string) bool
	CIBA          CIBA // "" for off
	// Known reports whether there is a principal that the store does not know of, for hints
	// of the person to ask; nil for none.
	Known func(principal string) bool
	// Replay remembers tokens that were used for every process that takes them; nil for
	// one that remembers its own.
	Replay  gate.Replay
	Keys    KeyFetcher // optional; nil takes no key sets by URL
	Backend Backend
	// Data labels what agents read; nil where nothing is labelled.
	Data *Data
	// Redact makes the recorded form of arguments; nil keeps nothing.
	Redact  func(arguments powerbox.Value) []byte
	Started time.Time
	Now     func() time.Time
	Random  io.Reader
	Log     *slog.Logger
}

// KeyFetcher fetches the key set of a host or an agent (AAP-N1, AAP-N2).
type KeyFetcher interface {
	// Key returns the key in the set at a URL that has that kid or that RFC 7638
	// thumbprint.
	Key(ctx context.Context, url, id string) (token.PublicKey, error)
}

// Provider is one Agent Auth provider. Its methods can be called by many
// goroutines.
type Provider struct {
	config       Config
	capabilities map[string]*Capability
	order        []string           // names, sorted
	caps         powerbox.Authority // each capability within the server's own constraints
	replay       gate.Replay
	seen         snapshots
	target       *gate.Target

	mu      sync.Mutex           // guards used and guesses
	used    map[string]time.Time // last requests of agents that are not stored yet
	guesses map[string]guesses   // by person
	hints   map[string]guesses   // by person who was asked by name

	noneBefore atomic.Bool // no token is stored that was used before this process began
}

// replayEntries bounds how many tokens are remembered as used.
const replayEntries = 1 << 20

// New returns a provider. Whatever is missing for security is an error.
func New(c Config) (*Provider, error) {
	if err := missing.Fields("provider", c, "Store", "Issuer", "Gate", "Backend", "URL", "Agent", "Name", "Started", "Now", "Random", "Log"); err != nil {
		return nil, err
	}
	switch {
	case len(c.CodeKey) != 32:
		return nil, errors.New("provider: a CodeKey of 32 bytes is required")
	case c.Clocks.Session <= 0 || c.Clocks.Maximum <= 0 || c.Clocks.Absolute <= 0 || c.Approval <= 0 || c.Interval <= 0:
		return nil, errors.New("provider: the clocks, Approval and Interval must be positive")
	case len(c.Modes) == 0:
		return nil, errors.New("provider: no mode can be registered; want delegated, autonomous or both")
	}
	if c.CIBA == "" {
		c.CIBA = CIBAOff
	}
	if c.Known == nil {
		c.Known = func(string) bool { return false }
	}
	if c.Administrator == nil {
		c.Administrator = func(string, []string) bool { return false }
	}
	if c.Replay == nil {
		c.Replay = gate.NewMemory(replayEntries)
	}
	p := &Provider{config: c, capabilities: map[string]*Capability{}, replay: c.Replay, used: map[string]time.Time{}, guesses: map[string]guesses{}, hints: map[string]guesses{}}
	var clauses []powerbox.Clause
	for i := range c.Capabilities {
		one := &c.Capabilities[i]
		if err := one.check(); err != nil {
			return nil, err
		}
		if p.capabilities[one.Name] != nil {
			return nil, fmt.Errorf("provider: capability %q occurs twice", one.Name)
		}
		op, err := p.operation(one.Name)
		if err != nil {
			return nil, err
		}
		p.capabilities[one.Name] = one
		p.order = append(p.order, one.Name)
		clauses = append(clauses, powerbox.Clause{Pattern: powerbox.ExactPattern(op), Shape: one.Constraints})
	}
	slices.Sort(p.order)
	var err error
	if p.caps, err = powerbox.NewAuthority(powerbox.Window{Until: always}, token.MaxDepth, clauses...); err != nil {
		return nil, err
	}
	p.target = &gate.Target{ID: c.Agent, URL: p.Location(), Caps: p.caps}
	return p, nil
}

// always is as late as a time can be written.
var always = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// operation is a capability's name in the algebra.
func (p *Provider) operation(capability string) (powerbox.Operation, error) {
	return powerbox.ParseOperation(issuer.Qualify(p.config.Agent, label, capability))
}

// Location returns default_location.
func (p *Provider) Location() string { return p.config.URL + p.config.ExecutePath }

// URL returns the provider's issuer.
func (p *Provider) URL() string { return p.config.URL }

// holder is the name of an agent as a holder of capabilities.
func holder(agent string) string { return "agent-auth:" + agent }

// unit collects the revocations of one use case beside its transaction.
type unit struct{ revoked []issuer.Revocation }

// update runs a change in one transaction. Its revocations are in force when this
// returns.
func (p *Provider) update(ctx context.Context, change func(tx Tx, u *unit) error) error {
	p.seen.begun.Add(1)
	defer p.seen.ended.Add(1)
	var u unit
	err := p.config.Store.UpdateProvider(ctx, func(tx Tx) error {
		u = unit{} // it may run again
		return change(tx, &u)
	})
	if err == nil && len(u.revoked) > 0 {
		p.config.Issuer.Learned(u.revoked...)
	}
	return err
}

// updateBy is update by the word of a person, who was not frozen or removed meanwhile.
func (p *Provider) updateBy(ctx context.Context, who Person, change func(tx Tx, u *unit) error) error {
	return p.update(ctx, func(tx Tx, u *unit) error {
		if err := p.admits(tx, who); err != nil {
			return err
		}
		return change(tx, u)
	})
}

// record begins the record of a use case.
func (p *Provider) record(by, principal string, of action.Type, details map[string]any) (evidence.Record, error) {
	r, err := p.config.Issuer.NewRecord(p.config.Agent, identity.Caller{Principal: principal, Holder: identity.Holder{ID: by}}, of, details)
	r.OutcomeStatus = evidence.Achieved
	return r, err
}

// append records the action of a use case, in its transaction.
func (p *Provider) append(tx issuer.RecordWriter, by, principal string, of action.Type, details map[string]any) error {
	r, err := p.record(by, principal, of, details)
	if err == nil {
		_, err = tx.Append(r)
	}
	return err
}

// codeHash is the hash of a user code that is stored.
func (p *Provider) codeHash(code string) []byte {
	mac := hmac.New(sha256.New, p.config.CodeKey)
	mac.Write([]byte(code))
	return mac.Sum(nil)
}

func notFound(err error) bool { return errors.Is(err, issuer.ErrNotFound) }

// Audiences are those of tokens at the default location (AAP-J3).
func (p *Provider) Audiences() []string {
	if p.config.IssuerAudience {
		return []string{p.Location(), p.config.URL}
	}
	return []string{p.Location()}
}
