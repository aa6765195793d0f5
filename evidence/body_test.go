package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// bodyVector is a bundle with detached bodies.
type bodyVector struct {
	bundleVector
	Bodies BodyReport `json:"bodies"`
}

// bodyOf is the body of the test's record of that number, under a key that is
// always the same.
func bodyOf(t testing.TB, n int) *Body {
	t.Helper()
	b, err := NewBody(bytes.NewReader(seed(byte(n))), fmt.Appendf(nil, `{"account":"DE%d"}`, n))
	must(t, err)
	return b
}

// bodied is a log of four records: three commit to a body, which is shown of the
// first and the third, and the last says that the body of the second was erased.
func bodied(t testing.TB) (l *testLog, bundle []byte) {
	t.Helper()
	l = newTestLog(t)
	shown := map[int]*Body{0: bodyOf(t, 0), 2: bodyOf(t, 2)}
	for n := range 3 {
		record := testRecord(fmt.Sprintf("ev-%d", n), "agent-1")
		record.Detach(bodyOf(t, n))
		l.add(1, record)
	}
	last := testRecord("ev-3", IssuerID)
	last.Details.Erased = []string{"ev-1", "ev-2", "ev-none"}
	l.add(7, last)
	export := l.export()
	at := -1
	export.Records = func(yield func([]byte, error) bool) {
		for n, record := range l.records {
			if at = n; !yield(record, nil) {
				return
			}
		}
	}
	export.Body = func() *Body { return shown[at] }
	var out bytes.Buffer
	must(t, WriteBundle(&out, export))
	return l, out.Bytes()
}

// spoiltBodies change the lines of bodied: records on lines 2, 4, 5 and 7, bodies
// on lines 3 and 6, leaves and checkpoint behind.
var spoiltBodies = []struct {
	name  string
	spoil func(b [][]byte) [][]byte
	want  []string
}{
	{"whole", func(b [][]byte) [][]byte { return b }, nil},
	{"EXT-26 the first body left out", func(b [][]byte) [][]byte { return slices.Delete(b, 2, 3) }, nil},
	{"EXT-26 a byte of a body", func(b [][]byte) [][]byte { return replaceIn(b, 2, `{"body":"e`, `{"body":"f`) }, []string{"body_mismatch@3"}},
	{"EXT-26 a byte of its key", func(b [][]byte) [][]byte { return replaceIn(b, 2, `"key":"A`, `"key":"B`) }, []string{"body_mismatch@3"}},
	{"EXT-26 a longer key that HMAC takes for the same", func(b [][]byte) [][]byte {
		return replaceIn(b, 2, `AAAA="}`, `AAAAA"}`)
	}, []string{"body_mismatch@3"}},
	{"EXT-26 the body of another record", func(b [][]byte) [][]byte { b[2], b[5] = b[5], b[2]; return b }, []string{"body_mismatch@3", "body_mismatch@6"}},
	{"EXT-26 a body of a record that has none", func(b [][]byte) [][]byte { return slices.Insert(b, 7, b[5]) }, []string{"body_mismatch@8"}},
	{"EXT-26 an erased body that is back, and another one", func(b [][]byte) [][]byte { return slices.Insert(b, 4, b[2]) }, []string{"body_mismatch@5"}},
	{"EXT-24 two bodies of one record", func(b [][]byte) [][]byte { return slices.Insert(b, 3, b[2]) }, []string{"malformed@4"}},
	{"EXT-24 a body behind the header", func(b [][]byte) [][]byte { return slices.Insert(b, 1, b[2]) }, []string{"malformed@2"}},
	{"EXT-24 a body behind the leaves", func(b [][]byte) [][]byte { return slices.Insert(b, 8, b[2]) }, []string{"malformed@9"}},
	{"EXT-24 a member too many", func(b [][]byte) [][]byte { return replaceIn(b, 2, `"key"`, `"kez":"","key"`) }, []string{"malformed@3"}},
	{"EXT-24 a body that is no base64", func(b [][]byte) [][]byte { return replaceIn(b, 2, `{"body":"`, `{"body":"%`) }, []string{"malformed@3"}},
	{"EXT-24 a key that is no base64", func(b [][]byte) [][]byte { return replaceIn(b, 2, `"key":"A`, `"key":"%`) }, []string{"malformed@3"}},
	{"EXT-24 a line feed in the base64", func(b [][]byte) [][]byte { return replaceIn(b, 2, `{"body":"`, `{"body":"\n`) }, []string{"malformed@3"}},
	{"EXT-22 a byte of the commitment", func(b [][]byte) [][]byte {
		at := bytes.Index(b[1], []byte(`"body_commitment":"`)) + len(`"body_commitment":"`)
		b[1][at] = '0' + (b[1][at]+1)%8
		return b
	}, []string{"hash_mismatch@2"}},
	{"EXT-24 a commitment that is none", func(b [][]byte) [][]byte {
		return replaceIn(b, 1, `"body_commitment":"`, `"body_commitment":"0`)
	}, []string{"malformed@2"}},
	{"EXT-24 the first record is no record", func(b [][]byte) [][]byte { b[1] = []byte("[]\n"); return b }, []string{"malformed@2"}},
	{"EXT-24 a later record is no record", func(b [][]byte) [][]byte { b[4] = []byte("[]\n"); return b }, []string{"malformed@5"}},
	{"EXT-23 who says that a body was erased did not sign", func(b [][]byte) [][]byte {
		return replaceIn(b, 6, `"signature":"`, `"signature":"AAAA`)
	}, []string{"bad_signature@7"}},
}

func replaceIn(b [][]byte, at int, from, to string) [][]byte {
	b[at] = bytes.Replace(b[at], []byte(from), []byte(to), 1)
	return b
}

// TestEXT26_Bodies says what each change is called, to both implementations.
func TestEXT26_Bodies(t *testing.T) {
	l, _ := bodied(t)
	file := struct {
		Trust   Trust        `json:"trust"`
		Bundles []bodyVector `json:"bundles"`
	}{Trust: l.trust()}
	var cases []toBoth
	for _, test := range spoiltBodies {
		_, whole := bodied(t)
		bundle := join(test.spoil(lines(bytes.Clone(whole)))...)
		if test.want != nil && bytes.Equal(bundle, whole) {
			t.Errorf("%s: nothing was changed", test.name)
		}
		cases = append(cases, toBoth{name: test.name, trust: l.trust(), bundle: bundle})
	}
	for i, report := range bothSay(t, cases) {
		if diff := cmp.Diff(spoiltBodies[i].want, kinds(report)); diff != "" {
			t.Errorf("%s: %s", cases[i].name, diff)
		}
		file.Bundles = append(file.Bundles, bodyVector{bundleVector{
			Name: cases[i].name, Verdict: report.Verdict(), Problems: append([]string{}, kinds(report)...), Bundle: string(cases[i].bundle),
		}, report.Bodies})
	}
	for n, want := range []BodyReport{{3, 2, 1}, {3, 1, 1}, {3, 1, 1}} {
		if got := file.Bundles[n].Bodies; got != want {
			t.Errorf("%s: %+v, want %+v", file.Bundles[n].Name, got, want)
		}
	}
	if got := file.Bundles[len(file.Bundles)-1].Bodies; got.Erased != 0 {
		t.Errorf("a record without a good signature says that a body was erased, and is believed: %+v", got)
	}
	goldenJSON(t, "bodies.json", file)
}

// TestEXT26_EveryByteOfABodyCounts flips each byte of what stands on the line of
// a body.
func TestEXT26_EveryByteOfABodyCounts(t *testing.T) {
	l, whole := bodied(t)
	b := lines(whole)
	for at := range len(b[2]) - 1 {
		spoilt := slices.Clone(b)
		spoilt[2] = bytes.Clone(b[2])
		spoilt[2][at] ^= 1
		if report := l.verify(join(spoilt...)); report.Verdict() == OK {
			t.Fatalf("byte %d of the line may be another: %s", at, spoilt[2])
		}
	}
}

func TestEXT26_WhatIsNoBody(t *testing.T) {
	_, err := NewBody(bytes.NewReader(seed(1)), make([]byte, MaxBody+1))
	wantError(t, err, "at most 524288 are kept")
	_, err = NewBody(iotest.ErrReader(errors.New("no randomness")), nil)
	wantError(t, err, "no randomness")
	largest, err := NewBody(bytes.NewReader(seed(1)), make([]byte, MaxBody))
	must(t, err)
	if line, err := canonicalValue(largest.line()); err != nil || len(line) >= maxLine {
		t.Errorf("the largest body is a line of %d bytes, %v", len(line), err)
	}
}

// TestEXT25_AnOutcomeHasNoBody: the second record of a decision commits to nothing
// of the first one's.
func TestEXT25_AnOutcomeHasNoBody(t *testing.T) {
	record := testRecord("ev-0", "agent-1")
	record.OutcomeStatus = Pending
	record.Detach(bodyOf(t, 1))
	second, err := Outcome(record, "ev-1", testTime, Achieved, nil)
	must(t, err)
	if second.Detached != nil || second.Details.BodyCommitment != "" {
		t.Errorf("%+v", second)
	}
}

// TestEXT22_ARecordIsSealedWithItsBodyAlone: the body stored beside a record
// is the one that it commits to.
func TestEXT22_ARecordIsSealedWithItsBodyAlone(t *testing.T) {
	l := newTestLog(t)
	record := testRecord("ev-0", "agent-1")
	record.Detach(bodyOf(t, 1))
	record.Detached = bodyOf(t, 2)
	_, err := Seal(Genesis(ChainID{1}), record, l.signer)
	if !errors.Is(err, ErrBody) {
		t.Errorf("sealed with another's body: %v", err)
	}
	record = testRecord("ev-0", "agent-1")
	record.Details.BodyCommitment = strings.Repeat("A", 64)
	_, err = Seal(Genesis(ChainID{1}), record, l.signer)
	wantError(t, err, "body_commitment")
}

// TestATK70_OnlyTheIssuerErases: a gateway whose key is pinned for its agent, and a stolen key
// of it, cannot have bodies counted as erased, of another agent or of its own.
func TestATK70_OnlyTheIssuerErases(t *testing.T) {
	for _, of := range []string{"agent-1", "agent-2"} {
		l := newTestLog(t)
		committed := testRecord("ev-kept", of)
		committed.Detach(bodyOf(t, 0))
		l.add(1, committed)
		erasing := testRecord("ev-erasing", "agent-2")
		erasing.Details.Erased = []string{"ev-kept"}
		l.add(2, erasing)
		report := bothSayListed(t, l.bundle(), l.trust())
		if diff := cmp.Diff([]string{"bad_erasure@3"}, kinds(report)); diff != "" || report.Bodies.Erased != 0 {
			t.Errorf("ATK-70 of %s: %s, %d bodies erased", of, diff, report.Bodies.Erased)
		}
	}
}

// EXT-26: the store accepts beside a record only the body that the record commits to.
func TestEXT26_WithBody(t *testing.T) {
	r := testRecord("ev-0", "agent-1")
	r.Detach(bodyOf(t, 0))
	written, err := Seal(Genesis(ChainID{1}), r, newTestLog(t).signer)
	must(t, err)
	sealed, err := ParseSealed(written.Bytes())
	must(t, err)
	if got, err := sealed.WithBody(bodyOf(t, 0)); err != nil || got.Record().Detached == nil {
		t.Errorf("EXT-26 its own body: %v", err)
	}
	if _, err := sealed.WithBody(bodyOf(t, 1)); !errors.Is(err, ErrBody) {
		t.Errorf("EXT-26 another body: %v", err)
	}
}
