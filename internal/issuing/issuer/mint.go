package issuer

import (
	"errors"
	"strings"

	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/token"
)

// lineageSeparator joins the ids from the root capability to the one that a
// token is for, in the token's private claim.
const lineageSeparator = "/"

// ParseLineage reads the capability member of a token's private claim: the ids
// from the root to the capability itself.
func ParseLineage(claim string) []string { return strings.Split(claim, lineageSeparator) }

// mint signs the root token of a capability for a holder that has a key. A
// legacy capability, one with budgets, a holder without a key and an authority that a token
// cannot say without loss stay by reference.
func (i *Issuer) mint(agent *Agent, holder identity.Caller, c Capability) (Capability, *Refusal) {
	if c.Legacy || holder.Holder.Key.IsZero() || c.budgeted() {
		return c, nil
	}
	tools, err := i.config.Draft.Tools(c.Authority)
	if err == nil {
		signer := agent.Signer()
		c.Token, err = token.Mint(signer, token.Root{
			ID: c.ID, Issuer: agent.URL, IssuedAt: c.Created, Expires: c.Expires,
			MaxDepth: c.Authority.Depth(), Holder: holder.Holder.Key, Tools: tools,
			Private: &token.Private{
				Capability: strings.Join(c.Lineage(), lineageSeparator), Grant: c.Grant,
				Principal: i.Pseudonym(agent.ID, c.Principal), Legacy: c.Legacy,
			},
			KeyID: signer.Public().Thumbprint(), Draft: i.config.Draft, Strict: i.config.Strict,
		})
	}
	if isNotExpressible(err) {
		return c, nil
	}
	if err != nil {
		return Capability{}, refuse(CodeNotExpressible, "no token can be made for grant %q: %v", c.Grant, err)
	}
	return c, nil
}

func isNotExpressible(err error) bool {
	var e *token.Error
	return errors.As(err, &e) && e.Code == token.CodeNotExpressible
}
