package evidence

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"sync"
	"time"

	"filippo.io/mldsa"

	"github.com/powerbox-project/powerbox/eddsa"
)

// The signature algorithms of records (EXT-23).
const (
	Ed25519 = "Ed25519"
	ES256   = "ES256"     // ECDSA on P-256 with SHA-256, 64 bytes r || s as in JWS
	MLDSA87 = "ML-DSA-87" // FIPS 204 with an empty context, for retention beyond 10 years (EXT-29)
)

// Signer signs record hashes with a key that signs evidence and nothing else. It
// is safe for use by several goroutines.
type Signer interface {
	// KeyID returns the RFC 7638 thumbprint of the public key, base64url.
	KeyID() string
	// Algorithm returns the value of signature_algorithm.
	Algorithm() string
	// Sign returns the signature over message. An error means that the record
	// must not be written and the action must not proceed (EXT-27).
	Sign(message []byte) ([]byte, error)
}

// keySigner holds its key inside a function, so that no way of printing it
// shows the key.
type keySigner struct {
	id, algorithm string
	sign          func(message []byte) ([]byte, error)
}

func (s keySigner) KeyID() string                       { return s.id }
func (s keySigner) Algorithm() string                   { return s.algorithm }
func (s keySigner) Sign(message []byte) ([]byte, error) { return s.sign(message) }

// NewEd25519Signer returns a Signer for an Ed25519 key: an ed25519.PrivateKey, or one that
// another process or a device keeps.
func NewEd25519Signer(private crypto.Signer) (Signer, error) {
	public, err := ed25519Public(private)
	if err != nil {
		return nil, err
	}
	key, err := NewKey(public, "")
	sign := func(message []byte) ([]byte, error) { return private.Sign(nil, message, crypto.Hash(0)) }
	return keySigner{id: key.ID, algorithm: Ed25519, sign: sign}, err
}

// ed25519Public returns the public half of an Ed25519 key.
func ed25519Public(private crypto.Signer) (ed25519.PublicKey, error) {
	if own, ok := private.(ed25519.PrivateKey); ok && len(own) != ed25519.PrivateKeySize {
		return nil, fmt.Errorf("evidence: Ed25519 private key of %d bytes, %d are needed", len(own), ed25519.PrivateKeySize)
	}
	if private == nil {
		return nil, errors.New("evidence: no Ed25519 private key")
	}
	public, ok := private.Public().(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("evidence: a key of %T; Ed25519 is needed", private.Public())
	}
	return public, nil
}

// NewES256Signer returns a Signer for a P-256 key: an *ecdsa.PrivateKey, whose signatures
// are deterministic (RFC 6979), or one that another process or a device keeps.
func NewES256Signer(private crypto.Signer) (Signer, error) {
	if private == nil {
		return nil, errors.New("evidence: no ES256 private key")
	}
	key, err := NewKey(private.Public(), "")
	if err != nil {
		return nil, err
	}
	if key.Algorithm != ES256 {
		return nil, fmt.Errorf("evidence: a key for %s; ES256 is needed", key.Algorithm)
	}
	sign := func(message []byte) ([]byte, error) {
		sum := sha256.Sum256(message)
		return joinES256(private.Sign(nil, sum[:], crypto.SHA256))
	}
	return keySigner{id: key.ID, algorithm: ES256, sign: sign}, nil
}

// NewMLDSA87Signer returns a Signer for an ML-DSA-87 key. Signatures are
// deterministic: a weak random source cannot give the key away.
func NewMLDSA87Signer(private *mldsa.PrivateKey) (Signer, error) {
	if private == nil {
		return nil, errors.New("evidence: no ML-DSA-87 private key")
	}
	key, err := NewKey(private.PublicKey(), "")
	if err != nil {
		return nil, err
	}
	sign := func(message []byte) ([]byte, error) { return private.SignDeterministic(message, nil) }
	return keySigner{id: key.ID, algorithm: MLDSA87, sign: sign}, nil
}

// joinES256 turns the ASN.1 form of an ECDSA signature into the 64 bytes of
// RFC 7518, section 3.4.
func joinES256(der []byte, err error) ([]byte, error) {
	var parts struct{ R, S *big.Int }
	if err == nil {
		_, err = asn1.Unmarshal(der, &parts)
	}
	if err != nil {
		return nil, fmt.Errorf("evidence: ES256 signature: %w", err)
	}
	joined := make([]byte, 64)
	parts.R.FillBytes(joined[:32])
	parts.S.FillBytes(joined[32:])
	return joined, nil
}

// Key is a public key that may sign the records of one recorder, as a JWK (RFC
// 7517) with the recorder as our own member. The id is the RFC 7638
// thumbprint, so a key that was changed no longer has its name.
type Key struct {
	KeyType   string `json:"kty"`
	Curve     string `json:"crv,omitempty"` // of OKP and EC, with x and y
	X         string `json:"x,omitempty"`
	Y         string `json:"y,omitempty"`
	Pub       string `json:"pub,omitempty"` // of AKP
	Algorithm string `json:"alg"`
	ID        string `json:"kid"`
	Recorder  string `json:"recorder"`
}

// NewKey describes a public key: ed25519.PublicKey, *ecdsa.PublicKey on P-256,
// or *mldsa.PublicKey for ML-DSA-87.
func NewKey(public crypto.PublicKey, recorder string) (Key, error) {
	key := Key{Recorder: recorder}
	switch public := public.(type) {
	case ed25519.PublicKey:
		key.KeyType, key.Curve, key.Algorithm = "OKP", "Ed25519", Ed25519
		key.X = base64.RawURLEncoding.EncodeToString(public)
	case *ecdsa.PublicKey:
		point, err := public.Bytes()
		if err != nil || len(point) != 65 || public.Curve != elliptic.P256() {
			return Key{}, errors.New("evidence: ECDSA key is not on P-256")
		}
		key.KeyType, key.Curve, key.Algorithm = "EC", "P-256", ES256
		key.X = base64.RawURLEncoding.EncodeToString(point[1:33])
		key.Y = base64.RawURLEncoding.EncodeToString(point[33:])
	case *mldsa.PublicKey:
		if public.Parameters() != mldsa.MLDSA87() {
			return Key{}, fmt.Errorf("evidence: %s does not sign evidence; ML-DSA-87 does", public.Parameters())
		}
		key.KeyType, key.Algorithm = "AKP", MLDSA87
		key.Pub = base64.RawURLEncoding.EncodeToString(public.Bytes())
	default:
		return Key{}, fmt.Errorf("evidence: a %T does not sign evidence; Ed25519, P-256 or ML-DSA-87 is needed", public)
	}
	key.ID = key.thumbprint()
	return key, nil
}

// thumbprint is RFC 7638 over members that hold no character to escape.
func (k Key) thumbprint() string {
	text := fmt.Sprintf(`{"crv":"%s","kty":"%s","x":"%s"}`, k.Curve, k.KeyType, k.X)
	switch k.KeyType {
	case "EC":
		text = fmt.Sprintf(`{"crv":"%s","kty":"%s","x":"%s","y":"%s"}`, k.Curve, k.KeyType, k.X, k.Y)
	case "AKP":
		text = fmt.Sprintf(`{"alg":"%s","kty":"%s","pub":"%s"}`, k.Algorithm, k.KeyType, k.Pub)
	}
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// public returns the key itself, or says in what the description is wrong.
func (k Key) public() (crypto.PublicKey, error) {
	x, errX := unbase64(k.X)
	y, errY := unbase64(k.Y)
	pub, errPub := unbase64(k.Pub)
	switch {
	case errX != nil || errY != nil || errPub != nil:
		return nil, fmt.Errorf("evidence: key %q: x, y and pub are base64url without padding", k.ID)
	case k.ID != k.thumbprint():
		return nil, fmt.Errorf("evidence: key %q has thumbprint %s; kid must be the thumbprint", k.ID, k.thumbprint())
	case k.KeyType == "OKP" && k.Curve == "Ed25519" && k.Algorithm == Ed25519 && k.Y+k.Pub == "" && len(x) == ed25519.PublicKeySize:
		return ed25519.PublicKey(x), nil
	case k.KeyType == "EC" && k.Curve == "P-256" && k.Algorithm == ES256 && k.Pub == "" && len(x) == 32 && len(y) == 32:
		point, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, x, y))
		if err != nil {
			return nil, fmt.Errorf("evidence: key %q: %w", k.ID, err)
		}
		return point, nil
	case k.KeyType == "AKP" && k.Algorithm == MLDSA87 && k.Curve+k.X+k.Y == "" && len(pub) == mldsa.MLDSA87().PublicKeySize():
		return mldsa.NewPublicKey(mldsa.MLDSA87(), pub)
	}
	return nil, fmt.Errorf("evidence: key %q is %s %s for %s; OKP Ed25519, EC P-256 or AKP ML-DSA-87 with its own algorithm is needed", k.ID, k.KeyType, k.Curve, k.Algorithm)
}

// verify checks a signature. The key decides the algorithm.
func (k Key) verify(message, signature []byte) error {
	holds, known := usedKeys.get(k)
	if !known {
		public, err := k.public()
		if err != nil {
			return err
		}
		holds = checkUnder(public)
	}
	if !holds(message, signature) {
		return fmt.Errorf("signature does not verify with key %s", k.ID)
	}
	if !known {
		usedKeys.put(k, holds)
	}
	return nil
}

// check reports whether a signature is one of message under a certain key.
type check func(message, signature []byte) bool

// checkUnder returns the check of a key that [Key.public] returned.
func checkUnder(public crypto.PublicKey) check {
	switch public := public.(type) {
	case ed25519.PublicKey:
		return eddsa.NewKey([ed25519.PublicKeySize]byte(public)).Verify
	case *mldsa.PublicKey:
		return func(message, signature []byte) bool { return mldsa.Verify(public, message, signature, nil) == nil }
	}
	point, _ := public.(*ecdsa.PublicKey)
	return func(message, signature []byte) bool {
		if len(signature) != 64 {
			return false
		}
		sum := sha256.Sum256(message)
		r, s := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
		return ecdsa.Verify(point, sum[:], r, s)
	}
}

// usedKeys are keys under which a signature held. One recorder signs thousands
// of records, and to read its key for each would cost a tenth of their checks. A
// key is known by all that its description says.
var usedKeys keyCache

// maxUsedKeys bounds the cache, to less than 256 KiB, or 8 MiB where all keys are
// for ML-DSA-87. Beyond it, it begins anew.
const maxUsedKeys = 64

type keyCache struct {
	mu     sync.Mutex
	checks map[Key]check
}

func (c *keyCache) get(k Key) (check, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	holds, ok := c.checks[k]
	return holds, ok
}

func (c *keyCache) put(k Key, holds check) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.checks == nil || len(c.checks) >= maxUsedKeys {
		c.checks = map[Key]check{}
	}
	c.checks[k] = holds
}

// PinnedKey is a key that the verifier trusts, and for what.
type PinnedKey struct {
	Key
	Agents    []string  `json:"agents"`              // required: agent ids, or "*" for every agent
	NotBefore time.Time `json:"not_before,omitzero"` // optional: first moment of use
	NotAfter  time.Time `json:"not_after,omitzero"`  // optional: last moment of use
}

// allows says why the key may not have signed the record, or nil. The moment is
// the one that the record states: a thief of a retired key can state an earlier
// one, and only a checkpoint kept elsewhere shows that.
func (k PinnedKey) allows(record Record) error {
	switch {
	case record.Details.Recorder != k.Recorder:
		return fmt.Errorf("key %s belongs to recorder %q, not %q", k.ID, k.Recorder, record.Details.Recorder)
	case !slices.Contains(k.Agents, "*") && !slices.Contains(k.Agents, record.AgentID):
		return fmt.Errorf("key %s is not pinned for agent %q", k.ID, record.AgentID)
	case record.Time.Before(k.NotBefore) || !k.NotAfter.IsZero() && record.Time.After(k.NotAfter):
		return fmt.Errorf("key %s was not in use at %s", k.ID, record.Time.Format(timestampForm))
	}
	return nil
}
