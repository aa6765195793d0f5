package token

import (
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox"
)

// ProofWindow is how far the iat of a proof may lie from now, either way
// (draft, section 9.10). A proof can be replayed for twice that time unless its
// jti is remembered.
const ProofWindow = 30 * time.Second

// Request is the HTTP request that a proof is bound to by our claim req.
type Request struct {
	Method string
	URL    string // the target as the agent publishes it
	Digest string // base64url SHA-256 of the body as received
}

// DigestOf returns the Digest of a body.
func DigestOf(body []byte) string {
	sum := sha256.Sum256(body)
	return encodeBase64(sum[:])
}

// Proof is the proof of possession for one call (draft, section 7.2).
type Proof struct {
	ID        string // jti, fresh and random
	IssuedAt  time.Time
	TokenID   string // jti of the last token of the chain
	TokenHash string // base64url SHA-256 of its signing input; "" in draft -01
	Operation string
	Arguments powerbox.Value // an object
	Audience  string         // "" for none
	Nonce     string         // "" for none
	Request   *Request       // nil for none
}

// Expected is what a proof must be for.
type Expected struct {
	Now       time.Time          // required
	Operation powerbox.Operation // required
	Arguments powerbox.Value     // required: the arguments that will be used
	// Audience is a name of this enforcement point that every proof must carry; "" where
	// a proof need not name one. One that names one must name this point all the same.
	Audience string
	// Identity has further names of this enforcement point: a proof and the tokens of the
	// chain may be for any of them. Where neither says who this is, everything that is
	// for another audience is refused.
	Identity []string
	// ProofAudience demands that the proof has an aat_aud. Audience implies it.
	ProofAudience bool
	// ChainAudience demands that some token of the chain has an aud.
	ChainAudience bool
	// Nonce reports whether this enforcement point has issued a nonce and still accepts
	// it; nil where proofs need none.
	Nonce   func(nonce string) bool
	Request *Request // nil where there is no request to bind to; a gateway has one
}

// identifies reports whether a name is one of this enforcement point: the very string.
func (e Expected) identifies(name string) bool {
	return name != "" && (name == e.Audience || slices.Contains(e.Identity, name))
}

// SignProof returns p for the last token of u as a compact JWS, in the draft of u. It
// sets TokenID and TokenHash. Its payload is canonical (RFC 8785); a number that
// canonical form would round is refused.
func (u Unverified) SignProof(holder Signer, p Proof) (string, error) {
	if len(u.links) == 0 {
		return "", refuse(CodeEmptyChain, "there is no chain that the proof could be for")
	}
	last := u.links[len(u.links)-1]
	p.TokenID, p.TokenHash = last.id, last.hash
	return p.Sign(holder, last.draft)
}

// SignProof is [Unverified.SignProof].
func (v Verified) SignProof(holder Signer, p Proof) (string, error) {
	if v.chain == nil {
		return "", refuse(CodeEmptyChain, "there is no chain that the proof could be for")
	}
	return Unverified{v.chain.links}.SignProof(holder, p)
}

// SignProof is [Unverified.SignProof] for a chain of compact tokens, root first.
func SignProof(chain []string, holder Signer, p Proof) (string, error) {
	u, err := ParseChain(chain)
	if err != nil {
		return "", err
	}
	return u.SignProof(holder, p)
}

// Sign returns p as it is, in that draft. It is for programs that have no chain that
// parses; others take [Unverified.SignProof].
func (p Proof) Sign(holder Signer, draft Draft) (string, error) {
	if p.ID == "" || p.TokenID == "" || draft == Draft02 && p.TokenHash == "" || p.Operation == "" || p.Arguments.Kind() != powerbox.KindObject {
		return "", refuse(CodeMissingClaim, "a proof needs an id, a token id, from draft -02 on its hash, an operation and arguments, an object")
	}
	ms := []powerbox.Member{
		textMember("jti", p.ID),
		{Name: "iat", Value: number(p.IssuedAt.Unix())},
		textMember("aat_id", p.TokenID), textMember("aat_tool", p.Operation),
		{Name: "hta", Value: p.Arguments},
	}
	if draft == Draft02 {
		ms = append(ms, textMember("aat_hash", p.TokenHash))
	}
	if p.Audience != "" {
		ms = append(ms, textMember("aat_aud", p.Audience))
	}
	if p.Nonce != "" {
		ms = append(ms, textMember("nonce", p.Nonce))
	}
	if r := p.Request; r != nil {
		ms = append(ms, powerbox.Member{Name: "req", Value: powerbox.Object(
			textMember("m", r.Method), textMember("u", r.URL), textMember("d", r.Digest))})
	}
	payload, err := appendCanonical(nil, powerbox.Object(ms...))
	if err != nil {
		return "", err
	}
	return sign(holder, draft.algorithmName(holder.Public().algorithm), typeProof, "", payload)
}

// CheckProof checks that compact proves that the holder of v meant this very
// call, and that chain and proof are for this enforcement point (draft, section 8,
// steps 6c and 7). Whether its id has been seen before is for the caller to find out,
// afterwards, so that only a proof that holds uses up an id (ATK-9). Errors are [*Error].
func (v Verified) CheckProof(compact string, want Expected) (Proof, error) {
	if v.chain == nil {
		return Proof{}, refuse(CodeEmptyChain, "there is no chain that the proof could be for")
	}
	if err := v.chain.checkAudience(want); err != nil {
		return Proof{}, err
	}
	if compact == "" {
		return Proof{}, refuse(CodeProofMissing, "there is no proof")
	}
	j, err := parseJWS(compact, typeProof)
	if err == nil {
		err = j.header.mustBe(v.chain.leaf().draft)
	}
	if err != nil {
		return Proof{}, prefixed("proof: ", err)
	}
	p, err := parseProof(j.payload, v.chain.leaf().draft)
	if err != nil {
		return Proof{}, prefixed("proof: ", err)
	}
	if err := p.check(v.chain.leaf(), want); err != nil {
		return Proof{}, err
	}
	if err := j.verify(v.chain.leaf().holderKey()); err != nil {
		var refused *Error
		if errors.As(err, &refused) && refused.Code == CodeSignature {
			refused.Code = CodeProofSignature
		}
		return Proof{}, prefixed("proof: ", err)
	}
	return p, nil
}

// checkAudience is step 6c: every token that says where it may be presented names this
// enforcement point.
func (c *chain) checkAudience(want Expected) error {
	restricted := false
	for i, l := range c.links {
		restricted = restricted || l.hasAud
		if l.hasAud && !slices.ContainsFunc(l.audience, want.identifies) {
			return atLink(refuse(CodeAudience, "aud does not name this enforcement point"), i)
		}
	}
	if want.ChainAudience && !restricted {
		return refuse(CodeAudience, "no token of the chain has an aud; want one that names this enforcement point")
	}
	return nil
}

func parseProof(v powerbox.Value, draft Draft) (Proof, error) {
	r := claimReader{object: v}
	p := Proof{
		ID:        r.text("jti"),
		IssuedAt:  time.Unix(r.plain("iat", maxTime), 0).UTC(),
		TokenID:   r.text("aat_id"),
		Operation: r.text("aat_tool"),
	}
	if draft == Draft02 {
		p.TokenHash = r.text("aat_hash")
	}
	p.Arguments, _ = r.get("hta")
	if r.err == nil && p.Arguments.Kind() != powerbox.KindObject {
		r.err = refuse(CodeMalformed, "hta is JSON %s; want an object", p.Arguments.Kind())
	}
	if _, ok := v.Get("aat_aud"); ok {
		p.Audience = r.text("aat_aud")
	}
	if _, ok := v.Get("nonce"); ok {
		p.Nonce = r.text("nonce")
	}
	if _, ok := v.Get("req"); ok {
		p.Request = r.request()
	}
	return p, r.err
}

func (r *claimReader) request() *Request {
	v, ok := r.get("req")
	if !ok {
		return nil
	}
	inner := claimReader{object: v}
	q := &Request{inner.text("m"), inner.text("u"), inner.text("d")}
	if inner.err != nil {
		r.err = prefixed("req: ", inner.err)
	}
	return q
}

// check compares the proof with the expected values and with the last token.
func (p Proof) check(leaf *link, want Expected) error {
	skew := p.IssuedAt.Unix() - want.Now.Unix()
	window := int64(ProofWindow / time.Second)
	switch {
	case skew > window || skew < -window:
		return refuse(CodeProofTime, "proof: iat is %d s from now; want at most %d s", skew, window)
	case p.TokenID != leaf.id:
		return refuse(CodeProofToken, "proof: aat_id is not the jti of the last token")
	case leaf.draft == Draft02 && p.TokenHash != leaf.hash:
		return refuse(CodeProofToken, "proof: aat_hash is not the hash of the last token")
	case p.Operation != want.Operation.String():
		return refuse(CodeProofOperation, "proof: aat_tool is not the operation %q that is tried", want.Operation)
	case want.Arguments.IsRounded():
		return refuse(CodeProofArguments, "the arguments hold a number that a 64-bit float does not keep; write it as a string")
	case !p.Arguments.Equal(want.Arguments):
		return refuse(CodeProofArguments, "proof: hta is not the arguments of the call")
	}
	return p.checkPlace(want)
}

// checkPlace checks where and for which request the proof was made.
func (p Proof) checkPlace(want Expected) error {
	switch {
	case (want.Audience != "" || want.ProofAudience) && p.Audience == "":
		return refuse(CodeProofAudience, "proof: has no aat_aud; want the name of this enforcement point%s", named(want.Audience))
	case p.Audience != "" && !want.identifies(p.Audience):
		return refuse(CodeProofAudience, "proof: aat_aud does not name this enforcement point%s", named(want.Audience))
	case want.Nonce != nil && (p.Nonce == "" || !want.Nonce(p.Nonce)):
		return refuse(CodeProofNonce, "proof: nonce is missing, or not one that this enforcement point issued and still accepts")
	case want.Request != nil && (p.Request == nil || *p.Request != *want.Request):
		return refuse(CodeProofRequest, "proof: req is not the method, the target and the body that were received")
	}
	return nil
}

func named(audience string) string {
	if audience == "" {
		return ""
	}
	return ", which is " + quote(audience)
}
