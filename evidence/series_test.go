package evidence

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// everyVector are the bundles and series of every file of vectors, each with what it
// is verified under.
func everyVector(t *testing.T) map[string][]toBoth {
	t.Helper()
	all := map[string][]toBoth{}
	for _, file := range []string{"bundles.json", "retention.json", "bodies.json", "periods.json", "audits.json"} {
		var vectors struct {
			Trust   Trust            `json:"trust"`
			Trusts  map[string]Trust `json:"trusts"`
			Bundles []bundleVector   `json:"bundles"`
			Audits  []auditVector    `json:"audits"`
			Series  []periodVector   `json:"series"`
		}
		readVectors(t, file, &vectors)
		for _, v := range vectors.Bundles {
			all[file] = append(all[file], toBoth{name: v.Name, trust: vectors.Trust, bundle: []byte(v.Bundle), verdict: v.Verdict})
		}
		for _, v := range vectors.Audits {
			all[file] = append(all[file], toBoth{name: v.Name, trust: vectors.Trusts[v.Trust], seen: allBytes(v.Seen), bundle: []byte(v.Bundle), verdict: v.Verdict})
		}
		for _, v := range vectors.Series {
			one := toBoth{name: v.Name, trust: vectors.Trust, seen: allBytes(v.Seen), bundle: []byte(v.Bundles[0]), more: allBytes(v.Bundles[1:]), verdict: v.Verdict}
			for _, text := range v.Recorders {
				list, err := ParseRecorders([]byte(text))
				must(t, err)
				one.trust.Recorders = append(one.trust.Recorders, list)
			}
			all[file] = append(all[file], one)
		}
		if len(all[file]) == 0 {
			t.Errorf("%s has no vector", file)
		}
	}
	return all
}

func allBytes(texts []string) [][]byte {
	var out [][]byte
	for _, text := range texts {
		out = append(out, []byte(text))
	}
	return out
}

// wholeSeries are three bundles of a log that has of everything: two algorithms,
// batches, bodies of which one was erased, a gateway that was closed, and outcomes
// that are not told. They are verified with a list of recorders.
func wholeSeries(t *testing.T, more int) (trust Trust, bundles, checkpoints [][]byte) {
	t.Helper()
	l := mixedLog(t)
	shown := map[string]*Body{}
	from, done := int64(0), 0
	period := func() {
		export := l.export()
		at := -1
		export.From, export.Records = from, func(yield func([]byte, error) bool) {
			for n, record := range l.records[done:] {
				if at = done + n; !yield(record, nil) {
					return
				}
			}
		}
		export.Body = func() *Body { return shown[string(l.records[at])] }
		var out bytes.Buffer
		must(t, WriteBundle(&out, export))
		bundles, checkpoints = append(bundles, out.Bytes()), append(checkpoints, l.signed())
		from, done = l.size, len(l.records)
	}
	commit := func(n int) {
		record := testRecord(fmt.Sprintf("ev-body-%d", n), "agent-6")
		record.Detach(bodyOf(t, n))
		if sealed := l.add(6, record); n != 1 {
			shown[string(sealed.Bytes())] = bodyOf(t, n)
		}
	}
	commit(0)
	commit(1)
	period()
	commit(2)
	l.fill(more, 1, 2)
	erasing := testRecord("ev-erase", IssuerID)
	erasing.Details.Erased = []string{"ev-body-1"}
	l.add(7, erasing)
	l.add(7, closing("ev-close", []ListedChain{{AgentID: "agent-6", Recorder: "issuer", Chain: ChainID{6}, Records: 3}}))
	period()
	l.fill(3, 1, 2)
	period()
	trust = l.trust()
	trust.Batches = true
	trust.Recorders = []Recorders{listOf(l,
		ListedChain{AgentID: "agent-1", Recorder: "issuer", Chain: ChainID{1}}, ListedChain{AgentID: "agent-6", Recorder: "issuer", Chain: ChainID{6}})}
	return trust, bundles, checkpoints
}

// tamperedSeries spoils one bundle of a series, and at times the series.
func tamperedSeries(random *rand.Rand, n int, bundles [][]byte) [][]byte {
	spoilt := slices.Clone(bundles)
	at := random.IntN(len(spoilt))
	switch n % 5 {
	case 0:
		spoilt = slices.Delete(spoilt, at, at+1)
	case 1:
		to := random.IntN(len(spoilt))
		spoilt[at], spoilt[to] = spoilt[to], spoilt[at]
	default:
		spoilt[at] = tampered(random, spoilt[at], 1+n%3)
	}
	if n%7 == 0 {
		at = random.IntN(len(spoilt))
		spoilt[at] = tampered(random, spoilt[at], 1)
	}
	return spoilt
}

// TestEXT24_TwoImplementationsAgreeOnTamperedSeries, and nothing that was tampered
// with is ok: both implementations give the same verdict on a series.
func TestEXT24_TwoImplementationsAgreeOnTamperedSeries(t *testing.T) {
	trust, bundles, checkpoints := wholeSeries(t, 4)
	cases := []toBoth{
		{name: "whole", trust: trust, bundle: bundles[0], more: bundles[1:]},
		{name: "whole, behind the first", trust: trust, seen: checkpoints[:1], bundle: bundles[1], more: bundles[2:]},
	}
	random := rand.New(rand.NewPCG(24, 41))
	for n := range 250 {
		one := toBoth{name: fmt.Sprintf("tampered %d", n), trust: trust}
		spoilt := tamperedSeries(random, n, bundles)
		if one.bundle, one.more = spoilt[0], spoilt[1:]; n%3 == 0 {
			one.seen = checkpoints
		}
		cases = append(cases, one)
	}
	found := map[Kind]int{}
	for i, report := range bothSay(t, cases) {
		series := append([][]byte{cases[i].bundle}, cases[i].more...)
		seen := len(cases[i].seen) > 0
		whole := untouched(series, bundles, seen)
		if ok := report.Verdict() == OK; whole && !ok || ok && !whole && !untouched(bodiless(series), bodiless(bundles), seen) {
			t.Errorf("%s: %s %v", cases[i].name, report.Verdict(), placed(report))
		}
		for _, p := range report.Problems {
			found[p.Kind]++
		}
	}
	if len(found) < 9 {
		t.Errorf("the tampering shows only %v", found)
	}
}

// untouched reports whether the bundles left of a series are unchanged: the end
// of the series if its last checkpoint was seen, else its beginning.
func untouched(left, bundles [][]byte, seen bool) bool {
	from, to := 0, min(len(left), len(bundles))
	if seen {
		from, to = len(bundles)-to, len(bundles)
	}
	return slices.EqualFunc(left, bundles[from:to], bytes.Equal)
}

// bodiless leaves the bodies out, which is no fault.
func bodiless(bundles [][]byte) [][]byte {
	var out [][]byte
	for _, bundle := range bundles {
		out = append(out, join(slices.DeleteFunc(lines(bundle), func(line []byte) bool { return bytes.HasPrefix(line, []byte(bodyMark)) })...))
	}
	return out
}

// TestEXT24_AllProblemsOfASeriesHaveTheirBundle: those of the first one are not told
// as if it were the only one, whenever they are found.
func TestEXT24_AllProblemsOfASeriesHaveTheirBundle(t *testing.T) {
	l, bundles, _ := periods(t)
	flipped := bytes.Replace(bundles[0], []byte("ALLOW"), []byte("DENY"), 1)
	again := join(slices.Insert(lines(bytes.Clone(flipped)), 3, lines(flipped)[3])...)
	report := bothSay(t, []toBoth{{name: "flipped", trust: l.trust(), bundle: again, more: bundles[1:]}})[0]
	if diff := cmp.Diff([]string{"hash_mismatch@1:2", "duplicate@1:5"}, placed(report)); diff != "" {
		t.Error(diff)
	}
	if got, want := report.Problems[1].Message, `record id "ev-2" is already on line 4 of bundle 1`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestEXT33_AChainIsLookedForInTheWholeSeries holds series against lists: a chain
// that is in one bundle of it is not left out. Where the beginning is not here, what
// is not here may be there: it is told, and how long a chain is counts what it says of
// that.
func TestEXT33_AChainIsLookedForInTheWholeSeries(t *testing.T) {
	once := func(l *testLog) { l.add(3, testRecord("ev-once", "agent-3")) }
	l, b, c := periods(t, once)
	chain := func(n byte, records int64) ListedChain {
		return ListedChain{AgentID: fmt.Sprintf("agent-%d", n), Recorder: "issuer", Chain: ChainID{n}, Records: records}
	}
	gone := ChainID{9}.String()
	for _, test := range []struct {
		name    string
		bundles [][]byte
		seen    [][]byte
		chains  []ListedChain
		want    []string
		earlier []string
	}{
		{"every chain is in some bundle", b, nil, []ListedChain{chain(1, 6), chain(2, 4), chain(3, 1)}, nil, nil},
		{"one is in none", b, nil, []ListedChain{chain(9, 0)}, []string{"missing_chain@3:6"}, nil},
		{"one was longer than all of them have it", b, nil, []ListedChain{chain(1, 7)}, []string{"missing_tail@3:6"}, nil},
		{"one is of a later period", b[:1], nil, []ListedChain{chain(3, 0)}, []string{"missing_chain@8"}, nil},
		{"behind the first, what it has counts", b[1:], c[:1], []ListedChain{chain(1, 6), chain(2, 4)}, nil, nil},
		{"behind the first, cut short all the same", b[1:], c[:1], []ListedChain{chain(1, 7)}, []string{"missing_tail@2:6"}, nil},
		{"behind the first, one may have ended there", b[1:], c[:1], []ListedChain{chain(9, 4), chain(9, 0), chain(1, 1)}, nil, []string{gone}},
		{"behind what nobody has kept", b[1:], nil, []ListedChain{chain(9, 0)}, []string{"missing_head@1:1"}, []string{gone}},
	} {
		trust := l.trust()
		trust.Recorders = []Recorders{NewRecorders("agent-1", []PinnedKey{l.keys[0].Pin(testTime, time.Time{}, "*")}, test.chains)}
		report := bothSay(t, []toBoth{{name: test.name, trust: trust, seen: test.seen, bundle: test.bundles[0], more: test.bundles[1:]}})[0]
		if diff := cmp.Diff(append([]string{}, test.want...), placed(report)); diff != "" || !slices.Equal(report.Earlier, test.earlier) {
			t.Errorf("%s: %v before, want %v %s", test.name, report.Earlier, test.earlier, diff)
		}
	}
}
