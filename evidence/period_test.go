package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/tlog"
)

// periods are three bundles of a log of eleven records on two chains, which was
// closed behind the fifth and the eighth, with their checkpoints.
func periods(t testing.TB, change ...func(*testLog)) (l *testLog, bundles, checkpoints [][]byte) {
	t.Helper()
	l = newTestLog(t)
	from, done := int64(0), 0
	for n, size := range []int{5, 8, 11} {
		if n == 1 {
			for _, f := range change {
				f(l)
			}
		}
		l.fill(size-len(l.records), 1, 2)
		export := l.export()
		export.From, export.Records = from, sequence(l.records[done:])
		var out bytes.Buffer
		must(t, WriteBundle(&out, export))
		bundles, checkpoints = append(bundles, out.Bytes()), append(checkpoints, l.signed())
		from, done = l.size, len(l.records)
	}
	return l, bundles, checkpoints
}

type periodVector struct {
	Name      string      `json:"name"`
	Seen      []string    `json:"seen,omitempty"`
	Recorders []string    `json:"recorders,omitempty"` // lists that were kept
	Verdict   Verdict     `json:"verdict"`
	Problems  []string    `json:"problems"` // kind@bundle:line; without the bundle where there is one
	From      *FromReport `json:"from,omitempty"`
	Earlier   []string    `json:"chains_before,omitempty"`
	Bundles   []string    `json:"bundles"`
}

// places names the findings in a series.
func placed(report Report) []string {
	found := []string{}
	for _, p := range report.Problems {
		at := fmt.Sprint(p.Line)
		if p.Bundle > 0 {
			at = fmt.Sprintf("%d:%d", p.Bundle, p.Line)
		}
		found = append(found, string(p.Kind)+"@"+at)
	}
	return found
}

// TestEXT24_Periods holds both implementations to the same findings for
// series of bundles.
func TestEXT24_Periods(t *testing.T) {
	l, b, c := periods(t)
	_, other, seenElsewhere := periods(t, func(l *testLog) { l.add(3, testRecord("ev-other", "agent-3")) })
	cut := func(bundle []byte, line int) []byte {
		parts := lines(bytes.Clone(bundle))
		return join(slices.Delete(parts, line-1, line)...)
	}
	change := func(bundle []byte, from, to string) []byte {
		changed := bytes.Replace(bundle, []byte(from), []byte(to), 1)
		if bytes.Equal(changed, bundle) {
			t.Fatalf("no %s in %s", from, bundle)
		}
		return changed
	}
	listed := func(chain byte, records int64) []Recorders {
		return []Recorders{listOf(l, ListedChain{AgentID: fmt.Sprintf("agent-%d", chain), Recorder: "issuer", Chain: ChainID{chain}, Records: records})}
	}
	var cases []toBoth
	var wants [][]string
	for _, test := range []struct {
		name   string
		series [][]byte
		seen   [][]byte
		want   []string // none where all is well, nil for what the file says
		lists  []Recorders
	}{
		{"all periods", b, nil, nil, nil},
		{"all periods, under checkpoints that were kept", b, c, nil, nil},
		{"the first period", b[:1], nil, nil, nil},
		{"a period alone, under the checkpoint before it", b[1:2], c[:1], nil, nil},
		{"the last period alone, under the checkpoint before it", b[2:], c[1:2], nil, nil},
		{"EXT-24 a period alone, under none", b[1:2], nil, []string{"missing_head@1"}, nil},
		{"EXT-24 a period alone, under a later checkpoint", b[1:2], c[1:2], []string{"missing_head@1"}, nil},
		{"ATK-44 a period alone, under a checkpoint of another history", b[2:], seenElsewhere[1:2], []string{"fork@6"}, nil},
		{"EXT-24 a dropped period", [][]byte{b[0], b[2]}, nil, []string{"missing_period@2:1", "missing_middle@2:2", "missing_middle@2:3"}, nil},
		{"EXT-24 swapped periods", [][]byte{b[1], b[0], b[2]}, nil, nil, nil},
		{"EXT-24 a period twice", [][]byte{b[0], b[0]}, nil, nil, nil},
		{"EXT-24 a record of a period dropped", [][]byte{b[0], cut(b[1], 3), b[2]}, nil, nil, nil},
		{"EXT-24 the last record of a period dropped, of that period alone", [][]byte{cut(b[1], 4)}, nil, nil, nil},
		{"EXT-24 the first record of a period dropped, of that period alone", [][]byte{cut(b[1], 2)}, nil, nil, nil},
		{"EXT-24 a period cut off", [][]byte{b[0], cut(b[1], 6), b[2]}, nil, nil, nil},
		{"ATK-44 a period of another history", [][]byte{other[0], other[1], b[2]}, nil, nil, nil},
		{"ATK-44 a checkpoint that was kept of another history", b, seenElsewhere[1:2], nil, nil},
		{"ATK-43 a checkpoint that was kept is from before what is here", b[2:], c[:1], []string{"missing_head@1", "missing_head@6"}, nil},
		{"ATK-43 the last period left out", b[:2], c[2:], nil, nil},
		{"EXT-24 a number of entries before that is another", [][]byte{change(b[1], `"size":5`, `"size":6`)}, nil, nil, nil},
		{"EXT-24 none before", [][]byte{change(b[1], `"size":5`, `"size":0`)}, nil, nil, nil},
		{"EXT-24 fewer than none before", [][]byte{change(b[1], `"size":5`, `"size":-5`)}, nil, nil, nil},
		{"EXT-24 half an entry before", [][]byte{change(b[1], `"size":5`, `"size":5.5`)}, nil, nil, nil},
		{"EXT-24 another edge", [][]byte{change(b[1], `{"hashes":"`, `{"hashes":"AAAA`)}, nil, nil, nil},
		{"EXT-24 an edge that is no base64", [][]byte{change(b[1], `{"hashes":"`, `{"hashes":"\n`)}, nil, nil, nil},
		{"EXT-24 no from", [][]byte{change(b[1], `"from":{`, `"form":{`)}, nil, nil, nil},
		{"EXT-24 a series with a header that is none", [][]byte{b[0], cut(b[1], 1), b[2]}, nil, nil, nil},
		{"EXT-24 a period of another log", [][]byte{b[0], change(b[1], `"origin":"powerbox.example/log"`, `"origin":"powerbox.example/lag"`)}, nil, nil, nil},
		{"EXT-22 a byte of a record of the first period", [][]byte{change(b[0], "ALLOW", "DENY"), b[1], b[2]}, nil, []string{"hash_mismatch@1:2"}, nil},
		{"EXT-33 a chain of a list that is in another period", other, nil, []string{}, listed(3, 1)},
		{"EXT-33 a chain of a list that is in no period", b, nil, []string{"missing_chain@3:6"}, listed(3, 0)},
		{"EXT-33 a chain of a list that is shorter in all periods", b, nil, []string{"missing_tail@3:6"}, listed(1, 7)},
		{"EXT-33 a chain of a list, which begins before what is here", b[2:], c[1:2], []string{}, listed(1, 6)},
		{"EXT-33 a chain of a list that may have ended before what is here", other[2:], seenElsewhere[1:2], []string{}, listed(3, 1)},
	} {
		given := toBoth{name: test.name, trust: l.trust(), bundle: test.series[0], more: test.series[1:], seen: test.seen}
		given.trust.Recorders = test.lists
		cases, wants = append(cases, given), append(wants, test.want)
	}
	file := struct {
		Trust  Trust          `json:"trust"`
		Series []periodVector `json:"series"`
	}{Trust: l.trust()}
	for i, report := range bothSay(t, cases) {
		given, want := cases[i], wants[i]
		got := placed(report)
		whole := i < 5 || want != nil && len(want) == 0
		if whole != (report.Verdict() == OK) || want != nil && !cmp.Equal(want, got) {
			t.Errorf("%s: %s %v, want %v", given.name, report.Verdict(), got, want)
		}
		vector := periodVector{Name: given.name, Verdict: report.Verdict(), Problems: got, From: report.From, Earlier: report.Earlier}
		for _, list := range given.trust.Recorders {
			text, err := canonicalValue(list)
			must(t, err)
			vector.Recorders = append(vector.Recorders, string(text))
		}
		for _, seen := range given.seen {
			vector.Seen = append(vector.Seen, string(seen))
		}
		for _, bundle := range append([][]byte{given.bundle}, given.more...) {
			vector.Bundles = append(vector.Bundles, string(bundle))
		}
		file.Series = append(file.Series, vector)
	}
	goldenJSON(t, "periods.json", file)
}

// TestEXT24_AnyEdge grows bundles behind every number of entries up to 40.
func TestEXT24_AnyEdge(t *testing.T) {
	l := newTestLog(t).fill(40, 1)
	for from := int64(0); from < 40; from++ {
		export := l.export()
		export.From, export.Records = from, sequence(l.records[from:])
		var out bytes.Buffer
		must(t, WriteBundle(&out, export))
		trust := l.trust()
		if from > 0 {
			root, err := tlog.TreeHash(from, l.hashes)
			must(t, err)
			trust.Seen = []Checkpoint{{Origin: testOrigin, Size: from, Root: root}}
		}
		report, err := Verify(&out, trust)
		must(t, err)
		if report.Verdict() != OK || (report.From == nil) != (from == 0) {
			t.Fatalf("behind %d: %v", from, report.Problems)
		}
		if from > 0 {
			if report.From.Size != from || report.From.Root != trust.Seen[0].Root.String() {
				t.Errorf("behind %d: it says %+v", from, report.From)
			}
		}
	}
}

func TestEXT24_NoSeries(t *testing.T) {
	l := newTestLog(t).fill(3, 1)
	_, err := VerifySeries(l.trust())
	wantError(t, err, "no bundle to verify")
	export := l.export()
	export.From, export.Hashes = 2, failing{}
	wantError(t, WriteBundle(&bytes.Buffer{}, export), "before the bundle")
}

// failing is a tree that cannot be read.
type failing struct{}

func (failing) ReadHashes([]int64) ([]tlog.Hash, error) { return nil, errors.New("gone") }
