package oauth

import (
	"crypto"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/cryptosigner"
)

// kind separates sealed values, and begins its text, so that leaks can be found.
type kind string

const (
	asCode    kind = "pbc_"
	asRefresh kind = "pbr_"
)

// sealed is a code or a refresh token.
type sealed struct {
	Key       string    `json:"k,omitempty"` // of the request that was approved
	Question  string    `json:"q"`
	Client    string    `json:"c"`
	Principal string    `json:"p"`
	Groups    []string  `json:"g,omitempty"`
	Resource  string    `json:"u"`
	Redirect  string    `json:"r,omitempty"`
	Challenge string    `json:"h,omitempty"`
	Offline   bool      `json:"o,omitempty"` // refresh tokens are wanted
	Number    int       `json:"n,omitempty"`
	Issued    []string  `json:"i,omitempty"` // capabilities
	Until     time.Time `json:"x"`
}

// seal makes the text of a code or a refresh token.
func (s *Server) seal(k kind, b sealed) (string, error) {
	plain, err := json.Marshal(b)
	if err != nil {
		return "", err
	}
	return string(k) + base64.RawURLEncoding.EncodeToString(s.config.Seal.Seal(nil, nil, plain, []byte("powerbox oauth "+k))), nil //nolint:gosec // this AEAD makes its own nonces
}

// unseal reads it again. Anything else is nothing that was sealed here.
func (s *Server) unseal(k kind, text string) (b sealed, ok bool) {
	rest, found := strings.CutPrefix(text, string(k))
	data, err := base64.RawURLEncoding.DecodeString(rest)
	if !found || err != nil {
		return b, false
	}
	plain, err := s.config.Seal.Open(nil, nil, data, []byte("powerbox oauth "+k))
	return b, err == nil && json.Unmarshal(plain, &b) == nil
}

// signer signs access tokens.
type signer struct {
	jose.Signer
	key jose.JSONWebKey // its public half
}

func newSigner(key crypto.Signer) (*signer, error) {
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return nil, errors.New("oauth: the key is not an Ed25519 key")
	}
	k := jose.JSONWebKey{Key: public, Algorithm: string(jose.EdDSA), Use: "sig"}
	thumbprint, err := k.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, err
	}
	k.KeyID = base64.RawURLEncoding.EncodeToString(thumbprint)
	options := (&jose.SignerOptions{}).WithType("at+jwt").WithHeader("kid", k.KeyID)
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: cryptosigner.Opaque(key)}, options)
	return &signer{s, k}, err
}

// KeySet is the key set with which access tokens are verified.
func KeySet(key crypto.Signer) ([]byte, error) {
	s, err := newSigner(key)
	if err != nil {
		return nil, err
	}
	return json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{s.key}})
}

// claims are those of an access token (RFC 9068).
type claims struct {
	Issuer       string   `json:"iss"`
	Subject      string   `json:"sub"`
	Audience     string   `json:"aud"`
	Client       string   `json:"client_id"`
	IssuedAt     int64    `json:"iat"`
	Expires      int64    `json:"exp"`
	ID           string   `json:"jti"`
	Scope        string   `json:"scope"`
	Capabilities []string `json:"powerbox_capabilities"`
	Details      []Detail `json:"authorization_details,omitempty"`
	Actor        *Actor   `json:"act,omitempty"`
}

// Actor is who acts, and for whom it acts (RFC 8693, section 4.1).
type Actor struct {
	Subject string `json:"sub"`
	Actor   *Actor `json:"act,omitempty"`
}

func (s *signer) sign(c claims) (string, error) {
	payload, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	signed, err := s.Sign(payload)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}

// read believes an access token of this server, also after its end.
func (s *signer) read(raw string) (c claims, ok bool) {
	signed, err := jose.ParseSignedCompact(raw, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil || len(signed.Signatures) != 1 || signed.Signatures[0].Protected.ExtraHeaders[jose.HeaderType] != "at+jwt" {
		return c, false
	}
	payload, err := signed.Verify(s.key.Key)
	return c, err == nil && json.Unmarshal(payload, &c) == nil
}
