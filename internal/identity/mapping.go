package identity

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/powerbox-project/powerbox"
)

// maximumNameBytes bounds what names a principal (OpenID Connect Core, section
// 2, has 255 for sub).
const maximumNameBytes = 255

// provider is one issuer, ready for use.
type provider struct {
	Provider
	principal template
	keys      *keySource
	several   bool // there are other providers, so that client ids are not unique
}

func newProvider(c Provider, fetch Fetcher, several bool) (*provider, error) {
	if c.Issuer == "" {
		return nil, fmt.Errorf("no issuer")
	}
	principal, err := parseTemplate(c.Principal)
	if err != nil {
		return nil, err
	}
	if c.Fetch != nil {
		fetch = c.Fetch
	}
	keys, err := newKeySource(c, fetch)
	if err != nil {
		return nil, err
	}
	return &provider{c, principal, keys, several}, nil
}

// session maps claims to a caller. The claims are not verified yet, and
// nothing of the result leaves before they are.
func (p *provider) session(claims powerbox.Value) (session, error) {
	if p.Programs {
		s := session{client: p.clientID(claims)}
		return s, s.confirm(claims)
	}
	principal, err := p.principal.expand(claims)
	if err != nil {
		return session{}, err
	}
	groups, err := listClaim(claims, p.GroupsClaim)
	if err != nil {
		return session{}, err
	}
	roles, err := listClaim(claims, p.RolesClaim)
	if err != nil {
		return session{}, err
	}
	s := session{caller: Caller{Principal: principal, Groups: groups, Roles: roles, Attributes: p.attributes(claims)}}
	s.client = p.clientID(claims)
	return s, s.confirm(claims)
}

func (p *provider) attributes(claims powerbox.Value) map[string]powerbox.Value {
	kept := make(map[string]powerbox.Value, len(p.Attributes))
	for _, name := range p.Attributes {
		if v, ok := lookup(claims, name); ok {
			kept[name] = v
		}
	}
	return kept
}

// clientID returns the holder id of the client that the token was issued to:
// azp (OpenID Connect Core, section 2), else client_id (RFC 9068).
func (p *provider) clientID(claims powerbox.Value) string {
	id := textMember(claims, "azp")
	if id == "" {
		id = textMember(claims, "client_id")
	}
	switch {
	case id == "":
		return ""
	case p.several || strings.Contains(id, "#"): // else the client could be one of another issuer
		return "client:" + p.Issuer + "#" + id
	}
	return "client:" + id
}

// confirm reads cnf, which binds a token to a key or a certificate (RFC 9449,
// section 6; RFC 8705, section 3.1). An unknown binding refuses.
func (s *session) confirm(claims powerbox.Value) error {
	cnf, ok := claims.Get("cnf")
	if !ok {
		return nil
	}
	members, _ := cnf.Members()
	for _, m := range members {
		text, _ := m.Value.Text()
		switch {
		case text == "":
			return refuse(CodeClaim, "the token's cnf member %q is not a string", m.Name)
		case m.Name == "jkt":
			s.keyBound = text
		case m.Name == "x5t#S256":
			s.certificate = text
		default:
			return refuse(CodeClaim, "the token is bound by cnf member %q; want jkt or x5t#S256", m.Name)
		}
	}
	if len(members) == 0 {
		return refuse(CodeClaim, "the token's cnf is not an object with a member; want jkt or x5t#S256")
	}
	return nil
}

// template is the name of a principal with the place of one claim. With more
// than one, two different users could get the same name.
type template struct{ prefix, claim, suffix string }

func parseTemplate(s string) (template, error) {
	prefix, rest, opened := strings.Cut(s, "{")
	claim, suffix, closed := strings.Cut(rest, "}")
	if !opened || !closed || claim == "" || strings.ContainsAny(prefix+claim+suffix, "{}") {
		return template{}, fmt.Errorf("principal template %q does not name one claim in braces; want a name such as \"user:{sub}\"", s)
	}
	return template{prefix, claim, suffix}, nil
}

func (t template) expand(claims powerbox.Value) (string, error) {
	v, _ := lookup(claims, t.claim)
	text, _ := v.Text()
	if text == "" {
		return "", refuse(CodeClaim, "the token's claim %q, which names the principal, is missing or not a string", t.claim)
	}
	if len(text) > maximumNameBytes || strings.ContainsFunc(text, unicode.IsControl) {
		return "", refuse(CodeClaim, "the token's claim %q, which names the principal, has control characters or more than %d bytes", t.claim, maximumNameBytes)
	}
	if t.claim == "email" && !verifiedEmail(claims) {
		return "", refuse(CodeClaim, "the token's e-mail address, which names the principal, is not verified by the issuer")
	}
	return t.prefix + text + t.suffix, nil
}

// verifiedEmail reports whether the issuer stands for the address: anybody can
// enter another's.
func verifiedEmail(claims powerbox.Value) bool {
	v, _ := claims.Get("email_verified")
	verified, ok := v.Truth()
	return ok && verified
}

// lookup finds a claim by name, or by JSON pointer where the name begins with
// a slash.
func lookup(claims powerbox.Value, name string) (powerbox.Value, bool) {
	if !strings.HasPrefix(name, "/") {
		return claims.Get(name)
	}
	v := claims
	for step := range jsontext.Pointer(name).Tokens() {
		inner, ok := v.Get(step)
		if !ok {
			return powerbox.Value{}, false
		}
		v = inner
	}
	return v, true
}

// listClaim reads a claim that lists names. Absent is none; one string is one
// name; anything else refuses.
func listClaim(claims powerbox.Value, name string) ([]string, error) {
	v, ok := lookup(claims, name)
	if name == "" || !ok {
		return nil, nil
	}
	list := texts(v)
	if list == nil {
		return nil, refuse(CodeClaim, "the token's claim %q is not a list of strings", name)
	}
	return list, nil
}

// texts returns a string or an array of strings as a list, and nil for
// anything else.
func texts(v powerbox.Value) []string {
	if s, ok := v.Text(); ok {
		return []string{s}
	}
	elements, ok := v.Elements()
	if !ok {
		return nil
	}
	list := make([]string, 0, len(elements))
	for _, e := range elements {
		s, ok := e.Text()
		if !ok {
			return nil
		}
		list = append(list, s)
	}
	return list
}

// textMember returns a member that is a string, and "" for anything else.
func textMember(v powerbox.Value, name string) string {
	member, _ := v.Get(name)
	s, _ := member.Text()
	return s
}
