package identity

import (
	"context"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/powerbox-project/powerbox"
)

// AssertionType is the typ of an Identity Assertion JWT Authorization Grant (ID-JAG,
// draft-ietf-oauth-identity-assertion-authz-grant): an identity provider lets a client act
// for a person at another authorization server. No other token has it, and no session may.
const AssertionType = "oauth-id-jag+jwt"

// Assertion is an identity assertion that was believed.
type Assertion struct {
	Issuer string
	// Caller is the person: principal, groups, roles and attributes, as in a session.
	Caller Caller
	// Client is the id of the client at this authorization server.
	Client string
	// ID names the assertion among those of its issuer, and Issued and Expires bound it.
	ID              string
	Issued, Expires time.Time
	Resources       []string
	// Scope and Details bound what the client may get; nil for no bound by the issuer.
	Scope, Details *string
}

// Trust says which assertions of an issuer are believed.
type Trust struct {
	// Tenant is the tenant of the issuer whose people are meant, "" for an issuer without tenants.
	Tenant string
	// Lifetime is how long an assertion may be valid, from iat to exp.
	Lifetime time.Duration
}

var assertionTypes = []string{AssertionType, "application/" + AssertionType}

// unheeded are claims that limit an assertion to an actor or a tenant that this server cannot heed.
var unheeded = []string{"act", "may_act", "aud_tenant"}

// Assertion believes an identity assertion for the authorization server at audience, from one of
// the configured providers that trusted has. What the assertion permits is for the caller to decide.
func (a *Authenticator) Assertion(ctx context.Context, raw, audience string, trusted map[string]Trust, now time.Time) (Assertion, error) {
	u, isJWT, err := readToken(raw)
	if err != nil || !isJWT {
		return Assertion{}, refuse(CodeMalformed, "the assertion is not a JWT of strict JSON in three parts")
	}
	issuer := textMember(u.claims, "iss")
	trust, ok := trusted[issuer]
	p := a.providers[issuer]
	switch {
	case !ok || p == nil || p.Programs:
		return Assertion{}, refuse(CodeUnknownIssuer, "the issuer of the assertion is not trusted here")
	case !onlyAudience(u, audience):
		return Assertion{}, refuse(CodeClaim, "the aud of the assertion must be %s alone", audience)
	case textMember(u.claims, "tenant") != trust.Tenant || hasClaim(u, "tenant") && trust.Tenant == "":
		return Assertion{}, refuse(CodeClaim, "the tenant of the assertion is not the one that is trusted here")
	}
	for _, name := range unheeded {
		if hasClaim(u, name) {
			return Assertion{}, refuse(CodeClaim, "the assertion has the claim %q, which is not supported", name)
		}
	}
	out, err := readAssertion(u)
	if err != nil {
		return Assertion{}, err
	}
	s, err := p.verifyAs(ctx, u, assertionTypes, trust.Lifetime, now)
	switch {
	case err != nil:
		return Assertion{}, err
	case s.keyBound != "" || s.certificate != "":
		return Assertion{}, refuse(CodeClaim, "the assertion is bound to a key (cnf), and this server issues bearer tokens only; get one without")
	case a.program(p, u):
		return Assertion{}, refuse(CodePerson, "the subject of the assertion is a program, and no person")
	}
	out.Issuer, out.Caller, out.Expires = issuer, s.caller, s.caller.SessionExpires
	out.Caller.SessionExpires = time.Time{} // an assertion ends long before what it gives
	return out, nil
}

// readAssertion reads the claims that an assertion must have, and those that bound it.
func readAssertion(u unverified) (Assertion, error) {
	out := Assertion{Client: textMember(u.claims, "client_id"), ID: textMember(u.claims, "jti")}
	if out.Client == "" || out.ID == "" || len(out.ID) > maximumNameBytes {
		return out, refuse(CodeClaim, "the assertion needs client_id and jti, each a text, and jti of at most %d bytes", maximumNameBytes)
	}
	var err error
	if out.Resources, err = listClaim(u.claims, "resource"); err != nil {
		return out, err
	}
	if len(out.Resources) == 0 {
		return out, refuse(CodeClaim, "the assertion names no resource; want the URL of one protected resource")
	}
	if out.Issued, err = timeClaim(u.claims, "iat", true); err != nil {
		return out, err
	}
	if scope, present := u.claims.Get(ClaimScope); present {
		text, ok := scope.Text()
		if !ok {
			return out, refuse(CodeClaim, "the scope of the assertion is not a text")
		}
		out.Scope = &text
	}
	if details, present := u.claims.Get("authorization_details"); present {
		text := string(details.AppendJSON(nil))
		out.Details = &text
	}
	return out, nil
}

// program reports whether the subject of a token is a program: a workload of SPIFFE, or an agent
// that a rule names by the claim of the principal.
func (a *Authenticator) program(p *provider, u unverified) bool {
	if _, err := spiffeid.FromString(textMember(u.claims, "sub")); err == nil {
		return true
	}
	_, own := a.names.Load().ofToken(p.Issuer, p.principal.claim, u.claims)
	return own
}

// onlyAudience reports whether a token is for one audience and no other: a text, or a list of one.
func onlyAudience(u unverified, audience string) bool {
	aud, _ := u.claims.Get("aud")
	return aud.Equal(powerbox.String(audience)) || aud.Equal(powerbox.List(powerbox.String(audience)))
}

func hasClaim(u unverified, name string) bool {
	_, present := u.claims.Get(name)
	return present
}
