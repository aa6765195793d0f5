package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Head is where the next record of a chain goes. It is kept in the same
// transaction as the record that made it.
type Head struct {
	ChainID  ChainID
	Sequence int64 // of the next record, which is the number of records so far
	Hash     Hash  // of the last record; zero for none
}

// Genesis returns the head of a chain without records: the first record has
// sequence 0 and 64 zeros before it (EXT-22).
func Genesis(chain ChainID) Head { return Head{ChainID: chain} }

// Sealed is a record in its place in a chain, with its stored bytes. It comes
// from [Seal] or [ParseSealed] and is never written anew. A parsed one has the
// right form; whether its hash and signature hold is for [Sealed.CheckHash] and
// [Sealed.CheckSignature] to say.
type Sealed struct {
	wire      *wire // never written to again; nil in the zero Sealed
	signature []byte
	body      []byte
	full      []byte
}

// Seal puts a record at the head of a chain: it sets chain, sequence and key id,
// makes the canonical bytes, hashes them behind the hash of the record before
// (EXT-22) and signs the 32 bytes of that hash (EXT-23). The algorithm and the
// key id are inside the hash, so that neither can be swapped.
func Seal(head Head, record Record, signer Signer) (Sealed, error) {
	sealed, err := SealToSign(head, record, signer)
	if err != nil {
		return Sealed{}, err
	}
	return sealed.Sign(signer)
}

// SealToSign is [Seal] without its last step, for anyone who has many signatures to
// make at once: [Sealed.Sign] makes it. Until then the record is not to be
// stored or shown.
func SealToSign(head Head, record Record, signer Signer) (Sealed, error) {
	return sealFor(head, record, signer, Each)
}

// SealCovered is [Seal] for a record of a batch. It has no signature of its own
// until [Sealed.Sign] gives it one, which the last record of every chain in the
// batch needs: its hash stands on those of all before it. That records are
// covered so is inside the hash of each.
func SealCovered(head Head, record Record, signer Signer) (Sealed, error) {
	sealed, err := sealFor(head, record, signer, Batched)
	if err == nil {
		sealed.full = sealed.wire.full(sealed.body, "")
	}
	return sealed, err
}

func sealFor(head Head, record Record, signer Signer, how Signatures) (Sealed, error) {
	if signer == nil {
		return Sealed{}, errors.New("evidence: no signer; records are signed")
	}
	record.Details.SigningKeyID, record.Details.Signatures = signer.KeyID(), how
	return seal(head, wire{Record: record, Algorithm: signer.Algorithm()})
}

// Sign returns the record with the signer's signature over its hash. The signer
// is the one that it was sealed for.
func (s Sealed) Sign(signer Signer) (Sealed, error) {
	if key := s.wire.Details.SigningKeyID; key != signer.KeyID() {
		return Sealed{}, fmt.Errorf("evidence: record %q was sealed for key %q, not %q", s.wire.ID, key, signer.KeyID())
	}
	signature, err := signer.Sign(s.wire.Hash[:])
	if err != nil {
		return Sealed{}, fmt.Errorf("evidence: record %q is not signed: %w", s.wire.ID, err)
	}
	s.signature, s.full = signature, s.wire.full(s.body, base64.RawURLEncoding.EncodeToString(signature))
	return s, nil
}

// SealUnsafeUnsigned is [Seal] without a signature. The hash is then the one
// that the extension document's section 7.2 has, byte for byte. [Verify] never
// accepts such a record.
func SealUnsafeUnsigned(head Head, record Record) (Sealed, error) {
	record.Details.SigningKeyID, record.Details.Signatures = "", Each
	sealed, err := seal(head, wire{Record: record})
	if err == nil {
		sealed.full = sealed.wire.full(sealed.body, "")
	}
	return sealed, err
}

func seal(head Head, w wire) (Sealed, error) {
	w.Details.ChainID, w.Details.Sequence = head.ChainID, head.Sequence
	w.Time = w.Time.UTC().Truncate(time.Millisecond)
	w.Timestamp = w.Time.Format(timestampForm)
	if err := w.check(); err != nil {
		return Sealed{}, err
	}
	body, err := w.body()
	if err != nil {
		return Sealed{}, err
	}
	hash := digest(head.Hash, body)
	w.Prev, w.Hash = &head.Hash, &hash
	return Sealed{wire: &w, body: body}, nil
}

// digest is the record hash: SHA-256 over the previous hash as 64 lower-case
// hex characters and the canonical body (EXT-22).
func digest(prev Hash, body []byte) Hash {
	var text [2 * len(prev)]byte
	hex.Encode(text[:], prev[:])
	h := sha256.New()
	h.Write(text[:]) // never fails, as below
	h.Write(body)
	return Hash(h.Sum(text[:0]))
}

// ParseSealed reads one stored record. It is strict: the bytes must be canonical
// and have the members of [Record] in exactly their spelling, so that one record
// has one form. Errors are about the form; hash and signature are
// not checked.
func ParseSealed(data []byte) (Sealed, error) {
	if quick, ok := quickSealed(data); ok {
		return quick, nil
	}
	return slowSealed(data)
}

// slowSealed is [ParseSealed] by way of encoding/json and [Canonical], which name
// the error of a record.
func slowSealed(data []byte) (Sealed, error) {
	var w wire
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&w); err != nil {
		return Sealed{}, fmt.Errorf("evidence: not a record: %w", err)
	}
	var err error
	if w.Time, err = parseTimestamp(w.Timestamp); err != nil {
		return Sealed{}, fmt.Errorf("evidence: record %q: %w", w.ID, err)
	}
	if w.Prev == nil || w.Hash == nil {
		return Sealed{}, fmt.Errorf("evidence: record %q has no prev_record_hash or no record_hash", w.ID)
	}
	signature, err := unbase64(w.Signature)
	if err != nil {
		return Sealed{}, fmt.Errorf("evidence: signature of record %q: %w", w.ID, err)
	}
	if err := w.check(); err != nil {
		return Sealed{}, err
	}
	body, err := w.slowBody()
	if err != nil {
		return Sealed{}, err
	}
	// encoding/json reads names in any case, repeated members and null. None of
	// them survives being written again, so equality is the strict check.
	full := w.full(body, w.Signature)
	if at := difference(full, data); at >= 0 {
		return Sealed{}, fmt.Errorf("evidence: record %q is not in its one canonical form at byte %d; exact member names, RFC 8785 order and spelling are needed", w.ID, at)
	}
	return Sealed{wire: &w, signature: signature, body: body, full: full}, nil
}

// parseTimestamp reads timestamp_utc in its one form. time.Parse takes more: one
// digit for the hour, and a comma.
func parseTimestamp(text string) (time.Time, error) {
	at, err := time.Parse(timestampForm, text)
	if err != nil || len(text) != len(timestampForm) || text[len(timestampForm)-5] != '.' {
		return time.Time{}, fmt.Errorf("timestamp_utc is not like %s", timestampForm)
	}
	return at, nil
}

// difference returns the first byte at which a and b differ, or -1.
func difference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	if len(a) == len(b) {
		return -1
	}
	return min(len(a), len(b))
}

// unbase64 decodes base64url without padding, in its only form: no line ends
// and no stray bits at the end.
func unbase64(text string) ([]byte, error) {
	decoded, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || base64.RawURLEncoding.EncodeToString(decoded) != text {
		return nil, errors.New("base64url without padding expected")
	}
	return decoded, nil
}

// Bytes returns the stored canonical JSON of the whole record.
func (s Sealed) Bytes() []byte { return slices.Clone(s.full) }

// AppendTo appends [Sealed.Bytes] to b.
func (s Sealed) AppendTo(b []byte) []byte { return append(b, s.full...) }

// Record returns what the record says. Free objects share memory with s. It
// panics on the zero Sealed, like all that look at the record.
func (s Sealed) Record() Record { return s.wire.Record }

// Prev returns prev_record_hash. It panics on the zero Sealed.
func (s Sealed) Prev() Hash { return *s.wire.Prev }

// Hash returns record_hash as the record states it. It panics on the zero
// Sealed.
func (s Sealed) Hash() Hash { return *s.wire.Hash }

// Algorithm returns signature_algorithm, empty for an unsigned record.
func (s Sealed) Algorithm() string { return s.wire.Algorithm }

// Signed reports whether the record has its own signature.
func (s Sealed) Signed() bool { return len(s.signature) > 0 }

// Covered reports whether the record has no signature of its own and says that
// a later one of its chain covers it.
func (s Sealed) Covered() bool { return s.wire.Details.Signatures == Batched && len(s.signature) == 0 }

// Head returns where the next record of the chain goes.
func (s Sealed) Head() Head {
	return Head{ChainID: s.wire.Details.ChainID, Sequence: s.wire.Details.Sequence + 1, Hash: s.Hash()}
}

// CheckHash compares the stated record_hash with the record's bytes (EXT-22).
func (s Sealed) CheckHash() error {
	if got := digest(s.Prev(), s.body); got != s.Hash() {
		return fmt.Errorf("evidence: record %q hashes to %s, but states %s", s.wire.ID, got, s.Hash())
	}
	return nil
}

// CheckSignature checks the signature over the stated record_hash (EXT-23) with
// a key that the caller trusts. It is meaningful after [Sealed.CheckHash] only.
func (s Sealed) CheckSignature(key Key) error {
	switch {
	case len(s.signature) == 0:
		return fmt.Errorf("evidence: record %q is not signed", s.wire.ID)
	case s.wire.Details.SigningKeyID != key.ID:
		return fmt.Errorf("evidence: record %q names key %q, not %q", s.wire.ID, s.wire.Details.SigningKeyID, key.ID)
	case s.wire.Algorithm != key.Algorithm:
		return fmt.Errorf("evidence: record %q says algorithm %q, its key is for %q", s.wire.ID, s.wire.Algorithm, key.Algorithm)
	}
	hash := s.Hash()
	if err := key.verify(hash[:], s.signature); err != nil {
		return fmt.Errorf("evidence: record %q: %w", s.wire.ID, err)
	}
	return nil
}
