package agentcard

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// linter looks at one card.
type linter struct {
	findings
	card   *Card
	speaks dialects // what the card, or the part of it that is looked at, has the form of

	params   *node              // of the contract extension, nil without
	paramsAt string             // where they are
	listedIn map[string]int     // index in the contract's interfaces by URL, and by URL and binding
	faces    map[faceKey]string // pointers
	schemes  map[string]bool    // that the card defines
}

// faceKey is what makes two interfaces the same.
type faceKey struct {
	url, binding, tenant string
	version              Version
}

// Lint reads a card of A2A 1.0, of 0.3, or of both in one, and lists everything
// that is wrong with it, in the order of its places (CARD-14). With strict,
// members that A2A does not have are errors. The card that it returns says what
// could be read; with problems, ask [Relied] whether to rely on it.
func Lint(raw []byte, strict bool) (Card, []Problem) {
	c := Card{raw: slices.Clone(raw)}
	l := &linter{findings: findings{strict: strict}, card: &c}
	root, err := readTree(raw)
	switch {
	case err != nil:
		l.fail("", CodeUnreadable, "%v", err)
	case root.kind != '{':
		l.fail("", CodeUnreadable, "the card is %s; want an object", kindName(root))
	default:
		c.root = root
		l.look()
	}
	c.problems = withoutRepeats(l.sorted())
	return c, slices.Clone(c.problems)
}

// look reads the card, which is an object.
func (l *linter) look() {
	c := l.card
	c.dialects = dialectsOf(c.root)
	l.speaks = c.dialects
	l.params, l.paramsAt = c.contract()
	l.faces = map[faceKey]string{}
	l.listedIn = l.contractInterfaces()
	l.schemes = map[string]bool{}
	for _, m := range c.root.get("securitySchemes", "security_schemes").object() {
		l.schemes[m.name] = true
	}
	l.walk("", c.root, cardForm)
	l.versions()
	l.interfaces()
	c.declare()
	l.features()
	l.extensions()
	l.skills()
	l.security()
	l.signatures()
	l.modes("", c.root)
	for _, f := range []struct{ name, other string }{{"documentationUrl", "documentation_url"}, {"iconUrl", "icon_url"}} {
		l.web(at("", f.name), c.root.get(f.name, f.other).str())
	}
	l.web("/provider/url", c.root.get("provider").get("url").str())
}

// dialectsOf says what a card has the form of. One that shows neither is held
// against 1.0.
func dialectsOf(root *node) dialects {
	var d dialects
	if root.get("supportedInterfaces", "supported_interfaces") != nil {
		d |= in10
	}
	if root.get("url") != nil || root.get("additionalInterfaces") != nil || root.get("preferredTransport") != nil || d == 0 && root.get("protocolVersion") != nil {
		d |= in03
	}
	if d == 0 {
		d = in10
	}
	return d
}

// version reads a version of the protocol.
func (l *linter) version(pointer string, n *node) Version {
	if !n.is('"') || n.text == "" {
		return Version{}
	}
	v, err := ParseVersion(n.text)
	if err != nil {
		l.fail(pointer, codeVersion, "%v", err)
	}
	return v
}

// revision reads a revision of MCP.
func (l *linter) revision(pointer string, n *node) string {
	if _, err := time.Parse(time.DateOnly, n.str()); err != nil && !n.absent() {
		l.fail(pointer, codeVersion, "revision %q of MCP; want a date such as 2025-11-25", n.str())
		return ""
	}
	return n.str()
}

// versions reads the range that the card declares, in itself and in the contract
// extension (CARD-6).
func (l *linter) versions() {
	c := l.card
	type end struct {
		pointer string
		v       Version
		n       *node
	}
	read := func(camel, snake string) []end {
		var ends []end
		for _, e := range []end{
			{pointer: at("", camel), n: c.root.get(camel)},
			{pointer: at("", snake), n: c.root.get(snake)},
			{pointer: at(l.paramsAt, snake), n: l.params.get(snake)},
		} {
			if e.n.absent() {
				continue
			}
			if e.n.is('"') && e.n.text == "" {
				l.fail(e.pointer, codeRange, "an end of the version range is empty; leave it out where the range is open")
				continue
			}
			if e.v = l.version(e.pointer, e.n); !e.v.IsZero() {
				ends = append(ends, e)
			}
		}
		for _, e := range ends {
			if e.v.line() != ends[0].v.line() {
				l.fail(e.pointer, codeContradiction, "%s, and %s at %s; say it once", e.v, ends[0].v, ends[0].pointer)
			}
		}
		return ends
	}
	low, high := read("minProtocolVersion", "min_protocol_version"), read("maxProtocolVersion", "max_protocol_version")
	c.explicit = len(low)+len(high) > 0
	if len(low) > 0 {
		c.ranged.Min = low[0].v
	}
	if len(high) > 0 {
		c.ranged.Max = high[0].v
	}
	if c.ranged.inverted() {
		l.fail(low[0].pointer, codeRange, "the version range begins at %s and ends at %s: no version is in it", c.ranged.Min, c.ranged.Max)
	}
}

// interfaces reads where the agent takes calls.
func (l *linter) interfaces() {
	c := l.card
	within := c.ranged
	for i, n := range c.root.get("supportedInterfaces", "supported_interfaces").elements() {
		l.current(atIndex("/supportedInterfaces", i), n, within)
	}
	if c.dialects&in03 != 0 {
		l.olderInterfaces(within)
	}
	if c.explicit {
		return
	}
	for _, i := range c.faces { // CARD-6: derived
		for _, v := range append(slices.Clone(i.Versions), i.Version) {
			if v.IsZero() {
				continue
			}
			if c.ranged.Min.IsZero() || v.compare(c.ranged.Min) < 0 {
				c.ranged.Min = v.line()
			}
			if c.ranged.Max.IsZero() || v.compare(c.ranged.Max) > 0 {
				c.ranged.Max = v.line()
			}
		}
	}
}

// current reads one entry of supportedInterfaces.
func (l *linter) current(pointer string, n *node, within Range) {
	face := Interface{
		URL: n.get("url").str(), Binding: n.get("protocolBinding", "protocol_binding").str(), Tenant: n.get("tenant").str(), within: within,
	}
	where, version := at(pointer, "protocolVersion"), n.get("protocolVersion", "protocol_version")
	if face.Binding == mcp {
		face.Revision = l.revision(where, version)
	} else {
		face.Version = l.version(where, version)
	}
	l.listed(pointer, n, &face)
	l.endpoint(pointer, face, "protocolBinding")
	if first, twice := l.faces[face.key()]; twice {
		l.warn(pointer, codeTwice, "the same interface is there already, at %s", first)
	} else {
		l.faces[face.key()] = pointer
	}
	l.card.faces = append(l.card.faces, face)
}

func (i Interface) key() faceKey { return faceKey{i.URL, i.Binding, i.Tenant, i.Version.line()} }

// contractInterfaces finds what the contract says about interfaces by URL.
func (l *linter) contractInterfaces() map[string]int {
	found := map[string]int{}
	for i, e := range l.params.get("interfaces").elements() {
		key := e.get("url").str() + " " + e.get("binding").str()
		if first, twice := found[key]; twice {
			l.fail(atIndex(at(l.paramsAt, "interfaces"), i), codeTwice, "the contract speaks of this interface already, at index %d", first)
			continue
		}
		found[key] = i
	}
	return found
}

// listed reads protocol_versions, on the interface or for it in the contract.
func (l *linter) listed(pointer string, n *node, face *Interface) {
	where, list := at(pointer, "protocolVersions"), n.get("protocolVersions")
	if other := n.get("protocol_versions"); other != nil {
		where, list = at(pointer, "protocol_versions"), other
	}
	for _, key := range []string{face.URL + " ", face.URL + " " + face.Binding} {
		i, ok := l.listedIn[key]
		if !ok {
			continue
		}
		here := at(atIndex(at(l.paramsAt, "interfaces"), i), "protocol_versions")
		if list != nil {
			l.fail(here, codeContradiction, "the versions of this interface are said at %s already; say them once", where)
			continue
		}
		where, list = here, l.params.get("interfaces").list[i].get("protocol_versions")
	}
	if list.absent() {
		return
	}
	face.Versions = []Version{}
	for i, e := range list.elements() {
		v := l.version(atIndex(where, i), e)
		if v.IsZero() {
			continue
		}
		if !face.within.contains(v) {
			l.fail(atIndex(where, i), codeRange, "%s is outside of the card's range, %s", v, face.within)
		}
		face.Versions = append(face.Versions, v)
	}
	switch {
	case len(list.elements()) == 0:
		l.fail(where, codeRange, "an interface with an empty list of versions speaks none; leave the list out")
	case !face.Version.IsZero() && !slices.ContainsFunc(face.Versions, func(v Version) bool { return v.line() == face.Version.line() }):
		l.fail(where, codeRange, "the interface's own protocolVersion %s is not in its list", face.Version)
	}
}

// olderInterfaces reads what 0.3 has in place of supportedInterfaces.
func (l *linter) olderInterfaces(within Range) {
	c := l.card
	version := l.version("/protocolVersion", c.root.get("protocolVersion"))
	if version.IsZero() {
		version, _ = HeaderVersion("")
	}
	binding := c.root.get("preferredTransport").str()
	if binding == "" {
		binding = "JSONRPC"
	}
	if u := c.root.get("url").str(); u != "" {
		face := Interface{URL: u, Binding: binding, Version: version, within: within}
		l.endpoint("", face, "preferredTransport")
		l.older03(face)
	}
	for i, n := range c.root.get("additionalInterfaces").elements() {
		face := Interface{URL: n.get("url").str(), Binding: n.get("transport").str(), Version: version, within: within}
		l.endpoint(atIndex("/additionalInterfaces", i), face, "transport")
		l.older03(face)
	}
}

// older03 adds an interface of 0.3. One that the card lists in both forms, or as
// its own and as an additional one, as 0.3 wants it, counts once.
func (l *linter) older03(face Interface) {
	if _, twice := l.faces[face.key()]; !twice {
		l.faces[face.key()] = "/url"
		l.card.faces = append(l.card.faces, face)
	}
}

// bindings are those that A2A has.
var bindings = []string{"JSONRPC", "HTTP+JSON", "GRPC"}

// mcp is the binding of an MCP server that Powerbox protects. Its versions are revisions of MCP.
const mcp = "MCP"

// endpoint checks the address and the binding of an interface, and its version
// against the range.
func (l *linter) endpoint(pointer string, face Interface, member string) {
	if face.Binding != "" && face.Binding != mcp && !slices.Contains(bindings, face.Binding) && !isAbsolute(face.Binding) {
		l.fail(at(pointer, member), codeBinding, "binding %q; want JSONRPC, HTTP+JSON, GRPC, or the URI of another", face.Binding)
	}
	if !face.Version.IsZero() && !face.within.contains(face.Version) {
		l.fail(at(pointer, "protocolVersion"), codeRange, "%s is outside of the card's range, %s", face.Version, face.within)
	}
	if face.URL == "" {
		return
	}
	if face.Binding == "GRPC" && !strings.Contains(face.URL, "://") {
		if _, port, ok := strings.Cut(face.URL, ":"); !ok || port == "" {
			l.fail(at(pointer, "url"), codeURL, "address %q; want host:port or a URL for gRPC", face.URL)
		}
		return
	}
	l.address(at(pointer, "url"), face.URL)
}

// address checks a URL that calls go to.
func (l *linter) address(pointer, address string) {
	u, err := url.Parse(address)
	switch {
	case err != nil, u.Host == "", u.Scheme != "https" && u.Scheme != "http":
		l.fail(pointer, codeURL, "%q is no absolute https URL", clip(address))
	case u.User != nil:
		l.fail(pointer, codeURL, "the URL carries a user name or a password; cards are public")
	case u.Fragment != "":
		l.fail(pointer, codeURL, "the URL has a fragment, which no request carries")
	case u.Scheme == "http" && loopback(u.Hostname()):
		l.warn(pointer, codePlain, "http is for experiments on one machine; in production it must be https (A2A 1.0, section 7.1)")
	case u.Scheme == "http":
		l.fail(pointer, codePlain, "the URL is http; production must use https (A2A 1.0, section 7.1)")
	}
}

// web checks a URL that people or readers of keys open.
func (l *linter) web(pointer, address string) {
	if address != "" {
		l.address(pointer, address)
	}
}

func loopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// isAbsolute reports whether s is a URI with a scheme.
func isAbsolute(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme != "" && (u.Host != "" || u.Opaque != "") && !strings.ContainsAny(s, " \t\r\n")
}

// clip shortens what someone else wrote for a message.
func clip(s string) string {
	if len(s) <= 128 {
		return s
	}
	return fmt.Sprintf("%.120s... (%d bytes)", s, len(s))
}
