package token

import (
	"crypto/sha256"
	"strings"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/eddsa"
)

// link is one token of a chain, parsed. It is immutable.
type link struct {
	jws
	claims
	compact string
	hash    string // base64url SHA-256 of the signing input, as in par_hash
	// again is for the holder's key once a chain with it is remembered: there are more
	// signatures under it to come, of proofs and of tokens that continue a chain.
	again *eddsa.Key
	// name is the holder's, once a chain with its key is remembered: every call is
	// recorded under it.
	name string
}

// holderKey returns the key that the next link and proofs are signed with.
func (l *link) holderKey() KeptKey { return KeptKey{l.holder, l.again} }

// holderName returns what the holder is called where keys are named.
func (l *link) holderName() string {
	if l.name != "" {
		return l.name
	}
	return keyName(l.holder)
}

// parseLink parses a token of a chain whose root has that header, which is its own if
// it is the root.
func parseLink(compact string, head header, isRoot bool, know func(*link)) (*link, error) {
	draft := head.drafts.newest()
	if !isRoot {
		var err error
		if head, err = headerOf(compact, typeToken); err != nil {
			return nil, err
		}
		if err := head.mustBe(draft); err != nil {
			return nil, err
		}
	}
	j, err := parseRest(compact, head)
	if err != nil {
		return nil, err
	}
	l := &link{jws: j, compact: compact}
	l.payload = powerbox.Value{}
	if l.claims, err = parseClaims(j.payload, isRoot, draft); err != nil {
		return nil, err
	}
	know(l)
	return l, nil
}

// isHolder reports whether uri names the holder.
func (l *link) isHolder(uri string) bool {
	if thumbprint, known := strings.CutPrefix(l.name, keyPrefix); known {
		rest, ok := strings.CutPrefix(uri, thumbprintURI)
		return ok && rest == thumbprint
	}
	return l.holder.isNamed(uri)
}

// setHash is for links that others may name: a token that goes beyond its
// parent is refused before it.
func (l *link) setHash() {
	if l.hash != "" {
		return
	}
	var room [usualPart]byte
	sum := sha256.Sum256(append(room[:0], l.signed...))
	l.hash = encodeBase64(sum[:])
}

// Unverified is a chain that has the form of one: within the limits, parsed,
// linked by hashes, never widening. It is not verified yet, so it
// yields no authority.
type Unverified struct{ links []*link }

// ParseChain parses a chain, root first (draft, section 8, steps 1 and 2, and
// of steps 3 to 5 what needs neither keys nor a clock). Errors are [*Error].
func ParseChain(tokens []string) (Unverified, error) {
	links, err := extend(nil, tokens, powerbox.Operation{}, func(*link) {})
	return Unverified{links}, err
}

// checkForm checks number, form and sizes of tokens that continue known, before
// any of them is read.
func checkForm(known []*link, tokens []string) error {
	switch n := len(known) + len(tokens); {
	case n == 0:
		return refuse(CodeEmptyChain, "the chain has no token")
	case n > MaxDepth+1:
		return refuse(CodeTooDeep, "the chain has %d tokens; want at most %d", n, MaxDepth+1)
	}
	if err := checkSize(known, tokens); err != nil {
		return err
	}
	for i, compact := range tokens {
		if err := checkParts(compact); err != nil {
			return atLink(err, len(known)+i)
		}
	}
	return nil
}

// extend parses tokens as the continuation of known, links that were parsed
// and linked before. With an operation, the last token must name it. know adds what
// is known of a holder's key.
func extend(known []*link, tokens []string, op powerbox.Operation, know func(*link)) ([]*link, error) {
	if err := checkForm(known, tokens); err != nil {
		return nil, err
	}
	links := append(make([]*link, 0, len(known)+len(tokens)), known...)
	links = append(links, make([]*link, len(tokens))...)
	head, err := rootHeader(known, tokens)
	if err != nil {
		return nil, atLink(err, 0)
	}
	compared, err := lastFirst(links, tokens, head, op, know)
	if err != nil {
		return nil, err
	}
	for i := len(known); i < len(links); i++ {
		if links[i] == nil {
			links[i], err = parseLink(tokens[i-len(known)], head, i == 0, know)
		}
		if err == nil {
			links[i].setHash()
			err = follow(links[:i], links[i])
		}
		if err == nil && i > 0 && (i < len(links)-1 || !compared) {
			err = links[i].checkTools(links[i-1])
		}
		if err != nil {
			return nil, atLink(err, i)
		}
	}
	return links, nil
}

// rootHeader returns the header of the root, which fixes the draft of all tokens.
func rootHeader(known []*link, tokens []string) (header, error) {
	if len(known) > 0 {
		return known[0].header, nil
	}
	return headerOf(tokens[0], typeToken)
}

// lastFirst parses the last of tokens, and the one before it, into the last of
// links. What a holder adds stands at the end, so that a token that goes too
// far costs two readings, however long the chain is. It refuses what the walk
// from the root would refuse, and reports whether it has compared the tools of
// the two already.
func lastFirst(links []*link, tokens []string, head header, op powerbox.Operation, know func(*link)) (compared bool, err error) {
	n, known := len(links), len(links)-len(tokens)
	for i := n - 1; i >= max(known, n-2); i-- {
		l, err := parseLink(tokens[i-known], head, i == 0, know)
		if err == nil && i == n-1 {
			err = l.serves(op)
		}
		if err != nil {
			return false, atLink(err, i)
		}
		links[i] = l
	}
	// Nothing is left to read before the two, or they belong to different
	// chains, about which the walk has more to say.
	if len(tokens) <= 2 {
		return false, nil
	}
	links[n-2].setHash()
	if links[n-1].checkPlace(links[n-2]) != nil {
		return false, nil
	}
	if err := links[n-1].checkTools(links[n-2]); err != nil {
		return false, atLink(err, n-1)
	}
	return true, nil
}

// serves refuses an operation that l does not name. Neither the zero operation
// nor a token without a capability is judged here.
func (l *link) serves(op powerbox.Operation) error {
	if op.IsZero() || !l.hasEntry {
		return nil
	}
	if _, ok := findTool(l.tools, op.String()); !ok {
		return refuse(powerbox.CodeOperation, "does not name the operation %s", quote(op.String()))
	}
	return nil
}

func checkSize(known []*link, tokens []string) error {
	total := 0
	for _, l := range known {
		total += len(l.compact)
	}
	for i, t := range tokens {
		if len(t) > MaxTokenBytes {
			return atLink(refuse(CodeTooLarge, "has %d bytes; want at most %d", len(t), MaxTokenBytes), len(known)+i)
		}
		if total += len(t); total > MaxChainBytes {
			return refuse(CodeTooLarge, "the chain has more than %d bytes", MaxChainBytes)
		}
	}
	return nil
}

// follow checks that l may stand after links, as far as that needs no key, no
// clock and no look at what it permits.
func follow(links []*link, l *link) error {
	for _, other := range links {
		if other.id == l.id {
			return refuse(CodeDuplicateID, "has the jti of another token in the chain")
		}
	}
	if len(links) == 0 {
		return l.checkRoot()
	}
	return l.checkPlace(links[len(links)-1])
}

// checkRoot is step 3 of the draft's section 8 without keys and times.
func (l *link) checkRoot() error {
	switch {
	case l.depth != 0:
		return refuse(CodeNotRoot, "del_depth is %d; want 0 in the first token", l.depth)
	case l.hasParent:
		return refuse(CodeNotRoot, "has par_hash; want none in the first token")
	case !isURI(l.issuer):
		return refuse(CodeIssuer, "iss is no URI")
	case !l.hasEntry:
		return refuse(CodeEmptyCapability, "authorization_details has no entry of type %s", capabilityType)
	}
	return nil
}

// checkPlace is step 4 of the draft's section 8 without keys, times and tools.
func (l *link) checkPlace(parent *link) error {
	switch {
	case !l.hasParent:
		return refuse(CodeMissingClaim, "has no par_hash")
	case l.depth != parent.depth+1:
		return refuse(CodeDepth, "del_depth is %d; want %d", l.depth, parent.depth+1)
	case l.depth > parent.maxDepth:
		return refuse(CodeDepth, "del_depth is %d; the parent's del_max_depth is %d", l.depth, parent.maxDepth)
	case l.maxDepth > parent.maxDepth:
		return refuse(CodeDepth, "del_max_depth is %d; the parent's is %d", l.maxDepth, parent.maxDepth)
	case l.expires > parent.expires:
		return refuse(CodeExpiryWidened, "exp is after the parent's")
	case l.issuedAt < parent.issuedAt:
		return refuse(CodeIssuedBeforeParent, "iat is before the parent's")
	case !parent.isHolder(l.issuer):
		return refuse(CodeIssuer, "iss is not the thumbprint of the parent's holder key")
	case l.parentHash != parent.hash:
		return refuse(CodeParentHash, "par_hash is not the hash of the token before it")
	}
	return nil
}

// checkTools is step 4p of the draft's section 8: nothing goes beyond the
// parent.
func (l *link) checkTools(parent *link) error {
	wider, ok := excess(parent.tools, l.tools)
	if !ok {
		return refuse(CodeTooLarge, "comparing it with its parent takes too many steps")
	}
	if len(wider) > 0 {
		return refusal(CodeWidened, "goes beyond its parent: "+sentences(wider))
	}
	return nil
}

func sentences(wider []powerbox.Excess) string {
	texts := make([]string, len(wider))
	for i, e := range wider {
		texts[i] = e.String()
	}
	return strings.Join(texts, "; ")
}

// Options are what a verification needs beside the chain and the keys.
type Options struct {
	// Now decides all times. Required: the zero time finds every token issued
	// in the future.
	Now time.Time
	// Revoked reports whether an id is revoked. It is asked for the jti of the
	// root and for the hash of every token's signing input in base64url, on
	// every call. Required: nil refuses. [UnsafeNothingRevoked] for those who
	// have no list.
	Revoked func(id string) bool
	// Operation is what the chain is to be used for. Optional: where it is set,
	// a chain whose last token does not name it is refused before any signature
	// is checked. That saves work and decides nothing: anyone who sets it still
	// asks [powerbox.Decide].
	Operation powerbox.Operation
	// Draft01 accepts chains of draft -01 beside those of -02. Without it they are
	// refused with the code draft_not_accepted.
	Draft01 bool
	// Strict refuses chains with a constraint of a type that the draft does not define:
	// path, url, cidr and glob. The draft has verifiers evaluate registered types alone
	// (section 5), and these are not registered.
	Strict bool
}

// UnsafeNothingRevoked is the Revoked of a program without a list of
// revocations, such as a holder before it derives.
func UnsafeNothingRevoked(string) bool { return false }

// Verify checks u against the keys of the root issuers: times, then the
// signature of every token, then the revocation of every token (draft, section
// 8, steps 3 to 6a). Errors are [*Error].
//
// A key set that names no issuer ([KeySet.Of]) does not check the issuer of the root:
// its caller compares [Verified.Issuer]. The audiences of tokens are checked with the
// proof ([Verified.CheckProof]).
func (u Unverified) Verify(anchors KeySet, o Options) (Verified, error) {
	return complete(u.links, 0, &anchors, o)
}

// UnsafeTrustRoot is Verify for a holder that does not know the issuer's keys:
// it takes the root token's word for everything that the root says. It must
// never be used to enforce. A holder uses what it was given, of either draft.
func (u Unverified) UnsafeTrustRoot(o Options) (Verified, error) {
	o.Draft01 = true
	return complete(u.links, 1, nil, o)
}

// complete finishes the verification of links, the first of which, as many as
// signed says, need no signature check any more.
func complete(links []*link, signed int, anchors *KeySet, o Options) (Verified, error) {
	if len(links) == 0 {
		return Verified{}, refuse(CodeEmptyChain, "the chain has no token")
	}
	c := newChain(links)
	if err := c.admit(o); err != nil {
		return Verified{}, err
	}
	if !c.leaf().hasEntry {
		return Verified{}, atLink(refuse(CodeEmptyCapability, "authorization_details of the last token has no entry of type %s", capabilityType), len(links)-1)
	}
	if err := checkSignatures(links, signed, anchors); err != nil {
		return Verified{}, err
	}
	if err := c.checkRevocation(o.Revoked); err != nil {
		return Verified{}, err
	}
	return Verified{c}, nil
}

// chain is a verified chain with everything that does not depend on when it is
// looked at. It is immutable once made.
type chain struct {
	links       []*link
	from, until int64 // exp is exclusive
	// authority is worked out when it is first asked for: most prefixes that a [Memo]
	// remembers are never presented themselves.
	once      sync.Once
	authority powerbox.Authority
}

func newChain(links []*link) *chain {
	c := &chain{links: links, from: links[0].claims.from(), until: links[0].expires}
	for _, l := range links {
		c.from, c.until = max(c.from, l.claims.from()), min(c.until, l.expires)
	}
	return c
}

// admit checks what needs no signature and may differ from call to call.
func (c *chain) admit(o Options) error {
	if c.links[0].draft == Draft01 && !o.Draft01 {
		return atLink(refuse(CodeDraft, "is of draft -01 of the token draft, which is not accepted here; request a new capability"), 0)
	}
	if err := c.leaf().serves(o.Operation); err != nil {
		return atLink(err, len(c.links)-1)
	}
	if o.Strict {
		for i, l := range c.links {
			if uses := extensionsIn(l.tools); len(uses) > 0 {
				return atLink(refuse(CodeConstraint, "strict: %s", uses), i)
			}
		}
	}
	return c.checkTimes(o.Now)
}

func (c *chain) leaf() *link { return c.links[len(c.links)-1] }

// clock words the time of a claim.
func clock(seconds int64) string { return time.Unix(seconds, 0).UTC().Format(time.RFC3339) }

func (c *chain) checkTimes(now time.Time) error {
	t := now.Unix()
	for i, l := range c.links {
		switch {
		case l.expires <= t:
			return atLink(refuse(CodeExpired, "expired at %s; it is %s", clock(l.expires), clock(t)), i)
		case l.notBefore > t:
			return atLink(refuse(CodeNotYetValid, "nbf is %s; it is %s", clock(l.notBefore), clock(t)), i)
		case l.claims.from() > t:
			return atLink(refuse(CodeNotYetValid, "iat is %s, more than %d s ahead; it is %s", clock(l.issuedAt), MaxIssuedAhead/time.Second, clock(t)), i)
		}
	}
	return nil
}

// checkSignatures checks the links from the one numbered signed on.
func checkSignatures(links []*link, signed int, anchors *KeySet) error {
	for i := signed; i < len(links); i++ {
		var err error
		if i == 0 {
			err = anchors.verifyRoot(links[0])
		} else {
			err = links[i].verify(links[i-1].holderKey())
		}
		if err != nil {
			return atLink(err, i)
		}
	}
	return nil
}

// verifyRoot checks the root's signature against the keys that may have made
// it. No key, no chain (ATK-7).
func (s *KeySet) verifyRoot(root *link) error {
	keys := s.candidates(root.header)
	if len(keys) == 0 {
		return refuse(CodeUnknownKey, "no trusted key fits the token's kid")
	}
	err := refuse(CodeAlgorithm, "header: alg is for %s, which no trusted key that fits is for", root.header.algorithm)
	for _, key := range keys {
		if key.algorithm != root.header.algorithm {
			continue
		}
		if err = root.verify(key); err == nil {
			return s.checkIssuer(root)
		}
	}
	return err
}

// checkIssuer is step 3k: the key belongs to the issuer that the root names.
func (s *KeySet) checkIssuer(root *link) error {
	if s.issuer != "" && root.issuer != s.issuer {
		return refuse(CodeIssuer, "iss is not %q, whose key has signed it", s.issuer)
	}
	return nil
}

// checkRevocation asks for every token: the root's jti is the issuer's own, a
// derived token's is whatever its holder wrote, so that those are known by
// hash.
func (c *chain) checkRevocation(revoked func(string) bool) error {
	if revoked == nil {
		return refuse(CodeRevocationUnknown, "nobody says what is revoked")
	}
	for i, l := range c.links {
		if revoked(l.hash) || i == 0 && revoked(l.id) {
			return atLink(refuse(CodeRevoked, "has been revoked"), i)
		}
	}
	return nil
}

// permits returns what c permits. It cannot fail: parsing has seen to the number and the
// names of the tools. If it did, the authority would be the zero one, which admits nothing.
func (c *chain) permits() powerbox.Authority {
	c.once.Do(func() {
		leaf := c.leaf()
		window := powerbox.Window{From: time.Unix(c.from, 0), Until: time.Unix(c.until, 0)}
		c.authority, _ = powerbox.NewAuthority(window, leaf.maxDepth-leaf.depth, leaf.tools...)
	})
	return c.authority
}
