package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// jwtClaims are what a team writes by hand on top of a JWT library: every token
// names the next signer's key and narrows operations and prefix.
type jwtClaims struct {
	Operations []string `json:"ops"`
	Prefix     string   `json:"pfx"`
	Next       string   `json:"cnf"`
	jwt.RegisteredClaims
}

type jwtChain struct {
	root ed25519.PublicKey
	raw  string
}

func newJWTChain(now time.Time, links int) (jwtChain, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return jwtChain{}, err
	}
	parts := make([]string, links)
	for i := range links {
		next, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return jwtChain{}, err
		}
		claims := jwtClaims{[]string{"read"}, narrowPrefix, base64.RawURLEncoding.EncodeToString(next), jwt.RegisteredClaims{
			Issuer: "agent-" + string(rune('a'+i)), Subject: "agent-" + string(rune('b'+i)),
			ExpiresAt: jwt.NewNumericDate(now.Add(time.Hour)), ID: "0123456789abcdef",
		}}
		if i == 0 {
			claims.Operations, claims.Prefix = []string{"read", "write"}, rootPrefix
		}
		if parts[i], err = jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims).SignedString(private); err != nil {
			return jwtChain{}, err
		}
		private = key
	}
	return jwtChain{public, strings.Join(parts, "~")}, nil
}

func (c jwtChain) verify(operation string) job {
	parser := jwt.NewParser(jwt.WithValidMethods([]string{"EdDSA"}), jwt.WithExpirationRequired())
	return repeat(func() error {
		key := c.root
		var last *jwtClaims
		for s := range strings.SplitSeq(c.raw, "~") {
			var claims jwtClaims
			if _, err := parser.ParseWithClaims(s, &claims, func(*jwt.Token) (any, error) { return key, nil }); err != nil {
				return err
			}
			if last != nil && claims.widerThan(last) {
				return errDenied
			}
			next, err := base64.RawURLEncoding.DecodeString(claims.Next)
			if err != nil {
				return err
			}
			last, key = &claims, next
		}
		if !slices.Contains(last.Operations, operation) || !strings.HasPrefix(requestPath, last.Prefix) {
			return errDenied
		}
		return nil
	})
}

func (c *jwtClaims) widerThan(parent *jwtClaims) bool {
	for _, op := range c.Operations {
		if !slices.Contains(parent.Operations, op) {
			return true
		}
	}
	return !strings.HasPrefix(c.Prefix, parent.Prefix) || c.ExpiresAt.After(parent.ExpiresAt.Time)
}
