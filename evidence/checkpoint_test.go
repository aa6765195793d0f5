package evidence

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

func verifierOf(t testing.TB, vkey string) note.Verifier {
	t.Helper()
	verifier, err := note.NewVerifier(vkey)
	must(t, err)
	return verifier
}

func TestEXT35_ACheckpointIsTheOneOfC2SP(t *testing.T) {
	l := newTestLog(t).fill(5, 1)
	signed := string(l.signed())
	text, signature, _ := strings.Cut(signed, "\n\n")
	if want := testOrigin + "\n5\n" + base64.StdEncoding.EncodeToString(l.root[:]); text != want {
		t.Errorf("text %q, want %q", text, want)
	}
	if !strings.HasPrefix(signature, "\u2014 "+testOrigin+" ") {
		t.Errorf("signature line %q", signature)
	}
	opened, err := OpenCheckpoint([]byte(signed), verifierOf(t, l.vkey))
	must(t, err)
	if diff := cmp.Diff(l.checkpoint(), opened); diff != "" {
		t.Error(diff)
	}
}

// TestEXT35_ACheckpointIsReadAsAClaim reads a checkpoint without its signatures.
func TestEXT35_ACheckpointIsReadAsAClaim(t *testing.T) {
	l := newTestLog(t).fill(5, 1)
	read, err := ReadCheckpoint([]byte(strings.Replace(string(l.signed()), "\u2014 "+testOrigin, "\u2014 other.example", 1)))
	must(t, err)
	if diff := cmp.Diff(l.checkpoint(), read); diff != "" {
		t.Error(diff)
	}
	if _, err := ReadCheckpoint([]byte(testOrigin + "\nfive\n")); err == nil {
		t.Error("a size that is no number is read")
	}
}

func TestEXT35_AWitnessMayCosignAndNeedNotBeKnown(t *testing.T) {
	l := newTestLog(t).fill(1, 1)
	witness, witnessKey, err := NewLogSigner("witness.example", ed25519Key(5))
	must(t, err)
	signed, err := SignCheckpoint(l.checkpoint(), l.log, witness)
	must(t, err)
	for _, known := range [][]note.Verifier{
		{verifierOf(t, l.vkey)},
		{verifierOf(t, l.vkey), verifierOf(t, witnessKey)},
	} {
		if _, err := OpenCheckpoint(signed, known...); err != nil {
			t.Error(err)
		}
	}
	_, err = OpenCheckpoint(signed, verifierOf(t, witnessKey))
	wantError(t, err, "no signature of a known key of that name")
}

func TestATK43_ACheckpointHasOneForm(t *testing.T) {
	l := newTestLog(t).fill(1, 1)
	known := verifierOf(t, l.vkey)
	root := base64.StdEncoding.EncodeToString(l.root[:])
	for name, text := range map[string]string{
		"extension line":    testOrigin + "\n1\n" + root + "\nmore\n",
		"no root":           testOrigin + "\n1\n",
		"leading zero":      testOrigin + "\n01\n" + root + "\n",
		"plus":              testOrigin + "\n+1\n" + root + "\n",
		"negative":          testOrigin + "\n-1\n" + root + "\n",
		"beyond 64 bits":    testOrigin + "\n9223372036854775808\n" + root + "\n",
		"short root":        testOrigin + "\n1\nAAAA\n",
		"stray bits":        testOrigin + "\n1\n" + strings.Repeat("A", 42) + "B=\n",
		"no origin":         "\n1\n" + root + "\n",
		"another log's key": "elsewhere.example/log\n1\n" + root + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			signed, err := note.Sign(&note.Note{Text: text}, l.log)
			must(t, err)
			if _, err := OpenCheckpoint(signed, known); err == nil {
				t.Errorf("%q was accepted", text)
			}
		})
	}
}

func TestATK43_SignatureLinesHaveOneForm(t *testing.T) {
	l := newTestLog(t).fill(1, 1)
	known := verifierOf(t, l.vkey)
	signed := string(l.signed())
	line := signed[strings.Index(signed, "\u2014"):]
	_, err := OpenCheckpoint([]byte(signed+line), known)
	wantError(t, err, "repeats")
	at := strings.LastIndex(signed, "=") - 1
	_, err = OpenCheckpoint([]byte(signed[:at]+string(rune(signed[at]+1))+signed[at+1:]), known)
	wantError(t, err, "strict base64")
	_, err = OpenCheckpoint([]byte(strings.Repeat("a", maxCheckpoint+1)), known)
	wantError(t, err, "at most")
	_, err = OpenCheckpoint([]byte(signed))
	wantError(t, err, "verifiable")
}

// deafSigner has a name and does not sign.
type deafSigner struct{ note.Signer }

func (deafSigner) Sign([]byte) ([]byte, error) { return nil, errors.New("module is gone") }

func TestSignCheckpointRefusesWhatCannotBeOpened(t *testing.T) {
	l := newTestLog(t).fill(1, 1)
	_, err := SignCheckpoint(Checkpoint{Origin: "two\nlines"}, l.log)
	wantError(t, err, "lines")
	_, err = SignCheckpoint(Checkpoint{Origin: "another", Root: tlog.Hash{1}}, l.log)
	wantError(t, err, `no key with the name "another"`)
	_, err = SignCheckpoint(l.checkpoint(), deafSigner{l.log})
	wantError(t, err, "module is gone")
	_, _, err = NewLogSigner("log", make(ed25519.PrivateKey, 3))
	wantError(t, err, "3 bytes")
	_, _, err = NewLogSigner("two words", ed25519Key(1))
	wantError(t, err, "cannot name a key")
}
