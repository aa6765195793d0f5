package oauth

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// The names of identity assertions (RFC 7523, draft-ietf-oauth-identity-assertion-authz-grant).
const (
	GrantAssertion   = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	ProfileAssertion = "urn:ietf:params:oauth:grant-profile:id-jag"
)

// Asserting believes the assertions of identity providers, which let a client act for a person
// without a page. [identity.Authenticator] does the part of reading.
type Asserting struct {
	Read func(ctx context.Context, raw, audience string, trusted map[string]identity.Trust, now time.Time) (identity.Assertion, error)
	// Trusted are the identity providers, by issuer.
	Trusted map[string]identity.Trust
	// Use returns false where an id was used before, and remembers it until a time.
	Use func(id string, until, now time.Time) bool
	// Since is from when on used assertions are remembered. Earlier ones are refused.
	Since time.Time
}

// Asserted is a request with an assertion.
type Asserted struct{ Assertion, Scope, Resource string }

// Asserts reports whether assertions of any identity provider are believed.
func (s *Server) Asserts() bool { return s.config.Asserting != nil }

// Assert gives a client tokens for the person whom an identity provider names. The provider has
// consented in the person's place. Policy decides as about every request, and can want a person.
func (s *Server) Assert(ctx context.Context, c Client, r Asserted) (Tokens, error) {
	if !s.Asserts() {
		return Tokens{}, Errorf(UnsupportedGrant, "assertions are not accepted here: oauth.identity_assertions names no identity provider")
	}
	if c.Secret == "" {
		return Tokens{}, Errorf(Unauthorized, "a public client cannot present assertions, which anybody could have copied; want a client with a secret")
	}
	now := s.config.Now()
	a, err := s.config.Asserting.Read(ctx, r.Assertion, s.config.URL, s.config.Asserting.Trusted, now)
	if err != nil {
		return Tokens{}, unbelieved(err)
	}
	if a.Client != c.ID {
		return Tokens{}, Errorf(InvalidGrant, "the client_id of the assertion is not the client that presents it")
	}
	of, err := s.target(a, r.Resource)
	if err != nil {
		return Tokens{}, err
	}
	req, err := requested(a, of, c, r.Scope)
	if err != nil {
		return Tokens{}, err
	}
	if a.Issued.Unix() < s.config.Asserting.Since.Unix() || !s.config.Asserting.Use(a.Issuer+" "+a.ID, a.Expires, now) {
		return Tokens{}, Errorf(InvalidGrant, "the assertion was used before, or may have been; get another one from the identity provider")
	}
	caller := s.caller(c.ID, a.Caller.Principal, a.Caller.Groups)
	caller.Roles, caller.Attributes = a.Caller.Roles, a.Caller.Attributes
	req.Brief = now.Add(s.config.Lifetimes.Access)
	issued, err := s.config.Issuing.Request(ctx, of.Agent, caller, req)
	if waits := (*issuer.Pending)(nil); errors.As(err, &waits) {
		return Tokens{}, &Error{Code: InteractionRequired, Message: "a person has to approve this first; show the page to the person, and present another assertion after that", Page: waits.URL}
	}
	if err != nil {
		return Tokens{}, asGrant(refused(err))
	}
	return s.tokens(of, sealed{Client: c.ID, Principal: caller.Principal, Resource: of.URL}, issued, nil, time.Time{})
}

// unbelieved words why an assertion is not believed. Keys that cannot be had are no fault of it.
func unbelieved(err error) error {
	no := (*identity.Error)(nil)
	switch {
	case !errors.As(err, &no):
		return err
	case no.Code == identity.CodeKeysUnavailable:
		return Errorf(Unavailable, "%s", no.Message)
	}
	return Errorf(InvalidGrant, "%s", no.Message)
}

// target is the resource that a request with an assertion is for: one that the assertion names.
func (s *Server) target(a identity.Assertion, wanted string) (Resource, error) {
	switch {
	case wanted != "" && !slices.Contains(a.Resources, wanted):
		return Resource{}, Errorf(InvalidTarget, "resource is not one that the assertion names")
	case wanted == "" && len(a.Resources) > 1:
		return Resource{}, Errorf(InvalidTarget, "the assertion names %d resources; say in resource which one", len(a.Resources))
	case wanted == "":
		wanted = a.Resources[0]
	}
	return s.Resource(wanted)
}

// requested is what a client asks for with an assertion: what the assertion has, or less.
func requested(a identity.Assertion, of Resource, c Client, scope string) (issuer.Request, error) {
	req := issuer.Request{Client: &issuer.Client{ID: c.ID, Name: c.Name, Asserted: a.Issuer}}
	var d details
	var err error
	if a.Details != nil {
		if d, err = readDetails(*a.Details, of); err != nil {
			return req, err
		}
	}
	switch {
	case d.any() && (a.Scope != nil || strings.TrimSpace(scope) != ""):
		return req, Errorf(InvalidRequest, "scope and authorization_details stand together; want one of them")
	case a.Details != nil:
		req.Grants, req.Of = d.grants()
		req.Expires, req.Purpose = d.expires, d.purpose
	case a.Scope != nil:
		req.Grants, req.Of, err = of.atLeastOne(*a.Scope)
	default:
		req.Grants, req.Of, err = of.wanted("")
	}
	if err == nil && a.Details == nil && strings.TrimSpace(scope) != "" {
		err = within(&req, of, scope)
	}
	if req.Purpose == "" {
		req.Purpose = "Access for the client " + c.shown()
	}
	return req, err
}

// atLeastOne reads a scope that must name a grant or an operation. An assertion with a scope of
// nothing permits nothing, not everything.
func (r Resource) atLeastOne(scope string) ([]string, map[string][]string, error) {
	names := slices.DeleteFunc(strings.Fields(scope), func(s string) bool { return s == OfflineAccess })
	if len(names) == 0 {
		return nil, nil, Errorf(InvalidScope, "the scope names nothing that %s offers; there are %s", r.Agent, strings.Join(r.Scopes(), ", "))
	}
	return r.wanted(scope)
}

// within narrows a request to a scope that the client asks for, which must be within it.
func within(req *issuer.Request, of Resource, scope string) error {
	grants, operations, err := of.atLeastOne(scope)
	if err != nil {
		return err
	}
	for _, grant := range grants {
		most, single := req.Of[grant]
		some, fewer := operations[grant]
		wider := single && (!fewer || slices.ContainsFunc(some, func(op string) bool { return !slices.Contains(most, op) }))
		if wider || !slices.Contains(req.Grants, grant) {
			return Errorf(InvalidScope, "the scope has more of %q than the assertion; ask the identity provider for a wider one", grant)
		}
	}
	req.Grants, req.Of = grants, operations
	return nil
}
