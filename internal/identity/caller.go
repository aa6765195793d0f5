package identity

import (
	"errors"
	"fmt"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

// Caller is who made a request, as far as it was proven. The zero Caller is
// someone unknown.
type Caller struct {
	Principal      string   // such as "user:alice"; empty without our own session
	Groups, Roles  []string // of the principal, as its issuer says
	Attributes     map[string]powerbox.Value
	Holder         Holder
	Agent          string    // the configured name of the calling agent, or empty
	SessionExpires time.Time // zero without a session
	// ProofID is the jti of the proof of possession that came with the request, by the
	// key that Holder has, and ProofUntil until when it can be repeated. "" without a
	// proof. It has been used up for this process, or for all that [Config.Replay] knows of.
	ProofID    string
	ProofUntil time.Time
	// Authenticated is when the principal logged in, as far as the session says:
	// auth_time, or where its issuer leaves that out, when it was made. Zero is not
	// known.
	Authenticated time.Time
	// Token is what the caller's access token of this server stands for; zero for a caller
	// without one.
	Token Token
}

// Token is an access token that this server issued to an OAuth client: it is capabilities,
// and nothing else (ADR 129).
type Token struct {
	Capabilities []string // ids on record
	Scope        string   // the same in the client's words
}

// IsZero reports whether there is no token.
func (t Token) IsZero() bool { return len(t.Capabilities) == 0 }

// Holder is who can be proven to have made a request, and so who can hold a
// capability.
type Holder struct {
	// ID is "key:" and the RFC 7638 thumbprint, "spiffe://..." or "mtls:" and
	// the base64url SHA-256 of the certificate's public key, "token:" and the issuer and
	// claims of the rule that a token fulfils, "client:" and the client id, or "dev:" and the
	// name of a built-in user. Empty is an unknown caller.
	ID string
	// Key is the key that a capability can be bound to; zero for a holder that
	// can only have capabilities by reference.
	Key token.PublicKey
}

// ErrUnauthenticated is the root of every refusal here. The caller should get
// a new token or make a new proof; the same ones will not do.
var ErrUnauthenticated = errors.New("unauthenticated")

// ErrUnavailable says that who calls cannot be told now. The caller makes a new proof
// and tries again in a moment; nothing is answered for this one.
var ErrUnavailable = errors.New("who calls cannot be told now")

// The codes of [Error], besides those that a proof is refused with.
const (
	CodeMalformed       powerbox.Code = "malformed"
	CodeUnknownIssuer   powerbox.Code = "unknown_issuer"
	CodeUnknownKey      powerbox.Code = "unknown_key"
	CodeKeysUnavailable powerbox.Code = "keys_unavailable"
	CodeAlgorithm       powerbox.Code = "algorithm"
	CodeSignature       powerbox.Code = "bad_signature"
	CodeType            powerbox.Code = "wrong_type"
	CodeClaim           powerbox.Code = "missing_claim"
	CodeExpired         powerbox.Code = "expired"
	CodeLifetime        powerbox.Code = "lifetime"
	CodeStranger        powerbox.Code = "unnamed_caller"
	CodeNotYetValid     powerbox.Code = "not_yet_valid"
	CodeProofMissing    powerbox.Code = "proof_missing"
	CodeProofKey        powerbox.Code = "proof_key"
	CodeProofReplayed   powerbox.Code = "proof_replayed"
	CodeProofBefore     powerbox.Code = "proof_before_start"
	CodeProofCapacity   powerbox.Code = "proof_capacity"
	CodeCertificate     powerbox.Code = "certificate"
	CodePerson          powerbox.Code = "session_of_person"
	CodeCallerAmbiguous powerbox.Code = "caller_ambiguous"
)

// Error says why a credential that names us was refused. It is
// [ErrUnauthenticated] and [powerbox.ErrDenied], and repeats no part of the
// credential.
type Error struct {
	Code    powerbox.Code
	Message string
	cause   error
}

func (e *Error) Error() string { return e.Message }

// Is reports whether target is one of the two families that e belongs to.
func (e *Error) Is(target error) bool {
	return target == ErrUnauthenticated || target == powerbox.ErrDenied
}

// Unwrap returns what lies below, or nil.
func (e *Error) Unwrap() error { return e.cause }

func refuse(code powerbox.Code, format string, args ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
