package identity

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

const (
	maximumTokenBytes = 32 << 10
	clockSkew         = 30 * time.Second
)

// tokenTypes are the typ headers of tokens that stand for a user: RFC 9068
// access tokens, and what issuers put on ID tokens. Other types are other
// things with the same signature.
var tokenTypes = []string{"", "jwt", "at+jwt", "application/at+jwt"}

// unverified is a token that was taken apart and not yet believed.
type unverified struct {
	raw    string
	header powerbox.Value
	claims powerbox.Value
}

// session is a token that was believed.
type session struct {
	caller      Caller
	client      string   // holder id of the client, or empty
	workload    string   // SPIFFE id of a JWT-SVID, or empty
	rules       []Holder // of the rules that its claims fulfil
	keyBound    string   // cnf.jkt: the thumbprint of the only key that may use it
	certificate string   // cnf.x5t#S256: the only certificate that may use it
}

// readToken takes a compact JWT apart. It is false for a text that is no JWT at all,
// which is not ours; an error is for what looks like one and is ambiguous.
func readToken(raw string) (unverified, bool, error) {
	parts := strings.Split(raw, ".")
	if len(parts) != 3 {
		return unverified{}, false, nil
	}
	header, err := segment(parts[0])
	if err != nil {
		return unverified{}, false, nil
	}
	if len(raw) > maximumTokenBytes {
		return unverified{}, true, refuse(CodeMalformed, "the token has %d bytes; want at most %d", len(raw), maximumTokenBytes)
	}
	claims, err := segment(parts[1])
	if err != nil {
		// A lenient reader might still see our name in it, so it must not be
		// forwarded.
		return unverified{}, true, refuse(CodeMalformed, "the token's claims are not strict JSON in base64url")
	}
	return unverified{raw, header, claims}, true, nil
}

func segment(s string) (powerbox.Value, error) {
	data, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil {
		return powerbox.Value{}, err
	}
	v, err := powerbox.DecodeValue(data, powerbox.Limits{Bytes: maximumTokenBytes, Depth: jsonLimits.Depth})
	if err == nil && v.Kind() != powerbox.KindObject {
		err = fmt.Errorf("%v; want an object", v.Kind())
	}
	return v, err
}

// names reports whether the token is addressed to one of the audiences.
func (u unverified) names(audiences ...string) bool {
	return u.anyAudience(func(aud string) bool { return slices.Contains(audiences, aud) })
}

// anyAudience reports whether the token is addressed to an audience of which is holds.
func (u unverified) anyAudience(is func(string) bool) bool {
	aud, _ := u.claims.Get("aud")
	list, ok := aud.Elements()
	if !ok {
		list = []powerbox.Value{aud}
	}
	return slices.ContainsFunc(list, func(v powerbox.Value) bool {
		s, ok := v.Text()
		return ok && is(s)
	})
}

// verify believes the token or says why not. The order is cheap checks first;
// the key decides the algorithm.
func (p *provider) verify(ctx context.Context, u unverified, now time.Time) (session, error) {
	return p.verifyAs(ctx, u, tokenTypes, p.MaximumLifetime, now)
}

// verifyAs is verify for tokens of some types, which are valid for no longer than longest.
func (p *provider) verifyAs(ctx context.Context, u unverified, types []string, longest time.Duration, now time.Time) (session, error) {
	if err := checkHeader(u.header, types); err != nil {
		return session{}, err
	}
	if _, ok := u.claims.Get("events"); ok {
		return session{}, refuse(CodeType, "the token tells of events (RFC 8417), such as a logout; want an access or ID token")
	}
	expires, err := checkTimes(u.claims, longest, true, now)
	if err != nil {
		return session{}, err
	}
	s, err := p.session(u.claims)
	if err != nil {
		return session{}, err
	}
	s.caller.SessionExpires, s.caller.Authenticated = expires, authenticated(u.claims)
	keys, err := p.keys.find(ctx, textMember(u.header, "kid"), now)
	if err != nil {
		return session{}, err
	}
	if err := checkSignature(u, keys); err != nil {
		return session{}, err
	}
	return s, nil
}

// holders are those that the token proves, the most specific first.
func (s session) holders() []Holder {
	held := slices.Clone(s.rules)
	for _, id := range []string{s.workload, s.client} {
		if id != "" {
			held = append(held, Holder{ID: id})
		}
	}
	return held
}

func checkHeader(header powerbox.Value, types []string) error {
	typ, present := header.Get("typ")
	name, isText := typ.Text()
	if present && !isText || !slices.Contains(types, strings.ToLower(name)) {
		return refuse(CodeType, "the token's typ is not one that is accepted here; want %s", strings.TrimPrefix(strings.Join(types, ", "), ", "))
	}
	for _, member := range []string{"crit", "b64", "zip"} {
		if _, ok := header.Get(member); ok {
			return refuse(CodeMalformed, "the token's header has %q, which is not supported", member)
		}
	}
	if kid, ok := header.Get("kid"); ok && kid.Kind() != powerbox.KindString {
		return refuse(CodeMalformed, "the token's kid is not a string")
	}
	return nil
}

// checkTimes wants a token that is valid now, and for no longer than longest; zero is any
// time. A token without iat, where it may lack that, counts as made now.
func checkTimes(claims powerbox.Value, longest time.Duration, dated bool, now time.Time) (expires time.Time, err error) {
	expires, err = timeClaim(claims, "exp", true)
	if err != nil {
		return time.Time{}, err
	}
	issued, err := timeClaim(claims, "iat", dated)
	if err != nil {
		return time.Time{}, err
	}
	made := issued
	if made.IsZero() || made.After(now) {
		made = now
	}
	begins, err := timeClaim(claims, "nbf", false)
	if err != nil {
		return time.Time{}, err
	}
	switch {
	case !now.Before(expires):
		return time.Time{}, refuse(CodeExpired, "the token expired at %s", expires.Format(time.RFC3339))
	case longest > 0 && expires.Sub(made) > longest:
		return time.Time{}, refuse(CodeLifetime, "the token is valid for %s; want at most %s", expires.Sub(made).Round(time.Second), longest)
	case issued.After(now.Add(clockSkew)):
		return time.Time{}, refuse(CodeNotYetValid, "the token was issued in the future, at %s; clocks may differ by %s", issued.Format(time.RFC3339), clockSkew)
	case begins.After(now.Add(clockSkew)):
		return time.Time{}, refuse(CodeNotYetValid, "the token is valid from %s", begins.Format(time.RFC3339))
	}
	return expires, nil
}

// authenticated is when the person of a token whose times have been checked logged
// in. No login is later than the token; a time that is none is not known.
func authenticated(claims powerbox.Value) time.Time {
	issued, _ := timeClaim(claims, "iat", true)
	at, err := timeClaim(claims, "auth_time", false)
	switch {
	case err != nil:
		return time.Time{}
	case at.IsZero() || at.After(issued):
		return issued
	}
	return at
}

// latest is the last second that RFC 3339 can say. Beyond it times wrap.
var latest = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

func timeClaim(claims powerbox.Value, name string, required bool) (time.Time, error) {
	v, ok := claims.Get(name)
	if !ok && !required {
		return time.Time{}, nil
	}
	at, ok := token.NumericDate(v)
	if !ok || at.After(latest) {
		return time.Time{}, refuse(CodeClaim, "the token's %s is missing or not a number of seconds since 1970", name)
	}
	return at.UTC(), nil
}

func checkSignature(u unverified, keys []jose.JSONWebKey) error {
	if len(keys) == 0 {
		return refuse(CodeUnknownKey, "the token names a key that its issuer does not have")
	}
	alg := jose.SignatureAlgorithm(textMember(u.header, "alg"))
	fitting := slices.DeleteFunc(slices.Clone(keys), func(k jose.JSONWebKey) bool {
		return !slices.Contains(algorithms(k), alg)
	})
	if len(fitting) == 0 {
		return refuse(CodeAlgorithm, "the token's alg is not that of its issuer's key")
	}
	signed, err := jose.ParseSignedCompact(u.raw, []jose.SignatureAlgorithm{alg})
	if err != nil {
		return refuse(CodeMalformed, "the token is not a compact JWS (RFC 7515, section 7.1)")
	}
	for _, k := range fitting {
		if _, err := signed.Verify(k.Key); err == nil {
			return nil
		}
	}
	return refuse(CodeSignature, "the token's signature does not verify under its issuer's key")
}
