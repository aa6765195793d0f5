package powerbox

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// The extension constraints. Each parses its argument like the target does
// and refuses every spelling that two parsers could read differently, instead
// of normalising it (ATK-38). Between two extension constraints only those of
// the same type can cover each other.

// PathUnder admits absolute slash-separated paths that are Root or lie
// beneath it. Paths with ".", ".." or empty segments, backslashes, control
// characters or percent escapes are refused. Symbolic links are the target's
// own business.
type PathUnder struct{ Root string }

// URLMatch admits absolute URLs by scheme, host, port and path prefix. Hosts
// are exact names or "*." and a domain, which admits names below it and not
// the domain itself. An empty Ports admits the scheme's default port alone.
type URLMatch struct {
	Schemes []string
	Hosts   []string
	Ports   []string
	Prefix  string // "" admits any path
}

// CIDR admits IP addresses within a prefix. IPv4 addresses in IPv6 clothes and
// addresses with zones are refused.
type CIDR struct{ Prefix netip.Prefix }

// Glob admits strings that match a pattern in which '*' stands for any run of
// characters, the empty one included, and nothing else is special. Matching
// takes linear time.
type Glob struct{ Pattern string }

func (PathUnder) sealed() {}
func (URLMatch) sealed()  {}
func (CIDR) sealed()      {}
func (Glob) sealed()      {}

// Type implements [Constraint].
func (PathUnder) Type() string { return "path" }

// Type implements [Constraint].
func (URLMatch) Type() string { return "url" }

// Type implements [Constraint].
func (CIDR) Type() string { return "cidr" }

// Type implements [Constraint].
func (Glob) Type() string { return "glob" }

// JSON implements [Constraint].
func (c PathUnder) JSON() Value { return typed(c.Type(), Member{"root", String(c.Root)}) }

// JSON implements [Constraint].
func (c URLMatch) JSON() Value {
	ms := []Member{{"schemes", stringList(c.Schemes)}, {"hosts", stringList(c.Hosts)}}
	if len(c.Ports) > 0 {
		ms = append(ms, Member{"ports", stringList(c.Ports)})
	}
	if c.Prefix != "" {
		ms = append(ms, Member{"path_prefix", String(c.Prefix)})
	}
	return typed(c.Type(), ms...)
}

// JSON implements [Constraint].
func (c CIDR) JSON() Value { return typed(c.Type(), Member{"prefix", String(c.Prefix.String())}) }

// JSON implements [Constraint].
func (c Glob) JSON() Value { return typed(c.Type(), Member{"pattern", String(c.Pattern)}) }

func stringList(ss []string) Value {
	vs := make([]Value, len(ss))
	for i, s := range ss {
		vs[i] = String(s)
	}
	return Value{kind: KindList, list: vs}
}

// Admits implements [Constraint].
func (c PathUnder) Admits(v Value) bool {
	p, ok := v.Text()
	return ok && checkPath(p) == nil && pathUnder(p, c.Root)
}

func pathUnder(p, root string) bool {
	return p == root || root == "/" || strings.HasPrefix(p, root+"/")
}

func checkPath(p string) error {
	if !strings.HasPrefix(p, "/") {
		return fmt.Errorf("path %q is not absolute; want one that begins with '/'", p)
	}
	if strings.ContainsFunc(p, func(r rune) bool { return r < 0x20 || r == 0x7f || r == '\\' || r == '%' }) {
		return fmt.Errorf("path %q has a backslash, percent sign or control character", p)
	}
	if p == "/" {
		return nil
	}
	for _, s := range strings.Split(p[1:], "/") {
		if s == "" || s == "." || s == ".." {
			return fmt.Errorf("path %q has the segment %q; want a plain path without a final '/'", p, s)
		}
	}
	return nil
}

func parsePath(o *objectReader) (Constraint, error) {
	root, err := o.text("root")
	if err != nil {
		return nil, err
	}
	return PathUnder{root}, checkPath(root)
}

// Admits implements [Constraint].
func (c URLMatch) Admits(v Value) bool {
	s, ok := v.Text()
	if !ok {
		return false
	}
	u, ok := plainURL(s)
	if !ok || !slices.Contains(c.Schemes, u.Scheme) || !c.admitsPort(u.Port()) {
		return false
	}
	if !slices.ContainsFunc(c.Hosts, func(h string) bool { return hostMatches(h, u.Hostname()) }) {
		return false
	}
	return c.Prefix == "" || pathUnder(strings.TrimSuffix(u.Path, "/"), strings.TrimSuffix(c.Prefix, "/"))
}

func (c URLMatch) admitsPort(port string) bool {
	if len(c.Ports) == 0 {
		return port == ""
	}
	return slices.Contains(c.Ports, port)
}

// plainURL parses an absolute URL and refuses spellings on which URL parsers
// are known to disagree: user info, backslashes, characters outside ASCII,
// percent escapes in host or path, dot segments, hosts that only some read as
// an address.
func plainURL(s string) (*url.URL, bool) {
	if strings.ContainsFunc(s, func(r rune) bool { return r <= 0x20 || r >= 0x7f || r == '\\' }) {
		return nil, false
	}
	u, err := url.Parse(s)
	if err != nil || u.Opaque != "" || u.User != nil || u.Host == "" || u.Scheme == "" {
		return nil, false
	}
	if strings.HasSuffix(u.Host, ":") || !plainHost(u.Hostname()) {
		return nil, false
	}
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	return u, path == "" || checkPath(path) == nil
}

func plainHost(h string) bool {
	if addr, err := netip.ParseAddr(h); err == nil {
		return addr.Zone() == "" && !addr.Is4In6() && addr.String() == h
	}
	labels := strings.Split(h, ".")
	for _, l := range labels {
		if l == "" || l != strings.ToLower(l) || strings.ContainsFunc(l, func(r rune) bool { return !scopeRune(r) }) {
			return false
		}
	}
	// A last label that is a number makes some parsers see an IPv4 address.
	last := labels[len(labels)-1]
	return last[0] < '0' || last[0] > '9'
}

func hostMatches(pattern, host string) bool {
	if domain, ok := strings.CutPrefix(pattern, "*."); ok {
		return strings.HasSuffix(host, "."+domain)
	}
	return host == pattern
}

func parseURL(o *objectReader) (Constraint, error) {
	var c URLMatch
	var err error
	if c.Schemes, err = o.texts("schemes", true); err != nil {
		return nil, err
	}
	if c.Hosts, err = o.texts("hosts", true); err != nil {
		return nil, err
	}
	if c.Ports, err = o.texts("ports", false); err != nil {
		return nil, err
	}
	for _, h := range c.Hosts {
		if !plainHost(strings.TrimPrefix(h, "*.")) {
			return nil, fmt.Errorf("%s: host %q; want a lower-case name, \"*.\" and a name, or an address", o.of, h)
		}
	}
	if v, ok := o.take("path_prefix"); ok {
		if c.Prefix, ok = v.Text(); !ok {
			return nil, fmt.Errorf("%s: path_prefix is %s; want a string", o.of, aKind(v.kind))
		}
		if err := checkPath(c.Prefix); err != nil {
			return nil, fmt.Errorf("%s: %w", o.of, err)
		}
	}
	return c, nil
}

// Admits implements [Constraint].
func (c CIDR) Admits(v Value) bool {
	s, ok := v.Text()
	if !ok {
		return false
	}
	a, err := netip.ParseAddr(s)
	return err == nil && a.Zone() == "" && !a.Is4In6() && c.Prefix.Contains(a)
}

func parseCIDR(o *objectReader) (Constraint, error) {
	s, err := o.text("prefix")
	if err != nil {
		return nil, err
	}
	p, err := netip.ParsePrefix(s)
	if err != nil || p != p.Masked() || p.Addr().Is4In6() {
		return nil, fmt.Errorf("%s: prefix %q; want an address range such as 10.0.0.0/8, without host bits", o.of, s)
	}
	return CIDR{p}, nil
}

// Admits implements [Constraint].
func (c Glob) Admits(v Value) bool {
	s, ok := v.Text()
	return ok && globMatches(c.Pattern, s)
}

// globMatches takes the literal pieces between the stars from left to right at
// their first place, which is right for every pattern without other wildcards.
func globMatches(pattern, s string) bool {
	pieces := strings.Split(pattern, "*")
	if len(pieces) == 1 {
		return s == pattern
	}
	first, last := pieces[0], pieces[len(pieces)-1]
	if len(s) < len(first)+len(last) || !strings.HasPrefix(s, first) || !strings.HasSuffix(s, last) {
		return false
	}
	s = s[len(first) : len(s)-len(last)]
	for _, p := range pieces[1 : len(pieces)-1] {
		i := strings.Index(s, p)
		if i < 0 {
			return false
		}
		s = s[i+len(p):]
	}
	return true
}

func parseGlob(o *objectReader) (Constraint, error) {
	s, err := o.text("pattern")
	return Glob{s}, err
}

func (o *objectReader) text(name string) (string, error) {
	v, ok := o.take(name)
	if !ok {
		return "", o.missing(name)
	}
	s, ok := v.Text()
	if !ok || s == "" || len(s) > MaxConstraintBytes {
		return "", fmt.Errorf("%s: %s; want a string of 1 to %d bytes", o.of, name, MaxConstraintBytes)
	}
	return s, nil
}

func (o *objectReader) texts(name string, required bool) ([]string, error) {
	v, ok := o.take(name)
	if !ok {
		if required {
			return nil, o.missing(name)
		}
		return nil, nil
	}
	elements, _ := v.Elements()
	if len(elements) == 0 || len(elements) > MaxConstraintNodes {
		return nil, fmt.Errorf("%s: %s; want an array of at least one string", o.of, name)
	}
	ss := make([]string, len(elements))
	for i, e := range elements {
		s, ok := e.Text()
		if !ok || s == "" || len(s) > MaxConstraintBytes {
			return nil, fmt.Errorf("%s: %s, element %d; want a string of 1 to %d bytes", o.of, name, i+1, MaxConstraintBytes)
		}
		ss[i] = s
	}
	return ss, nil
}
