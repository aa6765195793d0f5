package evidence

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
)

func newTestCosigner(t testing.TB, name string, fill byte) Cosigner {
	t.Helper()
	c, err := NewCosigner(name, ed25519Key(fill))
	must(t, err)
	return c
}

// cosigned is the log's checkpoint with the cosignatures of these.
func (l *testLog) cosigned(by ...Cosigner) []byte {
	l.t.Helper()
	signed := l.signed()
	for _, c := range by {
		signed = append(signed, c.Cosign(l.checkpoint(), testTime)...)
	}
	return signed
}

// The example of C2SP tlog-cosignature: its key id and message are made as the
// text says, byte by byte.
func TestEXT35_CosignaturesAreThoseOfTheText(t *testing.T) {
	private := ed25519Key(21)
	c, err := NewCosigner("witness.example.com/w1", private)
	must(t, err)
	l := newTestLog(t).fill(3, 1)
	line := c.Cosign(l.checkpoint(), time.Unix(1679315147, 0))
	encoded, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "\u2014 witness.example.com/w1 ")
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || !ok || len(data) != 4+8+64 {
		t.Fatalf("%q: %v", line, err)
	}
	message := fmt.Sprintf("cosignature/v1\ntime 1679315147\n%s", l.checkpoint())
	if fmt.Sprintf("%x", data[4:12]) != "00000000641850cb" || !ed25519.Verify(private.Public().(ed25519.PublicKey), []byte(message), data[12:]) {
		t.Errorf("%x", data)
	}
	if vkey := c.Key().String(); !strings.HasPrefix(vkey, fmt.Sprintf("witness.example.com/w1+%x+B", data[:4])) {
		t.Errorf("%q names %x", vkey, data[:4])
	}
}

func TestEXT35_WitnessKeysHaveOneForm(t *testing.T) {
	key := newTestCosigner(t, "w.example", 3).Key()
	again, err := ParseWitnessKey(key.String())
	if err != nil || again != key {
		t.Errorf("%v %v", again, err)
	}
	_, logKey, err := NewLogSigner("w.example", ed25519Key(3))
	must(t, err)
	for name, text := range map[string]string{
		"nothing":        "",
		"a log's key":    logKey,
		"no base64":      "w.example+00000000+!",
		"another name":   strings.Replace(key.String(), "w.example", "v.example", 1),
		"no name":        strings.TrimPrefix(key.String(), "w.example"),
		"two words":      strings.Replace(key.String(), "w.example", "w example", 1),
		"trailing bytes": key.String() + "AAAA",
	} {
		if _, err := ParseWitnessKey(text); err == nil {
			t.Errorf("%s: %q is a key", name, text)
		}
	}
	_, err = NewCosigner("w.example", nil)
	wantError(t, err, "64 are needed")
	_, err = NewCosigner("w+example", ed25519Key(3))
	wantError(t, err, "cannot name a witness")
	if (WitnessKey{}).Verify(nil, make([]byte, 72)) {
		t.Error("a key that is none verifies")
	}
}

func TestATK44_TheQuorumCountsPinnedWitnessesOnce(t *testing.T) {
	one, two, three := newTestCosigner(t, "one", 11), newTestCosigner(t, "two", 12), newTestCosigner(t, "three", 13)
	l := newTestLog(t).fill(4, 1)
	signed := l.cosigned(one, two)
	pinned := []WitnessKey{one.Key(), two.Key(), three.Key()}
	for number, want := range map[int]error{0: nil, 1: nil, 2: nil, 3: ErrNotWitnessed} {
		have, err := Quorum{pinned, number}.Check(signed)
		if !errors.Is(err, want) || len(have) != 2 || have[0] != (Cosignature{"one", testTime}) {
			t.Errorf("quorum %d: %v %v", number, have, err)
		}
	}
	if have, err := (Quorum{Witnesses: pinned[2:], Number: 1}).Check(signed); !errors.Is(err, ErrNotWitnessed) || len(have) != 0 {
		t.Errorf("cosignatures of others count: %v %v", have, err)
	}
	// One line twice is one witness, and so is one key under two names.
	twice := append(l.cosigned(one), one.Cosign(l.checkpoint(), testTime)...)
	if _, err := (Quorum{pinned, 2}).Check(twice); !errors.Is(err, ErrNotWitnessed) {
		t.Error(err)
	}
	alias := newTestCosigner(t, "alias", 11)
	for _, bad := range []Quorum{
		{[]WitnessKey{one.Key(), alias.Key()}, 2}, {[]WitnessKey{one.Key(), one.Key()}, 2}, {[]WitnessKey{{}}, 1}, {pinned, 4}, {pinned, -1},
	} {
		if _, err := bad.Check(signed); err == nil || errors.Is(err, ErrNotWitnessed) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	// A cosignature of another checkpoint is none of this one.
	short := newTestLog(t).fill(3, 1)
	_, err := Quorum{pinned, 1}.Check(append(l.signed(), one.Cosign(short.checkpoint(), testTime)...))
	wantError(t, err, "cosignatures")
}

func TestATK45_ACosignatureSpeaksForNoLog(t *testing.T) {
	// The witness has the name of the log: without the log's own signature its word
	// is no checkpoint.
	w := newTestCosigner(t, testOrigin, 2)
	l := newTestLog(t).fill(2, 1)
	verifier, err := note.NewVerifier(l.vkey)
	must(t, err)
	alone := l.checkpoint().String() + "\n" + w.Cosign(l.checkpoint(), testTime)
	if _, err := OpenCheckpoint([]byte(alone), verifier); err == nil {
		t.Error("the log did not sign")
	}
	// And the log's own signature is no witness's.
	if have, err := cosignatures(l.signed(), w.Key()); err != nil || len(have) != 0 {
		t.Errorf("%v %v", have, err)
	}
}

func TestEXT35_OnlyVerifiedLinesAreTaken(t *testing.T) {
	one, two := newTestCosigner(t, "one", 11), newTestCosigner(t, "two", 12)
	l := newTestLog(t).fill(4, 1)
	line, err := TakeCosignature(l.signed(), []byte(two.Cosign(l.checkpoint(), testTime)+one.Cosign(l.checkpoint(), testTime)), one.Key())
	if err != nil || line != one.Cosign(l.checkpoint(), testTime) {
		t.Errorf("%q %v", line, err)
	}
	for _, answer := range []string{"", "hello", two.Cosign(l.checkpoint(), testTime), one.Cosign(Checkpoint{Origin: "x"}, testTime)} {
		_, err := TakeCosignature(l.signed(), []byte(answer), one.Key())
		wantError(t, err, "answer of witness")
	}
	only, err := OnlySignedBy(l.cosigned(one, two), two.Key())
	if err != nil || string(only) != l.checkpoint().String()+"\n"+two.Cosign(l.checkpoint(), testTime) {
		t.Errorf("%s %v", only, err)
	}
	_, err = OnlySignedBy(l.signed(), two.Key())
	wantError(t, err, "signed note")
}

func TestATK44_ABundleIsHeldAgainstTheQuorum(t *testing.T) {
	one, two := newTestCosigner(t, "one", 11), newTestCosigner(t, "two", 12)
	l := newTestLog(t).fill(4, 1, 2)
	trust := l.trust()
	trust.Quorum = Quorum{[]WitnessKey{one.Key(), two.Key()}, 2}
	for name, test := range map[string]struct {
		signed []byte
		want   string
	}{
		"both":        {l.cosigned(one, two), "[]"},
		"one":         {l.cosigned(one), "[not_witnessed@7]"},
		"none":        {l.signed(), "[not_witnessed@7]"},
		"another's":   {append(l.cosigned(one), two.Cosign(Checkpoint{Origin: testOrigin}, testTime)...), "[bad_signature@7]"},
		"and a third": {l.cosigned(one, two, newTestCosigner(t, "three", 13)), "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			export := l.export()
			export.Checkpoint = test.signed
			var out strings.Builder
			must(t, WriteBundle(&out, export))
			report, err := Verify(strings.NewReader(out.String()), trust)
			must(t, err)
			if found := fmt.Sprint(kinds(report)); found != test.want {
				t.Errorf("%s, want %s: %v", found, test.want, report.Problems)
			}
		})
	}
	proof, err := ProveInclusion(1, l.hashes, l.cosigned(one, two))
	must(t, err)
	_, err = VerifyRecord(l.records[1], []byte(proof.String()), trust)
	must(t, err)
	_, err = VerifyRecord(l.records[1], l.proof(1), trust)
	if !errors.Is(err, ErrNotWitnessed) {
		t.Error(err)
	}
	trust.Quorum.Number = 3
	_, err = VerifyRecord(l.records[1], l.proof(1), trust)
	wantError(t, err, "cannot be had")
}

// Both verifiers hold bundles, records and receipts against the pinned witnesses, and read
// the same cosignatures.
func TestATK44_BothVerifiersHoldTheQuorum(t *testing.T) {
	one, two, three := newTestCosigner(t, "one", 11), newTestCosigner(t, "two", 12), newTestCosigner(t, "three", 13)
	l := newTestLog(t).fill(4, 1, 2)
	stranger := newTestCosigner(t, "one", 14)                      // the name of a pinned witness with another key
	forged := two.Cosign(Checkpoint{Origin: testOrigin}, testTime) // of another checkpoint
	ancient := one.Cosign(l.checkpoint(), testTime.AddDate(-1, 0, 0))
	pinned := []WitnessKey{one.Key(), two.Key()}
	for name, test := range map[string]struct {
		signed []byte
		quorum Quorum
		want   string // kinds of problems of a bundle
	}{
		"both":               {l.cosigned(one, two), Quorum{pinned, 2}, "[]"},
		"one of one":         {l.cosigned(one), Quorum{pinned, 1}, "[]"},
		"one of two":         {l.cosigned(one), Quorum{pinned, 2}, "[not_witnessed@7]"},
		"none":               {l.signed(), Quorum{pinned, 2}, "[not_witnessed@7]"},
		"none is demanded":   {l.cosigned(two), Quorum{pinned, 0}, "[]"},
		"a third":            {l.cosigned(one, two, three), Quorum{pinned, 2}, "[]"},
		"a stranger's":       {l.cosigned(one, stranger), Quorum{pinned, 2}, "[not_witnessed@7]"},
		"another's":          {append(l.cosigned(one), forged...), Quorum{pinned, 1}, "[bad_signature@7]"},
		"one that said more": {append(l.cosigned(one), ancient...), Quorum{pinned, 2}, "[not_witnessed@7]"},
	} {
		t.Run(name, func(t *testing.T) {
			trust := l.trust()
			trust.Quorum = test.quorum
			export := l.export()
			export.Checkpoint = test.signed
			var out strings.Builder
			must(t, WriteBundle(&out, export))
			report := bothSay(t, []toBoth{{name: name, trust: trust, bundle: []byte(out.String())}})[0]
			if found := fmt.Sprint(kinds(report)); found != test.want {
				t.Errorf("ATK-44 a bundle: %s, want %s: %v", found, test.want, report.Problems)
			}
			sealed, err := ParseSealed(l.records[1])
			must(t, err)
			proof, err := ProveInclusion(1, l.hashes, test.signed)
			must(t, err)
			receipt, err := NewReceipt(sealed, proof)
			must(t, err)
			questions := []asked{{Record: new(string(l.records[1])), Proof: proof.String()}, {Receipt: new(string(receipt))}}
			for i := range questions {
				questions[i].Trust = textOf(t, trust)
				questions[i].Witnesses, questions[i].Quorum = pinnedIn(trust)
			}
			answers := inNode(t, questions)
			_, recordErr := VerifyRecord(l.records[1], []byte(proof.String()), trust)
			read, err := ParseReceipt(receipt)
			must(t, err)
			_, receiptErr := read.Verify(trust)
			for i, err := range []error{recordErr, receiptErr} {
				if good := test.want == "[]"; (err == nil) != good || (answers[i].Error == "") != good {
					t.Errorf("ATK-44 question %d: Go says %v, verify.mjs %q", i, err, answers[i].Error)
				}
			}
			if cosigned, _ := trust.Quorum.Check(test.signed); receiptErr == nil && fmt.Sprint(answers[1].Cosigned) != fmt.Sprint(cosigned) {
				t.Errorf("ATK-44 verify.mjs reads the cosignatures %v, Go %v", answers[1].Cosigned, cosigned)
			}
		})
	}
}

// Neither verifier takes a quorum that one witness could fill twice, or keys of logs.
func TestATK44_BothVerifiersRefuseAQuorumThatCountsTwice(t *testing.T) {
	one, alias := newTestCosigner(t, "one", 11), newTestCosigner(t, "alias", 11)
	l, receipt, _ := receipted(t)
	for name, test := range map[string]asked{
		"twice":           {Witnesses: []string{one.Key().String(), one.Key().String()}, Quorum: 2},
		"under two names": {Witnesses: []string{one.Key().String(), alias.Key().String()}, Quorum: 1},
		"more than there": {Witnesses: []string{one.Key().String()}, Quorum: 2},
		"negative":        {Witnesses: []string{one.Key().String()}, Quorum: -1},
		"a log's key":     {Witnesses: []string{l.vkey}, Quorum: 1},
		"another hash":    {Witnesses: []string{strings.Replace(one.Key().String(), "one+", "two+", 1)}, Quorum: 1},
		"no key":          {Witnesses: []string{"one"}, Quorum: 1},
	} {
		test.Trust, test.Receipt = textOf(t, l.trust()), new(string(receipt))
		trust := l.trust()
		trust.Quorum.Number = test.Quorum
		var err error
		for _, text := range test.Witnesses {
			key, wrong := ParseWitnessKey(text)
			err = errors.Join(err, wrong)
			trust.Quorum.Witnesses = append(trust.Quorum.Witnesses, key)
		}
		if err = errors.Join(err, trust.Quorum.Usable()); err == nil {
			t.Errorf("ATK-44 %s: Go takes it", name)
		}
		if answer := inNode(t, []asked{test})[0]; !strings.Contains(answer.Error, "witness") || strings.Contains(answer.Error, "cosigned") {
			t.Errorf("ATK-44 %s: verify.mjs says %+v", name, answer)
		}
	}
}
