package token

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
)

// Limits of what a token may say (draft, sections 4.3 and 4.4 and appendix
// B.5). [powerbox.MaxOperations], [powerbox.MaxArguments] and
// [powerbox.MaxConstraintDepth] are the others.
const (
	MaxChainBytes  = 256 << 10
	MaxDepth       = 16 // delegations; a chain has one token more
	MaxLifetime    = 90 * 24 * time.Hour
	MaxIssuedAhead = 30 * time.Second // how far iat may lie in the future
)

// maxTime is the last second of the year 9999, beyond which times have no
// RFC 3339 form.
const maxTime = 253402300799

// maxIDBytes bounds jti and the other names in a token.
const maxIDBytes = 1024

// capabilityType is the type of the one entry of authorization_details that
// is ours (draft, section 3.3).
const capabilityType = "attenuating_agent_token"

// privateClaim is the claim of ours in root tokens.
const privateClaim = "powerbox"

// Private is what our own issuer says in a root token about the grant
// behind it. In derived tokens it is ignored: holders could write anything.
type Private struct {
	Capability string // id of the capability
	Grant      string // id of the grant on record
	Principal  string // pairwise name of the user behind it
	Legacy     bool   // issued for a caller that declared nothing
}

// claims are the claims of the draft's section 3.2, parsed. Times are seconds
// since 1970.
type claims struct {
	id         string
	issuer     string
	issuedAt   int64
	expires    int64
	notBefore  int64
	holder     PublicKey
	depth      int
	maxDepth   int
	parentHash string // "" where absent
	hasParent  bool
	hasEntry   bool              // whether it has a capability entry
	tools      []powerbox.Clause // exact patterns in order of names; constraints as written
	private    *Private
}

// from returns when the token begins to be good: clocks may differ by
// MaxIssuedAhead, but nbf is meant as it stands.
func (c *claims) from() int64 {
	return max(c.issuedAt-int64(MaxIssuedAhead/time.Second), c.notBefore)
}

// parseClaims reads the claims that every token has. Claims that the draft does
// not define are ignored, as its section 3.4 asks.
func parseClaims(v powerbox.Value, root bool) (claims, error) {
	r := claimReader{object: v}
	c := claims{
		id:        r.text("jti"),
		issuer:    r.text("iss"),
		issuedAt:  r.integer("iat", maxTime),
		expires:   r.integer("exp", maxTime),
		depth:     int(r.integer("del_depth", MaxDepth)),
		maxDepth:  int(r.integer("del_max_depth", MaxDepth)),
		holder:    r.holder(),
		notBefore: -int64(MaxIssuedAhead / time.Second),
	}
	if _, ok := v.Get("nbf"); ok {
		c.notBefore = r.integer("nbf", maxTime)
	}
	if _, c.hasParent = v.Get("par_hash"); c.hasParent {
		c.parentHash = r.text("par_hash")
	}
	r.capability(&c)
	if root {
		c.private = r.private()
	}
	if r.err == nil {
		r.err = c.check()
	}
	return c, r.err
}

// check checks one token alone.
func (c *claims) check() error {
	switch {
	case c.expires <= c.issuedAt:
		return refuse(CodeLifetime, "exp is not after iat")
	case c.expires > c.issuedAt+int64(MaxLifetime/time.Second):
		return refuse(CodeLifetime, "exp is more than %d days after iat", MaxLifetime/(24*time.Hour))
	case c.depth > c.maxDepth:
		return refuse(CodeDepth, "del_depth %d is beyond del_max_depth %d", c.depth, c.maxDepth)
	}
	return nil
}

// claimReader reads members of an object. After the first error it reads
// nothing.
type claimReader struct {
	object powerbox.Value
	err    error
}

func (r *claimReader) get(name string) (powerbox.Value, bool) {
	if r.err != nil {
		return powerbox.Value{}, false
	}
	v, ok := r.object.Get(name)
	if !ok {
		r.err = refuse(CodeMissingClaim, "has no %s", name)
	}
	return v, ok
}

func (r *claimReader) text(name string) string {
	v, ok := r.get(name)
	if !ok {
		return ""
	}
	s, ok := v.Text()
	if !ok || s == "" || len(s) > maxIDBytes {
		r.err = refuse(CodeMalformed, "%s; want a string of 1 to %d bytes", name, maxIDBytes)
	}
	return s
}

// integer reads a JSON number that is an integer. Strings and fractions are
// refused: readers differ in what they make of them (ATK-21).
func (r *claimReader) integer(name string, limit int64) int64 {
	v, ok := r.get(name)
	if !ok {
		return 0
	}
	d, ok := v.Decimal()
	n, whole := d.Int64()
	switch {
	case !ok || !whole || n < 0:
		r.err = refuse(CodeMalformed, "%s is %s; want an integer, 0 or more", name, describe(v))
	case n > limit && limit == MaxDepth:
		r.err = refuse(CodeDepth, "%s is %d; want at most %d", name, n, limit)
	case n > limit:
		r.err = refuse(CodeMalformed, "%s is %d; want at most %d", name, n, limit)
	}
	return n
}

// describe returns a number as it is and the kind of everything else.
func describe(v powerbox.Value) string {
	if v.Kind() == powerbox.KindNumber {
		return v.String()
	}
	return "JSON " + v.Kind().String()
}

func (r *claimReader) holder() PublicKey {
	cnf, ok := r.get("cnf")
	if !ok {
		return PublicKey{}
	}
	jwk, ok := cnf.Get("jwk")
	if !ok {
		r.err = refuse(CodeMissingClaim, "cnf has no jwk")
		return PublicKey{}
	}
	k, err := parseJWK(jwk)
	if err != nil {
		r.err = prefixed("cnf: ", err)
	}
	return k
}

// capability reads the one entry of ours in authorization_details (draft,
// section 3.3). Entries of other types grant nothing here.
func (r *claimReader) capability(c *claims) {
	details, ok := r.get("authorization_details")
	if !ok {
		return
	}
	entries, ok := details.Elements()
	if !ok {
		r.err = refuse(CodeMalformed, "authorization_details is JSON %s; want an array", details.Kind())
		return
	}
	for i, e := range entries {
		switch t := member(e, "type"); {
		case t == "":
			r.err = refuse(CodeMalformed, "authorization_details, entry %d has no type", i+1)
		case t == capabilityType && c.hasEntry:
			r.err = refuse(CodeMalformed, "authorization_details has more than one entry of type %s", capabilityType)
		case t == capabilityType:
			c.hasEntry = true
			c.tools, r.err = parseEntry(e)
		}
		if r.err != nil {
			return
		}
	}
}

// parseEntry reads type and tools and refuses every other member: it would be
// a restriction that is not enforced here.
func parseEntry(entry powerbox.Value) ([]powerbox.Clause, error) {
	members, _ := entry.Members()
	for _, m := range members {
		if m.Name != "type" && m.Name != "tools" {
			return nil, refuse(CodeConstraint, "%s: member %q is unknown; want type and tools", capabilityType, m.Name)
		}
	}
	tools, ok := entry.Get("tools")
	if !ok {
		return nil, refuse(CodeMissingClaim, "%s has no tools", capabilityType)
	}
	return parseTools(tools)
}

// parseTools reads the tools map. A tool with `{}` admits every call; a tool
// with constraints admits exactly the arguments that it names (draft, section
// 3.3, closed world).
func parseTools(v powerbox.Value) ([]powerbox.Clause, error) {
	members, ok := v.Members()
	if !ok {
		return nil, refuse(CodeMalformed, "tools is JSON %s; want an object", v.Kind())
	}
	if len(members) > powerbox.MaxOperations {
		return nil, refuse(CodeTooLarge, "has %d tools; want at most %d", len(members), powerbox.MaxOperations)
	}
	clauses := make([]powerbox.Clause, 0, len(members))
	for _, m := range members {
		op, err := powerbox.ParseOperation(m.Name)
		if err != nil {
			return nil, refuse(CodeMalformed, "tools: %v", err)
		}
		shape, err := parseShape(m.Value)
		if err != nil {
			return nil, prefixed("tool "+quote(m.Name)+": ", err)
		}
		clauses = append(clauses, powerbox.Clause{Pattern: powerbox.ExactPattern(op), Shape: shape})
	}
	return clauses, nil
}

func parseShape(v powerbox.Value) (powerbox.Shape, error) {
	arguments, ok := v.Members()
	switch {
	case !ok:
		return powerbox.Shape{}, refuse(CodeMalformed, "constraints are JSON %s; want an object", v.Kind())
	case len(arguments) == 0:
		return powerbox.AnyArguments(), nil
	case len(arguments) > powerbox.MaxArguments:
		return powerbox.Shape{}, refuse(CodeTooLarge, "has %d arguments; want at most %d", len(arguments), powerbox.MaxArguments)
	}
	var room [4]powerbox.Field // NewShape copies them
	fields := room[:0]
	for _, a := range arguments {
		if nestsDeeper(a.Value, powerbox.MaxConstraintDepth) {
			return powerbox.Shape{}, refuse(CodeTooDeep, "argument %q: constraint nests deeper than %d", a.Name, powerbox.MaxConstraintDepth)
		}
		c, err := powerbox.ParseConstraint(a.Value)
		if err != nil {
			return powerbox.Shape{}, refuse(CodeConstraint, "argument %q: %v", a.Name, err)
		}
		fields = append(fields, powerbox.Field{Name: a.Name, Constraint: c, Required: true})
	}
	return powerbox.NewShape(powerbox.RestNone, fields...)
}

// nestsDeeper reports whether a constraint nests deeper than levels, whatever
// else is wrong with it.
func nestsDeeper(v powerbox.Value, levels int) bool {
	if levels == 0 {
		return true
	}
	inner, _ := v.Get("constraints")
	elements, _ := inner.Elements()
	return slices.ContainsFunc(elements, func(e powerbox.Value) bool { return nestsDeeper(e, levels-1) })
}

// private reads the claim of ours in a root token. Absent is right for issuers
// that are not ours.
func (r *claimReader) private() *Private {
	if r.err != nil {
		return nil
	}
	v, ok := r.object.Get(privateClaim)
	if !ok {
		return nil
	}
	members, ok := v.Members()
	if !ok {
		r.err = refuse(CodeMalformed, "%s is JSON %s; want an object", privateClaim, v.Kind())
		return nil
	}
	p := &Private{}
	for _, m := range members {
		var ok bool
		switch m.Name {
		case "capability":
			p.Capability, ok = m.Value.Text()
		case "grant":
			p.Grant, ok = m.Value.Text()
		case "principal":
			p.Principal, ok = m.Value.Text()
		case "legacy":
			p.Legacy, ok = m.Value.Truth()
		}
		if !ok {
			r.err = refuse(CodeMalformed, "%s: member %q is unknown or of the wrong kind", privateClaim, m.Name)
		}
	}
	return p
}

func (p Private) value() powerbox.Value {
	ms := []powerbox.Member{textMember("capability", p.Capability), textMember("grant", p.Grant), textMember("principal", p.Principal)}
	if p.Legacy {
		ms = append(ms, powerbox.Member{Name: "legacy", Value: powerbox.Bool(true)})
	}
	return powerbox.Object(ms...)
}

// isURI reports whether s is an absolute URI (RFC 3986 section 4.3) in ASCII.
func isURI(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("<>\"{}|\\^`", c) >= 0 {
			return false
		}
	}
	u, err := url.Parse(s)
	return err == nil && u.Scheme != "" && (u.Opaque != "" || u.Host != "" || u.Path != "")
}

func quote(s string) string { return powerbox.String(s).String() }

func number(n int64) powerbox.Value { return powerbox.Number(powerbox.Int(n)) }

// appendPayload appends the claims as a payload: an object in order of its
// names. It is written out because holders derive tokens all the time.
func (c *claims) appendPayload(b []byte) []byte {
	text := func(name, s string) {
		b = powerbox.String(s).AppendJSON(append(b, name...))
	}
	integer := func(name string, n int64) {
		b = strconv.AppendInt(append(b, name...), n, 10)
	}
	b = appendTools(append(b, `{"authorization_details":[{"tools":`...), c.tools)
	text(`,"type":`, capabilityType)
	b = c.holder.appendJWK(append(b, `}],"cnf":{"jwk":`...))
	integer(`},"del_depth":`, int64(c.depth))
	integer(`,"del_max_depth":`, int64(c.maxDepth))
	integer(`,"exp":`, c.expires)
	integer(`,"iat":`, c.issuedAt)
	text(`,"iss":`, c.issuer)
	text(`,"jti":`, c.id)
	if c.parentHash != "" {
		text(`,"par_hash":`, c.parentHash)
	}
	if c.private != nil {
		b = c.private.value().AppendJSON(append(b, `,"`+privateClaim+`":`...))
	}
	return append(b, '}')
}

// appendTools appends what [ToolsJSON] returns for clauses in order of their
// names, without building it.
func appendTools(b []byte, clauses []powerbox.Clause) []byte {
	b = append(b, '{')
	for i, c := range clauses {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(powerbox.String(c.Pattern.Name()).AppendJSON(b), ':', '{')
		for j, f := range c.Shape.Fields() {
			if j > 0 {
				b = append(b, ',')
			}
			b = append(powerbox.String(f.Name).AppendJSON(b), ':')
			b = f.Constraint.JSON().AppendJSON(b)
		}
		b = append(b, '}')
	}
	return append(b, '}')
}

// ParseTools reads a tools map as it stands in a token (draft, section 3.3).
// Errors are [*Error].
func ParseTools(data []byte) ([]powerbox.Clause, error) {
	v, err := powerbox.DecodeValue(data, powerbox.Limits{Bytes: MaxTokenBytes, Depth: maxJSONDepth})
	if err != nil {
		return nil, refuse(CodeMalformed, "tools: %v", err)
	}
	return parseTools(v)
}

// ToolsJSON returns clauses as a tools map: what [ParseTools] and [Tools]
// return, unchanged.
func ToolsJSON(clauses []powerbox.Clause) powerbox.Value {
	tools := make([]powerbox.Member, len(clauses))
	for i, c := range clauses {
		fields := c.Shape.Fields()
		arguments := make([]powerbox.Member, len(fields))
		for j, f := range fields {
			arguments[j] = powerbox.Member{Name: f.Name, Value: f.Constraint.JSON()}
		}
		tools[i] = powerbox.Member{Name: c.Pattern.Name(), Value: powerbox.Object(arguments...)}
	}
	return powerbox.Object(tools...)
}
