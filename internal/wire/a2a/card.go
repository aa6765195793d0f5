package a2a

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// MaxCardBytes is the length of the longest card that is read.
const MaxCardBytes = 1 << 20

// maxInterfaces is how many interfaces a card may have: each is looked for among all.
const maxInterfaces = 1024

// ErrNoInterface says that a card offers no interface that can be protected.
var ErrNoInterface = errors.New("the card has no interface with binding JSONRPC, HTTP+JSON or GRPC, which are those that are protected")

// CardView has the parts of a card that matter in front of the agent.
type CardView struct {
	Name              string
	Interfaces        []Interface // every one, whatever its binding, in order of preference
	Skills            []string    // ids, in the card's order
	Streaming         bool
	PushNotifications bool
	Signed            bool
	Extensions        []string // URIs
	KeyHeaders        []string `json:",omitempty"` // canonical names of headers in which its security schemes have clients show API keys
	Holder            []byte   // raw JWK of params.holder under our extension; nil when absent
}

// Interface is one entry of supportedInterfaces, or of its counterpart in version 0.3.
type Interface struct {
	URL, Binding, Version, Tenant string
}

// Names that a lenient reader of a card could find elsewhere than we do. A
// client that reads "URL" for "url" would go round the gateway.
var (
	cardNames = newNames("name", "url", "protocolVersion", "preferredTransport", "supportedInterfaces", "additionalInterfaces",
		"signatures", "capabilities", "skills", "capabilityGrants")
	interfaceNames  = newNames("url", "protocolBinding", "protocolVersion", "tenant", "transport")
	capabilityNames = newNames("extensions", "streaming", "pushNotifications")
	extensionNames  = newNames("uri", "params", "required", "description")
)

// card is a card, split into its members.
type card struct {
	top          rawObject
	supported    []rawObject // supportedInterfaces
	additional   []rawObject // additionalInterfaces
	skills       []rawObject
	capabilities rawObject
	extensions   []rawObject
}

// ReadCard reads a card of version 1.0, of 0.3, or of both in one. It reads the parts
// that it needs and is no judge of the rest.
func ReadCard(raw []byte) (CardView, error) {
	c, err := openCard(raw)
	if err != nil {
		return CardView{}, err
	}
	v := CardView{
		Name:              c.top.text("name"),
		Interfaces:        c.interfaces(),
		Streaming:         string(c.capabilities.get("streaming")) == "true",
		PushNotifications: string(c.capabilities.get("pushNotifications")) == "true",
		Signed:            isSet(c.top.get("signatures")),
	}
	for _, s := range c.skills {
		v.Skills = append(v.Skills, s.text("id"))
	}
	for _, e := range c.extensions {
		v.Extensions = append(v.Extensions, e.text("uri"))
	}
	v.KeyHeaders = c.keyHeaders()
	v.Holder, err = c.holder()
	return v, err
}

// keyHeaders are the headers of the API keys that the card asks clients for (A2A 1.0,
// section 4.5; 0.3, APIKeySecurityScheme).
func (c card) keyHeaders() []string {
	schemes, err := readObject(c.top.get("securitySchemes"))
	if err != nil {
		return nil
	}
	var names []string
	for _, m := range schemes {
		scheme, err := readObject(m.value)
		if err != nil {
			continue
		}
		where := scheme.text("in")
		if inner, err := readObject(scheme.get("apiKeySecurityScheme")); err == nil {
			scheme, where = inner, inner.text("location")
		} else if scheme.text("type") != "apiKey" {
			continue
		}
		switch name := scheme.text("name"); {
		case where == "header" && name != "":
			names = append(names, http.CanonicalHeaderKey(name))
		case where == "cookie":
			names = append(names, "Cookie")
		}
	}
	return names
}

// Interface returns where the agent takes calls of a binding, a version and a
// tenant: the first that the card names for all three, or else for the first two,
// since tenants are agreed on without the card, too. For version "" it is any of
// the binding.
func (v CardView) Interface(b Binding, version, tenant string) (Interface, bool) {
	var first Interface
	found := false
	for _, i := range v.Interfaces {
		if i.Binding != b.String() || i.URL == "" || version != "" && majorMinor(i.Version) != version {
			continue
		}
		if i.Tenant == tenant {
			return i, true
		}
		if !found {
			first, found = i, true
		}
	}
	return first, found
}

// HasTenant reports whether the card names an interface of a tenant.
func (v CardView) HasTenant(tenant string) bool {
	return slices.ContainsFunc(v.Interfaces, func(i Interface) bool { return i.Tenant == tenant })
}

// Speaks returns the versions that the agent speaks in a binding, in order of
// preference.
func (v CardView) Speaks(b Binding) []string {
	var versions []string
	for _, i := range v.Interfaces {
		if version := majorMinor(i.Version); i.Binding == b.String() && !slices.Contains(versions, version) {
			versions = append(versions, version)
		}
	}
	return versions
}

// Protectable reports whether the card has an interface that can be protected.
func (v CardView) Protectable() bool {
	return slices.ContainsFunc([]Binding{JSONRPC, HTTPJSON, GRPC}, func(b Binding) bool { return len(v.Speaks(b)) > 0 })
}

// protected reports whether calls that come in front of the gateway for an
// interface continue to that one: it is the first of its binding, version and tenant.
func (v CardView) protected(i Interface) bool {
	for _, b := range []Binding{JSONRPC, HTTPJSON, GRPC, MCP} {
		if i.Binding != b.String() {
			continue
		}
		first, ok := v.Interface(b, majorMinor(i.Version), i.Tenant)
		return ok && first.URL == i.URL
	}
	return false
}

// majorMinor cuts the patch number off a protocol version.
func majorMinor(version string) string {
	if major, rest, found := strings.Cut(version, "."); found {
		minor, _, _ := strings.Cut(rest, ".")
		return version[:len(major)+1+len(minor)]
	}
	return version
}

func isSet(value []byte) bool {
	s := string(value)
	return s != "" && s != "null" && s != "[]"
}

// openCard splits a card into its members and refuses one that readers read differently.
func openCard(raw []byte) (*card, error) {
	if len(raw) > MaxCardBytes {
		return nil, fmt.Errorf("card has %d bytes; want at most %d", len(raw), MaxCardBytes)
	}
	top, err := readObject(raw)
	if err != nil {
		return nil, fmt.Errorf("card: %w", err)
	}
	c := &card{top: top}
	if value := top.get("capabilities"); isSet(value) {
		if c.capabilities, err = readObject(value); err != nil {
			return nil, fmt.Errorf("card.capabilities: %w", err)
		}
	}
	for _, part := range []struct {
		of    rawObject
		where string
		name  string
		names names
		to    *[]rawObject
	}{
		{c.top, "card", "supportedInterfaces", interfaceNames, &c.supported},
		{c.top, "card", "additionalInterfaces", interfaceNames, &c.additional},
		{c.top, "card", "skills", newNames("id"), &c.skills},
		{c.capabilities, "card.capabilities", "extensions", extensionNames, &c.extensions},
	} {
		if *part.to, err = readObjects(part.where+"."+part.name, part.of.get(part.name), part.names); err != nil {
			return nil, err
		}
	}
	if n := len(c.supported) + len(c.additional); n > maxInterfaces {
		return nil, fmt.Errorf("card.supportedInterfaces and card.additionalInterfaces have %d interfaces; want at most %d", n, maxInterfaces)
	}
	return c, errors.Join(cardNames.checkRaw("card", c.top), capabilityNames.checkRaw("card.capabilities", c.capabilities))
}

// readObjects reads an array of objects; absent and null are empty.
func readObjects(where string, value []byte, known names) ([]rawObject, error) {
	if !isSet(value) {
		return nil, nil
	}
	elements, err := readArray(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	objects := make([]rawObject, len(elements))
	for i, e := range elements {
		at := fmt.Sprintf("%s[%d]", where, i)
		if objects[i], err = readObject(e); err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		if err := known.checkRaw(at, objects[i]); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// interfaces lists the interfaces of the card, those of 1.0 first.
func (c *card) interfaces() []Interface {
	var all []Interface
	for _, o := range c.supported {
		all = append(all, Interface{o.text("url"), o.text("protocolBinding"), o.text("protocolVersion"), o.text("tenant")})
	}
	version := c.top.text("protocolVersion")
	if version == "" {
		version = Version03
	}
	if url := c.top.text("url"); url != "" {
		all = append(all, Interface{URL: url, Binding: c.preferred(), Version: version})
	}
	for _, o := range c.additional {
		i := Interface{URL: o.text("url"), Binding: o.text("transport"), Version: version}
		if !slices.Contains(all, i) {
			all = append(all, i)
		}
	}
	return all
}

// preferred returns the binding at the card's own URL, which in 0.3 is
// JSON-RPC where nothing is said.
func (c *card) preferred() string {
	if binding := c.top.text("preferredTransport"); binding != "" {
		return binding
	}
	return JSONRPC.String()
}

// own returns the index of our extension in the card, -1 when it is not there.
func (c *card) own() int {
	return slices.IndexFunc(c.extensions, func(e rawObject) bool { return e.text("uri") == ExtensionURI })
}

// holder returns the key of a capability-aware agent, to which others delegate.
func (c *card) holder() ([]byte, error) {
	i := c.own()
	if i < 0 || !isSet(c.extensions[i].get("params")) {
		return nil, nil
	}
	params, err := readObject(c.extensions[i].get("params"))
	if err != nil {
		return nil, fmt.Errorf("card.capabilities.extensions[%d].params: %w", i, err)
	}
	return params.get("holder"), nil
}
