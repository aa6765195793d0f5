package powerbox

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// The extension constraints. Each parses its argument like the target does
// and refuses every spelling that two parsers could read differently, instead
// of normalising it (ATK-38). Between two extension constraints only those of
// the same type can cover each other.

// PathUnder admits absolute slash-separated paths that are Root or lie
// beneath it. Paths with empty segments, with segments of dots and spaces
// alone, with backslashes, control characters, percent escapes or characters
// that NFKC changes, such as full-width letters, are refused. Symbolic
// links are the target's own business. The zero PathUnder admits nothing.
type PathUnder struct{ Root string }

// URLMatch admits absolute URLs by scheme, host, port and path prefix. Hosts
// are exact names or "*." and a domain, which admits names below it and not
// the domain itself. Ports are those written in the URL; empty Ports admit
// only a URL that writes none. Query and fragment are free. The zero URLMatch
// admits nothing.
type URLMatch struct {
	Schemes []string
	Hosts   []string
	Ports   []string
	Prefix  string // "" admits any path
}

// CIDR admits IP addresses within a prefix. IPv4 addresses in IPv6 clothes and
// addresses with zones are refused. The zero CIDR admits nothing.
type CIDR struct{ Prefix netip.Prefix }

// Glob admits strings that match a pattern in which '*' stands for any run of
// characters, the empty one included, and nothing else is special. Matching
// takes linear time. The zero Glob admits nothing.
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
	return listOf(vs)
}

// Admits implements [Constraint].
func (c PathUnder) Admits(v Value) bool {
	p, ok := v.Text()
	return ok && c.Root != "" && plainPath(p) && pathUnder(p, c.Root)
}

func pathUnder(p, root string) bool {
	return p == root || root == "/" || strings.HasPrefix(p, root+"/")
}

// plainPath reports whether every target reads p alike: absolute, no final
// slash but that of the root, and no segment that a file system, a shell or a
// URL library would rewrite.
func plainPath(p string) bool {
	if p == "/" {
		return true
	}
	rest, absolute := strings.CutPrefix(p, "/")
	if !absolute || strings.ContainsFunc(p, rewritten) {
		return false
	}
	for more := true; more; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		// Some file systems drop final dots and spaces, so "..", "...", ".. "
		// and " " are all the same trap.
		if strings.Trim(segment, ". ") == "" {
			return false
		}
	}
	return true
}

// rewritten reports whether some target turns r into something else: control
// characters, the other slash, escapes, and all that NFKC changes, since some of it
// becomes dots, slashes or escapes.
func rewritten(r rune) bool {
	return r == '\\' || r == '%' || r < 0x20 || r >= 0x7f && (r < 0xa0 || unicode.Is(changedByNFKC, r))
}

func wantPath(name, p string) error {
	return fmt.Errorf("%s %q; want an absolute path with plain segments, such as /data/reports", name, p)
}

func parsePath(o *objectReader) (Constraint, error) {
	root, err := o.text("root")
	if err != nil {
		return nil, err
	}
	if !plainPath(root) {
		return nil, wantPath(o.of.String()+": root", root)
	}
	return PathUnder{root}, nil
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
// percent escapes in host or path, ';' in the path, dot and empty segments, a
// host that ends in anything but ':', '/' or the end, hosts that only some read
// as an address.
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
	if u.Path == "" {
		return u, !strings.ContainsAny(s, "?#")
	}
	path := u.EscapedPath()
	if strings.Contains(path, ";") { // some servers cut a segment off there
		return u, false
	}
	return u, plainPath(path) || len(path) > 2 && plainPath(strings.TrimSuffix(path, "/"))
}

func plainHost(h string) bool {
	if addr, err := netip.ParseAddr(h); err == nil {
		return addr.Zone() == "" && !addr.Is4In6() && addr.String() == h
	}
	last := ""
	for rest, more := h, true; more; {
		last, rest, more = strings.Cut(rest, ".")
		if last == "" || strings.ContainsFunc(last, func(r rune) bool { return !scopeRune(r) || r >= 'A' && r <= 'Z' }) {
			return false
		}
	}
	// A last label that is a number makes some parsers see an IPv4 address.
	return last[0] < '0' || last[0] > '9'
}

// plainHostPattern reports whether h is a host, or "*." and a name.
func plainHostPattern(h string) bool {
	domain, wild := strings.CutPrefix(h, "*.")
	if _, err := netip.ParseAddr(domain); wild && err == nil {
		return false
	}
	return plainHost(domain)
}

// plainScheme reports whether s is a scheme as [url.Parse] returns it.
func plainScheme(s string) bool {
	return s[0] >= 'a' && s[0] <= 'z' && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("+-.", r)
	})
}

func plainPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && strconv.FormatUint(n, 10) == s
}

func hostMatches(pattern, host string) bool {
	if domain, ok := strings.CutPrefix(pattern, "*."); ok {
		return strings.HasSuffix(host, "."+domain)
	}
	return host == pattern
}

func (p *constraintParser) url(o *objectReader) (Constraint, error) {
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
	if p.nodes -= len(c.Schemes) + len(c.Hosts) + len(c.Ports); p.nodes < 0 {
		return nil, fmt.Errorf("%s: more than %d values", o.of, MaxConstraintNodes)
	}
	for _, check := range []struct {
		name  string
		texts []string
		ok    func(string) bool
		want  string
	}{
		{"scheme", c.Schemes, plainScheme, "a lower-case name such as https"},
		{"host", c.Hosts, plainHostPattern, "a lower-case name, \"*.\" and a name, or an address"},
		{"port", c.Ports, plainPort, "a number from 0 to 65535 without leading zeros"},
	} {
		for _, s := range check.texts {
			if !check.ok(s) {
				return nil, fmt.Errorf("%s: %s %q; want %s", o.of, check.name, s, check.want)
			}
		}
	}
	if !slices.ContainsFunc(o.members, func(m Member) bool { return m.Name == "path_prefix" }) {
		return c, nil
	}
	if c.Prefix, err = o.text("path_prefix"); err != nil {
		return nil, err
	}
	if !plainPath(c.Prefix) {
		return nil, wantPath(o.of.String()+": path_prefix", c.Prefix)
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
	return ok && c.Pattern != "" && globMatches(c.Pattern, s)
}

// globMatches takes the literal pieces between the stars from left to right at
// their first place, which is right for every pattern without other wildcards.
func globMatches(pattern, s string) bool {
	piece, pattern, more := strings.Cut(pattern, "*")
	if !more {
		return s == piece
	}
	s, ok := strings.CutPrefix(s, piece)
	for ok {
		if piece, pattern, more = strings.Cut(pattern, "*"); !more {
			return strings.HasSuffix(s, piece)
		}
		_, s, ok = strings.Cut(s, piece)
	}
	return false
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
	if len(elements) == 0 {
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
