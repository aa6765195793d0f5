package identity

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"
)

// has reports whether only people get tokens by a client, which is a holder's id.
func (p People) has(client string) bool {
	id, ok := strings.CutPrefix(client, "client:")
	return ok && slices.Contains(p.Clients, id)
}

// Person returns the person whose session a request to the server at audience came
// with. An agent that has a user's session for its own calls is never that user here
// (ATK-47, ATK-62). A session is a person's only if all of these hold:
//
//   - it is a bearer token, without a proof of possession beside it, bound to no key
//     and no certificate;
//   - its audience is [People.Audience], or its client is one of [People.Clients];
//   - it names no protected agent, and unless its client is one of people's, nothing that
//     agents take for their audience;
//   - neither its client nor the connection's certificate is a configured agent's.
//
// Everything else is [ErrUnauthenticated].
func (a *Authenticator) Person(r *http.Request, audience string, now time.Time) (Caller, error) {
	raw, err := a.personsCredential(r)
	if err != nil {
		return Caller{}, err
	}
	s, err := a.personal(r.Context(), raw, audience, now)
	if err != nil {
		return Caller{}, err
	}
	return a.noAgents(r, s, now)
}

// Operator returns the person whose session of powerbox login a request came with. What
// [Authenticator.Person] demands holds here, and the session is for the client of powerbox
// login alone: no audience of an agent, of a gateway or of the pages is beside it.
// Authenticated is zero where the session does not say when the person logged in, since a
// session that was refreshed is younger than the login.
func (a *Authenticator) Operator(r *http.Request, now time.Time) (Caller, error) {
	raw, err := a.personsCredential(r)
	if err != nil {
		return Caller{}, err
	}
	client := a.people.OperatorsClient
	if client == "" {
		return Caller{}, refuse(CodePerson, "powerbox login is not set up here: operators.login.client_id is missing")
	}
	u, p, err := a.personsToken(raw)
	switch {
	case err != nil:
		return Caller{}, err
	case p.Issuer != a.people.OperatorsIssuer || !u.names(client) || u.anyAudience(func(aud string) bool { return aud != client }):
		return Caller{}, refuse(CodePerson, "the token is not one of powerbox login, for the client of operators.login alone")
	}
	s, err := a.unbound(r.Context(), p, u, now)
	if err != nil {
		return Caller{}, err
	}
	if s.client != "" && s.client != "client:"+client && s.client != "client:"+p.Issuer+"#"+client {
		return Caller{}, refuse(CodePerson, "the token was issued to another client than that of powerbox login")
	}
	if _, told := u.claims.Get("auth_time"); !told {
		s.caller.Authenticated = time.Time{}
	}
	return a.noAgents(r, s, now)
}

// personsCredential returns the bearer token of a request that a person can have made.
func (a *Authenticator) personsCredential(r *http.Request) (string, error) {
	c, err := readCredential(r.Header)
	if err == nil {
		err = a.sentByMistake(r.Header)
	}
	switch {
	case err != nil:
		return "", err
	case c.dpop || len(r.Header.Values("DPoP")) > 0:
		return "", refuse(CodePerson, "a person's session comes without a proof of possession; this is how an agent calls")
	}
	return c.token, nil
}

// noAgents returns the person of a session, unless the session or the connection is an
// agent's.
func (a *Authenticator) noAgents(r *http.Request, s session, now time.Time) (Caller, error) {
	held, err := a.certificates(r, now)
	if err != nil {
		return Caller{}, err
	}
	held = append(held, s.holders()...)
	if name, err := a.agent(held); err != nil || name != "" {
		return Caller{}, refuse(CodePerson, "the session, or the connection's certificate, is an agent's")
	}
	return s.caller, nil
}

// IDToken returns the person of an ID token that was issued to a client by which people
// log in, at the end of a login that the server began itself.
func (a *Authenticator) IDToken(ctx context.Context, raw, client string, now time.Time) (Caller, error) {
	u, p, err := a.personsToken(raw)
	if err != nil {
		return Caller{}, err
	}
	if !u.names(client) {
		return Caller{}, refuse(CodePerson, "the ID token is for another client")
	}
	s, err := a.unbound(ctx, p, u, now)
	if err != nil {
		return Caller{}, err
	}
	if name, err := a.agent(append(s.holders(), Holder{ID: "client:" + client})); err != nil || name != "" {
		return Caller{}, refuse(CodePerson, "the ID token is of a client that is an agent's")
	}
	return s.caller, nil
}

func (a *Authenticator) personsToken(raw string) (unverified, *provider, error) {
	u, isJWT, err := readToken(raw)
	if err != nil || !isJWT {
		return u, nil, refuse(CodeMalformed, "there is no token of an identity provider")
	}
	p := a.providers[textMember(u.claims, "iss")]
	if p == nil {
		return u, nil, refuse(CodeUnknownIssuer, "the token's issuer is not configured")
	}
	if _, isSVID := a.workload(u); isSVID || p.Programs {
		return u, nil, refuse(CodePerson, "the token is of a program, and of no person")
	}
	return u, p, nil
}

func (a *Authenticator) personal(ctx context.Context, raw, audience string, now time.Time) (session, error) {
	u, p, err := a.personsToken(raw)
	if err != nil {
		return session{}, err
	}
	shared := append([]string{audience}, p.Audiences...) // with what agents take
	own := a.people.Audience != "" && u.names(a.people.Audience) && !u.names(shared...)
	if !own && !u.names(shared...) || a.people.Agents != "" && u.anyAudience(func(aud string) bool { return strings.HasPrefix(aud, a.people.Agents) }) {
		return session{}, refuse(CodePerson, "the token is not for people; get one whose audience is %s alone", a.people.Audience)
	}
	s, err := a.unbound(ctx, p, u, now)
	if err != nil {
		return session{}, err
	}
	if !own && !a.people.has(s.client) {
		return session{}, refuse(CodePerson, "the token is one that agents use, too; get one for audience %s, or by a client of approvals.clients", a.people.Audience)
	}
	return s, nil
}

// unbound believes a token that is bound to nothing.
func (a *Authenticator) unbound(ctx context.Context, p *provider, u unverified, now time.Time) (session, error) {
	s, err := a.believe(ctx, p, u, now)
	if err == nil && (s.keyBound != "" || s.certificate != "") {
		return session{}, refuse(CodePerson, "the token is bound to a key or a certificate, as agents have; a person's is not")
	}
	return s, err
}
