package evidence

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/mldsa"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const testOrigin = "powerbox.example/log"

var testTime = time.Date(2026, 3, 4, 12, 1, 15, 0, time.UTC)

func seed(fill byte) []byte { return bytes.Repeat([]byte{fill}, 32) }

func ed25519Key(fill byte) ed25519.PrivateKey { return ed25519.NewKeyFromSeed(seed(fill)) }

func p256Key(t testing.TB, fill byte) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), seed(fill))
	must(t, err)
	return key
}

func latticeKey(t testing.TB, fill byte) *mldsa.PrivateKey {
	t.Helper()
	key, err := mldsa.NewPrivateKey(mldsa.MLDSA87(), seed(fill))
	must(t, err)
	return key
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantError fails unless err says text.
func wantError(t testing.TB, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want one that says %q", err, text)
	}
}

// testRecord is the smallest record that may be sealed.
func testRecord(id, agent string) Record {
	return Record{
		ID: id, AgentID: agent, ActionType: "documents.read", Decision: Allow, Time: testTime,
		Intent:  Intent{Operation: "documents.read"},
		Details: Details{Recorder: "issuer"},
	}
}

// testLog is a recorder with its log: what a store does in one transaction.
type testLog struct {
	t       testing.TB
	signer  Signer
	keys    []Key
	log     note.Signer
	vkey    string
	heads   map[ChainID]Head
	hashes  Hashes
	size    int64
	root    tlog.Hash
	records [][]byte
}

func newTestLog(t testing.TB) *testLog {
	t.Helper()
	private := ed25519Key(1)
	signer, err := NewEd25519Signer(private)
	must(t, err)
	key, err := NewKey(private.Public(), "issuer")
	must(t, err)
	logSigner, vkey, err := NewLogSigner(testOrigin, ed25519Key(2))
	must(t, err)
	return &testLog{t: t, signer: signer, keys: []Key{key}, log: logSigner, vkey: vkey, heads: map[ChainID]Head{}}
}

// add seals a record at the head of its chain and grows the tree.
func (l *testLog) add(chain byte, record Record) Sealed {
	l.t.Helper()
	id := ChainID{chain}
	head, ok := l.heads[id]
	if !ok {
		head = Genesis(id)
	}
	sealed, err := Seal(head, record, l.signer)
	must(l.t, err)
	l.put(sealed)
	return sealed
}

// put logs a record that was sealed elsewhere.
func (l *testLog) put(sealed Sealed) {
	l.t.Helper()
	stored, size, root, err := Grow(l.size, l.hashes, [][]byte{Leaf(sealed)})
	must(l.t, err)
	l.hashes, l.size, l.root = append(l.hashes, stored...), size, root
	l.heads[sealed.Record().Details.ChainID] = sealed.Head()
	l.records = append(l.records, sealed.Bytes())
}

// fill logs n records on the given chains in turn.
func (l *testLog) fill(n int, chains ...byte) *testLog {
	l.t.Helper()
	for range n {
		i := len(l.records)
		chain := chains[i%len(chains)]
		l.add(chain, testRecord(fmt.Sprintf("ev-%d", i), fmt.Sprintf("agent-%d", chain)))
	}
	return l
}

func (l *testLog) checkpoint() Checkpoint {
	return Checkpoint{Origin: testOrigin, Size: l.size, Root: l.root}
}

func (l *testLog) signed() []byte {
	l.t.Helper()
	signed, err := SignCheckpoint(l.checkpoint(), l.log)
	must(l.t, err)
	return signed
}

func (l *testLog) export() Export {
	l.t.Helper()
	return Export{Keys: l.keys, Records: sequence(l.records), Hashes: l.hashes, Checkpoint: l.signed()}
}

func sequence(records [][]byte) func(yield func([]byte, error) bool) {
	return func(yield func([]byte, error) bool) {
		for _, record := range records {
			if !yield(record, nil) {
				return
			}
		}
	}
}

func (l *testLog) bundle() []byte {
	l.t.Helper()
	var out bytes.Buffer
	must(l.t, WriteBundle(&out, l.export()))
	return out.Bytes()
}

func (l *testLog) trust() Trust {
	trust := Trust{CheckpointKeys: []string{l.vkey}}
	for _, key := range l.keys {
		trust.RecordKeys = append(trust.RecordKeys, PinnedKey{Key: key, Agents: []string{"*"}})
	}
	return trust
}

func (l *testLog) verify(bundle []byte) Report {
	l.t.Helper()
	report, err := Verify(bytes.NewReader(bundle), l.trust())
	must(l.t, err)
	return report
}

// lines cuts a bundle; join puts it together again.
func lines(bundle []byte) [][]byte {
	return slices.Collect(bytes.Lines(bundle))
}

func join(parts ...[]byte) []byte { return slices.Concat(parts...) }

// kinds returns the findings, as "kind@line".
func kinds(report Report) []string {
	var found []string
	for _, problem := range report.Problems {
		found = append(found, fmt.Sprintf("%s@%d", problem.Kind, problem.Line))
	}
	return found
}

func object(text string) json.RawMessage { return json.RawMessage(text) }
