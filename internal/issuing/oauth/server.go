package oauth

import (
	"cmp"
	"context"
	"crypto"
	"crypto/cipher"
	"errors"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/missing"
)

// Issuing issues capabilities. [issuer.Issuer] implements it.
type Issuing interface {
	Consent(ctx context.Context, agent string, caller identity.Caller, req issuer.Request) (issuer.Asked, string, error)
	Request(ctx context.Context, agent string, caller identity.Caller, req issuer.Request) ([]issuer.Capability, error)
	Redeem(ctx context.Context, caller identity.Caller, key string) ([]issuer.Capability, issuer.Asked, error)
	NarrowAll(ctx context.Context, caller identity.Caller, parts []issuer.Part) ([]issuer.Capability, error)
	Revoke(ctx context.Context, agent string, caller identity.Caller, revocation string) (issuer.Revocation, error)
	InForceOf(ctx context.Context, ids []string) (live, usable []issuer.Capability, err error)
}

// Desk counts the refresh tokens of an approval. [approval.Desk] implements it.
type Desk interface {
	Refresh(ctx context.Context, question string, number int) (approval.Question, error)
}

// Config is what a [Server] needs. Every field is required unless it says otherwise.
type Config struct {
	Issuing   Issuing
	Desk      Desk
	URL       string            // of the server, which is the issuer
	Resources func() []Resource // that clients can reach, as they are now
	Clients   []Client          // optional: those of the configuration
	Documents *Documents        // optional: of clients that have their own
	// Registering are the redirect URIs with which clients may register themselves, each a
	// URI or [Loopback]; optional.
	Registering []string
	Asserting   *Asserting                 // optional: identity providers that let clients act for people
	Named       func(holder string) string // the operator's name of a calling agent, "" for none
	Seal        cipher.AEAD                // of codes and refresh tokens; it makes its own nonces
	Key         crypto.Signer              // that signs access tokens
	Lifetimes   Lifetimes                  // of values that are sent to clients
	Now         func() time.Time
	Random      io.Reader
	Log         *slog.Logger
}

// Lifetimes bound the values that are sent to clients. Capabilities have their own.
type Lifetimes struct{ Access, Code time.Duration }

// Server is the authorization server. Its methods can be called by many goroutines.
type Server struct {
	config Config
	signer *signer
}

// New returns a server.
func New(c Config) (*Server, error) {
	if err := missing.Fields("oauth", c, "Issuing", "Desk", "URL", "Resources", "Named", "Seal", "Key", "Now", "Random", "Log"); err != nil {
		return nil, err
	}
	if c.Lifetimes.Access <= 0 || c.Lifetimes.Code <= 0 {
		return nil, errors.New("oauth: Lifetimes must be positive")
	}
	s, err := newSigner(c.Key)
	return &Server{config: c, signer: s}, err
}

// URL is the issuer.
func (s *Server) URL() string { return s.config.URL }

// Documents reports whether clients can have their own metadata documents.
func (s *Server) Documents() bool { return s.config.Documents != nil }

// Resources are those that clients can reach.
func (s *Server) Resources() []Resource { return s.config.Resources() }

// Resource returns the resource of a URL, byte for byte (RFC 8707).
func (s *Server) Resource(url string) (Resource, error) {
	all := s.config.Resources()
	i := slices.IndexFunc(all, func(r Resource) bool { return r.URL == url })
	if i < 0 {
		return Resource{}, Errorf(InvalidTarget, "there is no resource %.200q here; want the URL that the metadata of the protected resource has", url)
	}
	return all[i], nil
}

// Client returns a client by its id.
func (s *Server) Client(ctx context.Context, id string) (Client, error) {
	i := slices.IndexFunc(s.config.Clients, func(c Client) bool { return c.ID == id })
	switch {
	case id == "":
		return Client{}, Errorf(InvalidClient, "client_id is missing")
	case i >= 0:
		return s.config.Clients[i], nil
	case s.config.Documents != nil && isDocument(id):
		return s.config.Documents.client(ctx, id, s.config.Now)
	}
	if c, ok := s.registered(id); ok {
		return c, nil
	}
	return Client{}, Errorf(InvalidClient, "no client has that id here; the operator can add it to oauth.clients")
}

// Authenticate returns the client of a request to an endpoint of clients.
func (s *Server) Authenticate(ctx context.Context, id, secret string) (Client, error) {
	c, err := s.Client(ctx, id)
	if err == nil && !c.authenticated(secret) {
		err = Errorf(InvalidClient, "the client's secret is wrong or missing")
	}
	return c, err
}

// caller is a client that acts for a person.
func (s *Server) caller(client, principal string, groups []string) identity.Caller {
	holder := identity.ClientHolder(s.config.URL, client)
	return identity.Caller{Principal: principal, Groups: groups, Holder: identity.Holder{ID: holder}, Agent: s.config.Named(holder)}
}

// shown is the name of a client as a person sees it.
func (c Client) shown() string { return cmp.Or(c.Name, c.ID) }
