package agentauth

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

// The types of tokens (sections 4.2 and 4.3).
const (
	TypeHost  = "host+jwt"
	TypeAgent = "agent+jwt"
)

// Bounds of tokens. MaxLifetime is how long one may live, Skew how far clocks may
// differ (AAP-H6, AAP-J2).
const (
	MaxTokenBytes = 16 << 10
	MaxLifetime   = 60 * time.Second
	Skew          = 30 * time.Second
)

// Token is a parsed token of a host or an agent. Nothing in it is verified.
type Token struct {
	signed    string // the signing input, as it came
	signature []byte
	KeyID     string // kid of the header, "" for none
	Type      string

	ID       string // jti
	Issuer   string // "" where the token has none
	Subject  string
	Audience string
	IssuedAt time.Time
	Expires  time.Time
	// NotBefore is zero where the token has none.
	NotBefore time.Time

	HostClaims
	AgentClaims
}

// HostClaims are those of host tokens alone.
type HostClaims struct {
	HostKey      powerbox.Value // null where it has none
	HostKeysURL  string
	AgentKey     powerbox.Value
	AgentKeysURL string
	AgentKeyID   string
}

// AgentClaims are those of agent tokens alone.
type AgentClaims struct {
	// Restricted reports that the token names capabilities, and then Capabilities are all
	// that it is good for.
	Restricted   bool
	Capabilities []string
	Bound        bool   // it has cnf: without a proof it is good for nothing
	Confirmed    string // cnf.jkt, "" for none
	Certificate  string // cnf.x5t#S256, "" for none
}

func invalid(format string, args ...any) error { return Errorf(CodeInvalidJWT, format, args...) }

// ParseToken reads a token of that type. The algorithm is the one of the one kind
// of key that there is; a header can choose nothing (AAP-H1, ATK-11 to 14).
func ParseToken(compact, typ string) (Token, error) {
	if len(compact) > MaxTokenBytes {
		return Token{}, invalid("the token has %d bytes; want at most %d", len(compact), MaxTokenBytes)
	}
	parts := strings.Split(compact, ".")
	if len(parts) != 3 {
		return Token{}, invalid("the token is no compact JWS")
	}
	head, err := object(parts[0], 4<<10)
	if err != nil {
		return Token{}, invalid("the token's header: %v", err)
	}
	for _, name := range []string{"crit", "b64", "jwk", "jku", "x5u", "x5c"} {
		if _, ok := head.Get(name); ok {
			return Token{}, invalid("the token's header has %s, which is not taken", name)
		}
	}
	if got := text(head, "typ"); got != typ {
		return Token{}, invalid("the token is of type %q; want %s", clip(got), typ)
	}
	if alg := text(head, "alg"); alg != "EdDSA" && alg != "Ed25519" {
		return Token{}, invalid("the token's alg is %q; want EdDSA", clip(alg))
	}
	t := Token{signed: compact[:len(parts[0])+1+len(parts[1])], KeyID: text(head, "kid"), Type: typ}
	if t.signature, err = base64.RawURLEncoding.Strict().DecodeString(parts[2]); err != nil {
		return Token{}, invalid("the token's signature is not base64url without padding")
	}
	claims, err := object(parts[1], MaxTokenBytes)
	if err != nil {
		return Token{}, invalid("the token's claims: %v", err)
	}
	if err := t.read(claims); err != nil {
		return Token{}, err
	}
	return t, nil
}

// claims are the names that are read here.
var claims = []string{
	"jti", "iss", "sub", "aud", "iat", "exp", "nbf", "host_public_key", "host_jwks_url", "agent_public_key", "agent_jwks_url", "agent_kid", "capabilities", "cnf",
}

// exact refuses a claim that many readers take for one of ours although it is
// written otherwise: two services would then read two tokens (ATK-27).
func exact(c powerbox.Value) error {
	members, _ := c.Members()
	for _, m := range members {
		for _, name := range claims {
			if m.Name != name && strings.EqualFold(m.Name, name) {
				return invalid("claim %q; want %s", clip(m.Name), name)
			}
		}
	}
	return nil
}

// read reads the claims; the types of those that are there must be right.
func (t *Token) read(c powerbox.Value) error {
	if err := exact(c); err != nil {
		return err
	}
	if aud, ok := c.Get("aud"); ok {
		if t.Audience, ok = oneAudience(aud); !ok {
			return invalid("claim aud is JSON %s; want one string, or an array of one", aud.Kind())
		}
	}
	for name, into := range map[string]*string{
		"jti": &t.ID, "iss": &t.Issuer, "sub": &t.Subject,
		"host_jwks_url": &t.HostKeysURL, "agent_jwks_url": &t.AgentKeysURL, "agent_kid": &t.AgentKeyID,
	} {
		v, ok := c.Get(name)
		if !ok {
			continue
		}
		if *into, ok = v.Text(); !ok {
			return invalid("claim %s is JSON %s; want one string", name, v.Kind())
		}
	}
	for name, into := range map[string]*time.Time{"iat": &t.IssuedAt, "exp": &t.Expires} {
		v, _ := c.Get(name)
		at, ok := token.NumericDate(v)
		if !ok {
			return invalid("claim %s; want seconds since 1970", name)
		}
		*into = at
	}
	if v, ok := c.Get("nbf"); ok {
		if t.NotBefore, ok = token.NumericDate(v); !ok {
			return invalid("claim nbf; want seconds since 1970")
		}
	}
	if t.ID == "" || len(t.ID) > 256 {
		return invalid("claim jti; want 1 to 256 bytes")
	}
	t.HostKey, _ = c.Get("host_public_key")
	t.AgentKey, _ = c.Get("agent_public_key")
	if cnf, ok := c.Get("cnf"); ok {
		t.Bound, t.Confirmed, t.Certificate = true, text(cnf, "jkt"), text(cnf, "x5t#S256")
	}
	list, ok := c.Get("capabilities")
	if !ok {
		return nil
	}
	names, isList := list.Elements()
	if !isList {
		return invalid("claim capabilities is JSON %s; want an array of names", list.Kind())
	}
	t.Restricted = true
	for _, n := range names {
		name, isText := n.Text()
		if !isText {
			return invalid("claim capabilities holds JSON %s; want names", n.Kind())
		}
		t.Capabilities = append(t.Capabilities, name)
	}
	return nil
}

// oneAudience reads aud, which RFC 7519 section 4.1.3 lets be an array. A token for
// several services is refused: each of them could use it at the others.
func oneAudience(v powerbox.Value) (string, bool) {
	if all, ok := v.Elements(); ok && len(all) == 1 {
		v = all[0]
	}
	return v.Text()
}

// Allows reports whether the token itself is good for a capability (AAP-J8).
func (t *Token) Allows(capability string) bool {
	return !t.Restricted || slices.Contains(t.Capabilities, capability)
}

// Key is a public key, a [token.PublicKey] or a [token.KeptKey].
type Key interface {
	IsZero() bool
	Algorithm() token.Algorithm
	Verify(message, signature []byte) bool
}

// Verify checks the signature under a key that is known from elsewhere.
func (t *Token) Verify(key Key) error {
	if key.IsZero() || key.Algorithm() != token.Ed25519 || !key.Verify([]byte(t.signed), t.signature) {
		return invalid("the token's signature does not verify")
	}
	return nil
}

// CheckTimes checks when the token is good: it was signed before now and after the
// server began to remember used tokens, lives no longer than it may, and has not ended
// (AAP-H6, AAP-T2).
func (t *Token) CheckTimes(now, began time.Time) error {
	switch {
	case t.IssuedAt.After(now.Add(Skew)):
		return invalid("the token was signed %s ahead of this server's clock; at most %s are taken", t.IssuedAt.Sub(now).Round(time.Second), Skew)
	case t.NotBefore.After(now.Add(Skew)):
		return invalid("the token is not good before %s", t.NotBefore.UTC().Format(time.RFC3339))
	case !t.Expires.After(t.IssuedAt):
		return invalid("claim exp is not after iat")
	case t.Expires.Sub(t.IssuedAt) > MaxLifetime:
		return invalid("the token lives longer than %s", MaxLifetime)
	case !t.Expires.Add(Skew).After(now):
		return invalid("the token has expired")
	case t.IssuedAt.Before(began.Truncate(time.Second)):
		return invalid("the token was signed before this server started, so that whether it was used cannot be told; sign a new one")
	}
	return nil
}

// Until is when the token can be forgotten: it is refused then anyway.
func (t *Token) Until() time.Time { return t.Expires.Add(Skew + time.Second) }

// ParseKey reads an Ed25519 public key in JWK form (section 4.1). Errors are
// [*Error] of unsupported_algorithm.
func ParseKey(v powerbox.Value) (token.PublicKey, error) {
	k, err := token.ParsePublicKey(v.AppendJSON(nil))
	if err != nil {
		return token.PublicKey{}, Errorf(CodeUnsupportedKey, "the public key: %v", err)
	}
	if k.Algorithm() != token.Ed25519 {
		return token.PublicKey{}, Errorf(CodeUnsupportedKey, "the public key is for %s; want Ed25519", k.Algorithm())
	}
	return k, nil
}

// object decodes a part of a token.
func object(part string, limit int) (powerbox.Value, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(part)
	if err != nil {
		return powerbox.Value{}, errors.New("not base64url without padding")
	}
	v, err := powerbox.DecodeValue(b, powerbox.Limits{Bytes: limit, Depth: 16})
	if err == nil && v.Kind() != powerbox.KindObject {
		err = fmt.Errorf("JSON %s; want an object", v.Kind())
	}
	return v, err
}

func text(v powerbox.Value, name string) string {
	m, _ := v.Get(name)
	s, _ := m.Text()
	return s
}

func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "..."
	}
	return s
}
