package evidence

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// quickRecords are records of which the forms are sure.
func quickRecords() map[string]Record {
	full, link := fullRecord(), 0
	full.Intent.Details = object(`{"":-7,"a":[],"b":[true,false,null,0,"ü"],"c":{},"d":{"e":[{"f":123456789012345},-1]}}`)
	full.Outcome = object(`{"status":"filled"}`)
	full.Details.Reasons = append(full.Details.Reasons, Reason{Code: ""}, Reason{Code: "x", Link: &link})
	bare := testRecord("ev-1", "\u00fcber-agent \U0001F600")
	bare.Details.Gate, bare.Outcome = &Gate{}, object(`{}`)
	return map[string]Record{"full": full, "bare": bare, "small": testRecord("a", "b")}
}

// agreed checks that what the quick way takes is what the slow way takes.
func agreed(t *testing.T, data []byte) bool {
	t.Helper()
	quick, sure := quickSealed(data)
	if !sure {
		return false
	}
	slow, err := slowSealed(data)
	if err != nil || !reflect.DeepEqual(quick, slow) {
		t.Fatalf("%s\nis taken as %+v\nand should be %+v, %v", data, quick, slow, err)
	}
	return true
}

func TestEXT22_TheQuickFormIsTheCanonicalForm(t *testing.T) {
	signer, err := NewEd25519Signer(ed25519Key(1))
	must(t, err)
	for name, record := range quickRecords() {
		for _, status := range []OutcomeStatus{"", Pending} {
			record.OutcomeStatus = status
			sealed, err := Seal(Head{ChainID: ChainID{1}, Sequence: 12, Hash: Hash{3}}, record, signer)
			must(t, err)
			quick, sure := sealed.wire.quickBody()
			slow, err := sealed.wire.slowBody()
			if !sure || err != nil || string(quick) != string(slow) {
				t.Errorf("%s: %t %v\n%s\n%s", name, sure, err, quick, slow)
			}
			if !agreed(t, sealed.Bytes()) {
				t.Errorf("%s is not read: %s", name, sealed.Bytes())
			}
		}
	}
}

// Whatever is done to a record, the quick way takes nothing that the slow way
// refuses, and nothing as something else.
func TestEXT22_NothingIsTakenThatIsNotInItsOneForm(t *testing.T) {
	signer, err := NewEd25519Signer(ed25519Key(1))
	must(t, err)
	for _, record := range quickRecords() {
		sealed, err := Seal(Genesis(ChainID{1}), record, signer)
		must(t, err)
		whole := sealed.Bytes()
		tokens := []string{`,`, `"`, `{`, `}`, `[`, `]`, `:`, `0`, `A`, ` `, `\`, "\n", "\xff", "", `""`, `{}`, `[]`, `null`, `,"z":1`, `9007199254740993`}
		for at := range whole {
			for _, token := range tokens {
				agreed(t, slices.Concat(whole[:at], []byte(token), whole[at:]))
				agreed(t, slices.Concat(whole[:at], []byte(token), whole[at+1:]))
			}
			agreed(t, whole[:at])
		}
	}
}

// Members that are missing, twice, empty or elsewhere.
func TestEXT22_MembersStandInTheirPlace(t *testing.T) {
	signer, err := NewEd25519Signer(ed25519Key(1))
	must(t, err)
	sealed, err := Seal(Genesis(ChainID{1}), quickRecords()["full"], signer)
	must(t, err)
	whole := string(sealed.Bytes())
	for _, change := range [][2]string{
		{`"intent":{`, ``},
		{`"powerbox":{`, ``},
		{`"gate":{`, `"gate":[`},
		{`"reasons":[{`, `"reasons":[`},
		{`,"target":"b"`, ``},
		{`"granted":["portfolio.read","trade.execute"]`, `"granted":[]`},
		{`"mode":"require"`, `"mode":""`},
		{`"link":1`, `"link":null`},
		{`"link":1`, `"link":-1`},
		{`"link":1`, `"link":01`},
		{`"link":1`, `"link":1.5`},
		{`"sequence":0`, `"sequence":-0`},
		{`"revocation_sequence":12`, `"revocation_sequence":1e1`},
		{`"a":[]`, `"a":[],"a":[]`},
		{`"b":[true`, `"b":[true,`},
		{`"arguments":{"quantity":"redacted"}`, `"arguments":["quantity"]`},
		{`"arguments":{"quantity":"redacted"}`, `"arguments":{"b":1,"a":1}`},
		{`"arguments":{"quantity":"redacted"}`, `"arguments":{"a":1,"a b":1}`},
		{`"arguments":{"quantity":"redacted"}`, `"arguments":{"ü":1}`},
		{`"arguments":{"quantity":"redacted"}`, `"arguments":` + strings.Repeat(`{"a":`, 40) + `1` + strings.Repeat(`}`, 40)},
		{`"decision":"ALLOW"`, `"decision":"MAYBE"`},
		{`.123Z`, `.12Z`},
		{`"timestamp_utc"`, `"TIMESTAMP_UTC"`},
		{`"signature":"`, `"signature":"=`},
		{`"record_hash":"`, `"record_hash":"F`},
		{`"record_id":"ev-2026-03-04-001"`, `"record_id":""`},
		{`"purpose":"`, `"purpose":"` + strings.Repeat("a", maxQuick)},
	} {
		changed := strings.Replace(whole, change[0], change[1], 1)
		if changed == whole {
			t.Fatalf("%s is not there: %s", change[0], whole)
		}
		agreed(t, []byte(changed))
	}
}

// What the quick way is not sure of is sealed all the same.
func TestEXT22_WhatIsUnusualIsSealedTheSlowWay(t *testing.T) {
	for name, spoil := range map[string]func(*Record){
		"a fraction":       func(r *Record) { r.Outcome = object(`{"fill_price":187.42}`) },
		"white space":      func(r *Record) { r.Outcome = object(`{ "a": 1 }`) },
		"an escape":        func(r *Record) { r.Outcome = object(`{"a":"\\"}`) },
		"order":            func(r *Record) { r.Outcome = object(`{"b":1,"a":1}`) },
		"behind an object": func(r *Record) { r.Outcome = object(`{} `) },
		"a negative link":  func(r *Record) { link := -1; r.Details.Reasons = []Reason{{Link: &link}} },
		"a large text":     func(r *Record) { r.Outcome = object(`{"a":"` + strings.Repeat("a", maxQuick) + `"}`) },
	} {
		record := testRecord("ev-1", "agent-1")
		spoil(&record)
		sealed, err := SealUnsafeUnsigned(Genesis(ChainID{}), record)
		must(t, err)
		if _, sure := sealed.wire.quickBody(); sure {
			t.Errorf("%s: the quick way is sure of it", name)
		}
		parsed, err := ParseSealed(sealed.Bytes())
		must(t, err)
		must(t, parsed.CheckHash())
	}
}

// A text with escapes is written the quick way and read the slow way.
func TestEXT22_EscapesAreThoseOfRFC8785(t *testing.T) {
	record := testRecord("ev-1", "agent-1")
	for c := range rune(0x120) {
		record.Intent.Purpose += string(c)
	}
	record.Intent.Purpose += "\u2028\u2029\ufffd\U0001F600<>&"
	sealed, err := SealUnsafeUnsigned(Genesis(ChainID{}), record)
	must(t, err)
	quick, sure := sealed.wire.quickBody()
	slow, err := sealed.wire.slowBody()
	if !sure || err != nil || string(quick) != string(slow) {
		t.Errorf("%t %v\n%s\n%s", sure, err, quick, slow)
	}
	if agreed(t, sealed.Bytes()) {
		t.Error("the quick way is sure of escapes")
	}
}
