package catalogue

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash"
	"strings"
	"sync"
)

const (
	// SealKeyBytes is the length of a sealing key.
	SealKeyBytes = 32
	handlePrefix = "rh_"
	nonceBytes   = 12
	tagBytes     = 16
	// padBlock is what ids are padded to, with two bytes for their length. A
	// handle tells how many blocks its id takes, which is one for most, and not
	// its length.
	padBlock  = 64
	maxSealed = nonceBytes + (2+MaxIDBytes+padBlock-1)/padBlock*padBlock + tagBytes
)

// Sealer makes and opens the handles of resources (SEP-19). The issuer and the
// gateways of its agents share the key. A Sealer prints without its keys.
type Sealer struct {
	aead  cipher.AEAD
	nonce []byte    // key of the function that derives nonces
	macs  sync.Pool // that function under its key, which takes two blocks to set up: hash.Hash
}

// NewSealer returns the Sealer of a key of [SealKeyBytes] random bytes. The key
// itself encrypts nothing: two keys are derived from it (HKDF, RFC 5869).
func NewSealer(key []byte) (*Sealer, error) {
	if len(key) != SealKeyBytes {
		return nil, fmt.Errorf("catalogue: sealing key of %d bytes; want %d", len(key), SealKeyBytes)
	}
	seal, err := hkdf.Key(sha256.New, key, nil, "powerbox resource handle: seal", 32)
	if err != nil {
		return nil, fmt.Errorf("catalogue: sealing key: %w", err)
	}
	nonce, err := hkdf.Key(sha256.New, key, nil, "powerbox resource handle: nonce", 32)
	if err != nil {
		return nil, fmt.Errorf("catalogue: sealing key: %w", err)
	}
	block, err := aes.NewCipher(seal)
	if err != nil {
		return nil, fmt.Errorf("catalogue: sealing key: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("catalogue: sealing key: %w", err)
	}
	return &Sealer{aead: aead, nonce: nonce, macs: sync.Pool{New: func() any { return hmac.New(sha256.New, nonce) }}}, nil
}

// Format implements [fmt.Formatter] and shows nothing.
func (s *Sealer) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("Sealer(redacted)")) }

// Seal returns the handle of a resource of an agent under the root capability
// of that id: "rh_" and base64url without padding. Equal arguments give equal
// handles, so that a caller that asks twice learns nothing but what it asked
// for. An id that is longer than [MaxIDBytes], which no catalogue has, gives a
// string that opens as nothing.
func (s *Sealer) Seal(agent, rootID, resourceID string) string {
	if len(resourceID) > MaxIDBytes {
		return handlePrefix
	}
	nonce := s.syntheticNonce(agent, rootID, resourceID)
	sealed := s.aead.Seal(nonce, nonce, pad(resourceID, padBlock), frame(agent, rootID))
	return handlePrefix + base64.RawURLEncoding.EncodeToString(sealed)
}

// Open returns the resource that a handle names for that agent under that root
// capability. Strings that are no handle, handles of other agents, roots or
// keys, and changed handles get the one answer "", false, after the same
// authenticated decryption (SEP-19, ATK-19).
func (s *Sealer) Open(agent, rootID, handle string) (resourceID string, ok bool) {
	sealed, formed := decodeHandle(handle)
	nonce, box := sealed[:nonceBytes], sealed[nonceBytes:]
	padded, err := s.aead.Open(nil, nonce, box, frame(agent, rootID))
	id, whole := unpad(padded)
	// A nonce that was not derived from the content was not made by Seal.
	derived := subtle.ConstantTimeCompare(nonce, s.syntheticNonce(agent, rootID, id)) == 1
	if !formed || err != nil || !whole || !derived {
		return "", false
	}
	return id, true
}

// syntheticNonce binds the nonce to everything that is sealed: the same nonce
// is used twice only for the same message.
func (s *Sealer) syntheticNonce(agent, rootID, resourceID string) []byte {
	mac := s.macs.Get().(hash.Hash)
	defer s.macs.Put(mac)
	mac.Reset()
	mac.Write(frame(agent, rootID, resourceID))
	return mac.Sum(nil)[:nonceBytes:nonceBytes]
}

// decodeHandle returns the bytes of a handle, or, where it is none, bytes of
// the same shape that open as nothing.
func decodeHandle(handle string) (sealed []byte, ok bool) {
	blank := make([]byte, nonceBytes+padBlock+tagBytes)
	text, prefixed := strings.CutPrefix(handle, handlePrefix)
	if !prefixed || len(text) > base64.RawURLEncoding.EncodedLen(maxSealed) {
		return blank, false
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(sealed) < len(blank) || strings.ContainsAny(text, "\r\n") {
		return blank, false
	}
	return sealed, true
}

// pad puts the id's length before it and zeros behind it, up to a whole number
// of blocks.
func pad(id string, block int) []byte {
	n := (2 + len(id) + block - 1) / block * block
	padded := make([]byte, n)
	binary.BigEndian.PutUint16(padded, uint16(len(id)))
	copy(padded[2:], id)
	return padded
}

func unpad(padded []byte) (string, bool) {
	if len(padded) < 2 {
		return "", false
	}
	n := int(binary.BigEndian.Uint16(padded))
	if n > len(padded)-2 {
		return "", false
	}
	return string(padded[2 : 2+n]), true
}

// frame joins strings so that no two lists of strings give the same bytes.
func frame(parts ...string) []byte {
	var b []byte
	for _, p := range parts {
		b = binary.BigEndian.AppendUint32(b, uint32(len(p)))
		b = append(b, p...)
	}
	return b
}
