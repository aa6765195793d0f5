package evidence

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestEXT22_AChainBeginsAtZerosAndGoesOn(t *testing.T) {
	l := newTestLog(t)
	first := l.add(1, testRecord("ev-0", "agent-1"))
	second := l.add(1, testRecord("ev-1", "agent-1"))
	if first.Prev().String() != strings.Repeat("0", 64) {
		t.Errorf("genesis follows %s", first.Prev())
	}
	if second.Prev() != first.Hash() || second.Record().Details.Sequence != 1 {
		t.Errorf("second record has sequence %d and follows %s", second.Record().Details.Sequence, second.Prev())
	}
	if want := (Head{ChainID: ChainID{1}, Sequence: 2, Hash: second.Hash()}); second.Head() != want {
		t.Errorf("head %v, want %v", second.Head(), want)
	}
}

func TestEXT22_TimeIsUTCInMilliseconds(t *testing.T) {
	record := testRecord("ev-0", "agent-1")
	record.Time = time.Date(2026, 3, 4, 13, 1, 15, 999_999_999, time.FixedZone("", 3600))
	sealed, err := SealUnsafeUnsigned(Genesis(ChainID{}), record)
	must(t, err)
	if want := testTime.Add(999 * time.Millisecond); !sealed.Record().Time.Equal(want) || !bytes.Contains(sealed.Bytes(), []byte("12:01:15.999Z")) {
		t.Errorf("time %s in %s", sealed.Record().Time, sealed.Bytes())
	}
}

func TestEXT23_BothAlgorithmsSignTheHashAndAreInsideIt(t *testing.T) {
	edPrivate, ecPrivate := ed25519Key(1), p256Key(t, 1)
	ed, err := NewEd25519Signer(edPrivate)
	must(t, err)
	ec, err := NewES256Signer(ecPrivate)
	must(t, err)
	edKey, err := NewKey(edPrivate.Public(), "issuer")
	must(t, err)
	ecKey, err := NewKey(ecPrivate.Public(), "issuer")
	must(t, err)
	for _, test := range []struct {
		signer     Signer
		key, other Key
	}{{ed, edKey, ecKey}, {ec, ecKey, edKey}} {
		sealed, err := Seal(Genesis(ChainID{}), testRecord("ev-0", "agent-1"), test.signer)
		must(t, err)
		parsed, err := ParseSealed(sealed.AppendTo(nil))
		must(t, err)
		must(t, parsed.CheckHash())
		must(t, parsed.CheckSignature(test.key))
		hash := parsed.Hash()
		must(t, test.key.verify(hash[:], parsed.signature))
		if !bytes.Contains(parsed.body, []byte(`"signature_algorithm":"`+parsed.Algorithm()+`"`)) || parsed.Algorithm() != test.key.Algorithm {
			t.Errorf("algorithm %q is not inside the hash", parsed.Algorithm())
		}
		wantError(t, parsed.CheckSignature(test.other), "names key")
		test.key.Algorithm = test.other.Algorithm
		wantError(t, parsed.CheckSignature(test.key), "algorithm")
	}
}

func TestEXT23_AnotherRecordsSignatureDoesNotVerify(t *testing.T) {
	l := newTestLog(t).fill(2, 1)
	first, err := ParseSealed(l.records[0])
	must(t, err)
	second, err := ParseSealed(l.records[1])
	must(t, err)
	moved, err := ParseSealed([]byte(strings.Replace(string(l.records[0]), signatureText(first), signatureText(second), 1)))
	must(t, err)
	must(t, moved.CheckHash())
	wantError(t, moved.CheckSignature(l.keys[0]), "does not verify")
}

// brokenSigner is a key that cannot be used, as in a module that is gone.
type brokenSigner struct{ Signer }

func (brokenSigner) Sign([]byte) ([]byte, error) { return nil, errors.New("module is gone") }

func TestEXT27_WhatCannotBeSignedIsNotSealed(t *testing.T) {
	_, err := Seal(Genesis(ChainID{}), testRecord("ev-0", "agent-1"), nil)
	wantError(t, err, "no signer")
	signer, err := NewEd25519Signer(ed25519Key(1))
	must(t, err)
	_, err = Seal(Genesis(ChainID{}), testRecord("ev-0", "agent-1"), brokenSigner{signer})
	wantError(t, err, "module is gone")
	_, err = Seal(Genesis(ChainID{}), Record{}, signer)
	wantError(t, err, "no record_id")
}

func TestEXT22_ARecordHasOneForm(t *testing.T) {
	l := newTestLog(t)
	record := fullRecord()
	sealed := string(l.add(1, record).Bytes())
	for name, test := range map[string]struct{ from, to, want string }{
		"not JSON":               {`{"action_type"`, `"action_type"`, "not a record"},
		"unknown member":         {`"mode":`, `"made":`, "unknown field"},
		"another case":           {`"mode":`, `"Mode":`, "canonical form"},
		"null":                   {`"mode":"require"`, `"mode":null`, "canonical form"},
		"empty list":             {`"granted":["portfolio.read","trade.execute"]`, `"granted":[]`, "canonical form"},
		"white space":            {`"mode":"`, `"mode": "`, "canonical form"},
		"trailing data":          {`.123Z"}`, `.123Z"} `, "canonical form"},
		"member twice":           {`"mode":"require"`, `"mode":"require","mode":"require"`, "canonical form"},
		"an escape":              {`"mode":"require"`, `"mode":"\u0072equire"`, "canonical form"},
		"a float sequence":       {`"sequence":0`, `"sequence":0.0`, "not a record"},
		"ATK-39 minus zero":      {`"sequence":0`, `"sequence":-0`, "canonical form"},
		"ATK-39 a number":        {`187.42`, `187.420000000000001`, "/outcome/fill_price"},
		"a large chain id":       {`"chain_id":"01`, `"chain_id":"0A`, "lower-case hex"},
		"no milliseconds":        {`.123Z"`, `Z"`, "timestamp_utc"},
		"no hash":                {`"record_hash":`, `"record_hush":`, "unknown field"},
		"no previous hash":       {`"prev_record_hash":"` + strings.Repeat("0", 64) + `",`, ``, "no prev_record_hash"},
		"no decision":            {`"ALLOW"`, `"MAYBE"`, "ALLOW, DENY or ABSTAIN"},
		"signature is no base64": {`"signature":"`, `"signature":"!`, "base64url"},
		"signature is folded":    {`"signature":"`, `"signature":"\n`, "base64url"},
		"members out of order":   {`"agent_id":"trade-executor-agent-d8e9","decision":"ALLOW"`, `"decision":"ALLOW","agent_id":"trade-executor-agent-d8e9"`, "canonical form"},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(sealed, test.from) {
				t.Fatalf("no %s in %s", test.from, sealed)
			}
			_, err := ParseSealed([]byte(strings.Replace(sealed, test.from, test.to, 1)))
			wantError(t, err, test.want)
		})
	}
}

// signatureText is a signature as it stands in the stored record.
func signatureText(s Sealed) string { return base64.RawURLEncoding.EncodeToString(s.signature) }

func TestEXT23_TheLastBitsOfASignatureCount(t *testing.T) {
	l := newTestLog(t)
	sealed := l.add(1, testRecord("ev-0", "agent-1"))
	signature := signatureText(sealed)
	last := signature[len(signature)-1]
	spoilt := strings.Replace(string(sealed.Bytes()), signature, signature[:len(signature)-1]+string(rune(last+1)), 1)
	_, err := ParseSealed([]byte(spoilt))
	wantError(t, err, "base64url")
}

func TestASignatureWithoutAlgorithmIsKeptAndDoesNotVerify(t *testing.T) {
	for _, task := range []string{"", "task-1"} {
		record := testRecord("ev-0", "agent-1")
		record.TaskID = task
		sealed, err := SealUnsafeUnsigned(Genesis(ChainID{}), record)
		must(t, err)
		parsed, err := ParseSealed(sealed.wire.full(sealed.body, "AAAA"))
		must(t, err)
		wantError(t, parsed.CheckSignature(Key{Algorithm: Ed25519}), "algorithm")
	}
}

func TestDifference(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", -1}, {"ab", "ab", -1}, {"ab", "ac", 1}, {"ab", "abc", 2}, {"abc", "ab", 2}} {
		if got := difference([]byte(test.a), []byte(test.b)); got != test.want {
			t.Errorf("%q and %q differ at %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

// A record that is signed later is the record that is signed at once.
func TestEXT23_SignedLater(t *testing.T) {
	l := newTestLog(t)
	head, record := Genesis(ChainID{1}), testRecord("ev-0", "agent-1")
	at, err := Seal(head, record, l.signer)
	must(t, err)
	later, err := SealToSign(head, record, l.signer)
	must(t, err)
	if later.Signed() || !at.Signed() {
		t.Error("signed: want no before the signature and yes after it")
	}
	later, err = later.Sign(l.signer)
	must(t, err)
	if string(later.Bytes()) != string(at.Bytes()) || !later.Signed() {
		t.Errorf("signed later:\n%s\nat once:\n%s", later.Bytes(), at.Bytes())
	}
}
