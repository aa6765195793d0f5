package token

import (
	"errors"
	"fmt"

	"github.com/powerbox-project/powerbox"
)

// The codes of refusals, beside those of [powerbox.Decide]. They are stable:
// callers may act on them.
const (
	CodeMalformed          powerbox.Code = "malformed"
	CodeEmptyChain         powerbox.Code = "empty_chain"
	CodeTooLarge           powerbox.Code = "too_large"
	CodeTooDeep            powerbox.Code = "too_deep"
	CodeDuplicateID        powerbox.Code = "duplicate_jti"
	CodeUnknownKey         powerbox.Code = "unknown_key"
	CodeAlgorithm          powerbox.Code = "algorithm"
	CodeSignature          powerbox.Code = "bad_signature"
	CodeType               powerbox.Code = "wrong_type"
	CodeDraft              powerbox.Code = "draft_not_accepted"
	CodeMixedDrafts        powerbox.Code = "mixed_drafts"
	CodeNotRoot            powerbox.Code = "not_root"
	CodeMissingClaim       powerbox.Code = "missing_claim"
	CodeConstraint         powerbox.Code = "unknown_constraint"
	CodeIssuer             powerbox.Code = "issuer_mismatch"
	CodeDepth              powerbox.Code = "depth"
	CodeLifetime           powerbox.Code = "lifetime"
	CodeExpired            powerbox.Code = powerbox.CodeExpired
	CodeNotYetValid        powerbox.Code = powerbox.CodeNotYetValid
	CodeExpiryWidened      powerbox.Code = "expiry_widened"
	CodeIssuedBeforeParent powerbox.Code = "issued_before_parent"
	CodeWidened            powerbox.Code = "capability_widened"
	CodeParentHash         powerbox.Code = "parent_hash"
	CodeRevoked            powerbox.Code = "revoked"
	CodeRevocationUnknown  powerbox.Code = "revocation_unknown"
	CodePrivateKey         powerbox.Code = "private_key"
	CodeEmptyCapability    powerbox.Code = "empty_capability"
	CodeNotExpressible     powerbox.Code = "not_expressible"
	CodeHolder             powerbox.Code = "not_the_holder"
	CodeAudience           powerbox.Code = "audience"
	CodeProofMissing       powerbox.Code = "proof_missing"
	CodeProofSignature     powerbox.Code = "proof_signature"
	CodeProofToken         powerbox.Code = "proof_token"
	CodeProofOperation     powerbox.Code = "proof_operation"
	CodeProofArguments     powerbox.Code = "proof_arguments"
	CodeProofAudience      powerbox.Code = "proof_audience"
	CodeProofNonce         powerbox.Code = "proof_nonce"
	CodeProofTime          powerbox.Code = "proof_time"
	CodeProofRequest       powerbox.Code = "proof_request"
)

// The codes of scope tokens and delegation links, beside those above that mean
// the same. The first five are the words of the extension's section 5.2 (EXT-9).
const (
	CodeExceedsMaxDepth       powerbox.Code = "exceeds_max_depth"
	CodeInvalidSignature      powerbox.Code = "invalid_signature"
	CodeScopeEscalation       powerbox.Code = "scope_escalation"
	CodeTemporalExceedsParent powerbox.Code = "temporal_exceeds_parent"
	CodeChainDiscontinuity    powerbox.Code = "chain_discontinuity"
	CodeNonceMissing          powerbox.Code = "missing_nonce"
	CodeNonceReused           powerbox.Code = "nonce_reused"
	CodeNotSubject            powerbox.Code = "subject_not_caller"
	CodeNotDelegate           powerbox.Code = "delegate_not_caller"
	CodeScope                 powerbox.Code = "insufficient_scope"
)

// NoLink is the Link of an error that is about no token of the chain.
const NoLink = -1

// Error says why a token, a chain or a proof was refused. It is
// [powerbox.ErrDenied]. A caller that gets one should not try again with the
// same bytes. The message names claims, operations, arguments and constraint
// types, never a key's private part and never a permitted value.
type Error struct {
	Code    powerbox.Code
	Link    int // index of the token in the chain, 0 is the root; NoLink for none
	Message string
}

// Error returns code and message, and which token they are about.
func (e *Error) Error() string {
	if e.Link < 0 {
		return fmt.Sprintf("%s: %s", e.Code, e.Message)
	}
	return fmt.Sprintf("token %d: %s: %s", e.Link, e.Code, e.Message)
}

// Unwrap returns [powerbox.ErrDenied].
func (e *Error) Unwrap() error { return powerbox.ErrDenied }

func refuse(code powerbox.Code, format string, args ...any) error {
	return refusal(code, fmt.Sprintf(format, args...))
}

func refusal(code powerbox.Code, message string) error {
	return &Error{Code: code, Link: NoLink, Message: message}
}

// atLink returns err as one about the token at that index.
func atLink(err error, link int) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	return &Error{e.Code, link, e.Message}
}

// prefixed returns err, an *Error, with text before its message.
func prefixed(text string, err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	return &Error{e.Code, e.Link, text + e.Message}
}
