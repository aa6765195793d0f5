package token

import (
	"slices"
	"time"

	"github.com/powerbox-project/powerbox"
)

// Root is what an issuer says in a root token.
type Root struct {
	ID       string // jti, unique; required
	Issuer   string // a URI; required
	IssuedAt time.Time
	Expires  time.Time         // at most MaxLifetime after IssuedAt
	MaxDepth int               // how often it may be passed on, 0 to [MaxDepth]
	Holder   PublicKey         // required
	Tools    []powerbox.Clause // required; see [Tools]
	Private  *Private          // nil for none
	KeyID    string            // kid; "" for none
	Audience []string          // aud: where the chain may be presented; nil for everywhere
	Draft    Draft             // of the whole chain; -02 where nothing is said
	Strict   bool              // refuse constraint types that the draft does not define
}

// Mint returns a root token signed by issuer. How long tokens may live is the
// issuer's rule, not this function's.
func Mint(issuer Signer, r Root) (string, error) {
	c := claims{
		id: r.ID, issuer: r.Issuer, issuedAt: r.IssuedAt.Unix(), expires: r.Expires.Unix(),
		maxDepth: r.MaxDepth, holder: r.Holder, tools: r.Tools, private: r.Private, audience: r.Audience, draft: r.Draft,
	}
	if r.Strict {
		if uses := extensionsIn(r.Tools); len(uses) > 0 {
			return "", refuse(CodeNotExpressible, "strict: %s", uses)
		}
	}
	if !isURI(r.Issuer) {
		return "", refuse(CodeIssuer, "issuer %q is no URI", r.Issuer)
	}
	return c.sign(issuer, r.KeyID)
}

// sign checks the claims and signs them.
func (c *claims) sign(signer Signer, kid string) (string, error) {
	switch {
	case c.id == "" || len(c.id) > maxIDBytes || len(c.issuer) > maxIDBytes:
		return "", refuse(CodeMissingClaim, "jti and iss; want 1 to %d bytes", maxIDBytes)
	case c.issuedAt < 0 || c.expires > maxTime:
		return "", refuse(CodeLifetime, "iat or exp is out of range")
	case c.maxDepth > MaxDepth:
		return "", refuse(CodeDepth, "del_max_depth is %d; want at most %d", c.maxDepth, MaxDepth)
	case c.holder.IsZero():
		return "", refuse(CodeMissingClaim, "no holder key")
	}
	if err := c.check(); err != nil {
		return "", err
	}
	tools, err := expressible(c.tools, c.draft)
	if err != nil {
		return "", err
	}
	c.tools = tools
	return sign(signer, c.draft.algorithmName(signer.Public().algorithm), typeToken, kid, c.appendPayload(make([]byte, 0, firstPayload)))
}

// firstPayload is room for most payloads, in bytes.
const firstPayload = 1 << 10

// Narrowing is what a holder leaves in a token that it derives.
type Narrowing struct {
	ID       string            // jti, fresh; required
	Now      time.Time         // becomes iat, unless the parent's is later
	Tools    []powerbox.Clause // required; [Verified.Tools] for all of them
	Expires  time.Time         // zero for the parent's
	MaxDepth int               // how often the new token may be passed on; at most what the parent has left
	Holder   PublicKey         // required: the next holder, or the same one to narrow in place
	Audience []string          // aud: where the new token may be presented; nil adds no limit
	Strict   bool              // derive only what the table of the draft allows, without types of ours
}

// WiderError lists every respect in which a derived token would go beyond its
// parent. It is [powerbox.ErrDenied].
type WiderError struct{ Excess []powerbox.Excess }

// Error returns the list as a sentence.
func (e *WiderError) Error() string {
	return string(CodeWidened) + ": goes beyond its parent: " + sentences(e.Excess)
}

// Unwrap returns [powerbox.ErrDenied].
func (e *WiderError) Unwrap() error { return powerbox.ErrDenied }

// Derive returns a token narrower than the last one of parent, signed by its
// holder, offline and in the draft of the chain (section 6.2). It needs a verified parent: an
// unverified token is not passed on (ATK-8). A wider token is refused with a
// [*WiderError], by the table that verification uses; everything else with an
// [*Error].
func Derive(parent Verified, holder Signer, n Narrowing) (string, error) {
	if parent.chain == nil {
		return "", refuse(CodeEmptyChain, "there is no chain to derive from")
	}
	last := parent.chain.leaf()
	if holder.Public() != last.holder {
		return "", refuse(CodeHolder, "the signing key is not the holder key of the last token")
	}
	c := claims{
		id: n.ID, issuer: last.holder.URI(), issuedAt: max(n.Now.Unix(), last.issuedAt), expires: n.Expires.Unix(),
		depth: last.depth + 1, maxDepth: last.depth + 1 + n.MaxDepth, holder: n.Holder,
		parentHash: last.hash, tools: n.Tools, audience: n.Audience, draft: last.draft,
	}
	if n.Expires.IsZero() {
		c.expires = last.expires
	}
	if err := c.fits(parent.chain); err != nil {
		return "", err
	}
	if n.Strict {
		if err := c.isStrict(last); err != nil {
			return "", err
		}
	}
	compact, err := c.sign(holder, "")
	if err == nil {
		err = checkSize(parent.chain.links, []string{compact})
	}
	if err != nil {
		return "", err
	}
	return compact, nil
}

// fits checks c against its parent in every dimension before it is signed.
func (c *claims) fits(parent *chain) error {
	last := parent.leaf()
	wider := c.widerThan(last)
	tools, ok := excess(last.tools, sortedByName(c.tools))
	if !ok {
		return refuse(CodeTooLarge, "comparing it with its parent takes too many steps")
	}
	if wider = append(wider, tools...); len(wider) > 0 {
		return &WiderError{wider}
	}
	for _, l := range parent.links {
		if l.id == c.id {
			return refuse(CodeDuplicateID, "the jti is that of another token in the chain")
		}
	}
	return nil
}

// isStrict refuses what rests on a constraint type that the draft does not define, in
// the new token or in what its parent says of the same operations.
func (c *claims) isStrict(parent *link) error {
	var kept []powerbox.Clause
	for _, tool := range c.tools {
		if i, ok := findTool(parent.tools, tool.Pattern.Name()); ok {
			kept = append(kept, parent.tools[i])
		}
	}
	if uses := extensionsIn(c.tools); len(uses) > 0 {
		return refuse(CodeNotExpressible, "strict: %s", uses)
	}
	if uses := extensionsIn(kept); len(uses) > 0 {
		return refuse(CodeNotExpressible, "strict: in the parent, %s", uses)
	}
	return nil
}

func (c *claims) widerThan(parent *link) (wider []powerbox.Excess) {
	if c.expires > parent.expires {
		wider = append(wider, powerbox.Excess{Code: powerbox.CodeExpired})
	}
	if c.maxDepth > parent.maxDepth {
		wider = append(wider, powerbox.Excess{Code: powerbox.CodeDepth})
	}
	return wider
}

// sortedByName returns clauses themselves where they are in order.
func sortedByName(clauses []powerbox.Clause) []powerbox.Clause {
	if slices.IsSortedFunc(clauses, compareClauses) {
		return clauses
	}
	return slices.SortedFunc(slices.Values(clauses), compareClauses)
}

func compareClauses(a, b powerbox.Clause) int {
	return compareNames(a.Pattern.Name(), b.Pattern.Name())
}

// Tools returns the operations of an authority as tools of a token of draft -02. It
// refuses with code not_expressible what a tools map cannot say (design: towards AAT
// only by narrowing): patterns that are not exact, a call without any argument, an
// argument called "*", and constraints that are not well-formed there.
func Tools(a powerbox.Authority) ([]powerbox.Clause, error) { return Draft02.Tools(a) }

// Tools is [Tools] for a token of draft d. One of -01 has no optional arguments, and no
// arguments beside those that it names.
func (d Draft) Tools(a powerbox.Authority) ([]powerbox.Clause, error) {
	return expressible(slices.Clone(a.Clauses()), d)
}

// expressible returns clauses in order of their names, themselves where they
// are, if a tools map can hold them.
func expressible(clauses []powerbox.Clause, draft Draft) ([]powerbox.Clause, error) {
	if len(clauses) > powerbox.MaxOperations {
		return nil, refuse(CodeTooLarge, "has %d tools; want at most %d", len(clauses), powerbox.MaxOperations)
	}
	sorted := sortedByName(clauses)
	for i, c := range sorted {
		if i > 0 && sorted[i-1].Pattern.Name() == c.Pattern.Name() {
			return nil, refuse(CodeNotExpressible, "operation %q occurs twice", c.Pattern.Name())
		}
		if why := inexpressible(c, draft); why != "" {
			return nil, refuse(CodeNotExpressible, "operation %q: %s", c.Pattern, why)
		}
	}
	return sorted, nil
}

func inexpressible(c powerbox.Clause, draft Draft) string {
	fields := c.Shape.Fields()
	switch {
	case c.Pattern.Kind() != powerbox.Exact:
		return "a token names operations exactly, not by pattern"
	case len(fields) == 0 && c.Shape.Rest() == powerbox.RestNone:
		return "a token cannot say that a call has no arguments"
	}
	for _, f := range fields {
		if why := illFormed(f.Constraint); why != "" {
			return "argument " + quote(f.Name) + ": a token cannot hold " + why
		}
	}
	if draft == Draft01 {
		return inexpressibleIn01(c.Shape)
	}
	if len(fields) == powerbox.MaxArguments && c.Shape.Rest() == powerbox.RestAny {
		return "has too many arguments"
	}
	if _, ok := c.Shape.Field(unnamed); ok {
		return `a token cannot name an argument "*", which stands for those without a name`
	}
	return ""
}

func inexpressibleIn01(s powerbox.Shape) string {
	switch {
	case isOpen(s):
		return "a token of draft -01 cannot constrain some arguments and leave the others open"
	case slices.ContainsFunc(s.Fields(), func(f powerbox.Field) bool { return !f.Required }):
		return "a token of draft -01 cannot make an argument optional"
	}
	return ""
}
