package main

import (
	"crypto/subtle"
	"fmt"
	"strings"

	"github.com/powerbox-project/powerbox/internal/issuer"
)

// ownTokens reports whether a bearer token is one that the server takes for
// itself: of its operator, of a relay or a guard, or one that enrols gateways.
func (i *instance) ownTokens() (func(token string) bool, error) {
	own := []string{i.admin.Token}
	read := func(file, setting string, n int) error {
		data, err := i.readFile(file)
		if err != nil {
			return fmt.Errorf("%s[%d].token_file: %w", setting, n, err)
		}
		own = append(own, strings.TrimSpace(string(data)))
		return nil
	}
	for n, c := range i.config.Issuer.Feed.Relays {
		if err := read(string(c.TokenFile), "issuer.feed.relays", n); err != nil {
			return nil, err
		}
	}
	for n, c := range i.config.Identity.Guards {
		if err := read(string(c.TokenFile), "identity.guards", n); err != nil {
			return nil, err
		}
	}
	return serverTakes(own), nil
}

// serverTakes reports whether a token is one of some, or enrols gateways.
func serverTakes(own []string) func(token string) bool {
	return func(token string) bool {
		found := issuer.IsGatewayToken(token)
		for _, one := range own {
			if token != "" && len(one) == len(token) && subtle.ConstantTimeCompare([]byte(one), []byte(token)) == 1 {
				found = true
			}
		}
		return found
	}
}
