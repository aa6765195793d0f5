package proxy

import (
	"crypto/sha256"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// TokenDigest is all that a remote gateway knows of a token. Tokens have at least 32
// bytes, which cannot be guessed.
func TokenDigest(token string) []byte {
	sum := sha256.Sum256([]byte("powerbox own token\x00" + token))
	return sum[:]
}

// ServerTakes reports whether a token is one of those with these digests, enrols
// gateways or invites a host.
func ServerTakes(own [][]byte) func(token string) bool {
	known := map[string]bool{}
	for _, digest := range own {
		known[string(digest)] = true
	}
	return func(token string) bool {
		return issuer.IsGatewayToken(token) || agentauth.IsInvitation(token) || known[string(TokenDigest(token))]
	}
}
