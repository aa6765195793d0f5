package evidence

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/note"

	"github.com/powerbox-project/powerbox/eddsa"
)

// asked is a case for testdata/agree.mjs, which puts it to verify.mjs.
type asked struct {
	Trust     json.RawMessage `json:"trust,omitempty"` // a text
	Seen      []string        `json:"seen,omitempty"`
	Recorders []string        `json:"recorders,omitempty"`
	Bundle    *[]byte         `json:"bundle,omitempty"`
	More      [][]byte        `json:"more,omitempty"`
	Lacks     []string        `json:"lacks,omitempty"`
	Witnesses []string        `json:"witnesses,omitempty"`
	Quorum    int             `json:"quorum"`
	Record    *string         `json:"record,omitempty"`
	Proof     string          `json:"proof,omitempty"`
	Receipt   *string         `json:"receipt,omitempty"`
	Canonical *string         `json:"canonical,omitempty"`
	Sealed    *string         `json:"sealed,omitempty"`
	Leaves    []string        `json:"leaves,omitempty"`
	Algorithm string          `json:"algorithm,omitempty"` // of public; Ed25519 where absent
	Public    string          `json:"public,omitempty"`    // hex, with message and signature
	Hex       string          `json:"hex,omitempty"`       // the message where it is no text
	Message   string          `json:"message,omitempty"`
	Signature string          `json:"signature,omitempty"`
}

// said is what verify.mjs says.
type said struct {
	Error    string        `json:"error"`
	Text     string        `json:"text"`
	Body     string        `json:"body"`
	Hash     string        `json:"hash"`
	Leaf     string        `json:"leaf"`
	LeafHash string        `json:"leaf_hash"`
	Report   *jsSays       `json:"report"`
	Cosigned []Cosignature `json:"cosigned"`
}

type jsSays struct {
	Report
	Verdict      string `json:"verdict"`
	Unverifiable int    `json:"unverifiable"`
}

// TestMain ends the process that the tests share.
func TestMain(m *testing.M) {
	m.Run()
	if agreeing.in != nil {
		_ = agreeing.in.Close()
		_ = agreeing.wait() // every answer has been read
	}
}

// agreeing is the one process of agree.mjs, which all tests share. It ends with its input.
var agreeing struct {
	sync.Mutex

	in   io.WriteCloser
	out  *bufio.Reader
	talk bytes.Buffer
	wait func() error
}

// inNode puts cases to verify.mjs.
func inNode(t *testing.T, cases []asked) []said {
	t.Helper()
	agreeing.Lock()
	defer agreeing.Unlock()
	if agreeing.in == nil {
		startNode(t)
	}
	var in bytes.Buffer
	for _, one := range cases {
		must(t, json.NewEncoder(&in).Encode(one))
	}
	written := make(chan error, 1)
	go func() { _, err := agreeing.in.Write(in.Bytes()); written <- err }()
	answers := make([]said, len(cases))
	for n := range answers {
		line, err := agreeing.out.ReadBytes('\n')
		if err != nil {
			_ = agreeing.in.Close()
			agreeing.in = nil // the next test starts another one
			ended := agreeing.wait()
			t.Fatalf("%d answers to %d cases: %v, %v\n%s", n, len(cases), err, ended, agreeing.talk.String())
		}
		must(t, json.Unmarshal(line, &answers[n]))
	}
	must(t, <-written)
	return answers
}

// startNode starts agree.mjs. Node has read the files once it answers, so they may go with the test.
func startNode(t *testing.T) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("node is not installed: run make test-deps, or install Node.js 20 or newer")
	}
	agreeing.talk.Reset()
	cmd := exec.CommandContext(context.Background(), node, beside(t, "agree.mjs")) //nolint:usetesting // it outlives this test
	cmd.Stderr = &agreeing.talk
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	agreeing.in, agreeing.out, agreeing.wait = in, bufio.NewReader(out), cmd.Wait
}

// beside is a program of testdata where it finds the verifier that the binary has in
// it, which a removal changes without touching the tree.
func beside(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	program, err := os.ReadFile(filepath.Join("testdata", name))
	must(t, err)
	must(t, os.Mkdir(filepath.Join(dir, "testdata"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "verify.mjs"), []byte(JavaScript()), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "testdata", name), program, 0o600))
	return filepath.Join(dir, "testdata", name)
}

func textOf(t *testing.T, trust Trust) json.RawMessage {
	t.Helper()
	data, err := canonicalValue(trust)
	must(t, err)
	quoted, err := json.Marshal(string(data))
	must(t, err)
	return quoted
}

// toBoth is a bundle for both implementations.
type toBoth struct {
	name    string
	trust   Trust // with the recorders of the bundle
	seen    [][]byte
	bundle  []byte
	more    [][]byte // further ones of a series
	verdict Verdict  // of a vector
}

// places are the problems without their messages, which each implementation
// words for itself.
func places(problems []Problem) []Problem {
	var out []Problem
	for _, problem := range problems {
		problem.Message = ""
		out = append(out, problem)
	}
	return out
}

// bothSay puts bundles to both implementations, and returns the reports of Go.
func bothSay(t *testing.T, cases []toBoth) []Report {
	t.Helper()
	var questions []asked
	var reports []Report
	for _, one := range cases {
		question := asked{Trust: textOf(t, one.trust), Bundle: &one.bundle, More: one.more}
		for _, signed := range one.seen {
			question.Seen = append(question.Seen, string(signed))
		}
		question.Witnesses, question.Quorum = pinnedIn(one.trust)
		for _, list := range one.trust.Recorders {
			text, err := canonicalValue(list)
			must(t, err)
			question.Recorders = append(question.Recorders, string(text))
		}
		trust, series := one.forGo(t)
		report, err := VerifySeries(trust, series()...)
		must(t, err)
		questions, reports = append(questions, question), append(reports, report)
	}
	for i, answer := range inNode(t, questions) {
		same(t, cases[i], reports[i], answer)
	}
	return reports
}

// pinnedIn is the quorum of a trust, as verify.mjs takes it.
func pinnedIn(trust Trust) (witnesses []string, number int) {
	for _, key := range trust.Quorum.Witnesses {
		witnesses = append(witnesses, key.String())
	}
	return witnesses, trust.Quorum.Number
}

// forGo returns what a case is verified under, and its bundles, to be read as often
// as need be.
func (one toBoth) forGo(t *testing.T) (Trust, func() []io.Reader) {
	t.Helper()
	trust := one.trust
	var known []note.Verifier
	for _, key := range trust.CheckpointKeys {
		known = append(known, verifierOf(t, key))
	}
	for _, signed := range one.seen {
		checkpoint, err := OpenCheckpoint(signed, known...)
		must(t, err)
		trust.Seen = append(trust.Seen, checkpoint)
	}
	return trust, func() []io.Reader {
		series := []io.Reader{bytes.NewReader(one.bundle)}
		for _, bundle := range one.more {
			series = append(series, bytes.NewReader(bundle))
		}
		return series
	}
}

func same(t *testing.T, given toBoth, report Report, answer said) {
	t.Helper()
	if answer.Report == nil {
		t.Fatalf("%s: verify.mjs gives up: %s", given.name, answer.Error)
	}
	if answer.Report.Verdict != string(report.Verdict()) || answer.Report.Unverifiable != 0 {
		t.Errorf("%s: verify.mjs says %s, Go says %s\n%v\n%v\n%q", given.name, answer.Report.Verdict, report.Verdict(), answer.Report.Problems, report.Problems, given.bundle)
	}
	other := answer.Report.Report
	for _, problem := range other.Problems {
		if problem.Message == "" {
			t.Errorf("%s: verify.mjs has no message for %v", given.name, problem)
		}
	}
	report.Problems, other.Problems = places(report.Problems), places(other.Problems)
	report.Pending, other.Pending = append([]string{}, report.Pending...), append([]string{}, other.Pending...)
	report.Chains, other.Chains = append([]ChainReport{}, report.Chains...), append([]ChainReport{}, other.Chains...)
	if diff := cmp.Diff(report, other); diff != "" {
		t.Errorf("%s: Go (-) and verify.mjs (+) disagree\n%s\n%q", given.name, diff, given.bundle)
	}
}

// TestEXT26_TwoImplementationsAgreeOnEveryVector puts every vector of evidence,
// anyone who wrote it, to the implementation in JavaScript.
func TestEXT26_TwoImplementationsAgreeOnEveryVector(t *testing.T) {
	var cases []toBoth
	for file, vectors := range everyVector(t) {
		if file != "retention.json" { // not every platform has ML-DSA-87: TestEXT29_APlatformWithoutMLDSA87SaysSo
			cases = append(cases, vectors...)
		}
	}
	for i, report := range bothSay(t, cases) {
		if report.Verdict() != cases[i].verdict {
			t.Errorf("%s: %s, want %s", cases[i].name, report.Verdict(), cases[i].verdict)
		}
	}
	if len(cases) < 180 {
		t.Errorf("only %d vectors of bundles", len(cases))
	}
}

func readVectors(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(vectorFolder, name))
	must(t, err)
	must(t, json.Unmarshal(data, into))
}

func TestEXT26_TwoImplementationsAgreeOnProofs(t *testing.T) {
	var file struct {
		Trust  Trust         `json:"trust"`
		Proofs []proofVector `json:"proofs"`
	}
	readVectors(t, "proofs.json", &file)
	var questions []asked
	for _, vector := range file.Proofs {
		questions = append(questions, asked{Trust: textOf(t, file.Trust), Record: &vector.Record, Proof: vector.Proof})
	}
	for i, answer := range inNode(t, questions) {
		if vector := file.Proofs[i]; (answer.Text == "ok") != (vector.Expect == "ok") || (answer.Error == "") != (vector.Expect == "ok") {
			t.Errorf("%s: want %s, verify.mjs says %q %q", vector.Name, vector.Expect, answer.Text, answer.Error)
		}
	}
}

func TestATK39_ATK40_TwoImplementationsAgreeOnJSON(t *testing.T) {
	var vectors []canonicalVector
	readVectors(t, "canonical.json", &vectors)
	var questions []asked
	for _, vector := range vectors {
		questions = append(questions, asked{Canonical: &vector.Input})
	}
	for i, answer := range inNode(t, questions) {
		if vector := vectors[i]; answer.Text != vector.Output || (answer.Error == "") != (vector.Expect == "ok") {
			t.Errorf("%s: want %s %q, verify.mjs says %q %q", vector.Name, vector.Expect, vector.Output, answer.Text, answer.Error)
		}
	}
}

func TestEXT22_EXT35_TwoImplementationsAgreeOnRecordsAndTrees(t *testing.T) {
	var records []recordVector
	readVectors(t, "records.json", &records)
	var questions []asked
	for _, vector := range records {
		questions = append(questions, asked{Sealed: &vector.Stored})
	}
	var tree treeVector
	readVectors(t, "tree.json", &tree)
	for n := range tree.Leaves {
		questions = append(questions, asked{Leaves: tree.Leaves[:n+1]})
	}
	answers := inNode(t, questions)
	for i, vector := range records {
		got := recordVector{Name: vector.Name, Key: vector.Key, Prev: vector.Prev, Stored: vector.Stored, Body: answers[i].Body, Hash: answers[i].Hash, Leaf: answers[i].Leaf, LeafHash: answers[i].LeafHash}
		if vector.Leaf == "" { // without our member it is none of our records
			got, vector = recordVector{}, recordVector{}
			if answers[i].Error == "" {
				t.Errorf("verify.mjs takes %s", records[i].Stored)
			}
		}
		if diff := cmp.Diff(vector, got); diff != "" {
			t.Errorf("%s %s", diff, answers[i].Error)
		}
	}
	for n := range tree.Leaves {
		if got := answers[len(records)+n].Text; got != tree.Roots[n+1] {
			t.Errorf("root of %d: %s, want %s", n+1, got, tree.Roots[n+1])
		}
	}
}

// TestEXT22_TwoImplementationsAgreeOnFlippedBits turns bits of whole bundles,
// some of every line, and a few at a time.
func TestEXT22_TwoImplementationsAgreeOnFlippedBits(t *testing.T) {
	l := mixedLog(t)
	trust := l.trust()
	trust.Batches = true
	bundle := l.bundle()
	random := rand.New(rand.NewPCG(26, 22))
	cases := []toBoth{{name: "whole", trust: trust, bundle: bundle}}
	for n := range 700 {
		spoilt := bytes.Clone(bundle)
		for range 1 + n%3 {
			spoilt[random.IntN(len(spoilt))] ^= 1 << random.IntN(8)
		}
		cases = append(cases, toBoth{name: fmt.Sprintf("flips %d", n), trust: trust, bundle: spoilt})
	}
	found := map[Kind]int{}
	for i, report := range bothSay(t, cases) {
		if (report.Verdict() == OK) != (i == 0) {
			t.Errorf("%s: %s", cases[i].name, report.Verdict())
		}
		for _, problem := range report.Problems {
			found[problem.Kind]++
		}
	}
	if len(found) < 6 {
		t.Errorf("the flips show only %v", found)
	}
}

// TestEXT26_TwoImplementationsAgreeOnForms replaces, within a record, what
// two readers of JSON are likely to read differently.
func TestEXT26_TwoImplementationsAgreeOnForms(t *testing.T) {
	l := newTestLog(t)
	l.add(1, fullRecord())
	line := string(l.records[0])
	var questions []asked
	var texts []string
	for _, change := range forms {
		if !strings.Contains(line, change.from) {
			t.Errorf("the record has no %s", change.from)
		}
		text := strings.Replace(line, change.from, change.to, 1)
		texts = append(texts, text)
		questions = append(questions, asked{Sealed: &text})
	}
	taken := 0
	for i, answer := range inNode(t, questions) {
		_, err := ParseSealed([]byte(texts[i]))
		if (err == nil) != (answer.Error == "") {
			t.Errorf("%.60s -> %.60s: Go says %v, verify.mjs says %q", forms[i].from, forms[i].to, err, answer.Error)
		}
		if err == nil {
			taken++
		}
	}
	if taken == 0 || taken == len(forms) {
		t.Errorf("%d of %d forms are taken", taken, len(forms))
	}
}

// TestEXT26_WhatThePlatformLacksIsUnverifiable takes algorithms away from the
// platform: nothing that it cannot check is ok.
func TestEXT26_WhatThePlatformLacksIsUnverifiable(t *testing.T) {
	l := mixedLog(t)
	trust := l.trust()
	trust.Batches = true
	whole := l.bundle()
	flipped := bytes.Replace(whole, []byte(`"documents.read"`), []byte(`"documents.reax"`), 1)
	var questions []asked
	for _, lacks := range [][]string{{}, {"ECDSA"}, {"Ed25519"}, {"Ed25519", "ECDSA"}} {
		for _, bundle := range []*[]byte{&whole, &flipped} {
			questions = append(questions, asked{Trust: textOf(t, trust), Bundle: bundle, Lacks: lacks})
		}
	}
	signed := map[string]int{}
	for _, record := range l.records {
		sealed, err := ParseSealed(record)
		must(t, err)
		if !sealed.Covered() {
			signed[sealed.Algorithm()]++
		}
	}
	answers := inNode(t, questions)
	for i, want := range []int{0, signed[ES256], signed[Ed25519] + 1, signed[Ed25519] + signed[ES256] + 1} {
		verdict := "unverifiable"
		if want == 0 {
			verdict = "ok"
		}
		if got := answers[2*i].Report; got == nil || got.Verdict != verdict || got.Unverifiable != want {
			t.Errorf("without %v: %+v %s, want %s of %d", questions[2*i].Lacks, got, answers[2*i].Error, verdict, want)
		}
		if got := answers[2*i+1].Report; got == nil || got.Verdict != "tampered" {
			t.Errorf("without %v, a byte flipped: %+v", questions[2*i].Lacks, got)
		}
	}
}

// mixedLog has records with every member, of both algorithms, some in batches,
// some with an outcome that is not told.
func mixedLog(t *testing.T) *testLog {
	t.Helper()
	l := newTestLog(t)
	ec := p256Key(t, 3)
	other, err := NewES256Signer(ec)
	must(t, err)
	key, err := NewKey(ec.Public(), "issuer")
	must(t, err)
	l.keys = append(l.keys, key)
	l.fill(3, 1, 2)
	l.batch(3, 3, 1)
	full := fullRecord()
	full.AgentID = IssuerID // which alone erases
	full.Details.Recorder, full.Details.OutcomeOf = "issuer", ""
	full.OutcomeStatus = Pending
	l.add(4, full)
	ed := l.signer
	l.signer = other
	l.fill(2, 5)
	l.signer = ed
	return l
}

// TestEXT23_TwoImplementationsAgreeOnSignatures are the cases of Ed25519 on which
// implementations disagree (TestVectors of package eddsa).
func TestEXT23_TwoImplementationsAgreeOnSignatures(t *testing.T) {
	data, err := os.ReadFile("../eddsa/testdata/vectors.txt")
	must(t, err)
	var questions []asked
	var want []bool
	for line := range strings.Lines(string(data)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		public, err := hex.DecodeString(fields[0])
		must(t, err)
		signature, err := hex.DecodeString(fields[1])
		must(t, err)
		questions = append(questions, asked{Public: fields[0], Signature: fields[1], Message: fields[2]})
		want = append(want, eddsa.Verify(public, []byte(fields[2]), signature))
	}
	accepted := 0
	for i, answer := range inNode(t, questions) {
		if answer.Text != fmt.Sprint(want[i]) {
			t.Errorf("%+v: verify.mjs says %s %s, Go says %v", questions[i], answer.Text, answer.Error, want[i])
		}
		if want[i] {
			accepted++
		}
	}
	if accepted == 0 || accepted == len(want) {
		t.Errorf("%d of %d are accepted", accepted, len(want))
	}
}

// TestEXT26_TheScriptIsTheFile holds what the binary prints against the file that
// every other test runs.
func TestEXT26_TheScriptIsTheFile(t *testing.T) {
	file, err := os.ReadFile("verify.mjs")
	must(t, err)
	if JavaScript() != string(file) || len(file) == 0 {
		t.Error("the script is not verify.mjs")
	}
	if regexp.MustCompile(`(?m)^import|require\(`).Match(file) {
		t.Error("verify.mjs imports something, and does not run in a browser")
	}
}

// TestEXT26_TheScriptRunsInAPage takes away what Node has and browsers have not.
func TestEXT26_TheScriptRunsInAPage(t *testing.T) {
	l := newTestLog(t).fill(40, 1, 2)
	trust, err := canonicalValue(l.trust())
	must(t, err)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "bundle"), l.bundle(), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "trust"), trust, 0o600))
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join("testdata", "page.mjs"), filepath.Join(dir, "bundle"), filepath.Join(dir, "trust"))
	out, err := cmd.CombinedOutput()
	if want := strings.Repeat("[\"ok\",40,0]\n", 3); err != nil || string(out) != want {
		t.Errorf("%v\n%s", err, out)
	}
}
