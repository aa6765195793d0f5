package identity

import (
	"cmp"
	"context"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

// Authenticate says who made the request that came to the audience, which is
// the public URL of the agent or of the server.
//
// Consumed says that the Authorization header is ours and must not be
// forwarded: it is a built-in user's, or a JWT that names the audience or one
// of its issuer's configured audiences, or a token of the server's own, which is
// refused. Any other value decides nothing. A value that is ours and does not
// hold is an [*Error], and consumed.
//
// Without a session the principal is empty, and without a proof, certificate
// or client so is the holder: what that means is for the caller of
// Authenticate to decide. The DPoP header is never to be forwarded.
func (a *Authenticator) Authenticate(r *http.Request, audience string, now time.Time) (caller Caller, consumed bool, err error) {
	credential, err := readCredential(r.Header)
	if err == nil {
		err = a.sentByMistake(r.Header)
	}
	if err != nil {
		return Caller{}, true, err
	}
	s, ours, err := a.session(r, credential, audience, now)
	if err != nil {
		return Caller{}, ours, err
	}
	held, proof, err := a.held(r, credential, s, ours, audience, now)
	if err != nil {
		return Caller{}, ours, err
	}
	c := s.caller
	if c.ProofID = proof.ID; proof.ID != "" {
		c.ProofUntil = proof.IssuedAt.Add(a.window + time.Second)
	}
	if c.Agent, err = a.agent(held); err != nil {
		return Caller{}, ours, err
	}
	if len(held) > 0 {
		c.Holder = held[0]
	}
	if !c.Token.IsZero() {
		c.Holder = Holder{ID: s.client} // whatever else the request proves
	}
	return c, ours, nil
}

// sentByMistake refuses a token of the server's own, under whatever scheme. Anyone who
// shows it to an agent has taken the wrong address, and the agent must not have it.
func (a *Authenticator) sentByMistake(h http.Header) error {
	if a.own == nil {
		return nil
	}
	for _, value := range h.Values("Authorization") {
		if slices.ContainsFunc(pieces(value), a.own) {
			return refuse(CodeMalformed, "the token is for this server itself and is not a session; send it only to the server's own endpoints")
		}
	}
	return nil
}

// hidden reports whether a header has a session for us in it beside the text that was read as
// its token: under another scheme, or behind what other readers take for a space. An
// agent that looks for it would have it.
func (a *Authenticator) hidden(h http.Header, read, audience string, now time.Time) bool {
	all := pieces(h.Get("Authorization"))
	return len(all) >= maxPieces || slices.ContainsFunc(all, func(piece string) bool {
		if piece == read {
			return false
		}
		if _, ok := a.devSession(piece, now); ok {
			return true
		}
		u, isJWT, err := readToken(piece)
		return isJWT && (err != nil || u.names(a.audiences(audience)...))
	})
}

// maxPieces is more than any credential has.
const maxPieces = 256

// pieces are what someone could take for a token in a value of Authorization. Agents
// split it in more ways than RFC 9110 has: at every space there is, at commas, at
// quotes. Tools make a name or a password of a token (RFC 7617).
func pieces(value string) []string {
	var all []string
	add := func(text string) {
		for _, split := range [...]func(rune) bool{unicode.IsSpace, noToken, func(r rune) bool { return r == '=' || noToken(r) }} {
			for piece := range strings.FieldsFuncSeq(text, split) {
				if len(all) < maxPieces && !slices.Contains(all, piece) {
					all = append(all, piece)
				}
			}
		}
	}
	add(value)
	for _, piece := range slices.Clone(all) {
		if strings.Contains(piece, ".") {
			continue // a JWT
		}
		pair, err := base64.RawStdEncoding.DecodeString(ordinary.Replace(piece))
		if name, password, ok := strings.Cut(string(pair), ":"); err == nil && ok {
			all = append(all, name, password)
			add(string(pair))
		}
	}
	return all
}

// ordinary makes the alphabet of Base64 of that for URLs, without padding.
var ordinary = strings.NewReplacer("-", "+", "_", "/", "=", "")

// noToken reports whether a character is one that no token has (RFC 9110, token68).
func noToken(r rune) bool {
	letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	return !letter && !strings.ContainsRune("-._~+/=", r)
}

// credential is the Authorization header taken apart. The zero credential is
// none, or one of a scheme that is not ours.
type credential struct {
	token string
	dpop  bool // the scheme of RFC 9449, else that of RFC 6750
}

func readCredential(h http.Header) (credential, error) {
	values := h.Values("Authorization")
	if len(values) > 1 {
		return credential{}, refuse(CodeMalformed, "the request has %d Authorization headers; want at most one", len(values))
	}
	if len(values) == 0 {
		return credential{}, nil
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.Trim(token, " ")
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		return credential{token: token}, nil
	case strings.EqualFold(scheme, "DPoP"):
		return credential{token: token, dpop: true}, nil
	}
	return credential{}, nil
}

// session returns the session that the credential stands for, and whether the
// credential is ours.
func (a *Authenticator) session(r *http.Request, c credential, audience string, now time.Time) (session, bool, error) {
	if a.hidden(r.Header, c.token, audience, now) {
		return session{}, true, refuse(CodeMalformed, "Authorization has a token for us in another form than Bearer or DPoP, a space and the token")
	}
	if c.token == "" {
		return session{}, false, nil
	}
	if s, ok := a.devSession(c.token, now); ok {
		return s, true, nil
	}
	u, isJWT, err := readToken(c.token)
	if err != nil || !isJWT {
		return session{}, isJWT, err
	}
	p := a.providers[textMember(u.claims, "iss")]
	id, isSVID := a.workload(u)
	switch {
	case a.issued != nil && textMember(u.claims, "iss") == a.issued.Issuer:
		s, err := a.issued.token(r.Context(), u, audience, now)
		return s, true, err
	case a.people.Audience != "" && u.names(a.people.Audience):
		return session{}, true, refuse(CodePerson, "the token is a person's session, for %s, and no agent's; get one for this agent", a.people.Audience)
	case isSVID:
		return a.workloadSession(u, id, audience, now)
	case p != nil && u.names(append([]string{audience}, p.Audiences...)...):
		s, err := a.believe(r.Context(), p, u, now)
		if err == nil && a.people.has(s.client) {
			return session{}, true, refuse(CodePerson, "the token is of a client by which only people log in; get one of another client for this agent")
		}
		return s, true, err
	case u.names(a.audiences(audience)...):
		return session{}, true, refuse(CodeUnknownIssuer, "the token names us as its audience, but its issuer is not configured")
	}
	return session{}, false, nil
}

// workloadSession returns the session of a JWT-SVID for us. One for someone else is not ours.
func (a *Authenticator) workloadSession(u unverified, id spiffeid.ID, audience string, now time.Time) (session, bool, error) {
	own, lifetime := a.domains.Rules(id.TrustDomain())
	if !u.names(append([]string{audience}, own...)...) {
		if u.names(a.audiences(audience)...) {
			return session{}, true, refuse(CodeClaim, "the JWT-SVID is for an audience that its trust domain may not use here")
		}
		return session{}, false, nil
	}
	s, err := a.svid(u, id, lifetime, now)
	if err == nil && a.names.Load().Of(s.workload) == "" {
		return session{}, true, stranger()
	}
	return s, true, err
}

// believe verifies a token, and finds the rules that name its caller. A rule for the claim
// that names the principal takes the subject for the agent itself.
func (a *Authenticator) believe(ctx context.Context, p *provider, u unverified, now time.Time) (session, error) {
	s, err := p.verify(ctx, u, now)
	if err != nil {
		return session{}, err
	}
	var own bool
	s.rules, own = a.names.Load().ofToken(p.Issuer, p.principal.claim, u.claims)
	if !own && !p.Programs {
		return s, nil
	}
	s.caller = Caller{SessionExpires: s.caller.SessionExpires}
	if name, err := a.agent(s.holders()); err != nil || name == "" {
		return session{}, cmp.Or(err, stranger())
	}
	return s, nil
}

// stranger refuses a program that proved an identity without a name.
func stranger() error {
	return refuse(CodeStranger, "the token holds, and no rule of identity.callers names the agent that its subject is")
}

// audiences lists every name that a token can call us by, regardless of who issued it.
func (a *Authenticator) audiences(audience string) []string {
	all := []string{audience}
	if a.people.Audience != "" {
		all = append(all, a.people.Audience)
	}
	for _, p := range a.providers {
		all = append(all, p.Audiences...)
	}
	if a.domains != nil {
		all = append(all, a.domains.Audiences()...)
	}
	return all
}
