package evidence

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// closing is the record by which the issuer ends a gateway.
func closing(id string, chains any) Record {
	record := testRecord(id, IssuerID)
	record.ActionType = ActionGatewayClose
	details, err := json.Marshal(map[string]any{"gateway": "gw_1", "chains": chains})
	if err != nil {
		panic(err)
	}
	record.Intent.Details = details
	return record
}

// listOf is a list of the log's recorder, with chains.
func listOf(l *testLog, chains ...ListedChain) Recorders {
	return NewRecorders("agent-1", []PinnedKey{l.keys[0].Pin(testTime, time.Time{}, "*")}, chains)
}

// TestEXT33_AChainThatIsLeftOutIsNamed holds bundles against a list that the
// verifier has kept, and against what the issuer's own chain says. The log was
// never given the chain, so that its tree is whole.
func TestEXT33_AChainThatIsLeftOutIsNamed(t *testing.T) {
	here := ListedChain{AgentID: "agent-1", Recorder: "issuer", Chain: ChainID{1}, Records: 2}
	gone := ListedChain{AgentID: "agent-1", Recorder: "gw_1", Chain: ChainID{9}}
	also := ListedChain{AgentID: "agent-2", Recorder: "gw_2", Chain: ChainID{8}}
	longer, other := here, here
	longer.Records = 3
	other.Recorder = "gw_1"
	for name, test := range map[string]struct {
		lists  []ListedChain
		closed any
		want   []string
	}{
		"all are there":             {[]ListedChain{here}, nil, nil},
		"one is left out":           {[]ListedChain{here, gone}, nil, []string{"missing_chain@8"}},
		"two are left out":          {[]ListedChain{gone, also, gone}, nil, []string{"missing_chain@8", "missing_chain@8"}},
		"of another recorder":       {[]ListedChain{other}, nil, []string{"missing_chain@8"}},
		"one is cut short":          {[]ListedChain{longer}, nil, []string{"missing_tail@8"}},
		"its end is on record":      {nil, []ListedChain{gone}, []string{"missing_chain@6"}},
		"both say so":               {[]ListedChain{gone}, []ListedChain{gone}, []string{"missing_chain@6"}},
		"cut short, on record":      {nil, []ListedChain{longer}, []string{"missing_tail@6"}},
		"there, on record":          {nil, []ListedChain{here}, nil},
		"another form says nothing": {nil, []map[string]any{{"agent_id": "a", "recorder": "b", "chain": "c"}}, nil},
		"no list says nothing":      {nil, "all", nil},
		"null says nothing":         {nil, []any{nil}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := newTestLog(t).fill(4, 1, 2)
			l.add(7, closing("ev-close", test.closed))
			trust := l.trust()
			trust.Recorders = []Recorders{listOf(l, test.lists...)}
			report := bothSayListed(t, l.bundle(), trust)
			if diff := cmp.Diff(test.want, kinds(report)); diff != "" {
				t.Error(diff)
			}
			for _, problem := range report.Problems {
				if problem.Chain == "" || problem.RecordID != "" {
					t.Errorf("%+v names no chain alone", problem)
				}
			}
		})
	}
}

// TestEXT33_OnlyTheIssuerSaysWhatAGatewayLeaves: a recorder of another chain, or
// one whose signature does not hold, makes no chain missing.
func TestEXT33_OnlyTheIssuerSaysWhatAGatewayLeaves(t *testing.T) {
	gone := []ListedChain{{AgentID: "agent-1", Recorder: "gw_1", Chain: ChainID{9}}}
	l := newTestLog(t).fill(2, 1)
	elsewhere := closing("ev-elsewhere", gone)
	elsewhere.AgentID = "agent-1"
	l.add(1, elsewhere)
	other := closing("ev-other", gone)
	other.ActionType = "gateway.enroll"
	l.add(7, other)
	if report := bothSayListed(t, l.bundle(), l.trust()); report.Verdict() != OK {
		t.Errorf("%v", report.Problems)
	}
	bare := closing("ev-bare", nil)
	bare.Intent.Details = nil
	l.add(7, bare)
	if report := bothSayListed(t, l.bundle(), l.trust()); report.Verdict() != OK {
		t.Errorf("without details: %v", report.Problems)
	}
	forged := closing("ev-forged", gone)
	l.add(7, forged)
	sealed, err := ParseSealed(l.records[5])
	must(t, err)
	spoilt := bytes.Replace(l.bundle(), []byte(sealed.wire.Signature), bytes.Repeat([]byte("A"), len(sealed.wire.Signature)), 1)
	if report := bothSayListed(t, spoilt, l.trust()); slices.ContainsFunc(report.Problems, func(p Problem) bool { return p.Kind == MissingChain }) {
		t.Errorf("a record whose signature does not hold is believed: %v", report.Problems)
	}
}

// TestEXT33_AnOpenRecorderWithoutARecordIsTold, which may be as it should be.
func TestEXT33_AnOpenRecorderWithoutARecordIsTold(t *testing.T) {
	l := newTestLog(t).fill(2, 1)
	list := listOf(l)
	other, err := NewKey(ed25519Key(9).Public(), "gw_open")
	must(t, err)
	closed, err := NewKey(ed25519Key(8).Public(), "gw_closed")
	must(t, err)
	list.Keys = append(list.Keys, other.Pin(testTime, time.Time{}, "agent-1"), closed.Pin(testTime, testTime, "agent-1"))
	trust := l.trust()
	trust.Recorders = []Recorders{list, list}
	report := bothSayListed(t, l.bundle(), trust)
	if report.Verdict() != OK || !slices.Equal(report.Silent, []string{"gw_open"}) {
		t.Errorf("%s, silent %v", report.Verdict(), report.Silent)
	}
	// If the bundle ends before its checkpoint, the last finding names the missing part.
	trust.Recorders[0].Chains = []ListedChain{{AgentID: "agent-1", Recorder: "gw_open", Chain: ChainID{5}}}
	report, err = Verify(bytes.NewReader(join(lines(l.bundle())[:2]...)), trust)
	must(t, err)
	if !slices.ContainsFunc(report.Problems, func(p Problem) bool { return p.Kind == MissingChain && p.Line > 0 }) {
		t.Errorf("%v", report.Problems)
	}
}

// bothSayListed is [bothSay] of one bundle. Lists are read as they are written.
func bothSayListed(t *testing.T, bundle []byte, trust Trust) Report {
	t.Helper()
	for _, list := range trust.Recorders {
		text, err := canonicalValue(list)
		must(t, err)
		again, err := ParseRecorders(text)
		must(t, err)
		if diff := cmp.Diff(list, again); diff != "" {
			t.Error(diff)
		}
	}
	return bothSay(t, []toBoth{{name: t.Name(), trust: trust, bundle: bundle}})[0]
}

func TestEXT33_AListIsStrict(t *testing.T) {
	l := newTestLog(t)
	good, err := canonicalValue(listOf(l, ListedChain{AgentID: "a", Recorder: "r", Chain: ChainID{1}}))
	must(t, err)
	for name, change := range map[string][2]string{
		"unknown member": {`"agent":`, `"x":1,"agent":`},
		"another form":   {"powerbox-recorders/v1", "powerbox-recorders/v2"},
		"a false key":    {l.keys[0].ID, "AAAA"},
		"no chain id":    {`"chain_id":"01`, `"chain_id":"0`},
		"not JSON":       {`{`, `[`},
	} {
		if _, err := ParseRecorders(bytes.Replace(good, []byte(change[0]), []byte(change[1]), 1)); err == nil {
			t.Errorf("%s: a list is taken", name)
		}
	}
	if _, err := ParseRecorders(good); err != nil {
		t.Error(err)
	}
	key, err := canonicalValue(l.keys[0])
	must(t, err)
	if got, err := ParseKey(key); err != nil || got != l.keys[0] || got.For("gw").Recorder != "gw" {
		t.Errorf("%v %v", got, err)
	}
	for _, text := range []string{`{}`, `[]`, string(bytes.Replace(key, []byte(l.keys[0].ID), []byte("x"), 1))} {
		if _, err := ParseKey([]byte(text)); err == nil {
			t.Errorf("%s is a key", text)
		}
	}
}
