package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/tlog"
)

// sameReport verifies a bundle by one goroutine and by several. The reports are
// the same, word for word.
func sameReport(t *testing.T, name string, bundle []byte, trust Trust, workers ...int) Report {
	t.Helper()
	return sameOfSeries(t, toBoth{name: name, trust: trust, bundle: bundle}, workers...)
}

// sameOfSeries is sameReport for any case.
func sameOfSeries(t *testing.T, given toBoth, workers ...int) Report {
	t.Helper()
	trust, series := given.forGo(t)
	want, errWant := VerifySeries(trust, series()...)
	for _, n := range workers {
		readers := series()
		for i, r := range readers {
			readers[i] = iotest.HalfReader(r)
		}
		got, err := VerifyParallel(trust, n, readers...)
		if diff := cmp.Diff(want, got); diff != "" || fmt.Sprint(err) != fmt.Sprint(errWant) {
			t.Fatalf("%s: one goroutine (-) and %d (+) disagree: %v %v\n%s", given.name, n, errWant, err, diff)
		}
	}
	return want
}

// TestEXT24_InParallelTheReportIsTheSame over every vector, and over a bundle of
// many batches that is tampered with at random: bytes flipped, lines dropped,
// repeated, swapped and cut.
func TestEXT24_InParallelTheReportIsTheSame(t *testing.T) {
	for file, vectors := range everyVector(t) {
		for _, v := range vectors {
			if got := sameOfSeries(t, v, 0, 1, 2, 5); got.Verdict() != v.verdict {
				t.Errorf("%s: %s: %s, want %s", file, v.name, got.Verdict(), v.verdict)
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

// TestEXT24_InParallelTheReportOfASeriesIsTheSame, of one with all that a bundle can
// have, whole and tampered with at random, with as little held against it as can be.
func TestEXT24_InParallelTheReportOfASeriesIsTheSame(t *testing.T) {
	trust, bundles, checkpoints := wholeSeries(t, 2*batchLines)
	whole := toBoth{name: "whole", trust: trust, seen: checkpoints, bundle: bundles[0], more: bundles[1:]}
	report := sameOfSeries(t, whole, 2, 5)
	if want := (BodyReport{Committed: 4, Opened: 2, Erased: 1}); report.Verdict() != OK || report.Bodies != want || len(report.Pending) == 0 {
		t.Fatalf("%+v %v", report.Bodies, report.Problems)
	}
	random := rand.New(rand.NewPCG(24, 6))
	found := map[Kind]int{}
	for n := range 60 {
		spoilt := tamperedSeries(random, n, bundles)
		given := toBoth{name: fmt.Sprintf("tampered %d", n), trust: trust, bundle: spoilt[0], more: spoilt[1:]}
		for _, p := range sameOfSeries(t, given, 3).Problems {
			found[p.Kind]++
		}
	}
	if len(found) < 9 {
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
	if _, err := VerifyParallel(l.trust(), 3, reader); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if _, err := VerifyParallel(Trust{}, 3, bytes.NewReader(nil)); err == nil {
		t.Error("nothing is pinned, and no error")
	}
	_, bundles, _ := periods(t)
	unread := bytes.NewReader(bundles[2])
	for n := range 3 {
		reader := io.MultiReader(bytes.NewReader(bundles[1][:len(bundles[1])/2]), iotest.ErrReader(broken))
		_, err := VerifyParallel(l.trust(), n, bytes.NewReader(bundles[0]), reader, unread)
		if !errors.Is(err, broken) || !strings.Contains(err.Error(), "line 3 of bundle 2") {
			t.Errorf("by %d: %v", n, err)
		}
	}
	if unread.Len() != len(bundles[2]) {
		t.Error("what is behind a bundle that cannot be read is read")
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
		report, err := VerifyParallel(trust, 4, bytes.NewReader(spoilt))
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
			_, err := VerifyParallel(trust, 2, bytes.NewReader(bundle))
			must(b, err)
		}
	}
}
