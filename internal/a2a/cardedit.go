package a2a

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// CardGrant is one entry of capabilityGrants (SEP-1).
type CardGrant struct {
	ID          string
	Description string
	Operations  []string
	Attenuable  bool
	Requires    []string // grants that this one is issued with only (SEP-2)
	Legacy      bool     // wraps a service without capability support (SEP-3)
}

// Rewrite says how the card of an agent is to look in front of the gateway.
type Rewrite struct {
	PublicURL    string      // required: where clients are to send their calls
	Grants       []CardGrant // advertised in the extension's params
	Params       []byte      // further members of those params, a JSON object; nil for none
	LegacyMember bool        // capabilityGrants also as a member of the card itself (SEP-1)
	OnlySkill    string      // keep this skill alone; "" keeps all
}

const extensionDescription = "Capabilities for one task: request, narrow, present, delegate and revoke them."

// RewriteCard returns the card that clients see. What is not protected in this
// version is taken away: every interface that is not JSON-RPC or leads to
// another URL than the one behind the gateway. Signatures are removed, since
// they are no longer of this card. Every other value stays as it was written.
func RewriteCard(raw []byte, to Rewrite) ([]byte, error) {
	c, err := openCard(raw)
	if err != nil {
		return nil, err
	}
	if to.PublicURL == "" {
		return nil, errors.New("rewrite of a card: PublicURL is empty; want the URL that clients use")
	}
	view, err := ReadCard(raw)
	if err != nil {
		return nil, err
	}
	if view.URL == "" {
		return nil, ErrNoJSONRPC
	}
	c.redirect(view.URL, to.PublicURL)
	c.top.drop("signatures")
	if to.OnlySkill != "" {
		if err := c.keepSkill(to.OnlySkill, view); err != nil {
			return nil, err
		}
	}
	if err := c.advertise(to, view.Holder); err != nil {
		return nil, err
	}
	c.top.drop("capabilityGrants")
	if to.LegacyMember {
		c.top.set("capabilityGrants", writeGrants(to.Grants))
	}
	return c.top.bytes(), nil
}

// RewriteCardAnswer is RewriteCard for the card in the answer to
// GetExtendedCard. An answer without a result stays as it is.
func RewriteCardAnswer(response []byte, to Rewrite) ([]byte, error) {
	o, err := readObject(response)
	if err != nil {
		return nil, fmt.Errorf("answer to GetExtendedAgentCard: %w", err)
	}
	if err := newNames("result").checkRaw("answer to GetExtendedAgentCard", o); err != nil {
		return nil, err
	}
	i := o.index("result")
	if i < 0 {
		return response, nil
	}
	card, err := RewriteCard(o[i].value, to)
	if err != nil {
		return nil, err
	}
	return splice(response, 0, []edit{{o[i].start, o[i].end, card}}), nil
}

// redirect points every remaining interface to the public URL. What 0.3 has is
// dropped where none of it leads to the URL behind the gateway.
func (c *card) redirect(private, public string) {
	if c.top.get("supportedInterfaces") != nil {
		c.top.set("supportedInterfaces", writeArray(keepInterfaces(c.supported, "protocolBinding", private, public)))
	}
	kept := keepInterfaces(c.additional, "transport", private, public)
	if len(kept) == 0 && (c.preferred() != bindingJSONRPC || c.top.text("url") != private) {
		for _, name := range []string{"url", "protocolVersion", "preferredTransport", "additionalInterfaces"} {
			c.top.drop(name)
		}
		return
	}
	c.top.set("url", quote(public))
	if c.preferred() != bindingJSONRPC {
		c.top.set("preferredTransport", quote(bindingJSONRPC))
	}
	if c.top.get("additionalInterfaces") != nil {
		c.top.set("additionalInterfaces", writeArray(kept))
	}
}

func keepInterfaces(all []rawObject, binding, private, public string) [][]byte {
	var kept [][]byte
	for _, o := range all {
		if o.text(binding) == bindingJSONRPC && o.text("url") == private {
			o.set("url", quote(public))
			kept = append(kept, o.bytes())
		}
	}
	return kept
}

// keepSkill makes a card of one skill, for the URL that stands for it.
func (c *card) keepSkill(id string, view CardView) error {
	i := slices.Index(view.Skills, id)
	if i < 0 {
		return fmt.Errorf("the card has no skill %q; it has %s", id, list(view.Skills))
	}
	c.top.set("skills", writeArray([][]byte{c.skills[i].bytes()}))
	c.top.set("name", quote(strings.TrimSpace(view.Name+" ("+id+")")))
	return nil
}

// advertise puts our extension into the card, in place of one of that URI that
// the agent behind declares; of that, the holder's key stays.
func (c *card) advertise(to Rewrite, holder []byte) error {
	var params rawObject
	if len(to.Params) > 0 {
		more, err := readObject(to.Params)
		if err != nil {
			return fmt.Errorf("rewrite of a card: Params: %w", err)
		}
		params = more
	}
	for _, name := range []string{"capabilityGrants", "holder"} {
		if params.get(name) != nil {
			return fmt.Errorf("rewrite of a card: Params has a member %q; that one is made here", name)
		}
	}
	params.set("capabilityGrants", writeGrants(to.Grants))
	if holder != nil {
		params.set("holder", holder)
	}
	var entry rawObject
	entry.set("uri", quote(ExtensionURI))
	entry.set("description", quote(extensionDescription))
	entry.set("required", []byte("false"))
	entry.set("params", params.bytes())

	c.extensions = slices.DeleteFunc(c.extensions, func(e rawObject) bool { return e.text("uri") == ExtensionURI })
	all := make([][]byte, 0, len(c.extensions)+1)
	for _, e := range append(c.extensions, entry) {
		all = append(all, e.bytes())
	}
	c.capabilities.set("extensions", writeArray(all))
	c.top.set("capabilities", c.capabilities.bytes())
	return nil
}

func writeGrants(grants []CardGrant) []byte {
	all := make([][]byte, len(grants))
	for i, g := range grants {
		var o rawObject
		o.set("id", quote(g.ID))
		o.set("description", quote(g.Description))
		o.set("operations", quoteAll(g.Operations))
		o.set("attenuable", strconv.AppendBool(nil, g.Attenuable))
		if len(g.Requires) > 0 {
			o.set("requires", quoteAll(g.Requires))
		}
		if g.Legacy {
			o.set("legacy", []byte("true"))
		}
		all[i] = o.bytes()
	}
	return writeArray(all)
}
