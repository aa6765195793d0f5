package evidence_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
)

// A log of one agent: each record is sealed behind the one before and is a leaf
// of the tree, and the tree is signed. An auditor verifies the bundle with two
// public keys, and finds the bit that someone changed.
func Example() {
	_, recorderKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, logKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		fmt.Println(err)
		return
	}
	signer, err := evidence.NewEd25519Signer(recorderKey)
	if err != nil {
		fmt.Println(err)
		return
	}
	log, verifierKey, err := evidence.NewLogSigner("powerbox.example/log", logKey)
	if err != nil {
		fmt.Println(err)
		return
	}

	// Anyone who keeps the records writes them, the head and the hashes of the tree in
	// one transaction.
	head := evidence.Genesis(evidence.ChainID{1})
	at := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	var records, leaves [][]byte
	for i, decision := range []evidence.Decision{evidence.Allow, evidence.Deny} {
		sealed, err := evidence.Seal(head, evidence.Record{
			ID: fmt.Sprintf("record-%d", i), AgentID: "documents", ActionType: "message.send", Time: at, Decision: decision,
			Intent:  evidence.Intent{Operation: "documents.read"},
			Details: evidence.Details{Recorder: "gateway-1"},
		}, signer)
		if err != nil {
			fmt.Println(err)
			return
		}
		head = sealed.Head()
		records, leaves = append(records, sealed.Bytes()), append(leaves, evidence.Leaf(sealed))
	}
	hashes, size, root, err := evidence.Grow(0, evidence.Hashes(nil), leaves)
	if err != nil {
		fmt.Println(err)
		return
	}
	checkpoint, err := evidence.SignCheckpoint(evidence.Checkpoint{Origin: "powerbox.example/log", Size: size, Root: root}, log)
	if err != nil {
		fmt.Println(err)
		return
	}
	key, err := evidence.NewKey(recorderKey.Public(), "gateway-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	var bundle bytes.Buffer
	err = evidence.WriteBundle(&bundle, evidence.Export{
		Keys: []evidence.Key{key}, Hashes: evidence.Hashes(hashes), Checkpoint: checkpoint,
		Records: func(yield func([]byte, error) bool) {
			for _, r := range records {
				if !yield(r, nil) {
					return
				}
			}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	// The auditor's side.
	trust := evidence.Trust{
		CheckpointKeys: []string{verifierKey},
		RecordKeys:     []evidence.PinnedKey{key.Pin(time.Time{}, time.Time{}, "documents")},
	}
	report, err := evidence.Verify(bytes.NewReader(bundle.Bytes()), trust)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Records, "records:", report.Verdict())

	changed := bytes.Replace(bundle.Bytes(), []byte(`"DENY"`), []byte(`"ALLOW"`), 1)
	report, err = evidence.Verify(bytes.NewReader(changed), trust)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("changed:", report.Verdict())
	for _, p := range report.Problems {
		fmt.Println("   ", p.Kind, "in", p.RecordID)
	}
	// Output:
	// 2 records: ok
	// changed: tampered
	//     hash_mismatch in record-1
}
