package app

import (
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/token"
)

// issuedDraft is the draft of the tokens that a configuration issues: the first one.
func issuedDraft(c *config.Config) token.Draft {
	if len(c.Issuer.TokenDrafts) == 0 {
		return token.Draft02
	}
	draft, _ := token.ParseDraft(c.Issuer.TokenDrafts[0]) // the configuration was checked
	return draft
}
