package evidence

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// Decision is the result of a decision (EXT-21).
type Decision string

// The decisions of the extension document, section 7.1. Abstain is for a
// recorder that only looks on, and for what a person has to decide.
const (
	Allow   Decision = "ALLOW"
	Deny    Decision = "DENY"
	Abstain Decision = "ABSTAIN"
)

// OutcomeStatus is what became of an allowed action (EXT-21). Empty means that
// there is nothing to become, as after a denial.
type OutcomeStatus string

// The outcome statuses of the extension document, section 7.1. A Pending record
// that no later record names has an unknown outcome, which is reported as such
// and never filled in.
const (
	Achieved OutcomeStatus = "ACHIEVED"
	Failed   OutcomeStatus = "FAILED"
	Partial  OutcomeStatus = "PARTIAL"
	Pending  OutcomeStatus = "PENDING"
)

// maxText is the size in bytes of the largest single text of a record. Free
// objects are bounded by the record alone.
const maxText = 4096

// timestampForm is RFC 3339 in UTC with milliseconds, the only form accepted.
const timestampForm = "2006-01-02T15:04:05.000Z"

// Record has the attempt, its authority, and the decision. Members
// have the names of the extension document, section 7.1 (EXT-21); ours are
// under one member of their own. Optional members are absent when empty.
type Record struct {
	ID            string          `json:"record_id"`                // required, unique for ever
	AgentID       string          `json:"agent_id"`                 // required, whose action it is
	TaskID        string          `json:"task_id,omitempty"`        // optional
	ActionType    string          `json:"action_type"`              // required, as in trade.execute
	Intent        Intent          `json:"intent"`                   // required
	Decision      Decision        `json:"decision"`                 // required
	Outcome       json.RawMessage `json:"outcome,omitempty"`        // optional, a JSON object
	OutcomeStatus OutcomeStatus   `json:"outcome_status,omitempty"` // optional
	Time          time.Time       `json:"-"`                        // required, kept in UTC to the millisecond
	Details       Details         `json:"powerbox"`                 // ours
	// Detached is what the record commits to ([Record.Detach]), for who stores it;
	// optional, and not part of the record.
	Detached *Body `json:"-"`
}

// Intent is what the requester wanted.
type Intent struct {
	Operation string          `json:"operation"`         // required, exact name
	Purpose   string          `json:"purpose,omitempty"` // optional, the requester's words
	Details   json.RawMessage `json:"details,omitempty"` // optional, a JSON object
}

// Details are the members of a record that the extension document does not
// have. They are inside the hashed bytes, so that a record cannot be moved to
// another chain, place, recorder or key.
type Details struct {
	ChainID            ChainID         `json:"chain_id"`                 // set by [Seal]
	Sequence           int64           `json:"sequence"`                 // set by [Seal]; the first is 0
	Recorder           string          `json:"recorder"`                 // required, who wrote it
	Signatures         Signatures      `json:"signatures,omitempty"`     // set by [Seal] and [SealCovered]
	SigningKeyID       string          `json:"signing_key_id,omitempty"` // set by [Seal]; absent when unsigned
	Requester          string          `json:"requester,omitempty"`
	Principal          string          `json:"principal,omitempty"` // pairwise, for whom
	Tenant             string          `json:"tenant,omitempty"`    // of the agent, in which the task is
	TraceID            string          `json:"trace_id,omitempty"`
	Attempt            string          `json:"attempt,omitempty"`         // kind: invocation or admission
	BodyCommitment     string          `json:"body_commitment,omitempty"` // set by [Record.Detach]
	Capability         string          `json:"capability,omitempty"`      // which one allowed it
	Erased             []string        `json:"erased,omitempty"`          // record_ids whose bodies the record says were erased
	Granted            []string        `json:"granted,omitempty"`         // scopes possessed (EXT-32)
	Exercised          []string        `json:"exercised,omitempty"`       // scopes used (EXT-32)
	OutcomeOf          string          `json:"outcome_of,omitempty"`      // record_id of the decision (EXT-25)
	Gate               *Gate           `json:"gate,omitempty"`
	Mode               string          `json:"mode,omitempty"`      // enforcement mode of the gateway
	RevocationSequence int64           `json:"revocation_sequence"` // how far revocations were known
	PolicyDigest       string          `json:"policy_digest,omitempty"`
	Reasons            []Reason        `json:"reasons,omitempty"`
	Arguments          json.RawMessage `json:"arguments,omitempty"` // a JSON object, redacted by the caller
}

// Signatures says which records of a chain its recorder signs.
type Signatures string

// The ways to sign. With Batched, a record may be covered by the signature of a
// later one of its chain, over a hash that every record before it is part of. A
// verifier must be told that this is enough ([Trust.Batches]).
const (
	Each    Signatures = ""
	Batched Signatures = "batch"
)

// Gate is the pre-flight check of one edge, as the gating document names it.
type Gate struct {
	Origin   string   `json:"origin"`
	Target   string   `json:"target"`
	Required []string `json:"required,omitempty"`
	Allowed  []string `json:"allowed,omitempty"`
	Missing  []string `json:"missing,omitempty"`
}

// Reason is one ground of a decision. It names arguments and constraint types,
// never a value.
type Reason struct {
	Code       string `json:"code"`           // required, stable
	Link       *int   `json:"link,omitempty"` // optional, place in the presented chain, root is 0
	Operation  string `json:"operation,omitempty"`
	Argument   string `json:"argument,omitempty"`
	Constraint string `json:"constraint,omitempty"`
	Message    string `json:"message,omitempty"`
}

// ErrUnavailable is wrapped by a recorder's error when nothing can be written now,
// whatever a record says: a disk that is full or gone. A record that is refused
// for what it says is not that.
var ErrUnavailable = errors.New("evidence cannot be written now")

// LateError is a recorder's error when a record did not become durable in time. It may
// still become durable: Result tells, with nil if it did.
type LateError struct{ Result <-chan error }

// Error implements error.
func (e *LateError) Error() string {
	return "the disk did not take the evidence record in time; it may be written later"
}

// Unwrap returns [ErrUnavailable].
func (e *LateError) Unwrap() error { return ErrUnavailable }

// ErrNotWritten is wrapped by a recorder's error when a record did not become
// durable. The caller must not continue with the action (EXT-27).
var ErrNotWritten = errors.New("evidence record was not written, so the action must not proceed")

// Outcome returns the second record of a decision that was recorded as Pending:
// the same action, with what became of it. The first record stays as it is
// (EXT-25). The outcome is a JSON object, or nil when there is nothing to tell.
// The caller sets only the passed members; chain and sequence come with
// [Seal].
func Outcome(of Record, id string, at time.Time, status OutcomeStatus, outcome json.RawMessage) (Record, error) {
	if of.OutcomeStatus != Pending {
		return Record{}, fmt.Errorf("evidence: record %q has outcome status %q; only a PENDING record gets an outcome record", of.ID, of.OutcomeStatus)
	}
	if status == Pending || status == "" {
		return Record{}, fmt.Errorf("evidence: outcome of record %q is %q; ACHIEVED, FAILED or PARTIAL is needed", of.ID, status)
	}
	record := of
	record.ID, record.Time = id, at
	record.OutcomeStatus, record.Outcome = status, outcome
	record.Details.OutcomeOf = of.ID
	record.Details.Arguments, record.Details.BodyCommitment, record.Details.Erased, record.Detached = nil, "", nil, nil
	return record, nil
}

// check refuses a record that lacks a required member or has an invalid
// one. [Canonical] judges the JSON in it afterwards.
func (r *Record) check() error {
	required := []struct{ name, text string }{
		{"record_id", r.ID},
		{"agent_id", r.AgentID},
		{"action_type", r.ActionType},
		{"intent.operation", r.Intent.Operation},
		{"powerbox.recorder", r.Details.Recorder},
	}
	for _, member := range required {
		if member.text == "" {
			return fmt.Errorf("evidence: record %q has no %s", r.ID, member.name)
		}
	}
	for name, text := range r.texts() {
		if len(text) > maxText || !utf8.ValidString(text) {
			return fmt.Errorf("evidence: record has a text in %s that is not UTF-8 of at most %d bytes", name, maxText)
		}
	}
	if err := r.checkValues(); err != nil {
		return fmt.Errorf("evidence: record %q: %w", r.ID, err)
	}
	return nil
}

func (r *Record) checkValues() error {
	switch r.Decision {
	case Allow, Deny, Abstain:
	default:
		return fmt.Errorf("decision %q; ALLOW, DENY or ABSTAIN is needed", r.Decision)
	}
	switch r.OutcomeStatus {
	case "", Achieved, Failed, Partial, Pending:
	default:
		return fmt.Errorf("outcome_status %q; ACHIEVED, FAILED, PARTIAL, PENDING or none is needed", r.OutcomeStatus)
	}
	if r.Details.Signatures != Each && r.Details.Signatures != Batched {
		return fmt.Errorf("powerbox.signatures %q; batch or none is needed", r.Details.Signatures)
	}
	if c := r.Details.BodyCommitment; c != "" {
		if err := new(Hash).UnmarshalText([]byte(c)); err != nil {
			return fmt.Errorf("powerbox.body_commitment: %w", err)
		}
	}
	if r.Detached != nil && r.Detached.Opens(r.Details.BodyCommitment) != nil {
		return ErrBody
	}
	if year := r.Time.UTC().Year(); r.Time.IsZero() || year < 1 || year > 9999 {
		return errors.New("timestamp_utc is missing or not in the years 1 to 9999")
	}
	if r.Details.RevocationSequence < 0 || r.Details.Sequence < 0 {
		return errors.New("sequence or revocation_sequence is negative")
	}
	for _, member := range [...]struct {
		name   string
		object json.RawMessage
	}{{"outcome", r.Outcome}, {"intent.details", r.Intent.Details}, {"powerbox.arguments", r.Details.Arguments}} {
		if member.object != nil && !bytes.HasPrefix(bytes.TrimLeft(member.object, " \t\r\n"), []byte("{")) {
			return fmt.Errorf("%s is not a JSON object", member.name)
		}
	}
	return nil
}

// texts yields every text of the record with the name of its member.
// encoding/json would replace broken UTF-8 without a word, so that two
// different records could have one hash; hence every text is looked at.
func (r *Record) texts() func(yield func(name, text string) bool) {
	d := &r.Details
	return func(yield func(name, text string) bool) {
		for _, one := range [...]struct{ name, text string }{
			{"record_id", r.ID},
			{"agent_id", r.AgentID},
			{"task_id", r.TaskID},
			{"action_type", r.ActionType},
			{"intent.operation", r.Intent.Operation},
			{"intent.purpose", r.Intent.Purpose},
			{"recorder", d.Recorder},
			{"signing_key_id", d.SigningKeyID},
			{"requester", d.Requester},
			{"principal", d.Principal},
			{"tenant", d.Tenant},
			{"trace_id", d.TraceID},
			{"attempt", d.Attempt},
			{"capability", d.Capability},
			{"outcome_of", d.OutcomeOf},
			{"mode", d.Mode},
			{"policy_digest", d.PolicyDigest},
		} {
			if !yield(one.name, one.text) {
				return
			}
		}
		all := func(name string, texts ...string) bool {
			for _, text := range texts {
				if !yield(name, text) {
					return false
				}
			}
			return true
		}
		if !all("granted", d.Granted...) || !all("exercised", d.Exercised...) || !all("erased", d.Erased...) || !d.Gate.texts(all) {
			return
		}
		for _, reason := range d.Reasons {
			if !all("reasons", reason.Code, reason.Operation, reason.Argument, reason.Constraint, reason.Message) {
				return
			}
		}
	}
}

// texts shows every text to all, until one is enough. A nil g has none.
func (g *Gate) texts(all func(name string, texts ...string) bool) bool {
	return g == nil || all("gate", g.Origin, g.Target) && all("gate.required", g.Required...) &&
		all("gate.allowed", g.Allowed...) && all("gate.missing", g.Missing...)
}

// wire is a record with everything that its JSON has.
type wire struct {
	Record
	Timestamp string `json:"timestamp_utc"`
	Prev      *Hash  `json:"prev_record_hash,omitempty"`
	Hash      *Hash  `json:"record_hash,omitempty"`
	Signature string `json:"signature,omitempty"`
	Algorithm string `json:"signature_algorithm,omitempty"`
}

// slowBody is [wire.body] by way of encoding/json and [Canonical], which name
// the error of a record.
func (w wire) slowBody() ([]byte, error) {
	w.Prev, w.Hash, w.Signature = nil, nil, ""
	data, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("evidence: record %q: %w", w.ID, err)
	}
	// encoding/json may write six bytes for one, which does not make a record
	// too large: the limit is on the hashed bytes.
	body, err := canonical(data, 6*MaxRecord)
	if err == nil && len(body) > MaxRecord {
		err = fmt.Errorf("evidence: record %q has %d bytes, at most %d are allowed", w.ID, len(body), MaxRecord)
	}
	return body, err
}

// full puts the two hashes and the signature into a canonical body, at the
// places where the order of RFC 8785 has them. The marks cannot be missed: the
// members after "powerbox" are texts, and in a canonical text a quotation mark
// is escaped, so the last occurrence of each mark is the member itself.
func (w *wire) full(body []byte, signature string) []byte {
	at := bytes.LastIndex(body, []byte(`,"record_id":"`))
	text := append(make([]byte, 0, len(body)+len(signature)+256), body[:at]...)
	text = append(text, `,"prev_record_hash":"`...)
	text = hex.AppendEncode(text, w.Prev[:])
	text = append(text, `","record_hash":"`...)
	text = append(hex.AppendEncode(text, w.Hash[:]), '"')
	if signature == "" {
		return append(text, body[at:]...)
	}
	// With task_id and timestamp_utc behind it, signature_algorithm or the
	// first of these is what follows the signature.
	mark := `,"timestamp_utc":"`
	if w.TaskID != "" {
		mark = `,"task_id":"`
	}
	if w.Algorithm != "" {
		mark = `,"signature_algorithm":"`
	}
	behind := bytes.LastIndex(body, []byte(mark))
	text = append(text, body[at:behind]...)
	text = append(text, `,"signature":"`...)
	text = append(text, signature...)
	text = append(text, '"')
	return append(text, body[behind:]...)
}

// ChainID names one chain: 16 random bytes, 32 lower-case hex characters in
// JSON. It says nothing about the agent, so that leaves can be public.
type ChainID [16]byte

// String returns 32 lower-case hex characters.
func (c ChainID) String() string { return hex.EncodeToString(c[:]) }

// MarshalText is String.
func (c ChainID) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText accepts what String returns and nothing else.
func (c *ChainID) UnmarshalText(text []byte) error { return unhex(c[:], text) }

// Hash is a SHA-256 hash: 64 lower-case hex characters in JSON.
type Hash [32]byte

// String returns 64 lower-case hex characters.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText is String.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText accepts what String returns and nothing else.
func (h *Hash) UnmarshalText(text []byte) error { return unhex(h[:], text) }

func unhex(into, text []byte) error {
	if len(text) == 2*len(into) && !bytes.ContainsAny(text, "ABCDEF") {
		if _, err := hex.Decode(into, text); err == nil {
			return nil
		}
	}
	return fmt.Errorf("evidence: %d lower-case hex characters expected, %d characters found", 2*len(into), len(text))
}
