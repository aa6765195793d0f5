package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"testing"
)

// latticeLog is a log whose recorder signs with ML-DSA-87.
func latticeLog(t *testing.T) *testLog {
	t.Helper()
	l := newTestLog(t)
	private := latticeKey(t, 4)
	var err error
	l.signer, err = NewMLDSA87Signer(private)
	must(t, err)
	key, err := NewKey(private.PublicKey(), "issuer")
	must(t, err)
	l.keys = []Key{key}
	return l
}

// TestEXT29_RecordsOfMLDSA87 are records that stay convincing for longer than
// keys on curves may: signed with ML-DSA-87, single and in batches.
func TestEXT29_RecordsOfMLDSA87(t *testing.T) {
	l := latticeLog(t).fill(3, 1, 2)
	l.batch(3, 3, 1)
	trust := l.trust()
	trust.Batches = true
	report, err := Verify(bytes.NewReader(l.bundle()), trust)
	must(t, err)
	if report.Verdict() != OK || report.Records != 6 || report.Covered == 0 {
		t.Fatalf("%s of %d records, %d covered: %v", report.Verdict(), report.Records, report.Covered, report.Problems)
	}
	sealed, err := ParseSealed(l.records[0])
	must(t, err)
	if sealed.Algorithm() != MLDSA87 || len(sealed.signature) != 4627 {
		t.Errorf("%s with a signature of %d bytes", sealed.Algorithm(), len(sealed.signature))
	}
	if _, err := VerifyRecord(l.records[0], l.proof(0), trust); err != nil {
		t.Error(err)
	}
}

// TestEXT29_ASignatureOfMLDSA87IsChecked flips a bit of it, and moves it.
func TestEXT29_ASignatureOfMLDSA87IsChecked(t *testing.T) {
	l := latticeLog(t).fill(2, 1)
	first, err := ParseSealed(l.records[0])
	must(t, err)
	second, err := ParseSealed(l.records[1])
	must(t, err)
	flipped := bytes.Clone(first.signature)
	flipped[1000] ^= 1
	for name, signature := range map[string][]byte{"flipped": flipped, "of another record": second.signature, "cut": first.signature[:4626], "none": nil} {
		spoilt := bytes.Replace(l.records[0], []byte(first.wire.Signature), []byte(base64.RawURLEncoding.EncodeToString(signature)), 1)
		if name == "none" {
			spoilt = bytes.Replace(l.records[0], []byte(`,"signature":"`+first.wire.Signature+`"`), nil, 1)
		}
		report := l.verify(bytes.Replace(l.bundle(), l.records[0], spoilt, 1))
		if got := kinds(report); len(got) == 0 || got[0] != "bad_signature@2" {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestEXT29_TheThumbprintOfAnAKPKey is over the required members in their order
// (RFC 7638; kty AKP of draft-ietf-cose-dilithium).
func TestEXT29_TheThumbprintOfAnAKPKey(t *testing.T) {
	key, err := NewKey(latticeKey(t, 4).PublicKey(), "issuer")
	must(t, err)
	sum := sha256.Sum256([]byte(`{"alg":"ML-DSA-87","kty":"AKP","pub":"` + key.Pub + `"}`))
	if want := base64.RawURLEncoding.EncodeToString(sum[:]); key.ID != want {
		t.Errorf("kid %s, want %s", key.ID, want)
	}
}

// retentionVector is what testdata/vectors/evidence/retention.json has beside its
// bundles: one key with a record of it, for implementations of the algorithm.
type retentionVector struct {
	Trust   Trust          `json:"trust"`
	Seed    string         `json:"seed"` // hex; of the key that signs records
	Record  recordVector   `json:"record"`
	Bundles []bundleVector `json:"bundles"`
}

func TestEXT29_VectorsOfMLDSA87(t *testing.T) {
	l := latticeLog(t).fill(2, 1)
	sealed, err := ParseSealed(l.records[0])
	must(t, err)
	file := retentionVector{Trust: l.trust(), Seed: hex.EncodeToString(seed(4)), Record: vectorOf("signed with ML-DSA-87", sealed, &l.keys[0])}
	whole := l.bundle()
	signed := []byte(sealed.wire.Signature)
	other := bytes.Clone(signed)
	other[2000] = 'A' + (other[2000]-'A'+1)&15 // another character of base64url
	for _, one := range []struct {
		name   string
		bundle []byte
	}{
		{"whole", whole},
		{"a character of a signature changed", bytes.Replace(whole, signed, other, 1)},
		{"a signature cut", bytes.Replace(whole, signed, signed[:4096], 1)},
		{"a record changed", bytes.Replace(whole, []byte("ALLOW"), []byte("DENY"), 1)},
	} {
		report := l.verify(one.bundle)
		file.Bundles = append(file.Bundles, bundleVector{
			Name: one.name, Verdict: report.Verdict(), Problems: append([]string{}, kinds(report)...), Bundle: string(one.bundle),
		})
	}
	goldenJSON(t, "retention.json", file)
}

// TestEXT29_APlatformWithoutMLDSA87SaysSo puts the vectors to verify.mjs. What
// its platform lacks is counted and never ok; what it finds without the
// algorithm, it finds.
func TestEXT29_APlatformWithoutMLDSA87SaysSo(t *testing.T) {
	var file retentionVector
	readVectors(t, "retention.json", &file)
	var questions []asked
	for _, lacks := range [][]string{{"ML-DSA-87"}, nil} {
		for i := range file.Bundles {
			bundle := []byte(file.Bundles[i].Bundle)
			questions = append(questions, asked{Trust: textOf(t, file.Trust), Bundle: &bundle, Lacks: lacks})
		}
	}
	want := map[string]struct {
		verdict      string
		unverifiable int
	}{
		"whole":                              {"unverifiable", 2},
		"a character of a signature changed": {"tampered", 2}, // the leaf is not the one that was logged
		"a signature cut":                    {"tampered", 1}, // its length is known everywhere
		"a record changed":                   {"tampered", 1},
	}
	for i, answer := range inNode(t, questions) {
		vector := file.Bundles[i%len(file.Bundles)]
		if answer.Report == nil {
			t.Fatalf("%s: verify.mjs gives up: %s", vector.Name, answer.Error)
		}
		got := answer.Report
		if w := want[vector.Name]; questions[i].Lacks != nil && (got.Verdict != w.verdict || got.Unverifiable != w.unverifiable) {
			t.Errorf("%s, without ML-DSA-87: %s, %d unverifiable: %v; want %s, %d", vector.Name, got.Verdict, got.Unverifiable, got.Problems, w.verdict, w.unverifiable)
		}
		// A platform of its own age has the algorithm, or says that it has not.
		if (got.Verdict == "ok") != (vector.Verdict == OK && got.Unverifiable == 0) {
			t.Errorf("%s: %s with %d unverifiable", vector.Name, got.Verdict, got.Unverifiable)
		}
	}
}
