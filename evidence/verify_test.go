package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestEXT26_AWholeBundleVerifiesWithKeysAlone(t *testing.T) {
	l := newTestLog(t).fill(7, 1, 2)
	report := l.verify(l.bundle())
	if report.Verdict() != OK {
		t.Fatalf("verdict %s: %v", report.Verdict(), report.Problems)
	}
	want := Report{
		Origin: testOrigin, Size: 7, Root: l.root.String(), Records: 7,
		Chains: []ChainReport{
			{Chain: ChainID{1}.String(), AgentID: "agent-1", Recorder: "issuer", Records: 4, Hash: l.heads[ChainID{1}].Hash.String()},
			{Chain: ChainID{2}.String(), AgentID: "agent-2", Recorder: "issuer", Records: 3, Hash: l.heads[ChainID{2}].Hash.String()},
		},
	}
	if diff := cmp.Diff(want, report); diff != "" {
		t.Error(diff)
	}
}

func TestEXT26_AnEmptyLogAndALongOneVerify(t *testing.T) {
	for _, records := range []int{0, 1, leavesPerLine + 3} {
		l := newTestLog(t)
		l.fill(min(records, 1), 1)
		if records > 1 {
			l.fill(records-1, 1)
		} else {
			_, _, root, err := Grow(0, Hashes{}, nil)
			must(t, err)
			if records == 0 {
				l.root = root
			}
		}
		if report := l.verify(l.bundle()); report.Verdict() != OK || report.Records != records {
			t.Errorf("%d records: %s, %v", records, report.Verdict(), report.Problems)
		}
	}
}

// tamper is one way to spoil the bundle of six records: on chain 1 those on
// lines 2, 4, 6, on chain 2 those on lines 3, 5, 7; line 8 has the leaves and
// line 9 the checkpoint.
var tampers = []struct {
	name  string
	spoil func(l *testLog, b [][]byte) [][]byte
	want  []string // kind@line
}{
	{"EXT-22 a byte of the body", func(_ *testLog, b [][]byte) [][]byte {
		b[3] = bytes.Replace(b[3], []byte("documents.read"), []byte("documents.reax"), 1)
		return b
	}, []string{"hash_mismatch@4"}},
	{"EXT-22 a byte of the hash", func(_ *testLog, b [][]byte) [][]byte {
		at := bytes.LastIndex(b[3], []byte(`"record_hash":"`)) + len(`"record_hash":"`)
		b[3][at] = '0' + (b[3][at]+1)%8
		return b
	}, []string{"hash_mismatch@4"}},
	{"EXT-22 the chain id, which moves the record", func(_ *testLog, b [][]byte) [][]byte {
		b[3] = bytes.Replace(b[3], []byte(`"chain_id":"01`), []byte(`"chain_id":"02`), 1)
		return b
	}, []string{"hash_mismatch@4"}},
	{"EXT-24 a byte outside the form", func(_ *testLog, b [][]byte) [][]byte {
		b[3][0] = '['
		return b
	}, []string{"malformed@4"}},
	{"EXT-23 a byte of the signature", func(_ *testLog, b [][]byte) [][]byte {
		at := bytes.LastIndex(b[3], []byte(`"signature":"`)) + len(`"signature":"`)
		b[3][at] ^= 'A' ^ 'B'
		return b
	}, []string{"bad_signature@4"}},
	{"EXT-23 the signature taken off", func(_ *testLog, b [][]byte) [][]byte {
		from := bytes.LastIndex(b[3], []byte(`,"signature":"`))
		to := bytes.LastIndex(b[3], []byte(`,"signature_algorithm"`))
		b[3] = slices.Delete(b[3], from, to)
		return b
	}, []string{"bad_signature@4"}},
	{"EXT-24 ATK-43 head dropped", func(_ *testLog, b [][]byte) [][]byte { return slices.Delete(b, 1, 2) }, []string{"missing_head@3"}},
	{"EXT-24 ATK-43 middle dropped", func(_ *testLog, b [][]byte) [][]byte { return slices.Delete(b, 3, 4) }, []string{"missing_middle@5"}},
	{"EXT-24 ATK-43 tail dropped", func(_ *testLog, b [][]byte) [][]byte { return slices.Delete(b, 6, 7) }, []string{"missing_tail@8"}},
	{"EXT-24 a chain dropped", func(_ *testLog, b [][]byte) [][]byte {
		return [][]byte{b[0], b[1], b[3], b[5], b[7], b[8]}
	}, []string{"missing_tail@6"}},
	{"EXT-24 whole log dropped", func(_ *testLog, b [][]byte) [][]byte { return slices.Delete(b, 1, 7) }, []string{"missing_tail@3"}},
	{"EXT-24 tail and its leaves dropped", func(l *testLog, b [][]byte) [][]byte {
		short := lines(newTestLog(l.t).fill(5, 1, 2).bundle())
		return append(short[:7:7], b[8])
	}, []string{"missing_tail@8"}},
	{"EXT-24 cut off before the checkpoint", func(_ *testLog, b [][]byte) [][]byte { return b[:8] }, []string{"missing_tail@9"}},
	{"cut off in the middle of a line", func(_ *testLog, b [][]byte) [][]byte {
		b[5] = b[5][:20]
		return b[:6]
	}, []string{"malformed@6", "missing_tail@6"}},
	{"two records of a chain swapped", func(_ *testLog, b [][]byte) [][]byte {
		b[1], b[3] = b[3], b[1]
		return b
	}, []string{"swapped@2", "swapped@4"}},
	{"two records of two chains swapped", func(_ *testLog, b [][]byte) [][]byte {
		b[1], b[2] = b[2], b[1]
		return b
	}, []string{"swapped@2", "swapped@3"}},
	{"two records of a chain swapped, nothing behind them", func(_ *testLog, b [][]byte) [][]byte {
		b[1], b[3] = b[3], b[1]
		return b[:7]
	}, []string{"swapped@2", "swapped@4", "missing_tail@8"}},
	{"EXT-24 a record twice", func(_ *testLog, b [][]byte) [][]byte { return slices.Insert(b, 4, b[3]) }, []string{"duplicate@5"}},
	{"a damaged record explains its gap, another does not", func(_ *testLog, b [][]byte) [][]byte {
		b[3][0] = '['
		return slices.Delete(b, 4, 5)
	}, []string{"malformed@4", "missing_middle@6"}},
	{"a damaged record does not explain a gap elsewhere", func(_ *testLog, b [][]byte) [][]byte {
		b[5][0] = '['
		return slices.Delete(b, 1, 2)
	}, []string{"missing_head@3", "malformed@5"}},
	{"ATK-43 a prefix rewritten by its own signer", func(l *testLog, b [][]byte) [][]byte {
		other, err := Seal(Genesis(ChainID{1}), testRecord("ev-first", "agent-1"), l.signer)
		must(l.t, err)
		b[1] = append(other.Bytes(), '\n')
		return b
	}, []string{"not_in_log@2", "broken_link@4"}},
	{"ATK-44 a fork that was never logged", func(l *testLog, b [][]byte) [][]byte {
		other, err := Seal(Genesis(ChainID{1}), testRecord("ev-fork", "agent-1"), l.signer)
		must(l.t, err)
		return slices.Insert(b, 2, append(other.Bytes(), '\n'))
	}, []string{"fork@3", "not_in_log@3"}},
	{"a record replaced by its own signer", func(l *testLog, b [][]byte) [][]byte {
		first, err := ParseSealed(bytes.TrimSuffix(b[1], []byte("\n")))
		must(l.t, err)
		changed := testRecord("ev-2", "agent-1")
		changed.Decision = Deny
		other, err := Seal(first.Head(), changed, l.signer)
		must(l.t, err)
		b[3] = append(other.Bytes(), '\n')
		return b
	}, []string{"not_in_log@4", "broken_link@6"}},
	{"a chain that begins with somebody before it", func(l *testLog, b [][]byte) [][]byte {
		other, err := Seal(Head{ChainID: ChainID{9}, Hash: Hash{1}}, testRecord("ev-9", "agent-9"), l.signer)
		must(l.t, err)
		return slices.Insert(b, 7, append(other.Bytes(), '\n'))
	}, []string{"broken_link@8", "not_in_log@8"}},
	{"another agent's record in a chain", func(l *testLog, b [][]byte) [][]byte {
		other, err := Seal(l.heads[ChainID{1}], testRecord("ev-9", "agent-9"), l.signer)
		must(l.t, err)
		return slices.Insert(b, 7, append(other.Bytes(), '\n'))
	}, []string{"foreign_record@8", "not_in_log@8"}},
	{"a leaf", func(_ *testLog, b [][]byte) [][]byte {
		b[7][20] ^= 'A' ^ 'B'
		return b
	}, []string{"root_mismatch@9"}},
	{"a leaf and a record", func(_ *testLog, b [][]byte) [][]byte {
		b[7][20] ^= 'A' ^ 'B'
		return slices.Delete(b, 6, 7)
	}, []string{"root_mismatch@8"}},
	{"more leaves than were signed", func(_ *testLog, b [][]byte) [][]byte { return slices.Insert(b, 7, b[7]) }, []string{"root_mismatch@10"}},
	{"leaves that are no hashes", func(_ *testLog, b [][]byte) [][]byte {
		b[7] = []byte(`{"leaves":"AAAA"}` + "\n")
		return b
	}, []string{"malformed@8", "missing_tail@9"}},
	{"leaves with a line feed", func(_ *testLog, b [][]byte) [][]byte {
		b[7] = bytes.Replace(b[7], []byte(`"leaves":"`), []byte(`"leaves":"\n`), 1)
		return b
	}, []string{"malformed@8", "missing_tail@9"}},
	{"leaves in another form", func(_ *testLog, b [][]byte) [][]byte {
		b[7] = []byte(`{"leaves":1}` + "\n")
		return b
	}, []string{"malformed@8", "missing_tail@9"}},
	{"ATK-43 the size in the checkpoint", func(_ *testLog, b [][]byte) [][]byte {
		b[8] = bytes.Replace(b[8], []byte(`log\n6\n`), []byte(`log\n5\n`), 1)
		return b
	}, []string{"bad_signature@9"}},
	{"the key name of the checkpoint", func(_ *testLog, b [][]byte) [][]byte {
		b[8] = bytes.Replace(b[8], []byte("\u2014 powerbox"), []byte("\u2014 powerbux"), 1)
		return b
	}, []string{"unknown_key@9"}},
	{"a checkpoint that is none", func(_ *testLog, b [][]byte) [][]byte {
		b[8] = []byte(`{"checkpoint":"no"}` + "\n")
		return b
	}, []string{"malformed@9"}},
	{"a checkpoint in another form", func(_ *testLog, b [][]byte) [][]byte {
		b[8] = []byte(`{"checkpoint":{}}` + "\n")
		return b
	}, []string{"malformed@9"}},
	{"something behind the checkpoint", func(_ *testLog, b [][]byte) [][]byte { return append(b, b[1]) }, []string{"malformed@10"}},
	{"the origin in the header", func(_ *testLog, b [][]byte) [][]byte {
		b[0] = bytes.Replace(b[0], []byte(testOrigin), []byte("elsewhere.example/log"), 1)
		return b
	}, []string{"malformed@9"}},
	{"the format", func(_ *testLog, b [][]byte) [][]byte {
		b[0] = bytes.Replace(b[0], []byte("bundle/v1"), []byte("bundle/v2"), 1)
		return b
	}, []string{"malformed@1"}},
	{"a header that is none", func(_ *testLog, b [][]byte) [][]byte {
		b[0] = []byte("{}\n")
		return b
	}, []string{"malformed@1", "malformed@9"}},
	{"a key in the header", func(_ *testLog, b [][]byte) [][]byte {
		b[0] = bytes.Replace(b[0], []byte(`"recorder":"issuer"`), []byte(`"recorder":"issues"`), 1)
		return b
	}, []string{"unknown_key@1"}},
	{"a line without end", func(_ *testLog, b [][]byte) [][]byte {
		b[1] = append(bytes.Repeat([]byte("x"), maxLine), '\n')
		return b
	}, []string{"malformed@2", "missing_tail@2"}},
	{"carriage returns", func(_ *testLog, b [][]byte) [][]byte {
		b[8] = append(bytes.TrimSuffix(b[8], []byte("\n")), "\r\n"...)
		return b
	}, []string{"malformed@9"}},
}

func TestEXT24_EveryTamperingIsNamed(t *testing.T) {
	for _, test := range tampers {
		t.Run(test.name, func(t *testing.T) {
			l := newTestLog(t).fill(6, 1, 2)
			spoilt := join(test.spoil(l, lines(l.bundle()))...)
			report := l.verify(spoilt)
			if diff := cmp.Diff(test.want, kinds(report)); diff != "" {
				t.Errorf("%s\n%v", diff, report.Problems)
			}
			wantVerdict := Unreadable
			if slices.ContainsFunc(test.want, func(k string) bool { return !strings.HasPrefix(k, "malformed") }) {
				wantVerdict = Tampered
			}
			if report.Verdict() != wantVerdict {
				t.Errorf("verdict %s, want %s", report.Verdict(), wantVerdict)
			}
			for _, problem := range report.Problems {
				if problem.Message == "" {
					t.Errorf("%v has no message for a person", problem)
				}
			}
		})
	}
}

func TestEXT22_AnySingleFlippedByteIsFound(t *testing.T) {
	l := newTestLog(t).fill(3, 1, 2)
	bundle := l.bundle()
	for at := range bundle {
		for _, flip := range []byte{0x01, 0x20} {
			spoilt := bytes.Clone(bundle)
			spoilt[at] ^= flip
			if report := l.verify(spoilt); report.Verdict() == OK {
				t.Fatalf("byte %d changed from %q to %q and was not found", at, bundle[at], spoilt[at])
			}
		}
	}
}

func TestEXT24_AnyDroppedRecordIsNamed(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		l := newTestLog(t).fill(rapid.IntRange(1, 12).Draw(r, "records"), 1, 2, 3)
		chains := map[ChainID]int64{}
		for chain, head := range l.heads {
			chains[chain] = head.Sequence
		}
		drop := rapid.IntRange(0, len(l.records)-1).Draw(r, "drop")
		dropped, err := ParseSealed(l.records[drop])
		must(t, err)
		report := l.verify(join(slices.Delete(lines(l.bundle()), drop+1, drop+2)...))
		want := MissingMiddle
		switch details := dropped.Record().Details; details.Sequence {
		case chains[details.ChainID] - 1: // the only one of a chain too
			want = MissingTail
		case 0:
			want = MissingHead
		}
		if len(report.Problems) != 1 || report.Problems[0].Kind != want {
			r.Fatalf("dropped %d: %v, want %s", drop, report.Problems, want)
		}
	})
}

func TestEXT24_AnySwappedRecordsAreNamed(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(2, 12).Draw(r, "records")
		l := newTestLog(t).fill(n, 1, 2, 3)
		a := rapid.IntRange(1, n-1).Draw(r, "a")
		b := rapid.IntRange(a+1, n).Draw(r, "b")
		parts := lines(l.bundle())
		parts[a], parts[b] = parts[b], parts[a]
		want := []string{fmt.Sprintf("swapped@%d", a+1), fmt.Sprintf("swapped@%d", b+1)}
		found := kinds(l.verify(join(parts...)))
		for _, w := range want {
			if !slices.Contains(found, w) {
				r.Fatalf("swapped lines %d and %d: %v", a+1, b+1, found)
			}
		}
		for _, k := range found {
			if !strings.HasPrefix(k, "swapped@") {
				r.Fatalf("swapped lines %d and %d: %v", a+1, b+1, found)
			}
		}
	})
}

func TestATK43_ALogThatWasCutBackOrRewrittenIsFoundByACheckpointSeenBefore(t *testing.T) {
	l := newTestLog(t).fill(4, 1)
	before := l.checkpoint()
	trust := l.trust()
	trust.Seen = []Checkpoint{{Origin: "another.example/log", Size: 9}, before}

	verdict := func(l *testLog) []string {
		t.Helper()
		report, err := Verify(bytes.NewReader(l.bundle()), trust)
		must(t, err)
		return kinds(report)
	}
	if found := verdict(l.fill(2, 1)); found != nil {
		t.Errorf("a log that has grown: %v", found)
	}
	if diff := cmp.Diff([]string{"missing_tail@6"}, verdict(newTestLog(t).fill(3, 1))); diff != "" {
		t.Errorf("cut back and signed again: %s", diff)
	}
	if diff := cmp.Diff([]string{"fork@8"}, verdict(newTestLog(t).fill(5, 2))); diff != "" {
		t.Errorf("rewritten and signed again: %s", diff)
	}
}

func TestATK44_AForkThatWasLoggedIsNamed(t *testing.T) {
	l := newTestLog(t).fill(2, 1)
	other, err := Seal(Genesis(ChainID{1}), testRecord("ev-other", "agent-1"), l.signer)
	must(t, err)
	l.put(other)
	if diff := cmp.Diff([]string{"fork@4"}, kinds(l.verify(l.bundle()))); diff != "" {
		t.Error(diff)
	}
}

func TestEXT24_AnIDThatIsUsedAgainIsNamed(t *testing.T) {
	l := newTestLog(t).fill(2, 1)
	l.add(1, testRecord("ev-0", "agent-1"))
	if diff := cmp.Diff([]string{"duplicate@4"}, kinds(l.verify(l.bundle()))); diff != "" {
		t.Error(diff)
	}
}

func TestEXT26_KeysComeFromTheVerifierOnly(t *testing.T) {
	l := newTestLog(t).fill(1, 1)
	stranger, err := NewKey(ed25519Key(9).Public(), "issuer")
	must(t, err)
	pinned := PinnedKey{Key: l.keys[0], Agents: []string{"agent-1"}}
	change := func(change func(*PinnedKey)) PinnedKey {
		key := pinned
		change(&key)
		return key
	}
	for name, test := range map[string]struct {
		pin  PinnedKey
		want []string
	}{
		"the agent's key":      {pinned, nil},
		"another key":          {PinnedKey{Key: stranger, Agents: []string{"*"}}, []string{"unknown_key@1", "unknown_key@2"}},
		"another recorder":     {change(func(k *PinnedKey) { k.Recorder = "gateway" }), []string{"unknown_key@1", "key_not_allowed@2"}},
		"another agent":        {change(func(k *PinnedKey) { k.Agents = []string{"agent-2"} }), []string{"key_not_allowed@2"}},
		"not yet in use":       {change(func(k *PinnedKey) { k.NotBefore = testTime.Add(1) }), []string{"key_not_allowed@2"}},
		"no longer in use":     {change(func(k *PinnedKey) { k.NotAfter = testTime.Add(-1) }), []string{"key_not_allowed@2"}},
		"in use at the moment": {change(func(k *PinnedKey) { k.NotBefore, k.NotAfter = testTime, testTime }), nil},
	} {
		t.Run(name, func(t *testing.T) {
			trust := Trust{CheckpointKeys: []string{l.vkey}, RecordKeys: []PinnedKey{test.pin}}
			report, err := Verify(bytes.NewReader(l.bundle()), trust)
			must(t, err)
			if diff := cmp.Diff(test.want, kinds(report)); diff != "" {
				t.Errorf("%s\n%v", diff, report.Problems)
			}
		})
	}
}

func TestEXT24_AnUnsignedRecordIsNotAccepted(t *testing.T) {
	l := newTestLog(t)
	sealed, err := SealUnsafeUnsigned(Genesis(ChainID{1}), testRecord("ev-0", "agent-1"))
	must(t, err)
	l.put(sealed)
	if diff := cmp.Diff([]string{"bad_signature@2"}, kinds(l.verify(l.bundle()))); diff != "" {
		t.Error(diff)
	}
}

func TestEXT25_AnUnknownOutcomeIsReportedAndNotFilledIn(t *testing.T) {
	l := newTestLog(t)
	for i := range 2 {
		record := testRecord(fmt.Sprintf("ev-%d", i), "agent-1")
		record.OutcomeStatus = Pending
		l.add(1, record)
	}
	first, err := ParseSealed(l.records[0])
	must(t, err)
	second, err := Outcome(first.Record(), "ev-0-outcome", testTime.Add(time.Second), Achieved, object(`{"bytes":12}`))
	must(t, err)
	l.add(1, second)
	report := l.verify(l.bundle())
	if diff := cmp.Diff([]string{"ev-1"}, report.Pending); diff != "" || report.Verdict() != OK {
		t.Errorf("%s %v", diff, report.Problems)
	}
}

func TestTrustIsCheckedBeforeTheBundle(t *testing.T) {
	l := newTestLog(t)
	good := l.trust()
	for name, test := range map[string]struct {
		spoil func(*Trust)
		want  string
	}{
		"no checkpoint key":  {func(t *Trust) { t.CheckpointKeys = nil }, "nothing is pinned"},
		"no record key":      {func(t *Trust) { t.RecordKeys = nil }, "nothing is pinned"},
		"bad checkpoint key": {func(t *Trust) { t.CheckpointKeys = []string{"x"} }, "checkpoint key"},
		"bad record key":     {func(t *Trust) { t.RecordKeys[0].X = "x" }, "base64url"},
		"no recorder":        {func(t *Trust) { t.RecordKeys[0].Recorder = "" }, "no recorder"},
		"no agents":          {func(t *Trust) { t.RecordKeys[0].Agents = nil }, "no agents"},
		"twice":              {func(t *Trust) { t.RecordKeys = append(t.RecordKeys, t.RecordKeys[0]) }, "pinned twice"},
		"negative size":      {func(t *Trust) { t.Seen = []Checkpoint{{Origin: "x", Size: -1}} }, "seen before"},
	} {
		t.Run(name, func(t *testing.T) {
			trust := good
			trust.RecordKeys = slices.Clone(good.RecordKeys)
			test.spoil(&trust)
			_, err := Verify(strings.NewReader(""), trust)
			wantError(t, err, test.want)
		})
	}
}

func TestTrustFileIsStrict(t *testing.T) {
	l := newTestLog(t).fill(1, 1)
	want := l.trust()
	want.RecordKeys[0].NotBefore = testTime
	data, err := canonicalValue(want)
	must(t, err)
	got, err := ParseTrust([]byte(strings.ReplaceAll(string(data), ",", ", \n")))
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for from, to := range map[string]string{
		`"agents"`:   `"agentz"`,
		`"recorder"`: `"Recorder"`,
		`{`:          `[`,
		`["*"]`:      `[]`,
	} {
		if _, err := ParseTrust(bytes.ReplaceAll(data, []byte(from), []byte(to))); err == nil {
			t.Errorf("%s instead of %s was accepted", to, from)
		}
	}
}

func TestAFailingReaderIsAnErrorAndNoVerdict(t *testing.T) {
	l := newTestLog(t).fill(1, 1)
	broken := io.MultiReader(bytes.NewReader(l.bundle()), iotest.ErrReader(errors.New("disk is gone")))
	_, err := Verify(broken, l.trust())
	wantError(t, err, "disk is gone")
}
