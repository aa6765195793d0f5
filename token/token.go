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
	hasAud     bool              // whether it has an aud
	audience   []string          // its values
	draft      Draft             // of the chain
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
func parseClaims(v powerbox.Value, root bool, draft Draft) (claims, error) {
	r := claimReader{object: v}
	c := claims{
		draft:     draft,
		id:        r.text("jti"),
		issuer:    r.text("iss"),
		issuedAt:  r.plain("iat", maxTime),
		expires:   r.plain("exp", maxTime),
		depth:     int(r.plain("del_depth", MaxDepth)),
		maxDepth:  int(r.plain("del_max_depth", MaxDepth)),
		holder:    r.holder(),
		notBefore: -int64(MaxIssuedAhead / time.Second),
	}
	if _, ok := v.Get("nbf"); ok {
		c.notBefore = r.plain("nbf", maxTime)
	}
	if _, c.hasAud = v.Get("aud"); c.hasAud {
		c.audience = r.textOrTexts("aud")
	}
	if _, c.hasParent = v.Get("par_hash"); c.hasParent {
		c.parentHash = r.text("par_hash")
	}
	r.capability(&c)
	if root {
		c.private = readPrivate(v)
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

// plain is integer for the numbers of tokens and proofs, which have no fraction and no
// exponent (section 3.2), though 1e3 is an integer too.
func (r *claimReader) plain(name string, limit int64) int64 {
	n := r.integer(name, limit)
	if r.err == nil {
		if v, _ := r.object.Get(name); !v.IsPlainInteger() {
			r.err = refuse(CodeMalformed, "%s is written %s; want an integer without fraction and exponent", name, v)
		}
	}
	return n
}

// textOrTexts reads a string or an array of strings (RFC 7519 section 4.1.3).
func (r *claimReader) textOrTexts(name string) []string {
	v, ok := r.get(name)
	if !ok {
		return nil
	}
	elements, list := v.Elements()
	if !list {
		elements = []powerbox.Value{v}
	}
	texts := make([]string, len(elements))
	for i, e := range elements {
		if texts[i], ok = e.Text(); !ok {
			r.err = refuse(CodeMalformed, "%s holds JSON %s; want a string or an array of strings", name, e.Kind())
			return nil
		}
	}
	return texts
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
	for _, e := range entries {
		switch t := member(e, "type"); {
		case t != capabilityType:
		case c.hasEntry:
			r.err = refuse(CodeMalformed, "authorization_details has more than one entry of type %s", capabilityType)
		default:
			c.hasEntry = true
			c.tools, r.err = parseEntry(e, c.draft)
		}
		if r.err != nil {
			return
		}
	}
}

// parseEntry reads type and tools and refuses every other member: it would be
// a restriction that is not enforced here.
func parseEntry(entry powerbox.Value, draft Draft) ([]powerbox.Clause, error) {
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
	return parseTools(tools, draft)
}

// parseTools reads the tools map. A tool with `{}` admits every call; a tool
// with constraints admits exactly the arguments that it names (draft, section
// 3.3, closed world).
func parseTools(v powerbox.Value, draft Draft) ([]powerbox.Clause, error) {
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
		shape, err := parseShape(m.Value, draft)
		if err != nil {
			return nil, prefixed("tool "+quote(m.Name)+": ", err)
		}
		clauses = append(clauses, powerbox.Clause{Pattern: powerbox.ExactPattern(op), Shape: shape})
	}
	return clauses, nil
}

// parseShape reads a constraint map. Draft -02 has optional arguments and, under "*", the
// arguments that the map does not name; in -01 both are a name like any other.
func parseShape(v powerbox.Value, draft Draft) (powerbox.Shape, error) {
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
	fields, rest := room[:0], powerbox.RestNone
	for _, a := range arguments {
		f, err := parseField(a, draft)
		if err != nil {
			return powerbox.Shape{}, prefixed("argument "+quote(a.Name)+": ", err)
		}
		if draft == Draft02 && a.Name == unnamed {
			rest = powerbox.RestAny
			if _, ok := f.Constraint.(powerbox.Wildcard); !ok || !f.Required {
				return powerbox.Shape{}, refuse(CodeConstraint, "argument %q: want a wildcard without optional", a.Name)
			}
			continue
		}
		fields = append(fields, f)
	}
	return powerbox.NewShape(rest, fields...)
}

// unnamed is the key of a constraint map for every argument that it does not name.
const unnamed = "*"

// parseField reads one entry of a constraint map.
func parseField(a powerbox.Member, draft Draft) (powerbox.Field, error) {
	f := powerbox.Field{Name: a.Name, Required: true}
	v := a.Value
	if optional, ok := v.Get(memberOptional); ok && draft == Draft02 {
		truth, ok := optional.Truth()
		if !ok {
			return f, refuse(CodeConstraint, "optional is JSON %s; want true or false", optional.Kind())
		}
		if truth || a.Name == unnamed {
			f.Required = false
		}
		members, _ := v.Members()
		v = powerbox.Object(slices.DeleteFunc(slices.Clone(members), func(m powerbox.Member) bool { return m.Name == memberOptional })...)
	}
	if nestsDeeper(v, powerbox.MaxConstraintDepth) {
		return f, refuse(CodeTooDeep, "constraint nests deeper than %d", powerbox.MaxConstraintDepth)
	}
	var err error
	if f.Constraint, err = powerbox.ParseConstraint(v); err != nil {
		return f, refuse(CodeConstraint, "%v", err)
	}
	if why := illFormed(f.Constraint); why != "" {
		return f, refuse(CodeConstraint, "%s", why)
	}
	return f, nil
}

const memberOptional = "optional"

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

// readPrivate reads the claim of ours in a root token. Issuers that are not ours have
// none, or mean something else by it.
func readPrivate(claims powerbox.Value) *Private {
	v, _ := claims.Get(privateClaim)
	members, ok := v.Members()
	if !ok {
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
			return nil
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
	b = appendAudience(append(b, '{'), c.audience)
	b = appendTools(append(b, `"authorization_details":[{"tools":`...), c.tools)
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

// appendAudience appends aud with a comma, where there is one.
func appendAudience(b []byte, audience []string) []byte {
	switch len(audience) {
	case 0:
		return b
	case 1:
		b = powerbox.String(audience[0]).AppendJSON(append(b, `"aud":`...))
	default:
		list := make([]powerbox.Value, len(audience))
		for i, a := range audience {
			list[i] = powerbox.String(a)
		}
		b = powerbox.List(list...).AppendJSON(append(b, `"aud":`...))
	}
	return append(b, ',')
}

// appendTools appends what [ToolsJSON] returns for clauses in order of their
// names, without building it.
func appendTools(b []byte, clauses []powerbox.Clause) []byte {
	b = append(b, '{')
	for i, c := range clauses {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(powerbox.String(c.Pattern.Name()).AppendJSON(b), ':')
		if isOpen(c.Shape) {
			b = shapeJSON(c.Shape).AppendJSON(b)
			continue
		}
		b = append(b, '{')
		for j, f := range c.Shape.Fields() {
			if j > 0 {
				b = append(b, ',')
			}
			b = append(powerbox.String(f.Name).AppendJSON(b), ':')
			b = constraintJSON(f).AppendJSON(b)
		}
		b = append(b, '}')
	}
	return append(b, '}')
}

// isOpen reports whether a shape names arguments and admits others.
func isOpen(s powerbox.Shape) bool { return s.Rest() == powerbox.RestAny && len(s.Fields()) > 0 }

// shapeJSON returns a constraint map.
func shapeJSON(s powerbox.Shape) powerbox.Value {
	fields := s.Fields()
	arguments := make([]powerbox.Member, len(fields), len(fields)+1)
	for i, f := range fields {
		arguments[i] = powerbox.Member{Name: f.Name, Value: constraintJSON(f)}
	}
	if isOpen(s) {
		arguments = append(arguments, powerbox.Member{Name: unnamed, Value: powerbox.Wildcard{}.JSON()})
	}
	return powerbox.Object(arguments...)
}

// constraintJSON returns an entry of a constraint map.
func constraintJSON(f powerbox.Field) powerbox.Value {
	v := f.Constraint.JSON()
	if f.Required {
		return v
	}
	members, _ := v.Members()
	return powerbox.Object(append(slices.Clone(members), powerbox.Member{Name: memberOptional, Value: powerbox.Bool(true)})...)
}

// ParseTools reads a tools map as it stands in a token of draft -02 (section 3.3).
// Errors are [*Error].
func ParseTools(data []byte) ([]powerbox.Clause, error) {
	v, err := powerbox.DecodeValue(data, powerbox.Limits{Bytes: MaxTokenBytes, Depth: maxJSONDepth})
	if err != nil {
		return nil, refuse(CodeMalformed, "tools: %v", err)
	}
	return parseTools(v, Draft02)
}

// ToolsJSON returns clauses as a tools map: what [ParseTools] and [Tools]
// return, unchanged.
func ToolsJSON(clauses []powerbox.Clause) powerbox.Value {
	tools := make([]powerbox.Member, len(clauses))
	for i, c := range clauses {
		tools[i] = powerbox.Member{Name: c.Pattern.Name(), Value: shapeJSON(c.Shape)}
	}
	return powerbox.Object(tools...)
}
