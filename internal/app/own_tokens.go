package app

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
)

// ownTokens are the digests of the bearer tokens that the server takes for itself: of
// its operator, and of relays and guards. Remote gateways have them, too.
func (i *Instance) ownTokens() ([][]byte, error) {
	own := [][]byte{tokenDigest(i.operatorToken)}
	read := func(file, setting string, n int) error {
		data, err := i.readFile(file)
		if err != nil {
			return fmt.Errorf("%s[%d].token_file: %w", setting, n, err)
		}
		own = append(own, tokenDigest(strings.TrimSpace(string(data))))
		return nil
	}
	for n, c := range i.Config.Issuer.Feed.Relays {
		if err := read(string(c.TokenFile), "issuer.feed.relays", n); err != nil {
			return nil, err
		}
	}
	for n, c := range i.Config.Identity.Guards {
		if err := read(string(c.TokenFile), "identity.guards", n); err != nil {
			return nil, err
		}
	}
	return own, nil
}

// tokenDigest is all that a remote gateway knows of a token. Tokens have at least 32
// bytes, which cannot be guessed.
func tokenDigest(token string) []byte {
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
		return issuer.IsGatewayToken(token) || provider.IsInvitation(token) || known[string(tokenDigest(token))]
	}
}
