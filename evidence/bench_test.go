package evidence

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// BenchmarkSeal is the cost of a record without its store: canonical bytes,
// hash and Ed25519 signature.
func BenchmarkSeal(b *testing.B) {
	l := newTestLog(b)
	head, record := Genesis(ChainID{1}), fullRecord()
	for b.Loop() {
		sealed, err := Seal(head, record, l.signer)
		must(b, err)
		head = sealed.Head()
	}
}

// BenchmarkSealCovered is a record as a gateway makes it, which its batch's
// signature covers.
func BenchmarkSealCovered(b *testing.B) {
	l := newTestLog(b)
	head, record := Genesis(ChainID{1}), Record{
		ID: "01K9ZZZZZZZZZZZZZZZZZZZZZZ", AgentID: "documents", ActionType: "a2a.SendMessage", Time: testTime,
		Intent: Intent{Operation: "documents/retrieve"}, Decision: Allow, OutcomeStatus: Pending,
		Details: Details{
			Recorder: "serve", Requester: "x509:" + strings.Repeat("a", 64), Principal: strings.Repeat("p", 43), Attempt: "invocation",
			Capability: "cap_" + strings.Repeat("c", 26), Granted: []string{"a2a.message", "a2a.task.cancel", "a2a.task.read", "documents/retrieve"},
			Exercised: []string{"documents/retrieve", "a2a.message"}, Mode: "require/capability", PolicyDigest: strings.Repeat("d", 43),
			Gate: &Gate{
				Origin: "x509:" + strings.Repeat("a", 64), Target: "documents", Required: []string{"documents/retrieve", "a2a.message"},
				Allowed: []string{"a2a.message", "documents/retrieve"},
			},
			Arguments: json.RawMessage(`{"note":"***","resourceHandle":"***"}`),
		},
	}
	b.ReportAllocs()
	for b.Loop() {
		sealed, err := SealCovered(head, record, l.signer)
		must(b, err)
		head = sealed.Head()
	}
}

// BenchmarkAppend is a record made provable: sealed, in the tree, under a signed
// checkpoint.
func BenchmarkAppend(b *testing.B) {
	l := newTestLog(b)
	for b.Loop() {
		l.add(1, fullRecord())
		l.signed()
	}
}

// BenchmarkVerify is the cost of one record of a bundle of a thousand.
func BenchmarkVerify(b *testing.B) {
	l := newTestLog(b).fill(1000, 1, 2, 3)
	bundle, trust := l.bundle(), l.trust()
	for n := 0; b.Loop(); n++ {
		if n%1000 == 0 {
			_, err := Verify(bytes.NewReader(bundle), trust)
			must(b, err)
		}
	}
}
