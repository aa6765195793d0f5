package powerbox

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// CheckURI returns why readers take an absolute URI for different ones, nil where all take
// it for the same. The URL class of JavaScript, pydantic and others rewrite a URI before they
// look it up: file:///public/../salaries becomes file:///salaries. Whatever decides on
// a URI that another reader reads after it asks this first (ATK-163).
//
// A URI passes if it has the characters of RFC 3986 alone, and every part is already as those
// readers write it. A query and a fragment are free.
func CheckURI(uri string) error {
	scheme, rest, found := strings.Cut(uri, ":")
	switch {
	case !found || scheme == "" || !plainScheme(scheme):
		return errors.New("the URI does not begin with a scheme in lower case, such as file")
	case strings.ContainsFunc(rest, func(r rune) bool { return !uriRune(r) }):
		return errors.New("the URI has a character that RFC 3986 does not have, such as a space or a backslash; write it as an escape, such as %20")
	}
	if err := checkEscapes(rest); err != nil {
		return err
	}
	query := ""
	if end := strings.IndexAny(rest, "?#"); end >= 0 {
		rest, query = rest[:end], rest[end:]
	}
	if hasDotSegment(rest) {
		return errors.New("the URI has a segment . or .., which readers resolve; send the resolved URI")
	}
	_, special := specialSchemes[scheme]
	if strings.Contains(query, "'") && special {
		return errors.New("the query of the URI has a quotation mark; write it as %27")
	}
	after, hasAuthority := strings.CutPrefix(rest, "//")
	if !hasAuthority {
		if special {
			return fmt.Errorf("the URI has no // behind the scheme %s", scheme)
		}
		return nil
	}
	authority, path := after, ""
	if slash := strings.IndexByte(after, '/'); slash >= 0 {
		authority, path = after[:slash], after[slash:]
	}
	switch {
	case special && path == "":
		return errors.New("the URI has no path; end it with /")
	case scheme == "file" && strings.HasPrefix(path, "//"):
		return errors.New("the path of the URI begins with two slashes, of which some readers make one")
	}
	if !plainAuthority(scheme, authority, path) {
		return errors.New("the authority of the URI is not as all readers write it: a host in lower case or an IP address, and no default port")
	}
	return nil
}

// specialSchemes are the schemes whose URIs the WHATWG URL standard rewrites most, with their
// default ports.
var specialSchemes = map[string]string{"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21", "file": ""}

// uriRune reports whether RFC 3986 has a character in a URI.
func uriRune(r rune) bool {
	return unreserved(r) || r < 0x80 && strings.ContainsRune(":/?#[]@!$&'()*+,;=%", r)
}

func unreserved(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r < 0x80 && strings.ContainsRune("-._~", r)
}

// checkEscapes refuses escapes that are none, that stand for a control character, and those
// that RFC 3986 has no need for, which some readers undo (section 6.2.2.2).
func checkEscapes(s string) error {
	for _, after := range strings.Split(s, "%")[1:] {
		if len(after) < 2 {
			return errors.New("the URI ends within an escape")
		}
		n, err := strconv.ParseUint(after[:2], 16, 8)
		switch {
		case err != nil:
			return fmt.Errorf("the URI has an escape %q; want two hexadecimal digits", "%"+after[:2])
		case n < 0x20 || n == 0x7f:
			return fmt.Errorf("the URI has a control character, as the escape %q", "%"+after[:2])
		case unreserved(rune(n)):
			return fmt.Errorf("the URI has the escape %q; write %q", "%"+after[:2], rune(n))
		}
	}
	return nil
}

// hasDotSegment reports whether a segment is . or .., also between escaped slashes, which
// some readers take for slashes.
func hasDotSegment(path string) bool {
	slashes := strings.NewReplacer("%2f", "/", "%2F", "/", "%5c", "/", "%5C", "/")
	return slices.ContainsFunc(strings.Split(slashes.Replace(path), "/"), func(segment string) bool {
		return segment == "." || segment == ".."
	})
}

// plainAuthority reports whether an authority is as all readers write it. Hosts of schemes
// that are not special are opaque to them.
func plainAuthority(scheme, authority, path string) bool {
	defaultPort, special := specialSchemes[scheme]
	if scheme == "file" {
		return authority == "" || authority != "localhost" && plainHost(authority) && !strings.Contains(authority, ":") && !isDrive(path)
	}
	user, host, named := strings.Cut(authority, "@")
	if !named {
		host = authority
	} else if special || !plainUser(user) {
		return false
	}
	name, port, ported := host, "", false
	if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') {
		name, port, ported = host[:colon], host[colon+1:], true
	}
	switch {
	case ported && (!plainPort(port) || port == defaultPort):
		return false
	case name == "":
		return !special && !named && !ported
	case name[0] == '[':
		addr, err := netip.ParseAddr(strings.TrimSuffix(name[1:], "]"))
		return err == nil && addr.Is6() && "["+addr.String()+"]" == name && plainHost(addr.String())
	case special:
		return plainHost(name) && !strings.Contains(name, ":")
	default:
		return !strings.ContainsAny(name, ":[]@")
	}
}

// isDrive reports whether a path begins with a drive letter of Windows, in front of which some
// readers drop the host.
func isDrive(path string) bool {
	return len(path) > 2 && path[2] == ':' && (len(path) == 3 || path[3] == '/')
}

// plainUser reports whether user information is a name, or a name and a password.
func plainUser(s string) bool {
	name, password, has := strings.Cut(s, ":")
	ok := func(part string) bool {
		return part != "" && !strings.ContainsFunc(part, func(r rune) bool { return !unreserved(r) && r != '%' })
	}
	return ok(name) && (!has || ok(password))
}
