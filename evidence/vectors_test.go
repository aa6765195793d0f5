package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
)

// update writes the vectors and the seeds of the fuzz targets anew.
var update = flag.Bool("update", false, "write testdata anew")

const vectorFolder = "../testdata/vectors/evidence"

// golden compares a file with what it should hold, or writes it.
func golden(t *testing.T, path string, data []byte) {
	t.Helper()
	if *update {
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, data, 0o644))
	}
	stored, err := os.ReadFile(path)
	must(t, err)
	if at := difference(stored, data); at >= 0 {
		t.Errorf("%s differs from what the code makes at byte %d; see go test -update", path, at)
	}
}

func goldenJSON(t *testing.T, name string, value any) {
	t.Helper()
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	must(t, encoder.Encode(value))
	golden(t, filepath.Join(vectorFolder, name), out.Bytes())
}

type canonicalVector struct {
	Name   string `json:"name"`
	Input  string `json:"input"`
	Expect string `json:"expect"` // ok or refused
	Output string `json:"output,omitempty"`
	SHA256 string `json:"sha256,omitempty"` // of the output
}

func TestEXT22_VectorsOfTheCanonicalForm(t *testing.T) {
	var vectors []canonicalVector
	for _, test := range canonicalCases {
		if len(test.input) > 1000 {
			continue // size limits are tested in the language itself
		}
		vector := canonicalVector{Name: test.name, Input: test.input, Expect: "refused"}
		if test.want != "" {
			sum := sha256.Sum256([]byte(test.want))
			vector.Expect, vector.Output, vector.SHA256 = "ok", test.want, hex.EncodeToString(sum[:])
		}
		vectors = append(vectors, vector)
	}
	goldenJSON(t, "canonical.json", vectors)
}

type recordVector struct {
	Name     string `json:"name"`
	Key      *Key   `json:"key,omitempty"` // absent for an unsigned record
	Prev     string `json:"prev_record_hash"`
	Body     string `json:"body"` // the bytes hashed after prev_record_hash
	Hash     string `json:"record_hash"`
	Stored   string `json:"stored"`              // the whole record
	Leaf     string `json:"leaf,omitempty"`      // hex
	LeafHash string `json:"leaf_hash,omitempty"` // hex, RFC 6962
}

func TestEXT22_EXT23_VectorsOfRecords(t *testing.T) {
	vectors := []recordVector{documentVector(t)}
	edPrivate, ecPrivate := ed25519Key(1), p256Key(t, 1)
	ed, err := NewEd25519Signer(edPrivate)
	must(t, err)
	ec, err := NewES256Signer(ecPrivate)
	must(t, err)
	edKey, err := NewKey(edPrivate.Public(), "issuer")
	must(t, err)
	ecKey, err := NewKey(ecPrivate.Public(), "issuer")
	must(t, err)
	head := Head{ChainID: ChainID{1, 2, 3}, Sequence: 1, Hash: Hash{0xa1, 0xb2}}

	unsigned, err := SealUnsafeUnsigned(head, fullRecord())
	must(t, err)
	signed, err := Seal(head, fullRecord(), ed)
	must(t, err)
	small, err := Seal(Genesis(ChainID{1, 2, 3}), testRecord("ev-1", "agent-1"), ed)
	must(t, err)
	elliptic, err := Seal(head, fullRecord(), ec)
	must(t, err)
	vectors = append(vectors,
		vectorOf("every member, 187.42, a name beyond the BMP, unsigned", unsigned, nil),
		vectorOf("the same, signed with Ed25519", signed, &edKey),
		vectorOf("the same, signed with ES256", elliptic, &ecKey),
		vectorOf("the first record of a chain", small, &edKey))
	goldenJSON(t, "records.json", vectors)
}

func vectorOf(name string, s Sealed, key *Key) recordVector {
	leaf := Leaf(s)
	leafHash := tlog.RecordHash(leaf)
	return recordVector{
		Name: name, Key: key, Prev: s.Prev().String(), Body: string(s.body), Hash: s.Hash().String(), Stored: string(s.Bytes()),
		Leaf: hex.EncodeToString(leaf), LeafHash: hex.EncodeToString(leafHash[:]),
	}
}

// documentVector is the example of the extension document, section 7.1, unsigned:
// a record that knows nothing of this product.
func documentVector(t *testing.T) recordVector {
	t.Helper()
	prev := "a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90"
	example := `"record_id":"ev-2026-03-04-001","agent_id":"trade-executor-agent-d8e9","task_id":"task-abc-123","action_type":"trade.execute",
		"intent":{"symbol":"AAPL","quantity":100,"side":"buy","order_type":"market"},"decision":"ALLOW",
		"outcome":{"status":"filled","fill_price":187.42,"fill_quantity":100},"outcome_status":"ACHIEVED","timestamp_utc":"2026-03-04T12:01:15Z"`
	body, err := Canonical([]byte("{" + example + "}"))
	must(t, err)
	var hash Hash
	must(t, hash.UnmarshalText([]byte(prev)))
	sum := digest(hash, body)
	stored, err := Canonical([]byte(`{"prev_record_hash":"` + prev + `","record_hash":"` + sum.String() + `",` + example + "}"))
	must(t, err)
	return recordVector{Name: "the example of the extension document, section 7.1, without our member", Prev: prev, Body: string(body), Hash: sum.String(), Stored: string(stored)}
}

type treeVector struct {
	Leaves      []string   `json:"leaves"`      // hex
	Roots       []string   `json:"roots"`       // hex, of the first 0, 1, 2, ... leaves
	Inclusion   [][]string `json:"inclusion"`   // of each leaf in the whole tree, hex
	Consistency [][]string `json:"consistency"` // from size 1, 2, ... to the whole tree, hex
}

func TestEXT35_VectorsOfTheTree(t *testing.T) {
	l := newTestLog(t).fill(7, 1, 2)
	var vector treeVector
	for _, record := range l.records {
		sealed, err := ParseSealed(record)
		must(t, err)
		vector.Leaves = append(vector.Leaves, hex.EncodeToString(Leaf(sealed)))
	}
	for n := range l.size + 1 {
		root, err := tlog.TreeHash(n, l.hashes)
		must(t, err)
		vector.Roots = append(vector.Roots, hex.EncodeToString(root[:]))
	}
	for n := range l.size {
		inclusion, err := tlog.ProveRecord(l.size, n, l.hashes)
		must(t, err)
		vector.Inclusion = append(vector.Inclusion, hexes(inclusion))
		consistency, err := tlog.ProveTree(l.size, n+1, l.hashes)
		must(t, err)
		vector.Consistency = append(vector.Consistency, hexes(consistency))
	}
	goldenJSON(t, "tree.json", vector)
}

func hexes(hashes []tlog.Hash) []string {
	list := []string{}
	for _, hash := range hashes {
		list = append(list, hex.EncodeToString(hash[:]))
	}
	return list
}

type proofVector struct {
	Name   string `json:"name"`
	Expect string `json:"expect"` // ok or refused
	Record string `json:"record"`
	Proof  string `json:"proof"`
}

func TestEXT35_VectorsOfProofs(t *testing.T) {
	l := newTestLog(t).fill(7, 1, 2)
	file := struct {
		Trust  Trust         `json:"trust"`
		Proofs []proofVector `json:"proofs"`
	}{Trust: l.trust()}
	add := func(name string, record, proof []byte) {
		vector := proofVector{Name: name, Expect: "ok", Record: string(record), Proof: string(proof)}
		if _, err := VerifyRecord(record, proof, l.trust()); err != nil {
			vector.Expect = "refused"
		}
		file.Proofs = append(file.Proofs, vector)
	}
	for i, record := range l.records {
		add(fmt.Sprintf("entry %d of 7", i), record, l.proof(int64(i)))
	}
	add("ATK-44 the proof of another entry", l.records[0], l.proof(1))
	add("the record changed", bytes.Replace(l.records[0], []byte("ALLOW"), []byte("DENY"), 1), l.proof(0))
	add("the index changed", l.records[0], bytes.Replace(l.proof(0), []byte("index 0"), []byte("index 1"), 1))
	add("ATK-43 the size in the checkpoint changed", l.records[0], bytes.Replace(l.proof(0), []byte("\n7\n"), []byte("\n8\n"), 1))
	goldenJSON(t, "proofs.json", file)
}

type bundleVector struct {
	Name     string   `json:"name"`
	Verdict  Verdict  `json:"verdict"`
	Problems []string `json:"problems"` // kind@line, by line
	Bundle   string   `json:"bundle"`
}

func TestEXT24_EXT26_VectorsOfBundles(t *testing.T) {
	whole := newTestLog(t).fill(6, 1, 2)
	file := struct {
		Trust   Trust          `json:"trust"`
		Bundles []bundleVector `json:"bundles"`
	}{Trust: whole.trust()}
	add := func(name string, bundle []byte) {
		report := whole.verify(bundle)
		file.Bundles = append(file.Bundles, bundleVector{
			Name: name, Verdict: report.Verdict(), Problems: append([]string{}, kinds(report)...), Bundle: string(bundle),
		})
	}
	add("whole", whole.bundle())
	for _, test := range tampers {
		l := newTestLog(t).fill(6, 1, 2)
		if bundle := join(test.spoil(l, lines(l.bundle()))...); len(bundle) < 1<<16 {
			add(test.name, bundle)
		}
	}
	goldenJSON(t, "bundles.json", file)
}

// TestFuzzSeeds keeps the committed seeds of the fuzz targets those that reach
// deep: whole values, and values that are wrong in one place.
func TestFuzzSeeds(t *testing.T) {
	l := newTestLog(t).fill(3, 1, 2)
	seeds := map[string][][]byte{"FuzzCheckpoint": {l.signed()}, "FuzzBundle": {l.bundle()}}
	for _, test := range canonicalCases {
		if len(test.input) < 1000 {
			seeds["FuzzCanonical"] = append(seeds["FuzzCanonical"], []byte(test.input))
		}
	}
	full, err := Seal(Genesis(ChainID{1}), fullRecord(), l.signer)
	must(t, err)
	unsigned, err := SealUnsafeUnsigned(Genesis(ChainID{1}), fullRecord())
	must(t, err)
	seeds["FuzzParseSealed"] = [][]byte{l.records[0], full.Bytes(), unsigned.Bytes(), []byte(strings.ToUpper(string(full.Bytes())))}
	parts := lines(l.bundle())
	seeds["FuzzBundle"] = append(seeds["FuzzBundle"], join(parts[0], parts[2], parts[1], parts[4], parts[5]), join(parts[:4]...), parts[5])
	seeds["FuzzCheckpoint"] = append(seeds["FuzzCheckpoint"], []byte(l.checkpoint().String()))
	seeds["FuzzParseProof"] = [][]byte{newTestLog(t).fill(3, 1).proof(1)}
	for target, list := range seeds {
		for i, seed := range list {
			text := "go test fuzz v1\n[]byte(" + strconv.Quote(string(seed)) + ")\n"
			golden(t, fmt.Sprintf("testdata/fuzz/%s/seed-%02d", target, i), []byte(text))
		}
	}
}
