package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/tlog"
)

// sameReport verifies a bundle by one goroutine and by several. The reports are
// the same, word for word.
func sameReport(t *testing.T, name string, bundle []byte, trust Trust, workers ...int) Report {
	t.Helper()
	want, errWant := Verify(bytes.NewReader(bundle), trust)
	for _, n := range workers {
		got, err := VerifyParallel(iotest.HalfReader(bytes.NewReader(bundle)), trust, n)
		if diff := cmp.Diff(want, got); diff != "" || fmt.Sprint(err) != fmt.Sprint(errWant) {
			t.Fatalf("%s: one goroutine (-) and %d (+) disagree: %v %v\n%s", name, n, errWant, err, diff)
		}
	}
	return want
}

// TestEXT24_InParallelTheReportIsTheSame over every vector, and over a bundle of
// many batches that is tampered with at random: bytes flipped, lines dropped,
// repeated, swapped and cut.
func TestEXT24_InParallelTheReportIsTheSame(t *testing.T) {
	for _, file := range []string{"bundles.json", "retention.json"} {
		var vectors struct {
			Trust   Trust          `json:"trust"`
			Bundles []bundleVector `json:"bundles"`
		}
		readVectors(t, file, &vectors)
		for _, v := range vectors.Bundles {
			if got := sameReport(t, v.Name, []byte(v.Bundle), vectors.Trust, 0, 1, 2, 5); got.Verdict() != v.Verdict {
				t.Errorf("%s: %s, want %s", v.Name, got.Verdict(), v.Verdict)
			}
		}
	}
	l := mixedLog(t).fill(2*batchLines, 1, 2, 6)
	trust := l.trust()
	trust.Batches = true
	whole := l.bundle()
	if report := sameReport(t, "whole", whole, trust, 2, 5); report.Verdict() != OK {
		t.Fatal(report.Problems)
	}
	random := rand.New(rand.NewPCG(6, 24))
	found := map[Kind]int{}
	for n := range 30 {
		spoilt := tampered(random, whole, 1+n%4)
		report := sameReport(t, fmt.Sprintf("tampered %d", n), spoilt, trust, 3)
		if report.Verdict() == OK && !bytes.Equal(spoilt, whole) {
			t.Errorf("tampered %d is ok", n)
		}
		for _, p := range report.Problems {
			found[p.Kind]++
		}
	}
	if len(found) < 6 {
		t.Errorf("the tampering shows only %v", found)
	}
}

// tampered spoils a bundle in so many places.
func tampered(random *rand.Rand, bundle []byte, places int) []byte {
	parts := lines(bytes.Clone(bundle))
	for range places {
		n := random.IntN(len(parts))
		switch random.IntN(5) {
		case 0:
			parts[n] = bytes.Clone(parts[n])
			parts[n][random.IntN(len(parts[n]))] ^= 1 << random.IntN(8)
		case 1:
			parts = slices.Delete(parts, n, n+1)
		case 2:
			parts = slices.Insert(parts, random.IntN(len(parts)), parts[n])
		case 3:
			m := random.IntN(len(parts))
			parts[n], parts[m] = parts[m], parts[n]
		case 4:
			parts[n] = parts[n][:random.IntN(len(parts[n]))]
		}
	}
	return join(parts...)
}

func TestInParallelAReaderThatFailsIsAnError(t *testing.T) {
	l := newTestLog(t).fill(batchLines+10, 1)
	broken := errors.New("the disk is gone")
	reader := io.MultiReader(bytes.NewReader(l.bundle()[:60_000]), iotest.ErrReader(broken))
	if _, err := VerifyParallel(reader, l.trust(), 3); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if _, err := VerifyParallel(bytes.NewReader(nil), Trust{}, 3); err == nil {
		t.Error("nothing is pinned, and no error")
	}
	sameReport(t, "cut off", l.bundle()[:60_000], l.trust(), 2)
	sameReport(t, "empty", nil, l.trust(), 2)
	sameReport(t, "a long line", join(l.bundle()[:60_000], bytes.Repeat([]byte("x"), 2*maxLine)), l.trust(), 2)
}

// TestEXT26_InParallelSignaturesAreRemembered as they are by one goroutine: each
// once, and none that did not hold.
func TestEXT26_InParallelSignaturesAreRemembered(t *testing.T) {
	l := newTestLog(t).fill(2*batchLines, 1, 2)
	l.batch(3, 4, 1) // of which three have no signature
	spoilt := l.bundle()
	bad, err := ParseSealed(l.records[7])
	must(t, err)
	spoilt = bytes.Replace(spoilt, []byte(bad.wire.Signature), bytes.Repeat([]byte("A"), len(bad.wire.Signature)), 1)
	remembered := map[tlog.Hash]int{}
	trust := l.trust()
	trust.Batches = true
	trust.Checked = NewChecked(func(leaf tlog.Hash) { remembered[leaf]++ })
	for range 2 {
		report, err := VerifyParallel(bytes.NewReader(spoilt), trust, 4)
		must(t, err)
		if report.Verdict() != Tampered {
			t.Errorf("%s", report.Verdict())
		}
	}
	for leaf, times := range remembered {
		if times != 1 {
			t.Errorf("%s is told of %d times", leaf, times)
		}
	}
	if len(remembered) != 2*batchLines {
		t.Errorf("%d signatures are remembered", len(remembered))
	}
}

// BenchmarkVerifyParallel is the cost of one record of a bundle of ten thousand,
// in the time of a clock, by two goroutines.
func BenchmarkVerifyParallel(b *testing.B) {
	l := newTestLog(b).fill(10_000, 1, 2, 3)
	bundle, trust := l.bundle(), l.trust()
	for n := 0; b.Loop(); n++ {
		if n%10_000 == 0 {
			_, err := VerifyParallel(bytes.NewReader(bundle), trust, 2)
			must(b, err)
		}
	}
}
