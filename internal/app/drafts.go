package app

import (
	"slices"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/token"
)

// DraftsOf are the chains that a configuration accepts.
func DraftsOf(c *config.Config) gate.Drafts {
	return gate.Drafts{Old: slices.Contains(c.Issuer.TokenDrafts, token.Draft01.String()), Strict: c.Issuer.TokenStrict}
}

// issuedDraft is the draft of the tokens that a configuration issues: the first one.
func issuedDraft(c *config.Config) token.Draft {
	if len(c.Issuer.TokenDrafts) == 0 {
		return token.Draft02
	}
	draft, _ := token.ParseDraft(c.Issuer.TokenDrafts[0]) // the configuration was checked
	return draft
}
