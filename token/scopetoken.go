package token

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
)

// Limits of what a scope token or a link may say, beside [MaxTokenBytes],
// [MaxChainBytes], [powerbox.MaxOperations] and [MaxDepth].
const (
	maxPartyBytes     = 8 << 10 // an identifier may be an ML-DSA-87 key
	maxNonceBytes     = 256
	maxSignatureBytes = 8 << 10 // in base64url
	maxAlgorithmBytes = 32
)

// ScopeClaims are what a scope token says (EXT-5).
type ScopeClaims struct {
	Issuer    string
	Subject   string // the agent that it was issued to
	Scopes    []string
	IssuedAt  time.Time
	ExpiresAt time.Time // inclusive
}

// LinkClaims are what a delegation link says (EXT-8).
type LinkClaims struct {
	Delegator string
	Delegate  string
	Scopes    []string // none is refused: nothing defaults to all
	IssuedAt  time.Time
	ExpiresAt time.Time // inclusive
	Nonce     string    // names the link among its delegator's, for its life
}

// statement is what scope tokens and links have in common: parties, scopes,
// times and a signature over the canonical form of everything else.
type statement struct {
	scopes    []string
	patterns  []powerbox.Pattern
	issuedAt  time.Time
	expiresAt time.Time
	algorithm string
	signature []byte
	signed    []byte // RFC 8785
}

// ScopeToken is a parsed scope token. It is not verified yet, so it
// yields no authority: [VerifyScopes] does.
type ScopeToken struct {
	statement
	claims ScopeClaims
}

// DelegationLink is a parsed link, of which the same holds.
type DelegationLink struct {
	statement
	claims LinkClaims
}

// Claims returns what the token says. The caller must not change the scopes.
func (t *ScopeToken) Claims() ScopeClaims { return t.claims }

// Claims returns what the link says. The caller must not change the scopes.
func (l *DelegationLink) Claims() LinkClaims { return l.claims }

// Hash returns the SHA-256 of the bytes that are signed, in base64url.
func (s *statement) Hash() string { return DigestOf(s.signed) }

// RevocationID returns the id by which a link is revoked: that of its delegator,
// delegate and nonce (EXT-9). Anyone who knows these can name a link that it has
// never seen.
func (l *DelegationLink) RevocationID() string {
	return LinkRevocationID(l.claims.Delegator, l.claims.Delegate, l.claims.Nonce)
}

// LinkRevocationID returns the id by which a link of those three is revoked.
func LinkRevocationID(delegator, delegate, nonce string) string {
	key := powerbox.List(powerbox.String(delegator), powerbox.String(delegate), powerbox.String(nonce))
	return "link_" + DigestOf(key.AppendJSON(nil))
}

// ScopeError says why a scope token or a chain of links was refused. It is
// [powerbox.ErrDenied]. A caller that gets one should not try again with the
// same bytes.
type ScopeError struct {
	Reason       powerbox.Code
	FailurePoint int // index of the link; OfToken for the token itself
	Message      string
}

// OfToken is the FailurePoint of an error of the token, not of a link.
const OfToken = -1

// Error returns reason and message, and which link they are about.
func (e *ScopeError) Error() string {
	if e.FailurePoint == OfToken {
		return "scope token: " + string(e.Reason) + ": " + e.Message
	}
	return "link " + strconv.Itoa(e.FailurePoint) + ": " + string(e.Reason) + ": " + e.Message
}

// Unwrap returns [powerbox.ErrDenied].
func (e *ScopeError) Unwrap() error { return powerbox.ErrDenied }

func fails(reason powerbox.Code, at int, message string) error {
	return &ScopeError{reason, at, message}
}

var (
	tokenMembers = []string{"algorithm", "expires_at", "issued_at", "issuer", "scopes", "signature", "subject"}
	linkMembers  = []string{"algorithm", "delegate", "delegation_proof", "delegator", "expires_at", "issued_at", "nonce", "scopes"}
)

// ParseScopeToken reads a scope token: exactly the members of EXT-5, none twice,
// within the limits. Errors are [*ScopeError].
func ParseScopeToken(data []byte) (*ScopeToken, error) {
	v, err := powerbox.DecodeValue(data, powerbox.Limits{Bytes: MaxTokenBytes, Depth: 2})
	if err != nil {
		return nil, fails(CodeMalformed, OfToken, err.Error())
	}
	r := statementReader{value: v, at: OfToken}
	r.exactly(tokenMembers)
	t := &ScopeToken{claims: ScopeClaims{Issuer: r.text("issuer", maxPartyBytes), Subject: r.text("subject", maxPartyBytes)}}
	t.statement = r.statement("signature")
	t.claims.Scopes, t.claims.IssuedAt, t.claims.ExpiresAt = t.scopes, t.issuedAt, t.expiresAt
	return t, r.err
}

// ParseLinks reads a chain of links: an array of exactly the members of EXT-8.
// One that is empty is refused. Errors are [*ScopeError].
func ParseLinks(data []byte) ([]*DelegationLink, error) {
	v, err := powerbox.DecodeValue(data, powerbox.Limits{Bytes: MaxChainBytes, Depth: 3})
	if err != nil {
		return nil, fails(CodeMalformed, 0, err.Error())
	}
	elements, ok := v.Elements()
	switch {
	case !ok:
		return nil, fails(CodeMalformed, 0, "the chain is JSON "+v.Kind().String()+"; want an array of links")
	case len(elements) == 0:
		return nil, fails(CodeEmptyChain, 0, "the chain has no link")
	case len(elements) > MaxDepth:
		return nil, fails(CodeExceedsMaxDepth, 0, tooDeep(len(elements), MaxDepth))
	}
	links := make([]*DelegationLink, len(elements))
	for i, e := range elements {
		var err error
		if links[i], err = linkOf(e, i); err != nil {
			return nil, err
		}
	}
	return links, nil
}

func tooDeep(links, limit int) string {
	return "the chain has " + strconv.Itoa(links) + " links; want at most " + strconv.Itoa(limit)
}

func linkOf(v powerbox.Value, at int) (*DelegationLink, error) {
	if v.Kind() == powerbox.KindObject && member(v, "nonce") == "" {
		if nonce, there := v.Get("nonce"); !there || nonce.Kind() == powerbox.KindString {
			return nil, fails(CodeNonceMissing, at, "the link has no nonce")
		}
	}
	r := statementReader{value: v, at: at}
	r.exactly(linkMembers)
	l := &DelegationLink{claims: LinkClaims{
		Delegator: r.text("delegator", maxPartyBytes), Delegate: r.text("delegate", maxPartyBytes), Nonce: r.text("nonce", maxNonceBytes),
	}}
	l.statement = r.statement("delegation_proof")
	l.claims.Scopes, l.claims.IssuedAt, l.claims.ExpiresAt = l.scopes, l.issuedAt, l.expiresAt
	return l, r.err
}

// statementReader reads the members of a token or link. It keeps the first
// error.
type statementReader struct {
	value powerbox.Value
	at    int
	err   error
}

func (r *statementReader) fail(message string) {
	if r.err == nil {
		r.err = fails(CodeMalformed, r.at, message)
	}
}

// exactly demands those members and no others: an unread member could be meant
// as a restriction.
func (r *statementReader) exactly(names []string) {
	members, ok := r.value.Members()
	if !ok {
		r.fail("is JSON " + r.value.Kind().String() + "; want an object")
	}
	for _, m := range members {
		if !slices.Contains(names, m.Name) {
			r.fail("has an unknown member; want " + strings.Join(names, ", "))
		}
	}
	for _, name := range names {
		if _, ok := r.value.Get(name); !ok {
			r.fail("has no " + name)
		}
	}
}

func (r *statementReader) text(name string, limit int) string {
	v, _ := r.value.Get(name)
	s, ok := v.Text()
	if !ok || s == "" || len(s) > limit {
		r.fail(name + "; want a string of 1 to " + strconv.Itoa(limit) + " bytes")
	}
	return s
}

// statement reads the members that tokens and links share. The signature covers
// all other members.
func (r *statementReader) statement(signature string) statement {
	s := statement{
		issuedAt: r.instant("issued_at"), expiresAt: r.instant("expires_at"), algorithm: r.text("algorithm", maxAlgorithmBytes),
	}
	if s.expiresAt.Before(s.issuedAt) {
		r.fail("expires_at is before issued_at")
	}
	s.scopes, s.patterns = r.scopes()
	var err error
	if s.signature, err = decodeBase64(r.text(signature, maxSignatureBytes)); err != nil {
		r.fail(signature + " is not base64url without padding")
	}
	if r.err == nil {
		members, _ := r.value.Members()
		s.signed = canonicalWithout(members, signature)
	}
	return s
}

// canonicalWithout returns the canonical form of an object without one member.
// It cannot fail: the members were read as strings and lists of strings.
func canonicalWithout(members []powerbox.Member, name string) []byte {
	rest := slices.DeleteFunc(slices.Clone(members), func(m powerbox.Member) bool { return m.Name == name })
	b, _ := appendCanonical(nil, powerbox.Object(rest...))
	return b
}

func (r *statementReader) scopes() ([]string, []powerbox.Pattern) {
	v, _ := r.value.Get("scopes")
	elements, ok := v.Elements()
	if !ok || len(elements) == 0 || len(elements) > powerbox.MaxOperations {
		r.fail("scopes; want an array of 1 to " + strconv.Itoa(powerbox.MaxOperations) + " scopes")
		return nil, nil
	}
	texts := make([]string, len(elements))
	for i, e := range elements {
		texts[i], _ = e.Text()
	}
	patterns, err := parseScopes(texts)
	if err != nil {
		r.fail("scopes: " + err.Error())
	}
	return texts, patterns
}

func parseScopes(texts []string) ([]powerbox.Pattern, error) {
	patterns := make([]powerbox.Pattern, len(texts))
	for i, s := range texts {
		var err error
		if patterns[i], err = powerbox.ParseScope(s); err != nil {
			return nil, err
		}
	}
	return patterns, nil
}

// instantForm is the one form of times: UTC, written with Z, in upper case, to
// the second or with a fraction of up to nine digits. Readers that are more
// lenient do not agree on what else there is.
const instantForm = "0000-00-00T00:00:00Z"

func (r *statementReader) instant(name string) time.Time {
	v, _ := r.value.Get(name)
	s, _ := v.Text()
	t, ok := parseInstant(s)
	if !ok {
		r.fail(name + "; want a time such as 2026-03-04T12:00:00Z")
	}
	return t
}

func parseInstant(s string) (time.Time, bool) {
	seconds := len(instantForm) - 1
	if len(s) < len(instantForm) || len(s) > len(instantForm)+len(".000000000") || s[len(s)-1] != 'Z' {
		return time.Time{}, false
	}
	if fraction := s[seconds : len(s)-1]; fraction != "" && (fraction[0] != '.' || !digits(fraction[1:])) {
		return time.Time{}, false
	}
	for i := range seconds {
		if digit := instantForm[i] == '0'; digit != digits(s[i:i+1]) || !digit && s[i] != instantForm[i] {
			return time.Time{}, false
		}
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	return t.UTC(), err == nil && t.Unix() >= 0 && t.Unix() < maxTime
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// SignScopeToken returns a scope token as JSON. Errors are [*ScopeError], for
// claims that could not be read back, and those of the signer.
func SignScopeToken(signer PartySigner, c ScopeClaims) ([]byte, error) {
	data, err := signStatement(signer, "signature", []powerbox.Member{
		textMember("issuer", c.Issuer), textMember("subject", c.Subject), scopesMember(c.Scopes),
		instantMember("issued_at", c.IssuedAt), instantMember("expires_at", c.ExpiresAt),
	})
	if err == nil {
		_, err = ParseScopeToken(data)
	}
	return data, err
}

// SignLink returns a link as JSON, signed by its delegator, offline. Whether it
// narrows is for [Delegate] to say. Errors are those of [SignScopeToken].
func SignLink(signer PartySigner, c LinkClaims) ([]byte, error) {
	data, err := signStatement(signer, "delegation_proof", []powerbox.Member{
		textMember("delegator", c.Delegator), textMember("delegate", c.Delegate), scopesMember(c.Scopes),
		instantMember("issued_at", c.IssuedAt), instantMember("expires_at", c.ExpiresAt), textMember("nonce", c.Nonce),
	})
	if err == nil {
		_, err = ParseLinks(slices.Concat([]byte("["), data, []byte("]")))
	}
	return data, err
}

func signStatement(signer PartySigner, signature string, members []powerbox.Member) ([]byte, error) {
	members = append(members, textMember("algorithm", signer.Party().Algorithm()))
	proof, err := signer.Sign(canonicalWithout(members, signature))
	if err != nil {
		return nil, err
	}
	return canonicalWithout(append(members, textMember(signature, encodeBase64(proof))), ""), nil
}

func scopesMember(scopes []string) powerbox.Member {
	texts := make([]powerbox.Value, len(scopes))
	for i, s := range scopes {
		texts[i] = powerbox.String(s)
	}
	return powerbox.Member{Name: "scopes", Value: powerbox.List(texts...)}
}

func instantMember(name string, t time.Time) powerbox.Member {
	return textMember(name, t.UTC().Format(time.RFC3339Nano))
}
