package app

import (
	"fmt"

	"github.com/powerbox-project/powerbox/internal/app/proxy"
)

// relayTokens are those of the relays that the server knows.
func (i *Instance) relayTokens() (proxy.FollowTokens, error) {
	var tokens proxy.FollowTokens
	for n, c := range i.Config.Issuer.Feed.Relays {
		data, err := i.ReadFile(string(c.TokenFile))
		if err == nil {
			err = tokens.Add(string(c.TokenFile), data)
		}
		if err != nil {
			return nil, fmt.Errorf("issuer.feed.relays[%d].token_file: %w", n, err)
		}
	}
	return tokens, nil
}
