package token

import (
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
)

// CheckRequest is one question to [Check]: may this call be made?
type CheckRequest struct {
	Anchors   []byte    // JWK Set of the trusted root issuers
	Chain     []byte    // JSON array of compact tokens, root first
	Proof     []byte    // compact JWS; white space around it is left out
	Operation string    // exact name
	Arguments []byte    // JSON object
	At        time.Time // decides all times
	Issuer    string    // whose keys the anchors are; required for chains of draft -02
	Point     Point     // the enforcement point that is asked
	Revoked   []string  // jti of any token, or the hash of its signing input in base64url or hex
	Draft01   bool      // accept chains of draft -01 as well
	Strict    bool      // refuse constraint types that the draft does not define
}

// Point is what an enforcement point demands of the place that chains and proofs are for.
type Point struct {
	Identity        []string `json:"identity,omitempty"`               // its audience identifiers
	RequireAudience bool     `json:"require_audience,omitempty"`       // every proof must have an aat_aud
	ChainAudience   bool     `json:"require_chain_audience,omitempty"` // some token of the chain must have an aud
	Nonce           string   `json:"nonce,omitempty"`                  // that every proof must carry; "" for none
}

// expected returns what proofs must say of the place.
func (p Point) expected() Expected {
	e := Expected{Identity: p.Identity, ProofAudience: p.RequireAudience, ChainAudience: p.ChainAudience}
	if p.Nonce != "" {
		e.Nonce = func(nonce string) bool { return nonce == p.Nonce }
	}
	return e
}

// CheckResult is the answer, with every reason of a denial that could be found.
type CheckResult struct {
	Allowed   bool
	Reasons   []Error             // none when allowed
	Authority *powerbox.Authority // nil where no chain was verified
}

// MarshalJSON returns decision, reasons and authority; the link of a reason
// that is about no token is -1.
func (r CheckResult) MarshalJSON() ([]byte, error) {
	decision, authority := "deny", powerbox.Value{}
	if r.Allowed {
		decision = "allow"
	}
	if r.Authority != nil {
		authority = r.Authority.JSON()
	}
	reasons := make([]powerbox.Value, len(r.Reasons))
	for i, e := range r.Reasons {
		reasons[i] = powerbox.Object(
			textMember("code", string(e.Code)),
			powerbox.Member{Name: "link", Value: number(int64(e.Link))},
			textMember("message", strings.ToValidUTF8(e.Message, "\uFFFD")))
	}
	return powerbox.Object(
		textMember("decision", decision),
		powerbox.Member{Name: "reasons", Value: powerbox.List(reasons...)},
		powerbox.Member{Name: "authority", Value: authority},
	).MarshalJSON()
}

// Check answers one question from files alone, by every step of the draft's
// section 8. Malformed input is a denial with a reason.
//
//	step       code                                         shown by
//	1          empty_chain                                  vectors step-1
//	2a 2b      too_large                                    vectors step-2a, 2b
//	2c         malformed missing_claim duplicate_jti        vectors step-2c-*
//	3a 4a 7a   algorithm                                    vectors step-3a-*, 4a-*, 7a-*
//	3a 4a 7a   wrong_type mixed_drafts draft_not_accepted   vectors draft-*
//	3b         unknown_key bad_signature                    vectors step-3b-*
//	3c 3d      not_root                                     vectors step-3c, 3d
//	3e 4i      expired                                      vectors step-3e, 4i
//	3f 4k      not_yet_valid                                vectors step-3f, 4k
//	3g 3h 4l   lifetime                                     vectors step-3g, 3h, 4l
//	3i         depth missing_claim malformed                vectors step-3i-*
//	3j b1      missing_claim malformed                      vectors step-3j-*, 4b1-*
//	3k         missing_claim issuer_mismatch                vectors step-3k-*
//	3l b2      missing_claim private_key malformed          vectors step-3l-*, 4b2-*
//	3m b3 4n   missing_claim malformed empty_capability     vectors step-3m-*, 4b3, 4n-*
//	3n 4o      too_deep unknown_constraint                  vectors step-3n-*, 4o
//	4b         bad_signature                                vectors step-4b
//	b4 b5      missing_claim                                vectors step-4b4-*, 4b5-*
//	4c         issuer_mismatch                              vectors step-4c
//	4d to 4g m depth                                        vectors step-4d to 4g, 4m
//	4h         expiry_widened                               vectors step-4h
//	4j         issued_before_parent                         vectors step-4j
//	4p         capability_widened                           vectors step-4p-*, table-*
//	4q         parent_hash                                  vectors step-4q
//	5          follows from 3c and 4d                       vectors step-5
//	6a         empty_capability                             vectors step-6a
//	6b         operation_not_granted argument_*             vectors step-6b-*
//	6c         audience                                     vectors step-6c-*
//	7b         proof_signature                              vectors step-7b
//	7c         proof_token                                  vectors step-7c
//	7d         proof_audience                               vectors step-7d-*
//	7e         proof_operation                              vectors step-7e
//	7f         proof_arguments                              vectors step-7f-*
//	7g         proof_time                                   vectors step-7g-*
//	7h         proof_nonce                                  vectors step-7h-*
func Check(r CheckRequest) CheckResult {
	var c checking
	op, err := powerbox.ParseOperation(r.Operation)
	if err != nil {
		c.refuse(refuse(CodeMalformed, "operation: %v", err))
	}
	args, err := powerbox.ParseValue(r.Arguments)
	if err == nil && args.Kind() != powerbox.KindObject {
		err = errors.New("want a JSON object")
	}
	if err != nil {
		c.refuse(refuse(CodeMalformed, "arguments: %v", err))
	}
	verified, err := c.verify(r)
	if err != nil {
		c.refuse(err)
		return c.result
	}
	authority := verified.Authority()
	c.result.Authority = &authority
	if len(c.result.Reasons) > 0 {
		return c.result
	}
	c.decide(op, args, authority, r.At, len(verified.chain.links)-1)
	want := r.Point.expected()
	want.Now, want.Operation, want.Arguments = r.At, op, args
	_, err = verified.CheckProof(strings.TrimSpace(string(r.Proof)), want)
	c.refuse(err)
	c.result.Allowed = len(c.result.Reasons) == 0
	return c.result
}

// checking collects what [Check] finds.
type checking struct{ result CheckResult }

func (c *checking) refuse(err error) {
	var e *Error
	if errors.As(err, &e) {
		c.result.Reasons = append(c.result.Reasons, *e)
	}
}

func (c *checking) verify(r CheckRequest) (Verified, error) {
	anchors, err := ParseKeySet(r.Anchors)
	if err != nil {
		return Verified{}, err
	}
	tokens, err := ParseChainFile(r.Chain)
	if err != nil {
		return Verified{}, err
	}
	chain, err := ParseChain(tokens)
	if err != nil {
		return Verified{}, err
	}
	list := newRevocationList(r.Revoked)
	if r.Issuer == "" && len(tokens) > 0 && chain.Draft() == Draft02 {
		return Verified{}, atLink(refuse(CodeIssuer, "no issuer was named whose keys the anchors are"), 0)
	}
	v, err := chain.Verify(anchors.Of(r.Issuer), Options{Now: r.At, Revoked: list.has, Draft01: r.Draft01, Strict: r.Strict})
	if err != nil {
		return Verified{}, err
	}
	// A call of this function may also name a derived token by its jti, which decides
	// nothing where several holders share a list.
	for i, l := range v.chain.links {
		if list.has(l.id) {
			return Verified{}, atLink(refuse(CodeRevoked, "has been revoked"), i)
		}
	}
	return v, nil
}

func (c *checking) decide(op powerbox.Operation, args powerbox.Value, a powerbox.Authority, at time.Time, leaf int) {
	// Both have been looked at; the zero attempt would be denied.
	attempt, _ := powerbox.Invocation(op, args)
	for _, reason := range powerbox.Decide(attempt, a, at).Reasons {
		c.refuse(atLink(refuse(reason.Code, "%s", reason), leaf))
	}
}

// ParseChainFile reads a chain file: a JSON array of compact tokens, root
// first.
func ParseChainFile(data []byte) ([]string, error) {
	v, err := powerbox.DecodeValue(data, powerbox.Limits{Bytes: 2 * MaxChainBytes, Depth: 4})
	if err != nil {
		return nil, refuse(CodeMalformed, "chain: %v", err)
	}
	elements, ok := v.Elements()
	if !ok {
		return nil, refuse(CodeMalformed, "chain: JSON %s; want an array of compact tokens, root first", v.Kind())
	}
	tokens := make([]string, len(elements))
	for i, e := range elements {
		if tokens[i], ok = e.Text(); !ok {
			return nil, atLink(refuse(CodeMalformed, "JSON %s; want a string, a compact token", e.Kind()), i)
		}
	}
	return tokens, nil
}

// revocationList holds ids, and hashes in base64url.
type revocationList map[string]bool

func newRevocationList(ids []string) revocationList {
	list := revocationList{}
	for _, id := range ids {
		list[id] = true
		if b, err := hex.DecodeString(id); err == nil && len(b) == 32 {
			list[encodeBase64(b)] = true
		}
	}
	return list
}

func (l revocationList) has(id string) bool { return l[id] }
