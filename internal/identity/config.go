package identity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/powerbox-project/powerbox"
)

// Fetcher gets documents from elsewhere. internal/outbound has the one that
// keeps to the address policy.
type Fetcher interface {
	// Get returns body and header of an answer that is 200.
	Get(ctx context.Context, address, accept string) ([]byte, http.Header, error)
}

// Config says whom to believe. The zero Config believes no one: every caller
// is then at most the holder of a key or a certificate.
type Config struct {
	// Providers are the issuers of sessions. Optional.
	Providers []Provider
	// Callers name the agents that call. Optional.
	Callers []CallerRule
	// Dev are users with fixed tokens, for experiments on loopback. Leave
	// empty anywhere else: such a token can be guessed, shared and replayed.
	Dev []DevUser
	// Fetch gets discovery documents and key sets. Required when a provider
	// has no JWKS.
	Fetch Fetcher
	// ProofWindow is how far the time of a proof may be from ours. Optional,
	// default 30 s.
	ProofWindow time.Duration
	// ProofCapacity is how many proofs are remembered for single use; beyond
	// it proofs are refused. Optional, default 1<<20.
	ProofCapacity int
	// Replay remembers proofs for all processes that take them. Optional: without it
	// this one remembers its own.
	Replay Replay
	// Own reports whether a bearer token is one that the server takes for itself:
	// of its operator, a gateway, a relay or a guard. It is no session, and is
	// not forwarded (ATK-35). Optional.
	Own func(token string) bool
	// People says which sessions are those of people, with which they approve and look
	// after their agents. Nothing else takes them. Optional: without it there are none.
	People People
	// Issued is this server as the issuer of access tokens to OAuth clients, with its key
	// set and without a template. Optional: without it there are none.
	Issued *Provider
	// Domains are the trust domains of SPIFFE. Optional: without it there are none.
	Domains Domains
	// Started is when the process began: proofs made earlier are refused,
	// since it is unknown whether they were used. Required.
	Started time.Time
}

// Provider is one issuer of sessions.
type Provider struct {
	// Issuer is compared bytewise with the iss claim. Required.
	Issuer string
	// Audiences are accepted besides the audience of the request. Optional.
	Audiences []string
	// JWKS is the issuer's key set. Optional: without it JWKSURL is fetched,
	// and without that what the issuer's discovery document names.
	JWKS    []byte
	JWKSURL string
	// Unkeyed says that the key set is on disk and cannot be used now: no token is believed.
	Unkeyed bool
	// Fetch gets them. Optional, default that of the Config.
	Fetch Fetcher
	// Principal is the template of the principal's name, with {claim} for the
	// value of one string claim. Optional, default "user:{sub}". With several
	// providers their templates must begin differently, so that one issuer
	// cannot name the principals of another.
	Principal string
	// GroupsClaim and RolesClaim name the claims that list them. Optional. A
	// name that begins with '/' is a JSON pointer (RFC 6901).
	GroupsClaim, RolesClaim string
	// Attributes are the claims that are kept. Optional.
	Attributes []string
	// Programs says that the tokens are of programs only: they have no principal, are no
	// person's session, and are refused unless a rule names the caller.
	Programs bool
	// MaximumLifetime is how long a token may be valid, from iat to exp. Optional: without it
	// for any time.
	MaximumLifetime time.Duration
}

// People tells the sessions of people from all others.
type People struct {
	// Audience is in the aud of a person's session, and of no other.
	Audience string
	// Clients are client ids by which only people get tokens; with several providers
	// "ISSUER#CLIENT".
	Clients []string
	// Agents is how the URL of every protected agent begins.
	Agents string
	// OperatorsIssuer and OperatorsClient are the client of powerbox login at its issuer;
	// "" for none.
	OperatorsIssuer, OperatorsClient string
}

// DevUser is a user who is believed for an opaque token. For experiments.
type DevUser struct {
	Name          string
	Token         string
	Groups, Roles []string
	Attributes    map[string]powerbox.Value
}

const (
	defaultProofWindow   = 30 * time.Second
	defaultProofCapacity = 1 << 20
	defaultPrincipal     = "user:{sub}"
	minimumDevToken      = 8
)

// Replay remembers ids for single use.
type Replay interface {
	// Fresh returns false where id was used before and may still be repeated. It
	// remembers id until then. An error says that it cannot be told now.
	Fresh(id string, until, now time.Time) (bool, error)
}

// Authenticator says who calls. It is safe for concurrent use.
type Authenticator struct {
	providers map[string]*provider
	names     atomic.Pointer[Names]
	domains   Domains // nil for none
	dev       []devUser
	window    time.Duration
	started   time.Time
	own       func(token string) bool
	issued    *provider // this server, nil where it issues no access tokens
	people    People
	replay    Replay   // nil for the two below
	sessions  *replays // proofs that came with a session
	strangers *replays // proofs that came alone, which anybody can make
}

// New returns an Authenticator, or the error of the configuration.
func New(c Config) (*Authenticator, error) {
	if c.Started.IsZero() {
		return nil, errors.New("identity: Started is not set; want the time at which the process began")
	}
	if c.ProofWindow <= 0 {
		c.ProofWindow = defaultProofWindow
	}
	if c.ProofCapacity <= 0 {
		c.ProofCapacity = defaultProofCapacity
	}
	a := &Authenticator{
		providers: make(map[string]*provider),
		window:    c.ProofWindow,
		started:   c.Started,
		own:       c.Own,
		people:    c.People,
		domains:   c.Domains,
		replay:    c.Replay,
		sessions:  newReplays(2*c.ProofWindow, c.ProofCapacity),
		strangers: newReplays(2*c.ProofWindow, c.ProofCapacity/4+1),
	}
	for i, p := range c.Providers {
		if err := a.addProvider(p, c.Fetch, len(c.Providers) > 1); err != nil {
			return nil, fmt.Errorf("identity: provider %d: %w", i+1, err)
		}
	}
	if err := a.addIssued(c.Issued); err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	rename, err := a.Rename(c.Callers)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	rename()
	if a.dev, err = devUsers(c.Dev); err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	return a, nil
}

func (a *Authenticator) addProvider(c Provider, fetch Fetcher, several bool) error {
	if c.Principal == "" {
		c.Principal = defaultPrincipal
	}
	p, err := newProvider(c, fetch, several)
	if err != nil {
		return err
	}
	if a.providers[c.Issuer] != nil {
		return fmt.Errorf("issuer %q is configured twice", c.Issuer)
	}
	for _, other := range a.providers {
		mine, theirs := p.principal.prefix, other.principal.prefix
		if strings.HasPrefix(mine, theirs) || strings.HasPrefix(theirs, mine) {
			return fmt.Errorf("principal template %q and that of %s begin alike, so that one could name the principals of the other; want different beginnings, such as \"user:NAME/{sub}\"",
				c.Principal, other.Issuer)
		}
	}
	a.providers[c.Issuer] = p
	return nil
}

// Rename reads other names of callers. What it returns puts them in place of those before,
// for every request that comes later.
func (a *Authenticator) Rename(rules []CallerRule) (rename func(), err error) {
	names, err := ParseNames(rules)
	return func() { a.names.Store(names) }, err
}
