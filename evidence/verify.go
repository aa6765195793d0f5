package evidence

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Trust is what a verifier brings: nothing in it may come from the bundle.
type Trust struct {
	// CheckpointKeys are verifier keys (C2SP signed-note vkeys) of the log.
	// Required.
	CheckpointKeys []string `json:"checkpoint_keys"`
	// RecordKeys are the keys that may sign records. Required.
	RecordKeys []PinnedKey `json:"record_keys"`
	// Batches says that a record need not have its own signature where it
	// says so and a later record of its chain is signed by its key ([Batched]).
	// Optional; without it every record must be signed.
	Batches bool `json:"batches,omitempty"`
	// Seen are checkpoints of the same log that the verifier has opened before.
	// Optional; with one, a log that was cut back or rewritten is found even when
	// its keeper signs it anew (ATK-43, ATK-44).
	Seen []Checkpoint `json:"-"`
	// Recorders are lists of recorders that the verifier has kept. Optional; with
	// them, a chain that is left out is named (EXT-33).
	Recorders []Recorders `json:"-"`
	// Checked remembers signatures that held under this trust. Optional.
	Checked *Checked `json:"-"`
	// Witnesses must have cosigned the checkpoint, as many as Quorum.Number says.
	// Optional; with them, a history that was shown to one verifier alone, or that
	// goes back behind another, is not believed (EXT-35, ATK-43, ATK-44).
	Quorum Quorum `json:"-"`
}

// ParseTrust reads a JSON file with checkpoint_keys and record_keys. Unknown
// members are refused.
func ParseTrust(data []byte) (Trust, error) {
	var trust Trust
	if err := decodeExact(data, &trust); err != nil {
		return Trust{}, fmt.Errorf("trust file: %w", err)
	}
	_, err := trust.prepare()
	return trust, err
}

// prepare checks everything that is pinned before a byte of a bundle is read.
func (t Trust) prepare() (known, error) {
	ready := known{keys: map[string]PinnedKey{}, batches: t.Batches, seen: t.Seen, checked: t.Checked, quorum: t.Quorum, recorders: t.Recorders}
	if err := t.Quorum.Usable(); err != nil {
		return known{}, err
	}
	for _, text := range t.CheckpointKeys {
		verifier, err := note.NewVerifier(text)
		if err != nil {
			return known{}, fmt.Errorf("evidence: checkpoint key %q: %w", text, err)
		}
		ready.log = append(ready.log, verifier)
	}
	for _, key := range t.RecordKeys {
		if _, err := key.public(); err != nil {
			return known{}, err
		}
		if key.Recorder == "" || len(key.Agents) == 0 {
			return known{}, fmt.Errorf("evidence: pinned key %q has no recorder or no agents; name them, or * for every agent", key.ID)
		}
		if _, twice := ready.keys[key.ID]; twice {
			return known{}, fmt.Errorf("evidence: key %q is pinned twice", key.ID)
		}
		ready.keys[key.ID] = key
	}
	for _, seen := range t.Seen {
		if _, err := parseCheckpoint(seen.String()); err != nil {
			return known{}, fmt.Errorf("seen before: %w", err)
		}
	}
	if len(ready.log) == 0 || len(ready.keys) == 0 {
		return known{}, errors.New("evidence: nothing is pinned: at least one checkpoint key and one record key are needed, and not from the bundle")
	}
	return ready, nil
}

type known struct {
	log  []note.Verifier
	keys map[string]PinnedKey
	seen []Checkpoint

	quorum    Quorum
	batches   bool
	checked   *Checked
	recorders []Recorders
}

// Kind names a problem of a line of a bundle.
type Kind string

// The kinds of problems. Each is evidence that the bundle differs from
// the log, except Malformed, which says that it cannot be read.
const (
	HashMismatch  Kind = "hash_mismatch"   // the record does not match its hash
	BadSignature  Kind = "bad_signature"   // not signed, or not by the key that it names
	UnknownKey    Kind = "unknown_key"     // signed by a key that is not pinned
	KeyNotAllowed Kind = "key_not_allowed" // pinned, but not for this recorder, agent or time
	MissingHead   Kind = "missing_head"    // a chain does not begin at its genesis
	MissingMiddle Kind = "missing_middle"  // a chain has a gap
	MissingTail   Kind = "missing_tail"    // the log has entries that are not here
	MissingChain  Kind = "missing_chain"   // a chain that there is, by a list or by the issuer's own chain, is not here
	Swapped       Kind = "swapped"         // not in the order of the log
	Fork          Kind = "fork"            // two histories of one chain or log
	BrokenLink    Kind = "broken_link"     // the hash before is not that of the record before
	Duplicate     Kind = "duplicate"       // the same record twice
	Stranger      Kind = "foreign_record"  // another agent's or recorder's record in a chain
	NotInLog      Kind = "not_in_log"      // whole and signed, but not in the log
	RootMismatch  Kind = "root_mismatch"   // the tree differs from the signed one
	MissingPeriod Kind = "missing_period"  // a bundle of a series does not begin where the one before ends
	BadErasure    Kind = "bad_erasure"     // erased bodies on record in another chain than the issuer's own
	BadOutcome    Kind = "bad_outcome"     // an outcome that is not of its decision's chain, or that nothing awaited
	TwoOutcomes   Kind = "two_outcomes"    // two outcomes of one decision that say different things
	BodyMismatch  Kind = "body_mismatch"   // a detached body is not what its record commits to
	NotWitnessed  Kind = "not_witnessed"   // too few pinned witnesses have cosigned the checkpoint
	Malformed     Kind = "malformed"       // not readable
)

// Problem is one thing that is wrong, for a person and for a program.
type Problem struct {
	Kind     Kind   `json:"kind"`
	Bundle   int    `json:"bundle,omitempty"` // of a series, from 1; 0 where there is one
	Line     int    `json:"line"`             // from 1
	RecordID string `json:"record_id,omitempty"`
	Chain    string `json:"chain_id,omitempty"`
	Sequence int64  `json:"sequence"` // of RecordID
	Message  string `json:"message"`
}

// Verdict sums up a report.
type Verdict string

// The verdicts. A malformed bundle is as untrusted as a changed
// one.
const (
	OK         Verdict = "ok"
	Tampered   Verdict = "tampered"
	Unreadable Verdict = "malformed"
)

// Report is what [Verify] found.
type Report struct {
	Origin   string        `json:"origin"`
	From     *FromReport   `json:"from,omitempty"`     // where it begins, if not with the first entry of the log
	Size     int64         `json:"size"`               // entries that the checkpoint covers
	Root     string        `json:"root"`               // base64
	Records  int           `json:"records"`            // records read
	Covered  int           `json:"covered"`            // of these, without a signature of their own, under that of a later record of their chain
	Cosigned []Cosignature `json:"cosigned,omitempty"` // which pinned witnesses have cosigned the checkpoint
	Chains   []ChainReport `json:"chains"`
	Silent   []string      `json:"silent_recorders,omitempty"` // recorders that a list names as open, without a record here
	Earlier  []string      `json:"chains_before,omitempty"`    // chains that a list or a record names, and that may be in what the series begins behind
	Bodies   BodyReport    `json:"bodies"`
	Pending  []string      `json:"outcome_unknown"` // records whose outcome was never told
	Problems []Problem     `json:"problems"`        // every one, by line
}

// ChainReport is one chain as far as it could be read.
type ChainReport struct {
	Chain    string `json:"chain_id"`
	AgentID  string `json:"agent_id"`
	Recorder string `json:"recorder"`
	Records  int    `json:"records"`
	Hash     string `json:"hash"` // of the last record
}

// Verdict returns OK only for a report without problems.
func (r Report) Verdict() Verdict {
	verdict := OK
	for _, problem := range r.Problems {
		if problem.Kind != Malformed {
			return Tampered
		}
		verdict = Unreadable
	}
	return verdict
}

// Verify reads a bundle and checks every line, hash, signature and chain, and
// that the records are exactly those under the signed checkpoint, in its order
// (EXT-22 to EXT-26, EXT-41). The error is for a trust that is not usable and
// for a failing reader; the problems of the bundle are in the report. Memory
// grows with the number of records, by less than 1 KiB each.
func Verify(r io.Reader, trust Trust) (Report, error) {
	return VerifySeries(trust, r)
}

// readBundle reads the lines of one bundle.
func (v *verifier) readBundle(r io.Reader) error {
	before := v.begin()
	lines, done := linesOf(r)
	defer done()
	for {
		line, err := lines.next()
		v.line = before + lines.number
		if err != nil {
			return v.end(err)
		}
		v.read(line, v.examine(lines.number, line))
	}
}

// newVerifier takes the pinned keys and the number of bundles.
func newVerifier(trust Trust, bundles int) (*verifier, error) {
	ready, err := trust.prepare()
	if err == nil && bundles == 0 {
		err = errors.New("evidence: no bundle to verify")
	}
	return &verifier{
		known: ready, series: bundles, reported: map[problemKey]bool{}, entries: newEntries(), parties: map[party]*party{},
		settled: map[string]bool{},
	}, err
}

// end is what follows when a bundle has no further line, for whatever reason.
func (v *verifier) end(err error) error {
	v.this().last = v.line
	switch {
	case failed(err):
		return fmt.Errorf("evidence: reading the bundle at %s: %w", v.where(v.line), err)
	case !errors.Is(err, io.EOF):
		v.problem(Malformed, nil, "%v", err)
	}
	return nil
}

// failed says that there is no further line because reading failed, and not for what
// the bundle is.
func failed(err error) bool {
	return !errors.Is(err, io.EOF) && !errors.Is(err, errLineTooLong) && !errors.Is(err, errLineOpen)
}

// verifier is one run of Verify.
type verifier struct {
	known
	report     Report
	reported   map[problemKey]bool
	line       int
	entries    entries
	parties    map[party]*party
	unreadable int   // lines whose record is not known
	excuses    []int // lines, unreadable or damaged, that can each explain one record missing from a chain
	gaps       int64 // records that are missing from chains and that nothing explains
	parts      []*part
	settled    map[string]bool // decisions with an outcome record
	expected   []expected      // chains that records speak of
	lengths    []int64         // of the chains of the report, with the records before the series
	series     int             // how many bundles there are
	erased     []erasure
	recordLine int  // the last line that was to be a record
	midway     bool // the first bundle begins behind others that are not here
}

type problemKey struct {
	kind Kind
	line int
}

// entry is the part of a readable record that the verifier remembers.
type entry struct {
	*party
	line       int
	id         string
	chain      ChainID
	sequence   int64
	prev, hash Hash
	leaf       tlog.Hash
	told       *told  // what it says became of another record; nil for none
	commitment string // to a body, "" for none
	damaged    bool   // its bytes differ from the hashed ones: nothing it says counts
	unsigned   bool   // its signature does not hold
	covered    bool   // it has no signature of its own
	repeated   bool
	vouched    bool // its key may sign it, and does if it has its own signature
	pending    bool
	opened     bool // with a body that matches the commitment
}

// party is what many entries share. Key is the id of the key that signed the record, or that a
// later record must be signed by; "" for none.
type party struct{ agent, recorder, key string }

// problem notes a problem, once per kind and line. A nil entry means the
// line that is being read.
func (v *verifier) problem(kind Kind, e *entry, format string, arguments ...any) {
	problem, line := Problem{Kind: kind, Message: fmt.Sprintf(format, arguments...)}, v.line
	if e != nil {
		line, problem.RecordID, problem.Chain, problem.Sequence = e.line, e.id, e.chain.String(), e.sequence
	}
	problem.Bundle, problem.Line = v.place(line)
	key := problemKey{kind, line}
	if !v.reported[key] {
		v.reported[key] = true
		v.report.Problems = append(v.report.Problems, problem)
	}
}

// read takes one line, with the result of examining it.
func (v *verifier) read(line []byte, found examined) {
	switch {
	case v.line == v.this().before+1:
		v.readHeader(line)
	case v.this().ended > 0:
		v.problem(Malformed, nil, "there is something behind the checkpoint, which is the last line")
	case bytes.HasPrefix(line, []byte(checkpointMark)):
		v.readCheckpoint(line)
	case bytes.HasPrefix(line, []byte(leavesMark)):
		v.readLeaves(line)
	case bytes.HasPrefix(line, []byte(bodyMark)):
		v.readBody(line)
	default:
		v.readRecord(found)
	}
}

// examined is the result for one record alone, which is most of the work
// and needs no other line.
type examined struct {
	sealed    Sealed
	leaf      tlog.Hash
	malformed error
	hash      error
	signature error // nil where the key is not pinned
	checked   bool  // whether the signature was checked, and not known to hold
}

// examine checks one line of a bundle alone. Lines that are no records are
// left alone.
func (k known) examine(number int, line []byte) (found examined) {
	if number == 1 || bytes.HasPrefix(line, []byte(checkpointMark)) || bytes.HasPrefix(line, []byte(leavesMark)) || bytes.HasPrefix(line, []byte(bodyMark)) {
		return found
	}
	if found.sealed, found.malformed = ParseSealed(line); found.malformed != nil {
		return found
	}
	found.leaf = tlog.RecordHash(Leaf(found.sealed))
	if found.hash = found.sealed.CheckHash(); found.hash != nil {
		return found
	}
	key, ok := k.keys[found.sealed.Record().Details.SigningKeyID]
	if (ok || len(found.sealed.signature) == 0) && !k.checked.holds(found.leaf) {
		found.signature, found.checked = found.sealed.CheckSignature(key.Key), true
	}
	return found
}

// readHeader checks what the bundle says of itself. Its keys are compared with
// the pinned ones and then not used.
func (v *verifier) readHeader(line []byte) {
	var header headerLine
	if err := decodeLine(line, &header); err != nil {
		v.problem(Malformed, nil, "header: %v", err)
		return
	}
	if header.Format != bundleForm {
		v.problem(Malformed, nil, "header: format %q; this verifier reads %q", header.Format, bundleForm)
	}
	p := v.this()
	begins, err := header.From.tree()
	if err != nil {
		v.problem(Malformed, nil, "header: %v", err)
	}
	if p.begins, p.headed = begins, err == nil; len(v.parts) == 1 {
		v.report.Origin = header.Origin
		if v.midway = header.From != nil && p.headed; v.midway {
			v.report.From = &FromReport{begins.size, begins.root(begins.size).String()}
		}
	} else if header.Origin != v.report.Origin {
		v.problem(Malformed, nil, "header: the bundle is of log %q, the first one of %q", header.Origin, v.report.Origin)
	}
	for _, key := range header.Keys {
		if pinned, ok := v.keys[key.ID]; !ok || pinned.Key != key {
			v.problem(UnknownKey, nil, "header: key %q of recorder %q is not pinned, or is pinned differently", key.ID, key.Recorder)
		}
	}
}

func (v *verifier) readRecord(found examined) {
	v.recordLine = v.line
	if found.malformed != nil {
		v.unreadable++
		v.excuses = append(v.excuses, v.line)
		v.problem(Malformed, nil, "record: %v", found.malformed)
		return
	}
	sealed := found.sealed
	record := sealed.Record()
	e := entry{
		party: v.party(party{record.AgentID, record.Details.Recorder, ""}), line: v.line, id: strings.Clone(record.ID),
		chain: record.Details.ChainID, sequence: record.Details.Sequence,
		prev: sealed.Prev(), hash: sealed.Hash(), leaf: found.leaf,
		pending: record.OutcomeStatus == Pending,
	}
	v.report.Records++
	if found.hash != nil {
		e.damaged = true
		v.excuses = append(v.excuses, v.line)
		v.problem(HashMismatch, &e, "%v", found.hash)
	} else {
		v.checkSigner(found, &e)
	}
	if !e.damaged {
		v.checkUnique(&e)
		if record.IsOutcome() {
			said := newTold(record)
			e.told = &said
		}
		v.expectClosed(record, &e)
		v.noteBody(&e, record.Details)
	}
	v.entries.add(e)
}

// party returns the one of these names, which do not keep the record they are in: there are
// few agents, recorders and keys, and many records.
func (v *verifier) party(of party) *party {
	known, ok := v.parties[of]
	if !ok {
		known = &party{strings.Clone(of.agent), strings.Clone(of.recorder), strings.Clone(of.key)}
		v.parties[*known] = known
	}
	return known
}

// checkUnique finds an id that was used before (EXT-24). The same record again
// has no place in its chain; another record with that id has.
func (v *verifier) checkUnique(e *entry) {
	first := v.entries.first(e.id)
	if first == nil {
		return
	}
	e.repeated = first.hash == e.hash
	v.problem(Duplicate, e, "record id %q is already on %s", e.id, v.where(first.line))
}

func (v *verifier) checkSigner(found examined, e *entry) {
	sealed := found.sealed
	record := sealed.Record()
	key, ok := v.keys[record.Details.SigningKeyID]
	if !ok && len(sealed.signature) > 0 {
		v.problem(UnknownKey, e, "record %q is signed with key %q, which is not pinned", e.id, record.Details.SigningKeyID)
		return
	}
	e.covered = v.batches && ok && sealed.Covered()
	if found.signature != nil && !e.covered {
		e.unsigned = true
		v.problem(BadSignature, e, "%v", found.signature)
		return
	}
	if found.checked && found.signature == nil {
		v.checked.note(e.leaf)
	}
	e.party = v.party(party{e.agent, e.recorder, key.ID})
	err := key.allows(record)
	if e.vouched = err == nil; !e.vouched {
		v.problem(KeyNotAllowed, e, "record %q: %v", e.id, err)
	}
}

func (v *verifier) readLeaves(line []byte) {
	var part leavesLine
	if err := decodeLine(line, &part); err != nil {
		v.problem(Malformed, nil, "leaves: %v", err)
		return
	}
	data, err := base64.StdEncoding.Strict().DecodeString(part.Leaves)
	if err != nil || len(data)%tlog.HashSize != 0 || strings.ContainsAny(part.Leaves, "\r\n") {
		v.problem(Malformed, nil, "leaves: base64 of whole hashes of %d bytes expected", tlog.HashSize)
		return
	}
	for hash := range slices.Chunk(data, tlog.HashSize) {
		v.this().leaves = append(v.this().leaves, tlog.Hash(hash))
	}
}

func (v *verifier) readCheckpoint(line []byte) {
	v.this().ended = v.line
	var last checkpointLine
	if err := decodeLine(line, &last); err != nil {
		v.problem(Malformed, nil, "checkpoint: %v", err)
		return
	}
	checkpoint, err := OpenCheckpoint([]byte(last.Checkpoint), v.log...)
	var invalid *note.InvalidSignatureError
	var unverified *note.UnverifiedNoteError
	switch {
	case errors.As(err, &invalid):
		v.problem(BadSignature, nil, "%v", err)
	case errors.As(err, &unverified):
		v.problem(UnknownKey, nil, "%v", err)
	case err != nil:
		v.problem(Malformed, nil, "%v", err)
	default:
		v.this().checkpoint = &checkpoint
		v.checkQuorum([]byte(last.Checkpoint))
	}
}

// checkQuorum asks for the cosignatures that the verifier demands.
func (v *verifier) checkQuorum(signed []byte) {
	var err error
	v.report.Cosigned, err = v.quorum.Check(signed)
	switch {
	case errors.Is(err, ErrNotWitnessed):
		v.problem(NotWitnessed, nil, "%v", err)
	case err != nil:
		v.problem(BadSignature, nil, "%v", err)
	}
}

// finish does what needs the whole bundle.
func (v *verifier) finish() {
	v.checkChains()
	v.checkOutcomes()
	v.checkExpected()
	v.checkTrees()
	for e := range v.entries.all() {
		if e.pending && !v.settled[e.id] {
			v.report.Pending = append(v.report.Pending, e.id)
		}
	}
	v.countErased()
	slices.SortStableFunc(v.report.Problems, func(a, b Problem) int { return cmp.Or(a.Bundle-b.Bundle, a.Line-b.Line) })
}
