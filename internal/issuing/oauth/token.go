package oauth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"log/slog"
	"time"

	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// Tokens are the answer of the token endpoint (RFC 6749, section 5.1).
type Tokens struct {
	Access  string   `json:"access_token"`
	Type    string   `json:"token_type"`
	Expires int64    `json:"expires_in"`
	Refresh string   `json:"refresh_token,omitempty"`
	Scope   string   `json:"scope"`
	Details []Detail `json:"authorization_details,omitempty"`
	// Kind is what a token exchange gave (RFC 8693).
	Kind string `json:"issued_token_type,omitempty"`
}

// Redemption is a request to exchange a code.
type Redemption struct{ Code, Redirect, Verifier, Resource string }

// invalidCode is the one answer to codes that are not the client's, and to all that do not
// fit their request.
func invalidCode(what string) error {
	return Errorf(InvalidGrant, "the code does not hold: %s", what)
}

// Redeem exchanges a code for tokens.
func (s *Server) Redeem(ctx context.Context, c Client, r Redemption) (Tokens, error) {
	b, ok := s.unseal(asCode, r.Code)
	switch {
	case !ok || b.Client != c.ID:
		return Tokens{}, invalidCode("it is none of this client's")
	case b.ended(s.config.Now()):
		return Tokens{}, invalidCode("it has ended")
	case r.Redirect != b.Redirect:
		return Tokens{}, invalidCode("redirect_uri is not that of the authorization request")
	case !proves(r.Verifier, b.Challenge):
		return Tokens{}, invalidCode("code_verifier is not that of the challenge")
	case r.Resource != "" && r.Resource != b.Resource:
		return Tokens{}, Errorf(InvalidTarget, "resource is not that of the authorization request")
	}
	resource, err := s.Resource(b.Resource)
	if err != nil {
		return Tokens{}, err
	}
	caller := s.caller(c.ID, b.Principal, b.Groups)
	issued, asked, err := s.config.Issuing.Redeem(ctx, caller, b.Key)
	switch {
	case errors.Is(err, issuer.ErrUsed):
		if err := s.copied(ctx, resource, caller, asked.Issued, "code"); err != nil {
			return Tokens{}, err
		}
		return Tokens{}, invalidCode("it was used before; what it gave is revoked")
	case errors.Is(err, issuer.ErrNotConsented):
		return Tokens{}, invalidCode("the approval has ended or was taken back")
	case err != nil:
		return Tokens{}, asGrant(refused(err))
	}
	b.Key, b.Redirect, b.Challenge, b.Groups = "", "", "", nil
	return s.tokens(resource, b, issued, nil, time.Time{})
}

// asGrant words a denial for the token endpoint, which has no access_denied.
func asGrant(err error) error {
	if no := (*Error)(nil); errors.As(err, &no) && no.Code == AccessDenied {
		return Errorf(InvalidGrant, "%s", no.Message)
	}
	return err
}

const minVerifier, maxVerifier = 43, 128

// proves reports whether a verifier is that of a challenge (RFC 7636, S256).
func proves(verifier, challenge string) bool {
	if len(verifier) < minVerifier || len(verifier) > maxVerifier {
		return false
	}
	sum := sha256.Sum256([]byte(verifier))
	return subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(sum[:])), []byte(challenge)) == 1
}

// copied revokes what a code or refresh token gave that came twice: someone has a copy of
// it, and the server cannot tell who (RFC 9700, sections 2.1.1 and 4.14.2).
func (s *Server) copied(ctx context.Context, r Resource, caller identity.Caller, ids []string, what string) error {
	s.config.Log.WarnContext(ctx, "an OAuth credential came twice, so that someone has a copy of it; its capabilities are revoked",
		slog.String("what", what), slog.String("holder", caller.Holder.ID), slog.Any("capabilities", ids))
	return s.revoke(ctx, r.Agent, caller, ids)
}

// revoke revokes capabilities in the name of their holder.
func (s *Server) revoke(ctx context.Context, agent string, caller identity.Caller, ids []string) error {
	live, _, err := s.config.Issuing.InForceOf(ctx, ids)
	for _, c := range live {
		_, wrong := s.config.Issuing.Revoke(ctx, agent, caller, c.RevocationID)
		err = errors.Join(err, wrong)
	}
	return err
}

// Refresh exchanges a refresh token for tokens of the same capabilities.
func (s *Server) Refresh(ctx context.Context, c Client, text, scope, resource string) (Tokens, error) {
	b, ok := s.unseal(asRefresh, text)
	switch {
	case !ok || b.Client != c.ID:
		return Tokens{}, Errorf(InvalidGrant, "the refresh token is none of this client's")
	case b.ended(s.config.Now()):
		return Tokens{}, Errorf(InvalidGrant, "the capabilities of the refresh token have ended; authorize again")
	case resource != "" && resource != b.Resource:
		return Tokens{}, Errorf(InvalidTarget, "resource is not that of the authorization request")
	}
	of, err := s.Resource(b.Resource)
	if err != nil {
		return Tokens{}, err
	}
	live, usable, err := s.config.Issuing.InForceOf(ctx, b.Issued)
	switch {
	case err != nil:
		return Tokens{}, err
	case len(usable) < len(live): // the refresh token is not used up, and counts after a thaw
		return Tokens{}, Errorf(InvalidGrant, "an operator has stopped the person, the client, the agent or a capability; try again after a thaw")
	case scope != "" && scope != of.scopeOf(live):
		return Tokens{}, Errorf(InvalidScope, "a refresh keeps the scope; leave scope out, or narrow the token by token exchange")
	}
	_, err = s.config.Desk.Refresh(ctx, b.Question, b.Number)
	switch {
	case errors.Is(err, approval.ErrRefreshed):
		if err := s.copied(ctx, of, s.caller(c.ID, b.Principal, nil), b.Issued, "refresh token"); err != nil {
			return Tokens{}, err
		}
		return Tokens{}, Errorf(InvalidGrant, "the refresh token was used before; what it gave is revoked")
	case errors.Is(err, issuer.ErrNotConsented) || err == nil && len(live) == 0:
		return Tokens{}, Errorf(InvalidGrant, "the approval has ended or was taken back; authorize again")
	case err != nil:
		return Tokens{}, err
	}
	b.Number++
	return s.tokens(of, b, live, nil, time.Time{})
}

// tokens makes the tokens of capabilities. The access token ends at latest or before; a zero
// latest is no bound.
func (s *Server) tokens(of Resource, b sealed, issued []issuer.Capability, actor *Actor, latest time.Time) (Tokens, error) {
	now := s.config.Now()
	id, err := s.id()
	if err != nil {
		return Tokens{}, err
	}
	b.Issued, b.Until = nil, time.Time{}
	for _, c := range issued {
		b.Issued = append(b.Issued, c.ID)
		if c.Expires.After(b.Until) {
			b.Until = c.Expires
		}
	}
	end := now.Add(s.config.Lifetimes.Access)
	if b.Until.Before(end) {
		end = b.Until
	}
	if !latest.IsZero() && latest.Before(end) {
		end = latest
	}
	out := Tokens{Type: "Bearer", Expires: int64(end.Sub(now) / time.Second), Scope: of.scopeOf(issued), Details: detailsOf(issued)}
	out.Access, err = s.signer.sign(claims{
		Issuer: s.config.URL, Subject: b.Principal, Audience: of.URL, Client: b.Client, IssuedAt: now.Unix(), Expires: end.Unix(), ID: id,
		Scope: out.Scope, Capabilities: b.Issued, Actor: actor,
	})
	if err != nil || !b.Offline {
		return out, err
	}
	out.Refresh, err = s.seal(asRefresh, b)
	return out, err
}

// id is a new id of a token.
func (s *Server) id() (string, error) {
	var b [16]byte
	if _, err := s.config.Random.Read(b[:]); err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(b[:]), nil
}

// Revoke revokes a token of a client with everything that it gave (RFC 7009). Of a token
// that is not the client's nothing is told.
func (s *Server) Revoke(ctx context.Context, c Client, text string) error {
	b, ok := s.unseal(asRefresh, text)
	if !ok {
		token, believed := s.signer.read(text)
		b, ok = sealed{Client: token.Client, Principal: token.Subject, Resource: token.Audience, Issued: token.Capabilities}, believed
	}
	if !ok || b.Client != c.ID {
		return nil
	}
	of, err := s.Resource(b.Resource)
	if err != nil {
		return err
	}
	return s.revoke(ctx, of.Agent, s.caller(c.ID, b.Principal, nil), b.Issued)
}

// Introspection is the answer about an access token (RFC 7662).
type Introspection struct {
	Active   bool     `json:"active"`
	Issuer   string   `json:"iss,omitempty"`
	Subject  string   `json:"sub,omitempty"`
	Audience string   `json:"aud,omitempty"`
	Client   string   `json:"client_id,omitempty"`
	Type     string   `json:"token_type,omitempty"`
	IssuedAt int64    `json:"iat,omitempty"`
	Expires  int64    `json:"exp,omitempty"`
	ID       string   `json:"jti,omitempty"`
	Scope    string   `json:"scope,omitempty"`
	Details  []Detail `json:"authorization_details,omitempty"`
	Actor    *Actor   `json:"act,omitempty"`
}

// Introspect tells a client of an access token: of its own, and of others' where the
// operator lets it.
func (s *Server) Introspect(ctx context.Context, c Client, text string) (Introspection, error) {
	t, ok := s.signer.read(text)
	if c.Secret == "" {
		return Introspection{}, Errorf(Unauthorized, "a public client cannot introspect tokens; want a client with a secret")
	}
	if !ok || t.Client != c.ID && !c.Introspects || s.config.Now().Unix() >= t.Expires {
		return Introspection{}, nil
	}
	_, usable, err := s.config.Issuing.InForceOf(ctx, t.Capabilities)
	if err != nil || len(usable) == 0 {
		return Introspection{}, err
	}
	of, err := s.Resource(t.Audience)
	if err != nil {
		return Introspection{}, nil //nolint:nilerr // the agent is gone, and the token with it
	}
	return Introspection{
		Active: true, Issuer: t.Issuer, Subject: t.Subject, Audience: t.Audience, Client: t.Client, Type: "Bearer", IssuedAt: t.IssuedAt, Expires: t.Expires, ID: t.ID,
		Scope: of.scopeOf(usable), Details: detailsOf(usable), Actor: t.Actor,
	}, nil
}
