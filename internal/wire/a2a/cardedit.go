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
	PublicURL    string      // required: where clients are to send calls of JSON-RPC and HTTP+JSON
	GRPC         string      // where they are to send those of gRPC; "" where the gateway takes none
	MCP          bool        // the card is of an MCP server, which is protected as such
	Grants       []CardGrant // advertised in the extension's params
	Params       []byte      // further members of those params, a JSON object; nil for none
	LegacyMember bool        // capabilityGrants also as a member of the card itself (SEP-1)
	Required     bool        // callers must ask for our extension (EXT-36)
	OnlySkill    string      // keep this skill alone; "" keeps all
	// Scopes are the params of the authorization extension, a JSON object; nil
	// leaves that extension as it is.
	Scopes         []byte
	ScopesRequired bool // callers must ask for it
}

const scopesDescription = "Scope tokens, delegation links and evidence."

const extensionDescription = "Capabilities for one task: request, narrow, present, delegate and revoke them."

// RewriteCard returns the card that clients see. Anything that is not protected is taken
// away: every interface of another binding, and every one that leads to another
// URL than the one where calls of its binding and version go. Signatures are
// removed, since they are no longer of this card. Every other value stays as it
// was written.
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
	if !view.Protectable() && !to.MCP {
		return nil, ErrNoInterface
	}
	if !c.redirect(view, to) {
		return nil, ErrNoInterface
	}
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

// RewriteCardAnswer changes the card in the answer to GetExtendedCard as rewrite does.
// An answer without a result stays as it is.
func RewriteCardAnswer(response []byte, rewrite func(card []byte) ([]byte, error)) ([]byte, error) {
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
	card, err := rewrite(o[i].value)
	if err != nil {
		return nil, err
	}
	return splice(response, 0, []edit{{o[i].start, o[i].end, card}}), nil
}

// at returns where the gateway takes a binding, "" for nowhere.
func (to Rewrite) at(binding string) string {
	switch binding {
	case JSONRPC.String(), HTTPJSON.String():
		return to.PublicURL
	case GRPC.String():
		return to.GRPC
	case MCP.String():
		if to.MCP {
			return to.PublicURL
		}
	}
	return ""
}

// redirect points every remaining interface to the gateway. The first that remains of
// 0.3 becomes the preferred one; where none does, all of 0.3 is dropped. It reports
// whether any interface is left.
func (c *card) redirect(view CardView, to Rewrite) bool {
	left := false
	if c.top.get("supportedInterfaces") != nil {
		var kept [][]byte
		for _, o := range c.supported {
			i := Interface{o.text("url"), o.text("protocolBinding"), o.text("protocolVersion"), o.text("tenant")}
			if public := to.at(i.Binding); public != "" && view.protected(i) {
				o.set("url", quote(public))
				kept, left = append(kept, o.bytes()), true
			}
		}
		c.top.set("supportedInterfaces", writeArray(kept))
	}
	preferred, listed := c.older(view, to)
	if preferred.URL == "" && len(listed) > 0 {
		preferred = Interface{URL: listed[0].text("url"), Binding: listed[0].text("transport")}
	}
	if preferred.URL == "" {
		for _, name := range []string{"url", "protocolVersion", "preferredTransport", "additionalInterfaces"} {
			c.top.drop(name)
		}
		return left
	}
	if preferred.Binding != c.preferred() {
		c.top.set("preferredTransport", quote(preferred.Binding))
	}
	c.top.set("url", quote(preferred.URL))
	if c.top.get("additionalInterfaces") != nil {
		all := make([][]byte, len(listed))
		for n, o := range listed {
			all[n] = o.bytes()
		}
		c.top.set("additionalInterfaces", writeArray(all))
	}
	return true
}

// older returns the remaining interfaces of 0.3, with our URLs: the card's own, zero
// where it does not remain, and those that it lists.
func (c *card) older(view CardView, to Rewrite) (own Interface, listed []rawObject) {
	version := c.top.text("protocolVersion")
	if version == "" {
		version = Version03
	}
	i := Interface{URL: c.top.text("url"), Binding: c.preferred(), Version: version}
	if public := to.at(i.Binding); i.URL != "" && public != "" && view.protected(i) {
		own = Interface{URL: public, Binding: i.Binding}
	}
	for _, o := range c.additional {
		i := Interface{URL: o.text("url"), Binding: o.text("transport"), Version: version}
		if public := to.at(i.Binding); public != "" && view.protected(i) {
			o.set("url", quote(public))
			listed = append(listed, o)
		}
	}
	return own, listed
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
	entry.set("required", strconv.AppendBool(nil, to.Required))
	entry.set("params", params.bytes())

	c.declare(ExtensionURI, entry)
	if to.Scopes != nil {
		var scopes rawObject
		scopes.set("uri", quote(AuthorizationURI))
		scopes.set("description", quote(scopesDescription))
		scopes.set("required", strconv.AppendBool(nil, to.ScopesRequired))
		scopes.set("params", to.Scopes)
		c.declare(AuthorizationURI, scopes)
	}
	all := make([][]byte, len(c.extensions))
	for n, e := range c.extensions {
		all[n] = e.bytes()
	}
	c.capabilities.set("extensions", writeArray(all))
	c.top.set("capabilities", c.capabilities.bytes())
	return nil
}

// declare puts an extension at the end, in place of one of that URI.
func (c *card) declare(uri string, entry rawObject) {
	c.extensions = slices.DeleteFunc(c.extensions, func(e rawObject) bool { return e.text("uri") == uri })
	c.extensions = append(c.extensions, entry)
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
