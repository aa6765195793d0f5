package evidence

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
)

// MaxBody is the size in bytes of the largest detached body: with its key it
// is a line of a bundle.
const MaxBody = 512 << 10

// bodyKeySize is the size of the key of a body in bytes. All keys have it: HMAC
// takes keys of several lengths for one, and a commitment must not.
const bodyKeySize = 32

// bodyDomain keeps commitments apart from whatever else a key could be used for.
const bodyDomain = "powerbox-evidence-body/v1\n"

// Body is what a call said, kept beside its record and not in it: erasing it
// leaves the chain as it is. The record holds a commitment under a key that is
// this body's alone and is erased with it, so that the body cannot be found again
// by trying values.
type Body struct {
	Key   []byte // 32 random bytes
	Bytes []byte // at most MaxBody
}

// NewBody returns a body under a new key.
func NewBody(random io.Reader, data []byte) (*Body, error) {
	b := Body{Key: make([]byte, bodyKeySize), Bytes: data}
	if len(data) > MaxBody {
		return nil, fmt.Errorf("evidence: body of %d bytes, at most %d are kept", len(data), MaxBody)
	}
	if _, err := io.ReadFull(random, b.Key); err != nil {
		return nil, fmt.Errorf("evidence: key of a body: %w", err)
	}
	return &b, nil
}

// Commitment is what a record says of the body: HMAC-SHA-256 under its key, as 64
// lower-case hex characters.
func (b *Body) Commitment() string {
	mac := hmac.New(sha256.New, b.Key)
	mac.Write([]byte(bodyDomain)) // a hash takes everything
	mac.Write(b.Bytes)
	return hex.EncodeToString(mac.Sum(nil))
}

// Detach has the record commit to a body. Anyone who seals the record stores the
// body beside it.
func (r *Record) Detach(b *Body) {
	r.Detached, r.Details.BodyCommitment = b, b.Commitment()
}

// WithBody returns the record with the body that it commits to, for who stores both.
func (s Sealed) WithBody(b *Body) (Sealed, error) {
	if err := b.Opens(s.wire.Details.BodyCommitment); err != nil {
		return Sealed{}, err
	}
	w := *s.wire
	w.Detached = b
	s.wire = &w
	return s, nil
}

// ErrBody says that a body is not the one that its record commits to: a byte of
// it or of its key was changed, or it is another record's.
var ErrBody = errors.New("evidence: the body is not what the record commits to")

// Opens returns [ErrBody] where the body is not the one that a record commits to,
// as it says under body_commitment.
func (b *Body) Opens(commitment string) error {
	if len(b.Key) != bodyKeySize || b.Commitment() != commitment {
		return ErrBody
	}
	return nil
}

// bodyMark begins a line of a bundle with a body.
const bodyMark = `{"body":`

// bodyLine opens the record on the line before it.
type bodyLine struct {
	Body string `json:"body"` // base64
	Key  string `json:"key"`
}

func (b *Body) line() bodyLine {
	return bodyLine{base64.StdEncoding.EncodeToString(b.Bytes), base64.StdEncoding.EncodeToString(b.Key)}
}

// readBodyLine refuses every form but one.
func readBodyLine(line []byte) (*Body, error) {
	var part bodyLine
	if err := decodeLine(line, &part); err != nil {
		return nil, err
	}
	data, errData := base64.StdEncoding.Strict().DecodeString(part.Body)
	key, errKey := base64.StdEncoding.Strict().DecodeString(part.Key)
	if errData != nil || errKey != nil || strings.ContainsAny(part.Body+part.Key, "\r\n") {
		return nil, errors.New("evidence: base64 of a body and of its key expected")
	}
	return &Body{Key: key, Bytes: data}, nil
}

// BodyReport is what a bundle shows of detached bodies.
type BodyReport struct {
	Committed int `json:"committed"` // records that commit to a body
	Opened    int `json:"opened"`    // of these, with a body that matches the commitment
	Erased    int `json:"erased"`    // of these, without a body, which a record of the bundle says was erased
}

// noteBody remembers what a body on the next line would have to be, and which
// bodies the record says were erased.
func (v *verifier) noteBody(e *entry, d Details) {
	if e.commitment = strings.Clone(d.BodyCommitment); e.commitment != "" {
		v.report.Bodies.Committed++
	}
	if len(d.Erased) > 0 {
		said := erasure{entry: v.entries.len()}
		for _, id := range d.Erased {
			said.ids = append(said.ids, strings.Clone(id)) // without the record that it is part of
		}
		v.erased = append(v.erased, said)
	}
}

// erasure is what a record says was erased.
type erasure struct {
	entry int // of the record that says so
	ids   []string
}

// readBody checks a body against the record on the line before it. Where that
// record cannot be read or is damaged, nothing can be said of its body.
func (v *verifier) readBody(line []byte) {
	body, err := readBodyLine(line)
	if err != nil {
		v.problem(Malformed, nil, "body: %v", err)
		return
	}
	if v.recordLine != v.line-1 {
		v.problem(Malformed, nil, "body: the line before it is no record, so that it is nobody's")
		return
	}
	if v.entries.len() == 0 {
		return
	}
	of := v.entries.at(v.entries.len() - 1)
	if of.line != v.recordLine || of.damaged {
		return
	}
	if err := body.Opens(of.commitment); err != nil {
		e := *of
		e.line = v.line
		v.problem(BodyMismatch, &e, "record %q: %v", of.id, err)
		return
	}
	of.opened = true
	v.report.Bodies.Opened++
}

// countErased counts the bodies that are not here because they were erased. Who did
// not sign, or may not, says nothing of bodies, and neither does anyone who signs for
// one agent, not even of its own (ATK-70).
func (v *verifier) countErased() {
	gone := map[string]bool{}
	for _, said := range v.erased {
		e := v.entries.at(said.entry)
		switch {
		case !e.vouched || e.unsigned:
		case e.agent != IssuerID:
			v.problem(BadErasure, e, "record %q says that bodies were erased, and is of agent %q; only the issuer erases, in its own chain", e.id, e.agent)
		default:
			for _, id := range said.ids {
				gone[id] = true
			}
		}
	}
	for e := range v.entries.all() {
		if e.commitment != "" && !e.opened && gone[e.id] {
			v.report.Bodies.Erased++
		}
	}
}
