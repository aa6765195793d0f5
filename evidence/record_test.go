package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fullRecord has every member, for tests that no member is lost.
func fullRecord() Record {
	link := 1
	return Record{
		ID: "ev-2026-03-04-001", AgentID: "trade-executor-agent-d8e9", TaskID: "task-abc-123", ActionType: "trade.execute",
		Intent: Intent{
			Operation: "trade.execute", Purpose: "rebalance <the> portfolio",
			Details: object(`{"order_type":"market","quantity":100,"side":"buy","symbol":"AAPL","` + "\U0001F600" + `":1,"` + "\ufb33" + `":2}`),
		},
		Decision: Allow, Outcome: object(`{"status": "filled", "fill_price": 187.42, "fill_quantity": 100}`), OutcomeStatus: Achieved,
		Time: testTime.Add(123 * time.Millisecond),
		Details: Details{
			Recorder: "issuer", Requester: "trade-router-agent-b2c4", Principal: "pairwise-7a3f", TraceID: "4bf92f3577b34da6a3ce929d0e0e4736",
			Attempt: "invocation", Capability: "cap-1", Granted: []string{"portfolio.read", "trade.execute"}, Exercised: []string{"trade.execute"},
			OutcomeOf: "ev-2026-03-04-000", Mode: "require", RevocationSequence: 12, PolicyDigest: "sha256:00",
			Gate:      &Gate{Origin: "a", Target: "b", Required: []string{"x", "y"}, Allowed: []string{"x"}, Missing: []string{"y"}},
			Reasons:   []Reason{{Code: "argument_out_of_range", Link: &link, Operation: "trade.execute", Argument: "quantity", Constraint: "range", Message: "quantity is outside its range"}},
			Arguments: object(`{"quantity":"redacted"}`), BodyCommitment: strings.Repeat("0a", 32), Erased: []string{"ev-2026-02-01-001", "ev-2026-02-01-002"},
		},
	}
}

func TestEXT21_EveryMemberHasItsNameAndSurvives(t *testing.T) {
	signer, err := NewEd25519Signer(ed25519Key(1))
	must(t, err)
	sealed, err := Seal(Head{ChainID: ChainID{1, 2}, Sequence: 7, Hash: Hash{3}}, fullRecord(), signer)
	must(t, err)
	var members map[string]json.RawMessage
	must(t, json.Unmarshal(sealed.Bytes(), &members))
	want := strings.Fields("record_id agent_id task_id action_type intent decision outcome outcome_status timestamp_utc " +
		"prev_record_hash record_hash signature signature_algorithm powerbox")
	for _, name := range want {
		if members[name] == nil {
			t.Errorf("no member %s", name)
		}
	}
	if len(members) != len(want) {
		t.Errorf("%d members, want %d", len(members), len(want))
	}
	if got := string(members["timestamp_utc"]); got != `"2026-03-04T12:01:15.123Z"` {
		t.Errorf("timestamp_utc %s", got)
	}
	parsed, err := ParseSealed(sealed.Bytes())
	must(t, err)
	wantRecord := fullRecord()
	wantRecord.Details.ChainID, wantRecord.Details.Sequence, wantRecord.Details.SigningKeyID = ChainID{1, 2}, 7, signer.KeyID()
	wantRecord.Outcome = object(`{"fill_price":187.42,"fill_quantity":100,"status":"filled"}`)
	wantRecord.Intent.Details = object(`{"order_type":"market","quantity":100,"side":"buy","symbol":"AAPL","` + "\U0001F600" + `":1,"` + "\ufb33" + `":2}`)
	if diff := cmp.Diff(wantRecord, parsed.Record()); diff != "" {
		t.Error(diff)
	}
}

func TestEXT22_TheHashIsOverPreviousHexAndCanonicalBody(t *testing.T) {
	record := testRecord("ev-1", "agent-1")
	record.Outcome, record.OutcomeStatus = object(`{"fill_price": 187.42}`), Achieved
	prev := Hash{0xa1}
	sealed, err := SealUnsafeUnsigned(Head{ChainID: ChainID{1}, Sequence: 1, Hash: prev}, record)
	must(t, err)
	// Written out by hand from the document, section 7.2.
	body := `{"action_type":"documents.read","agent_id":"agent-1","decision":"ALLOW","intent":{"operation":"documents.read"},` +
		`"outcome":{"fill_price":187.42},"outcome_status":"ACHIEVED","powerbox":{"chain_id":"01000000000000000000000000000000",` +
		`"recorder":"issuer","revocation_sequence":0,"sequence":1},"record_id":"ev-1","timestamp_utc":"2026-03-04T12:01:15.000Z"}`
	want := sha256.Sum256([]byte("a1" + strings.Repeat("0", 62) + body))
	if sealed.Hash() != want {
		t.Errorf("hash %s, want %x; body %s", sealed.Hash(), want, sealed.body)
	}
	full, err := Canonical([]byte(strings.TrimSuffix(body, "}") + fmt.Sprintf(`,"prev_record_hash":"%s","record_hash":"%x"}`, prev, want)))
	must(t, err)
	if diff := cmp.Diff(string(full), string(sealed.Bytes())); diff != "" {
		t.Error(diff)
	}
}

func TestEXT22_TheStoredBytesAreCanonical(t *testing.T) {
	signer, err := NewEd25519Signer(ed25519Key(1))
	must(t, err)
	tricky := fullRecord()
	tricky.Outcome = object(`{"x":",\"record_id\":\"","y":{"a":1,"record_id":"z","signature_algorithm":"q","task_id":"t"}}`)
	tricky.ID, tricky.TaskID = `","record_id":"`, `,"task_id":"`
	without := fullRecord()
	without.TaskID = ""
	for name, record := range map[string]Record{"full": fullRecord(), "tricky": tricky, "without task": without, "small": testRecord("a", "b")} {
		sealed, err := Seal(Genesis(ChainID{}), record, signer)
		must(t, err)
		canon, err := Canonical(sealed.Bytes())
		must(t, err)
		if !bytes.Equal(canon, sealed.Bytes()) {
			t.Errorf("%s: %s", name, sealed.Bytes())
		}
		if _, err := ParseSealed(sealed.Bytes()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEXT28_WhatARecordMustHave(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(*Record)
		want  string
	}{
		"no id":                {func(r *Record) { r.ID = "" }, "no record_id"},
		"no agent":             {func(r *Record) { r.AgentID = "" }, "no agent_id"},
		"no action":            {func(r *Record) { r.ActionType = "" }, "no action_type"},
		"no intent":            {func(r *Record) { r.Intent = Intent{} }, "no intent.operation"},
		"no recorder":          {func(r *Record) { r.Details.Recorder = "" }, "no powerbox.recorder"},
		"no decision":          {func(r *Record) { r.Decision = "" }, "ALLOW, DENY or ABSTAIN"},
		"another decision":     {func(r *Record) { r.Decision = "allow" }, "ALLOW, DENY or ABSTAIN"},
		"another status":       {func(r *Record) { r.OutcomeStatus = "DONE" }, "outcome_status"},
		"no time":              {func(r *Record) { r.Time = time.Time{} }, "timestamp_utc"},
		"a far year":           {func(r *Record) { r.Time = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }, "timestamp_utc"},
		"before revocations":   {func(r *Record) { r.Details.RevocationSequence = -1 }, "negative"},
		"ATK-39 2^53":          {func(r *Record) { r.Details.RevocationSequence = 1 << 53 }, "2^53-1"},
		"outcome is a list":    {func(r *Record) { r.Outcome = object(`[]`) }, "outcome is not a JSON object"},
		"outcome is null":      {func(r *Record) { r.Outcome = object(`null`) }, "outcome is not a JSON object"},
		"intent is a text":     {func(r *Record) { r.Intent.Details = object(`"x"`) }, "intent.details"},
		"arguments are empty":  {func(r *Record) { r.Details.Arguments = object(``) }, "powerbox.arguments"},
		"arguments are broken": {func(r *Record) { r.Details.Arguments = object(`{`) }, "record \"ev-1\""},
		"ATK-39 an amount":     {func(r *Record) { r.Outcome = object(`{"amount":1e400}`) }, "/outcome/amount"},
		"a member twice":       {func(r *Record) { r.Outcome = object(`{"a":1,"a":2}`) }, "duplicate"},
		"ATK-40 broken UTF-8":  {func(r *Record) { r.Details.Requester = "a\xff" }, "requester"},
		"ATK-40 in a list":     {func(r *Record) { r.Details.Granted = []string{"\xff"} }, "granted"},
		"ATK-40 in the gate":   {func(r *Record) { r.Details.Gate = &Gate{Missing: []string{"\xff"}} }, "gate.missing"},
		"ATK-40 in a reason":   {func(r *Record) { r.Details.Reasons = []Reason{{Message: "\xff"}} }, "reasons"},
		"a long text":          {func(r *Record) { r.Intent.Purpose = strings.Repeat("a", maxText+1) }, "intent.purpose"},
		"a large record":       {func(r *Record) { r.Outcome = object(`{"a":"` + strings.Repeat("a", MaxRecord) + `"}`) }, "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			record := testRecord("ev-1", "agent-1")
			test.spoil(&record)
			_, err := SealUnsafeUnsigned(Genesis(ChainID{}), record)
			wantError(t, err, test.want)
		})
	}
	if _, err := SealUnsafeUnsigned(Head{Sequence: -1}, testRecord("ev-1", "agent-1")); err == nil {
		t.Error("a negative sequence was sealed")
	}
}

func TestEXT25_AnOutcomeIsASecondRecord(t *testing.T) {
	decision := fullRecord()
	decision.Details.OutcomeOf, decision.Outcome, decision.OutcomeStatus = "", nil, Pending
	outcome, err := Outcome(decision, "ev-2", testTime.Add(time.Minute), Failed, object(`{"status":"rejected"}`))
	must(t, err)
	want := decision
	want.ID, want.Time, want.OutcomeStatus, want.Outcome = "ev-2", testTime.Add(time.Minute), Failed, object(`{"status":"rejected"}`)
	want.Details.OutcomeOf, want.Details.Arguments, want.Details.BodyCommitment, want.Details.Erased = decision.ID, nil, "", nil
	if diff := cmp.Diff(want, outcome); diff != "" {
		t.Error(diff)
	}
	_, err = Outcome(outcome, "ev-3", testTime, Achieved, nil)
	wantError(t, err, "only a PENDING record")
	for _, status := range []OutcomeStatus{Pending, ""} {
		_, err = Outcome(decision, "ev-3", testTime, status, nil)
		wantError(t, err, "ACHIEVED, FAILED or PARTIAL")
	}
}

func TestIdentifiersHaveOneSpelling(t *testing.T) {
	var chain ChainID
	must(t, chain.UnmarshalText([]byte("000102030405060708090a0b0c0d0e0f")))
	if chain.String() != "000102030405060708090a0b0c0d0e0f" {
		t.Error(chain)
	}
	text, err := Hash{0xab}.MarshalText()
	if want := "ab" + strings.Repeat("0", 62); err != nil || string(text) != want {
		t.Errorf("hash %s, want %s", text, want)
	}
	for _, text := range []string{"", "00", "000102030405060708090A0b0c0d0e0f", "000102030405060708090g0b0c0d0e0f", strings.Repeat("0", 64)} {
		if err := chain.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}
