package console

import (
	"net/url"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/peer"
	"github.com/powerbox-project/powerbox/internal/web/lang"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// linkPage is a host that an administrator links to a user, or whose agents someone lets
// have at once the defaults that change something (AAP-U4).
type linkPage struct {
	provider.Linking
	Chosen               bool // whom the host is to be of is known, and the rest shown
	Reads, Changes       []given
	ClaimedShown         []provider.Agent
	ClaimedMore          int
	Seen, Action, Again  string
	Mixed                bool // letters of several scripts in the user's name
	Fresh                bool
	Passkeys, HasPasskey bool
}

// given is a default with its constraints.
type given struct {
	Name, Says, Words string
	Broad             bool // not held to anything
}

func linkAction(host string) string { return "/hosts/" + url.PathEscape(host) + "/link" }

// located leaves out where a host registered from if a proxy may stand in front of the
// visitor: the address may be that of the proxy.
func located(v *visit, h provider.Host) provider.Host {
	if peer.Of(v.r).Shown() == "" {
		h.From = ""
	}
	return h
}

// toLink asks for the user of a host, and then shows the effect of the link. Nothing
// changes by looking.
func (k *Console) toLink(v *visit) error {
	who, err := k.person(v)
	if err != nil {
		return err
	}
	id, user := v.r.PathValue("host"), v.r.URL.Query().Get("user")
	page := linkPage{Action: linkAction(id), Again: v.r.URL.RequestURI(), Fresh: k.fresh(v), Passkeys: k.passkeys != nil}
	if user == "" {
		all, err := k.overview(v)
		if err != nil {
			return err
		}
		for _, h := range all {
			if h.Host.ID == id && h.Linkable {
				page.Host = located(v, h.Host)
				return k.show(v, "link", page)
			}
		}
	}
	if page.Linking, err = k.config.Hosts.ToLink(v.r.Context(), who, id, user); err != nil {
		return err
	}
	page.Chosen, page.Seen, page.Mixed = true, k.config.Digests.LinkDigest(page.Linking, who, false), mixed(page.User)
	page.Host = located(v, page.Host) // after the digest, which is of the stored host
	page.Reads, page.Changes = k.given(v.Language, page.Linking.Reads), k.given(v.Language, page.Linking.Changes)
	page.ClaimedShown = page.Claimed[:min(len(page.Claimed), claimedShown)]
	page.ClaimedMore = len(page.Claimed) - len(page.ClaimedShown)
	keys, err := k.config.Passkeys.Passkeys(v.r.Context(), who.Principal)
	if err != nil {
		return err
	}
	page.HasPasskey = len(keys) > 0
	return k.show(v, "link", page)
}

func (k *Console) given(l *lang.Language, defaults []provider.Grant) (out []given) {
	for _, g := range defaults {
		one := given{Name: g.Capability, Says: g.Capability}
		c := k.config.Offers.Capability(g.Capability)
		if c != nil {
			one.Says = c.Description
		}
		one.Words, one.Broad = inWords(l, g, c), g.Constraints == nil
		out = append(out, one)
	}
	return out
}

// linking reads who links which host to whom.
func (k *Console) linking(v *visit) (provider.Person, provider.Link, error) {
	who, err := k.person(v)
	if err != nil {
		return who, provider.Link{}, err
	}
	if err := v.r.ParseMultipartForm(formLimit); err != nil && v.r.PostForm == nil {
		return who, provider.Link{}, agentauth.Errorf(agentauth.CodeInvalidRequest, "the form cannot be read")
	}
	form := v.r.PostForm
	link := provider.Link{Host: v.r.PathValue("host"), User: form.Get("user"), AtOnce: form.Get("at_once") != "", Seen: form.Get("seen")}
	switch {
	case !k.fresh(v):
		err = agentauth.Errorf(agentauth.CodeUnauthorized, "%s", v.T("your login is older than %s; log in again, and then link the host", lasting(v.Language, k.config.Fresh)))
	case form.Get("answer") != "link":
		err = agentauth.Errorf(agentauth.CodeInvalidRequest, "the form does not say to link the host")
	case link.Seen == "":
		err = agentauth.Errorf(agentauth.CodeInvalidRequest, "the form does not say what you were shown; open the page again")
	}
	return who, link, err
}

// linkDigest is the digest of a link, as things are now, that a passkey signs.
func (k *Console) linkDigest(v *visit, who provider.Person, link provider.Link) (string, error) {
	l, err := k.config.Hosts.ToLink(v.r.Context(), who, link.Host, link.User)
	if err != nil {
		return "", err
	}
	if link.Seen != k.config.Digests.LinkDigest(l, who, false) {
		return "", agentauth.Errorf(agentauth.CodeChanged, "what the page showed has changed; load it again")
	}
	return k.config.Digests.LinkDigest(l, who, link.AtOnce), nil
}

func (k *Console) linkChallenge(v *visit) error {
	who, link, err := k.linking(v)
	if err != nil {
		return err
	}
	digest, err := k.linkDigest(v, who, link)
	if err != nil {
		return err
	}
	return k.challenge(v, who, "link", digest)
}

func (k *Console) linkHost(v *visit) error {
	if v.r.PostFormValue("answer") == "no" {
		return v.see("/hosts")
	}
	who, link, err := k.linking(v)
	if err != nil {
		return err
	}
	if v.r.PostFormValue("assertion") != "" {
		if link.Proof, err = k.linkDigest(v, who, link); err != nil {
			return err
		}
		if link.Passkey, err = k.signed(v, who, "link", link.Proof); err != nil {
			return err
		}
		who.Present = true
	}
	if _, err := k.config.Hosts.LinkHost(v.r.Context(), who, link); err != nil {
		return err
	}
	return v.see("/hosts")
}
