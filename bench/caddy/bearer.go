package main

import (
	"crypto"
	"net/http"
	"os"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/golang-jwt/jwt/v5"
)

// bearer is a handler that verifies the JWT of a request: signature, issuer, audience and
// expiry. Matchers behind it see the claim grant as http.auth.user.grant.
//
// It stands for Caddy's modules for JWTs, which the Go module proxy does not serve.
type bearer struct {
	Key      string `json:"key"` // file with an Ed25519 public key in PEM
	Issuer   string `json:"issuer"`
	Audience string `json:"audience"`

	public crypto.PublicKey
	parser *jwt.Parser
}

type claims struct {
	jwt.RegisteredClaims

	Grant string `json:"grant"`
}

// CaddyModule implements [caddy.Module].
func (*bearer) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.bearer_jwt", New: func() caddy.Module { return new(bearer) }}
}

// parseBearer reads the directive bearer_jwt.
func parseBearer(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	b := new(bearer)
	h.Next() // the directive
	for h.NextBlock(0) {
		into := map[string]*string{"key": &b.Key, "issuer": &b.Issuer, "audience": &b.Audience}[h.Val()]
		if into == nil || !h.AllArgs(into) {
			return nil, h.ArgErr()
		}
	}
	return b, nil
}

// Provision implements [caddy.Provisioner].
func (b *bearer) Provision(caddy.Context) error {
	text, err := os.ReadFile(b.Key)
	if err != nil {
		return err
	}
	b.parser = jwt.NewParser(jwt.WithValidMethods([]string{"EdDSA"}), jwt.WithIssuer(b.Issuer), jwt.WithAudience(b.Audience), jwt.WithExpirationRequired())
	b.public, err = jwt.ParseEdPublicKeyFromPEM(text)
	return err
}

// ServeHTTP implements [caddyhttp.MiddlewareHandler].
func (b *bearer) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	raw, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	var c claims
	if _, err := b.parser.ParseWithClaims(raw, &c, func(*jwt.Token) (any, error) { return b.public, nil }); err != nil {
		return caddyhttp.Error(http.StatusUnauthorized, err)
	}
	replacer := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	replacer.Set("http.auth.user.id", c.Subject)
	replacer.Set("http.auth.user.grant", c.Grant)
	return next.ServeHTTP(w, r)
}
