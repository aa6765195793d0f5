package app

import (
	"fmt"
	"strings"

	"github.com/powerbox-project/powerbox/internal/app/proxy"
)

// ownTokens are the digests of the bearer tokens that the server takes for itself: of
// its operator, and of relays and guards. Remote gateways have them, too.
func (i *Instance) ownTokens() ([][]byte, error) {
	own := [][]byte{proxy.TokenDigest(i.operatorToken)}
	read := func(file, setting string, n int) error {
		data, err := i.ReadFile(file)
		if err != nil {
			return fmt.Errorf("%s[%d].token_file: %w", setting, n, err)
		}
		own = append(own, proxy.TokenDigest(strings.TrimSpace(string(data))))
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
