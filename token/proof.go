package token

import (
	"crypto/sha256"
	"errors"
	"time"

	"github.com/powerbox-project/powerbox"
)

// ProofWindow is how far the iat of a proof may lie from now, either way
// (draft, section 5.3). A proof can be replayed for twice that time unless its
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

// Proof is the proof of possession for one call (draft, section 5.2).
type Proof struct {
	ID        string // jti, fresh and random
	IssuedAt  time.Time
	TokenID   string // jti of the last token of the chain
	Operation string
	Arguments powerbox.Value // an object
	Audience  string         // "" for none
	Request   *Request       // nil for none
}

// Expected is what a proof must be for.
type Expected struct {
	Now       time.Time          // required
	Operation powerbox.Operation // required
	Arguments powerbox.Value     // required: the arguments that will be used
	Audience  string             // "" where the deployment binds no audience
	Request   *Request           // nil where there is no request to bind to; a gateway has one
}

// SignProof returns p as a compact JWS. Its payload is canonical (RFC 8785); a
// number that canonical form would round is refused.
func SignProof(holder Signer, p Proof) (string, error) {
	if p.ID == "" || p.TokenID == "" || p.Operation == "" || p.Arguments.Kind() != powerbox.KindObject {
		return "", refuse(CodeMissingClaim, "a proof needs an id, a token id, an operation and arguments, an object")
	}
	ms := []powerbox.Member{
		textMember("jti", p.ID),
		{Name: "iat", Value: number(p.IssuedAt.Unix())},
		textMember("aat_id", p.TokenID), textMember("aat_tool", p.Operation),
		{Name: "hta", Value: p.Arguments},
	}
	if p.Audience != "" {
		ms = append(ms, textMember("aat_aud", p.Audience))
	}
	if r := p.Request; r != nil {
		ms = append(ms, powerbox.Member{Name: "req", Value: powerbox.Object(
			textMember("m", r.Method), textMember("u", r.URL), textMember("d", r.Digest))})
	}
	payload, err := appendCanonical(nil, powerbox.Object(ms...))
	if err != nil {
		return "", err
	}
	return sign(holder, typeProof, "", payload)
}

// CheckProof checks that compact proves that the holder of v meant this very
// call (draft, section 7, step 7). Whether its id has been seen before is for
// the caller to find out, afterwards, so that only a proof that holds uses up
// an id (ATK-9). Errors are [*Error].
func (v Verified) CheckProof(compact string, want Expected) (Proof, error) {
	if v.chain == nil {
		return Proof{}, refuse(CodeEmptyChain, "there is no chain that the proof could be for")
	}
	if compact == "" {
		return Proof{}, refuse(CodeProofMissing, "there is no proof")
	}
	j, err := parseJWS(compact, typeProof)
	if err != nil {
		return Proof{}, prefixed("proof: ", err)
	}
	p, err := parseProof(j.payload)
	if err != nil {
		return Proof{}, prefixed("proof: ", err)
	}
	if err := p.check(v.ID(), want); err != nil {
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

func parseProof(v powerbox.Value) (Proof, error) {
	r := claimReader{object: v}
	p := Proof{
		ID:        r.text("jti"),
		IssuedAt:  time.Unix(r.integer("iat", maxTime), 0).UTC(),
		TokenID:   r.text("aat_id"),
		Operation: r.text("aat_tool"),
	}
	p.Arguments, _ = r.get("hta")
	if r.err == nil && p.Arguments.Kind() != powerbox.KindObject {
		r.err = refuse(CodeMalformed, "hta is JSON %s; want an object", p.Arguments.Kind())
	}
	if _, ok := v.Get("aat_aud"); ok {
		p.Audience = r.text("aat_aud")
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

// check compares the proof with the expected values.
func (p Proof) check(tokenID string, want Expected) error {
	skew := p.IssuedAt.Unix() - want.Now.Unix()
	window := int64(ProofWindow / time.Second)
	switch {
	case skew > window || skew < -window:
		return refuse(CodeProofTime, "proof: iat is %d s from now; want at most %d s", skew, window)
	case p.TokenID != tokenID:
		return refuse(CodeProofToken, "proof: aat_id is not the jti of the last token")
	case p.Operation != want.Operation.String():
		return refuse(CodeProofOperation, "proof: aat_tool is not the operation %q that is tried", want.Operation)
	case !p.Arguments.Equal(want.Arguments):
		return refuse(CodeProofArguments, "proof: hta is not the arguments of the call")
	case want.Audience != "" && p.Audience != want.Audience:
		return refuse(CodeProofAudience, "proof: aat_aud is not %q", want.Audience)
	case want.Request != nil && (p.Request == nil || *p.Request != *want.Request):
		return refuse(CodeProofRequest, "proof: req is not the method, the target and the body that were received")
	}
	return nil
}
