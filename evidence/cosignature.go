package evidence

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/powerbox-project/powerbox/eddsa"
)

// cosignatureV1 is the signature type of an Ed25519 cosignature (C2SP
// tlog-cosignature). A key of this type signs nothing but what a witness says, so
// that no signature of a log can pass for one of a witness.
const cosignatureV1 = 0x04

// timeBytes is what a cosignature has before its Ed25519 signature.
const timeBytes = 8

// WitnessKey is the name and public key of a witness. It is a note.Verifier of
// cosignatures. The zero value verifies nothing.
type WitnessKey struct {
	name   string
	id     uint32
	public string // 32 bytes, so that keys can be compared
}

// newWitnessKey wants a name as in signed notes: one word without a plus.
func newWitnessKey(name string, public ed25519.PublicKey) (WitnessKey, error) {
	if _, err := note.NewEd25519VerifierKey(name, public); err != nil || strings.ContainsAny(name, "+ \t\n") || name == "" {
		return WitnessKey{}, fmt.Errorf("evidence: %q cannot name a witness; one word without + and an Ed25519 key are needed", name)
	}
	sum := sha256.Sum256(append([]byte(name+"\n"), append([]byte{cosignatureV1}, public...)...))
	return WitnessKey{name, binary.BigEndian.Uint32(sum[:]), string(public)}, nil
}

// ParseWitnessKey reads what [WitnessKey.String] writes: a C2SP vkey of signature
// type 0x04.
func ParseWitnessKey(text string) (WitnessKey, error) {
	name, rest, _ := strings.Cut(text, "+")
	_, encoded, _ := strings.Cut(rest, "+")
	data, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || len(data) != 1+ed25519.PublicKeySize || data[0] != cosignatureV1 {
		return WitnessKey{}, fmt.Errorf("evidence: %q is not the key of a witness; want NAME+HASH+BASE64 with signature type 0x04, from powerbox witness key", text)
	}
	key, err := newWitnessKey(name, data[1:])
	if err == nil && key.String() != text {
		err = fmt.Errorf("evidence: key %q of a witness is changed: its hash is not that of its name and key", text)
	}
	if err != nil {
		return WitnessKey{}, err
	}
	return key, nil
}

// String returns the key as a verifier pins it.
func (k WitnessKey) String() string {
	return fmt.Sprintf("%s+%08x+%s", k.name, k.id, base64.StdEncoding.EncodeToString(append([]byte{cosignatureV1}, k.public...)))
}

// Name implements note.Verifier.
func (k WitnessKey) Name() string { return k.name }

// KeyHash implements note.Verifier.
func (k WitnessKey) KeyHash() uint32 { return k.id }

// Verify implements note.Verifier: message is the text of a checkpoint, signature
// a time and the signature over both.
func (k WitnessKey) Verify(message, signature []byte) bool {
	if len(signature) != timeBytes+ed25519.SignatureSize || len(k.public) != ed25519.PublicKeySize {
		return false
	}
	at := binary.BigEndian.Uint64(signature)
	return at <= math.MaxInt64 && eddsa.Verify([]byte(k.public), cosigned(string(message), at), signature[timeBytes:])
}

// cosigned is what a witness signs.
func cosigned(text string, at uint64) []byte {
	return []byte("cosignature/v1\ntime " + strconv.FormatUint(at, 10) + "\n" + text)
}

// Cosigner is the key of a witness, out of sight of every way of printing.
type Cosigner struct {
	key  WitnessKey
	sign func(message []byte) []byte
}

// NewCosigner returns the cosigner of that name. The key must sign nothing else.
func NewCosigner(name string, private ed25519.PrivateKey) (Cosigner, error) {
	if len(private) != ed25519.PrivateKeySize {
		return Cosigner{}, fmt.Errorf("evidence: Ed25519 private key of %d bytes, %d are needed", len(private), ed25519.PrivateKeySize)
	}
	public, _ := private.Public().(ed25519.PublicKey)
	key, err := newWitnessKey(name, public)
	return Cosigner{key, func(message []byte) []byte { return ed25519.Sign(private, message) }}, err
}

// Key returns what verifiers pin.
func (c Cosigner) Key() WitnessKey { return c.key }

// Cosign returns the line of a signed note that says: as of that time, this is the
// largest checkpoint of the log that the witness has seen, and all that it saw
// before are beginnings of it. Anyone who calls it must have made sure of that, and
// have it on the disk ([Submission.Check]).
func (c Cosigner) Cosign(checkpoint Checkpoint, at time.Time) string {
	seconds := uint64(max(at.Unix(), 0))
	signature := binary.BigEndian.AppendUint32(nil, c.key.id)
	signature = binary.BigEndian.AppendUint64(signature, seconds)
	signature = append(signature, c.sign(cosigned(checkpoint.String(), seconds))...)
	return fmt.Sprintf("\u2014 %s %s\n", c.key.name, base64.StdEncoding.EncodeToString(signature))
}

// Cosignature is what one witness said of a checkpoint.
type Cosignature struct {
	Witness string    `json:"witness"`
	Time    time.Time `json:"time"`
}

// cosignatures returns which of the witnesses have cosigned a signed checkpoint. A
// cosignature that one of them cannot have made is an error. Whether the log
// itself has signed is for [OpenCheckpoint] to say.
func cosignatures(signed []byte, witnesses ...WitnessKey) ([]Cosignature, error) {
	known := make([]note.Verifier, len(witnesses))
	for i, key := range witnesses {
		known[i] = key
	}
	opened, err := note.Open(signed, note.VerifierList(known...))
	var none *note.UnverifiedNoteError
	if errors.As(err, &none) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("evidence: cosignatures: %w", err)
	}
	var all []Cosignature
	for _, signature := range opened.Sigs {
		// It has verified, so it has its form.
		data, _ := base64.StdEncoding.DecodeString(signature.Base64)
		at := binary.BigEndian.Uint64(data[4:])
		all = append(all, Cosignature{signature.Name, time.Unix(int64(at), 0).UTC()})
	}
	return all, nil
}

// TakeCosignature finds in the answer of a witness its line for a signed
// checkpoint, and verifies it. What else the answer has is passed over.
func TakeCosignature(signed, answer []byte, witness WitnessKey) (string, error) {
	text, _, _ := strings.Cut(string(signed), "\n\n")
	opened, err := note.Open([]byte(text+"\n\n"+string(answer)), note.VerifierList(witness))
	if err != nil {
		return "", fmt.Errorf("evidence: answer of witness %q: %w", witness.name, err)
	}
	line := opened.Sigs[0]
	return fmt.Sprintf("\u2014 %s %s\n", line.Name, line.Base64), nil
}

// OnlySignedBy returns a signed note with the signatures of these keys and no
// other line, so that what a stranger put under it is not kept. Errors are those of
// note.Open.
func OnlySignedBy(signed []byte, keys ...note.Verifier) ([]byte, error) {
	opened, err := note.Open(signed, note.VerifierList(keys...))
	if err != nil {
		return nil, fmt.Errorf("evidence: signed note: %w", err)
	}
	text := opened.Text + "\n"
	for _, line := range opened.Sigs {
		text += fmt.Sprintf("\u2014 %s %s\n", line.Name, line.Base64)
	}
	return []byte(text), nil
}

// ErrNotWitnessed says that too few of the pinned witnesses have cosigned.
var ErrNotWitnessed = errors.New("evidence: not witnessed")

// Quorum is how many of which witnesses must have cosigned a checkpoint before it
// is believed (ATK-44): with more than half of them, two checkpoints that
// contradict each other need a witness that cosigned both.
type Quorum struct {
	Witnesses []WitnessKey
	Number    int // 0 asks for none
}

// Check returns who has cosigned; [ErrNotWitnessed] where they are too few.
func (q Quorum) Check(signed []byte) ([]Cosignature, error) {
	if err := q.Usable(); err != nil {
		return nil, err
	}
	have, err := cosignatures(signed, q.Witnesses...)
	if err == nil && len(have) < q.Number {
		err = fmt.Errorf("%w: %d of the %d pinned witnesses have cosigned the checkpoint, %d are needed", ErrNotWitnessed, len(have), len(q.Witnesses), q.Number)
	}
	return have, err
}

// Usable refuses a quorum that one witness could fill twice, or that needs no witness.
func (q Quorum) Usable() error {
	names, keys := map[string]bool{}, map[string]bool{}
	for _, key := range q.Witnesses {
		if key.name == "" || names[key.name] || keys[key.public] {
			return fmt.Errorf("evidence: witness %q is pinned twice, by its name or by its key; it counts once", key.name)
		}
		names[key.name], keys[key.public] = true, true
	}
	if q.Number < 0 || q.Number > len(q.Witnesses) {
		return fmt.Errorf("evidence: a quorum of %d cannot be had from %d witnesses", q.Number, len(q.Witnesses))
	}
	return nil
}
