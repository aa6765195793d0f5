package evidence

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// forms are changes to the stored record of fullRecord that a reader which is not
// strict would not notice, or that another one would read as something else.
var forms = []struct{ from, to string }{
	{`"ALLOW"`, `"DENY"`}, // another record, in its form
	{`"fill_quantity":100`, `"fill_quantity":9007199254740991`},
	{`"fill_quantity":100`, `"fill_quantity":9007199254740992`},
	{`"fill_quantity":100`, `"fill_quantity":9007199254740993`},
	{`"fill_quantity":100`, `"fill_quantity":100.0`},
	{`"fill_quantity":100`, `"fill_quantity":1e2`},
	{`"fill_quantity":100`, `"fill_quantity":0100`},
	{`"fill_quantity":100`, `"fill_quantity":-0`},
	{`"fill_quantity":100`, `"fill_quantity":-1`},
	{`"fill_quantity":100`, `"fill_quantity":1e400`},
	{`"fill_quantity":100`, `"fill_quantity":1e+21`},
	{`"fill_quantity":100`, `"fill_quantity":1e-7`},
	{`"fill_quantity":100`, `"fill_quantity":0.30000000000000004`},
	{`"fill_quantity":100`, `"fill_quantity":0.300000000000000041`},
	{`"fill_quantity":100`, `"fill_quantity":5e-324`},
	{`"fill_quantity":100`, `"fill_quantity":true`},
	{`"fill_quantity":100`, `"fill_quantity":{}`},
	{`"fill_quantity":100`, `"fill_quantity":` + nested(61)},
	{`"fill_quantity":100`, `"fill_quantity":` + nested(62)},
	{`"fill_quantity":100`, `"fill_quantity":` + nested(63)},
	{`"fill_quantity":100`, `"fill_quantity":100,"fill_quantity":100`},
	{`"fill_quantity":100`, `"fill_quantity":100,"fill_r":1,"fill_q":1`},
	{`"fill_quantity":100`, `"fill_quantity": 100`},
	{`"status":"filled"`, `"status":"f\u0069lled"`},
	{`"status":"filled"`, `"status":"fi\/lled"`},
	{`"status":"filled"`, `"status":"\b\t\n\f\r\u000b\u001f\""`},
	{`"status":"filled"`, `"status":"\u000B"`},
	{`"status":"filled"`, `"status":"` + "\u007f\u2028\ufffd<>&" + `"`},
	{`"status":"filled"`, `"status":"\ud83d\ude00"`},
	{`"status":"filled"`, `"status":"\ud83d"`},
	{`"status":"filled"`, `"status":"` + strings.Repeat("<", maxText+1) + `"`},
	{`"status":"filled"`, `"status":"` + strings.Repeat("<", MaxRecord/4) + `"`},
	{`"status":"filled"`, `"status":"` + strings.Repeat("a", MaxRecord) + `"`},
	{`"action_type":"trade.execute"`, `"Action_type":"trade.execute"`},
	{`"action_type":"trade.execute"`, `"action_type":""`},
	{`"action_type":"trade.execute"`, `"action_type":null`},
	{`"action_type":"trade.execute"`, `"action_type":1`},
	{`"action_type":"trade.execute"`, `"action_type":"` + strings.Repeat("\u00e9", maxText/2) + `"`},
	{`"action_type":"trade.execute"`, `"action_type":"` + strings.Repeat("\u00e9", maxText/2) + `x"`},
	{`"agent_id":`, `"agent":"x","agent_id":`},
	{`{"action_type"`, `{ "action_type"`},
	{`"task_id":"task-abc-123",`, `"task_id":"",`},
	{`"task_id":"task-abc-123",`, ``},
	{`"outcome_status":"ACHIEVED",`, `"outcome_status":"",`},
	{`"outcome_status":"ACHIEVED",`, `"outcome_status":"DONE",`},
	{`"decision":"ALLOW"`, `"decision":"allow"`},
	{`"decision":"ALLOW"`, `"decision":"ABSTAIN"`},
	{`"timestamp_utc":"2026-03-04T12:01:15.123Z"`, `"timestamp_utc":"2026-03-04T12:01:15,123Z"`},
	{`"timestamp_utc":"2026-03-04T12:01:15.123Z"`, `"timestamp_utc":"2026-03-04T2:01:15.123Z"`},
	{`"timestamp_utc":"2026-03-04T12:01:15.123Z"`, `"timestamp_utc":"2026-02-29T12:01:15.123Z"`},
	{`"timestamp_utc":"2026-03-04T12:01:15.123Z"`, `"timestamp_utc":"2028-02-29T12:01:15.123Z"`},
	{`"timestamp_utc":"2026-03-04T12:01:15.123Z"`, `"timestamp_utc":"2026-03-04T24:00:00.000Z"`},
	{`"timestamp_utc":"2026-03-04T12:01:15.123Z"`, `"timestamp_utc":"2026-03-04T12:01:60.000Z"`},
	{`"timestamp_utc":"2026-03-04T12:01:15.123Z"`, `"timestamp_utc":"2026-03-04T12:01:15.1230Z"`},
	{`"timestamp_utc":"2026-03-04T12:01:15.123Z"`, `"timestamp_utc":"2026-03-04T12:01:15.123+00:00"`},
	{`"timestamp_utc":"2026-03-04T12:01:15.123Z"`, `"timestamp_utc":"0000-03-04T12:01:15.123Z"`},
	{`"timestamp_utc":"2026-03-04T12:01:15.123Z"`, `"timestamp_utc":"0001-01-01T00:00:00.000Z"`},
	{`"timestamp_utc":"2026-03-04T12:01:15.123Z"`, `"timestamp_utc":"0001-01-01T00:00:00.001Z"`},
	{`"timestamp_utc":"2026-03-04T12:01:15.123Z"`, `"timestamp_utc":"9999-12-31T23:59:59.999Z"`},
	{`"prev_record_hash":"00`, `"prev_record_hash":"AB`},
	{`"prev_record_hash":"00`, `"prev_record_hash":"ab`},
	{`"prev_record_hash":"00`, `"prev_record_hash":"0`},
	{`"prev_record_hash":"00`, `"prev_record_hash":"0x`},
	{`"chain_id":"01`, `"chain_id":"0g`},
	{`"sequence":0`, `"sequence":-1`},
	{`"sequence":0`, `"sequence":1.5`},
	{`"sequence":0`, `"sequence":"0"`},
	{`"sequence":0`, `"sequence":9007199254740991`},
	{`"sequence":0`, `"sequence":9007199254740992`},
	{`"revocation_sequence":12`, `"revocation_sequence":-1`},
	{`"link":1`, `"link":-1`},
	{`"link":1`, `"link":1.5`},
	{`"link":1`, `"link":null`},
	{`"granted":["portfolio.read","trade.execute"]`, `"granted":[]`},
	{`"granted":["portfolio.read","trade.execute"]`, `"granted":[""]`},
	{`"granted":["portfolio.read","trade.execute"]`, `"granted":[null]`},
	{`"origin":"a"`, `"origin":""`},
	{`"code":"argument_out_of_range"`, `"code":""`},
	{`"arguments":{"quantity":"redacted"}`, `"arguments":{}`},
	{`"arguments":{"quantity":"redacted"}`, `"arguments":[]`},
	{`"arguments":{"quantity":"redacted"}`, `"arguments":null`},
	{`"body_commitment":"0a`, `"body_commitment":"0A`},
	{`"body_commitment":"0a`, `"body_commitment":"0`},
	{`"body_commitment":"0a`, `"body_commitment":"0g`},
	{`"body_commitment":"0a`, `"body_commitment":"","capability":"0a`},
	{`"erased":["ev-2026-02-01-001"`, `"erased":[1`},
	{`"erased":["ev-2026-02-01-001","ev-2026-02-01-002"]`, `"erased":[]`},
	{`"erased":["ev-2026-02-01-001","ev-2026-02-01-002"],`, ``},
	{`"recorder":"issuer"`, `"recorder":""`},
	{`"mode":"require"`, `"mode":""`},
	{`"signing_key_id"`, `"signatures":"batch","signing_key_id"`},
	{`"signing_key_id"`, `"signatures":"none","signing_key_id"`},
	{`"signature_algorithm":"Ed25519"`, `"signature_algorithm":"none"`},
	{`"signature_algorithm":"Ed25519"`, `"signature_algorithm":""`},
	{`"signature":"`, `"signature":"="`},
	{`"signature":"`, `"signature":"\r`},
	{`"signature":"`, `"signature":"A`},
	{`"signature":"`, `"signature":"AA`},
	{`"signature":"`, `"signature":"","signature":"`},
}

// auditVector is a bundle as an auditor gets it, and how it was changed.
type auditVector struct {
	Name     string         `json:"name"`
	Class    string         `json:"class"`
	Trust    string         `json:"trust"`          // which of the trust files
	Seen     []string       `json:"seen,omitempty"` // signed checkpoints that the auditor has kept
	Verdict  Verdict        `json:"verdict"`        // ok, tampered or malformed
	Problems []auditProblem `json:"problems"`       // by line
	Bundle   string         `json:"bundle"`
}

type auditProblem struct {
	Kind     Kind   `json:"kind"`
	Line     int    `json:"line"`
	RecordID string `json:"record_id,omitempty"`
}

// audited collects vectors.
type audited struct {
	t       *testing.T
	trusts  map[string]Trust
	vectors []auditVector
	cases   []toBoth
}

func (a *audited) add(class, name, trust string, bundle []byte, seen ...[]byte) {
	vector := auditVector{Name: name, Class: class, Trust: trust, Bundle: string(bundle)}
	for _, signed := range seen {
		vector.Seen = append(vector.Seen, string(signed))
	}
	a.vectors = append(a.vectors, vector)
	a.cases = append(a.cases, toBoth{name: name, trust: a.trusts[trust], seen: seen, bundle: bundle})
}

// member finds every text, number and hash of a stored record, with its name.
var member = regexp.MustCompile(`"([^":,{}]+)":("[^"]*"|[0-9.]+|\[[^\]]*\])`)

// flips are the bundle with one bit changed, in every member of every kind of
// line, and in what stands between members.
func (a *audited) flips(bundle []byte) {
	begin := 0
	for line := range bytes.Lines(bundle) {
		kind := lineKind(line)
		if begin == 0 || !slices.ContainsFunc(a.vectors, func(v auditVector) bool { return strings.HasPrefix(v.Name, kind+":") }) {
			for _, found := range member.FindAllSubmatchIndex(line, -1) {
				spoilt := bytes.Clone(bundle)
				spoilt[begin+(found[4]+found[5])/2] ^= 1
				a.add("flipped byte", fmt.Sprintf("%s: a bit of the value of %s, byte %d", kind, line[found[2]:found[3]], found[4]), "each", spoilt)
			}
			for what, at := range map[string]int{"the first byte": 0, "the name of the first member": 3, "the line feed": len(line) - 1} {
				spoilt := bytes.Clone(bundle)
				spoilt[begin+at] ^= 1
				a.add("flipped byte", kind+": "+what, "each", spoilt)
			}
		}
		begin += len(line)
	}
	slices.SortFunc(a.vectors, func(x, y auditVector) int { return strings.Compare(x.Name, y.Name) })
	slices.SortFunc(a.cases, func(x, y toBoth) int { return strings.Compare(x.name, y.name) })
}

func lineKind(line []byte) string {
	for _, kind := range []string{"format", "leaves", "checkpoint"} {
		if bytes.HasPrefix(line, []byte(`{"`+kind+`"`)) {
			return kind
		}
	}
	return "record"
}

// stolen is a log of the same keys in which one record is another: what a thief
// of both signing keys hands out.
func stolen(t *testing.T, records, other int) *testLog {
	l := newTestLog(t)
	for i := range records {
		record := testRecord(fmt.Sprintf("ev-%d", i), "agent-1")
		if i == other {
			record.Decision = Deny
		}
		l.add(1, record)
	}
	return l
}

func (a *audited) histories() {
	kept := newTestLog(a.t).fill(4, 1)
	grown := newTestLog(a.t).fill(6, 1)
	a.add("whole", "a log that has grown since a checkpoint was kept", "each", grown.bundle(), kept.signed())
	a.add("rollback", "a log that was cut back and signed anew", "each", newTestLog(a.t).fill(3, 1).bundle(), kept.signed())
	a.add("rollback", "a log that was emptied and signed anew", "each", newTestLog(a.t).fill(0, 1).emptied().bundle(), kept.signed())
	a.add("fork", "a log of other records, signed by its own keys", "each", newTestLog(a.t).fill(5, 2).bundle(), kept.signed())
	a.add("fork", "one of two checkpoints that were kept is of another history", "each", grown.bundle(), kept.signed(), stolen(a.t, 5, 2).signed())
	a.add("stolen key", "a record before the kept checkpoint, and all behind it, signed again", "each", stolen(a.t, 6, 2).bundle(), kept.signed())
	a.add("stolen key", "the same, where no checkpoint was kept: nothing shows it", "each", stolen(a.t, 6, 2).bundle())
	a.add("stolen key", "a record behind the kept checkpoint: nothing shows it", "each", stolen(a.t, 6, 5).bundle(), kept.signed())
	thief := newTestLog(a.t)
	thief.signer = stranger(a.t)
	a.add("stolen key", "signed by a key that is not pinned, logged by the log's own", "each", thief.fill(2, 1).bundle())
	forked := newTestLog(a.t).fill(2, 1)
	forked.heads[ChainID{1}] = Genesis(ChainID{1})
	forked.add(1, testRecord("ev-other", "agent-1"))
	a.add("fork", "a chain with two records of one sequence, both logged", "each", forked.bundle())
	again := newTestLog(a.t).fill(2, 1)
	again.add(1, testRecord("ev-0", "agent-1"))
	a.add("duplicate", "a record id that is used again", "each", again.bundle())
}

// emptied gives a log without records the root of none.
func (l *testLog) emptied() *testLog {
	_, _, root, err := Grow(0, Hashes{}, nil)
	must(l.t, err)
	l.root = root
	return l
}

func (a *audited) batched() {
	l := mixedLog(a.t)
	parts := lines(l.bundle())
	a.add("whole", "every member, both algorithms, batches, an outcome that is not told", "batches", l.bundle())
	a.add("signature", "batches, for an auditor who does not admit them", "both", l.bundle())
	a.add("signature", "records of ES256, for an auditor who has pinned the other key alone", "each", l.bundle())
	cut := slices.Clone(parts)
	cut = slices.Delete(cut, 6, 7) // the last record of the batch, which has the signature
	a.add("dropped", "the record whose signature covers a batch", "batches", join(cut...))
	taken := slices.Clone(parts)
	taken[6] = regexp.MustCompile(`"signature":"[^"]*",`).ReplaceAll(taken[6], nil)
	a.add("signature", "the signature that covers a batch", "batches", join(taken...))
	swapped := slices.Clone(parts)
	swapped[4], swapped[5] = swapped[5], swapped[4]
	a.add("swapped", "two records of a batch", "batches", join(swapped...))
}

// TestEXT24_EXT26_VectorsOfAudits writes what an auditor may be handed, of every
// class, with the verdict of both implementations.
func TestEXT24_EXT26_VectorsOfAudits(t *testing.T) {
	l := mixedLog(t)
	both := l.trust()
	admits := both
	admits.Batches = true
	a := &audited{t: t, trusts: map[string]Trust{"each": newTestLog(t).trust(), "both": both, "batches": admits}}
	full := newTestLog(t)
	record := fullRecord()
	record.AgentID = IssuerID // which alone erases
	full.add(1, record)
	a.flips(full.bundle())
	six := newTestLog(t).fill(6, 1, 2)
	a.add("whole", "six records in two chains", "each", six.bundle())
	for _, drop := range []struct {
		name string
		line int
	}{{"the first record of a chain", 1}, {"a record within a chain", 3}, {"the last record of a chain", 6}, {"the header", 0}, {"the leaves", 7}, {"the checkpoint", 8}} {
		a.add("dropped", drop.name, "each", join(slices.Delete(lines(six.bundle()), drop.line, drop.line+1)...))
	}
	a.add("dropped", "everything", "each", []byte{})
	a.histories()
	a.batched()
	classes := map[string]bool{}
	for i, report := range bothSay(t, a.cases) {
		a.vectors[i].settle(report)
		classes[a.vectors[i].Class+" "+string(report.Verdict())] = true
	}
	for _, want := range []string{"flipped byte tampered", "dropped tampered", "swapped tampered", "fork tampered", "rollback tampered", "stolen key tampered", "signature tampered", "duplicate tampered", "whole ok"} {
		if !classes[want] {
			t.Errorf("no vector of %s", want)
		}
	}
	if classes["flipped byte ok"] || classes["whole tampered"] {
		t.Errorf("a flipped byte is ok, or a whole bundle is not: %v", classes)
	}
	goldenJSON(t, "audits.json", struct {
		Trusts map[string]Trust `json:"trusts"`
		Audits []auditVector    `json:"audits"`
	}{a.trusts, a.vectors})
}

func (v *auditVector) settle(report Report) {
	v.Verdict, v.Problems = report.Verdict(), []auditProblem{}
	for _, problem := range report.Problems {
		v.Problems = append(v.Problems, auditProblem{problem.Kind, problem.Line, problem.RecordID})
	}
}

// TestEXT24_AStolenKeyIsCaughtByTheKeptCheckpointAlone says what the vectors of
// that class show: where it is caught, it is the checkpoint that was kept.
func TestEXT24_AStolenKeyIsCaughtByTheKeptCheckpointAlone(t *testing.T) {
	var file struct {
		Audits []auditVector `json:"audits"`
	}
	readVectors(t, "audits.json", &file)
	found := map[string][]auditProblem{}
	for _, vector := range file.Audits {
		if vector.Class == "stolen key" {
			found[vector.Name] = vector.Problems
		}
	}
	want := map[string][]auditProblem{
		"a record before the kept checkpoint, and all behind it, signed again": {{Fork, 9, ""}},
		"the same, where no checkpoint was kept: nothing shows it":             {},
		"a record behind the kept checkpoint: nothing shows it":                {},
		"signed by a key that is not pinned, logged by the log's own":          {{UnknownKey, 2, "ev-0"}, {UnknownKey, 3, "ev-1"}},
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Error(diff)
	}
}
