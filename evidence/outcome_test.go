package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// outcomes is a log in which tests tell outcomes of decisions.
type outcomes struct {
	*testLog
	decided map[string]Record
}

func newOutcomes(t *testing.T) *outcomes {
	t.Helper()
	return &outcomes{newTestLog(t), map[string]Record{}}
}

func (o *outcomes) decides(chain byte, id string) *outcomes {
	record := testRecord(id, fmt.Sprintf("agent-%d", chain))
	record.OutcomeStatus = Pending
	o.decided[id] = o.add(chain, record).Record()
	return o
}

// tells logs an outcome in a chain, with a change of it.
func (o *outcomes) tells(chain byte, id, of string, status OutcomeStatus, changes ...func(*Record)) *outcomes {
	record := testRecord(id, fmt.Sprintf("agent-%d", chain))
	record.OutcomeStatus, record.Details.OutcomeOf = status, of
	for _, change := range changes {
		change(&record)
	}
	o.add(chain, record)
	return o
}

// TestATK71_OutcomesOfTheDecisionsOwnChain: both verifiers count an outcome where the
// recorder of the decision tells it in the same chain, and name every other one.
func TestATK71_OutcomesOfTheDecisionsOwnChain(t *testing.T) {
	saying := func(text string) func(*Record) { return func(r *Record) { r.Outcome = object(text) } }
	cases := map[string]struct {
		log     *outcomes
		want    []string
		unknown []string
	}{
		"told": {newOutcomes(t).decides(1, "d").tells(1, "o", "d", Achieved), nil, nil},
		"told twice, the same": {
			newOutcomes(t).decides(1, "d").tells(1, "o", "d", Failed, saying(`{"cause":"x"}`)).tells(1, "again", "d", Failed, saying(`{"cause":"x"}`)), nil, nil,
		},
		"of a record that is not here": {newOutcomes(t).decides(1, "d").tells(1, "o", "elsewhere", Achieved), nil, []string{"d"}},
		"by another chain of another agent": {
			newOutcomes(t).decides(1, "d").tells(2, "o", "d", Achieved), []string{"bad_outcome@3"}, []string{"d"},
		},
		"by another chain of the same agent": {
			newOutcomes(t).decides(1, "d").tells(2, "o", "d", Achieved, func(r *Record) { r.AgentID = "agent-1" }), []string{"bad_outcome@3"}, []string{"d"},
		},
		"by another chain, further on than the decision": {
			newOutcomes(t).decides(1, "d").decides(2, "e").tells(2, "o", "d", Achieved), []string{"bad_outcome@4"}, []string{"d", "e"},
		},
		"by another chain, before the true one": {
			newOutcomes(t).decides(1, "d").tells(2, "o", "d", Achieved).tells(1, "true", "d", Failed), []string{"bad_outcome@3"}, nil,
		},
		"before the decision": {newOutcomes(t).tells(1, "o", "d", Achieved).decides(1, "d"), []string{"bad_outcome@2"}, []string{"d"}},
		"of itself":           {newOutcomes(t).tells(1, "o", "o", Achieved), []string{"bad_outcome@2"}, nil},
		"of an outcome": {
			newOutcomes(t).decides(1, "d").tells(1, "o", "d", Achieved).tells(1, "second", "o", Failed), []string{"bad_outcome@4"}, nil,
		},
		"that is none":          {newOutcomes(t).decides(1, "d").tells(1, "o", "d", Pending), []string{"bad_outcome@3"}, []string{"d", "o"}},
		"that is none, unnamed": {newOutcomes(t).tells(1, "o", "elsewhere", ""), []string{"bad_outcome@2"}, nil},
		"two that contradict": {
			newOutcomes(t).decides(1, "d").tells(1, "o", "d", Achieved).tells(1, "second", "d", Failed), []string{"two_outcomes@4"}, nil,
		},
		"two of one status that say different things": {
			newOutcomes(t).decides(1, "d").tells(1, "o", "d", Failed).tells(1, "second", "d", Failed, saying(`{"cause":"x"}`)), []string{"two_outcomes@4"}, nil,
		},
		"three, of which the second contradicts": {
			newOutcomes(t).decides(1, "d").tells(1, "a", "d", Achieved).tells(1, "b", "d", Partial).tells(1, "c", "d", Achieved), []string{"two_outcomes@4"}, nil,
		},
	}
	for name, c := range cases {
		report := bothSayListed(t, c.log.bundle(), c.log.trust())
		if diff := cmp.Diff(c.want, kinds(report)); diff != "" {
			t.Errorf("ATK-71 an outcome %s: %s", name, diff)
		}
		if diff := cmp.Diff(c.unknown, report.Pending); diff != "" {
			t.Errorf("ATK-71 an outcome %s, of which it is unknown: %s", name, diff)
		}
	}
}

// TestATK71_WhoMayNotSignTellsNothing: what a record says of outcomes, of erased bodies
// and of ended chains counts where its signature holds and its key may sign it.
func TestATK71_WhoMayNotSignTellsNothing(t *testing.T) {
	o := newOutcomes(t).decides(1, "d")
	o.tells(1, "o", "d", Achieved)
	body := testRecord("kept", "agent-1")
	body.Detach(bodyOf(t, 0))
	o.add(1, body)
	erasing := testRecord("erasing", IssuerID)
	erasing.Details.Erased = []string{"kept"}
	o.add(2, erasing)
	ends := testRecord("ends", IssuerID)
	ends.ActionType = ActionGatewayClose
	ends.Intent.Details = object(`{"chains":[{"agent_id":"agent-9","chain_id":"09000000000000000000000000000000","recorder":"gw","records":3}]}`)
	o.add(2, ends)
	bundle := o.bundle()
	if report := bothSayListed(t, bundle, o.trust()); len(report.Pending) != 0 || report.Bodies.Erased != 1 || len(report.Problems) != 1 {
		t.Fatalf("all signed: %+v", report)
	}
	none := o.trust()
	none.RecordKeys[0].Agents = []string{"agent-7"}
	stranger := o.trust()
	other, err := NewKey(ed25519Key(5).Public(), "issuer")
	must(t, err)
	stranger.RecordKeys = []PinnedKey{{Key: other, Agents: []string{"*"}}}
	for name, trust := range map[string]Trust{"a key that may not": none, "a key that is not pinned": stranger} {
		report := bothSayListed(t, bundle, trust)
		if len(report.Pending) != 1 || report.Bodies.Erased != 0 {
			t.Errorf("ATK-71 %s settles %v and erases %d", name, report.Pending, report.Bodies.Erased)
		}
		for _, p := range report.Problems {
			if p.Kind == MissingChain {
				t.Errorf("ATK-71 %s ends a chain: %+v", name, p)
			}
		}
	}
	report := bothSayListed(t, bytes.Replace(bundle, []byte(`"signature":"`), []byte(`"signature":"AA`), 2), o.trust())
	if len(report.Pending) != 1 {
		t.Errorf("ATK-71 an unsigned outcome settles: %+v", report)
	}
}

// TestATK71_OutcomesAcrossPeriods: a decision and its outcome can be in different
// bundles, and a missing bundle counts against no agent.
func TestATK71_OutcomesAcrossPeriods(t *testing.T) {
	cut := func(change func(*outcomes)) (Trust, [][]byte, [][]byte) {
		o := newOutcomes(t).decides(1, "d").decides(2, "e")
		first, signed, size, done := o.bundle(), o.signed(), o.size, len(o.records)
		change(o)
		export := o.export()
		export.From, export.Records = size, sequence(o.records[done:])
		var out bytes.Buffer
		must(t, WriteBundle(&out, export))
		return o.trust(), [][]byte{first, out.Bytes()}, [][]byte{signed}
	}
	true1 := func(o *outcomes) { o.tells(1, "o", "d", Achieved) }
	foreign := func(o *outcomes) { o.tells(2, "o", "d", Achieved) }
	for _, c := range []struct {
		name    string
		change  func(*outcomes)
		alone   bool // the second bundle alone, under the checkpoint of the first
		want    []string
		unknown int
	}{
		{"in the next period", true1, false, []string{}, 1},
		{"whose decision is in a period that is not here", true1, true, []string{}, 0},
		{"of another chain in the next period", foreign, false, []string{"bad_outcome@2:2"}, 2},
		{"of another chain, whose decision is not here", foreign, true, []string{}, 0},
	} {
		trust, series, seen := cut(c.change)
		one := toBoth{name: c.name, trust: trust, bundle: series[0], more: series[1:]}
		if c.alone {
			one = toBoth{name: c.name, trust: trust, bundle: series[1], seen: seen}
		}
		report := bothSay(t, []toBoth{one})[0]
		if diff := cmp.Diff(c.want, placed(report)); diff != "" || len(report.Pending) != c.unknown {
			t.Errorf("ATK-71 an outcome %s: %s, unknown %v", c.name, diff, report.Pending)
		}
	}
}

// TestATK71_Follows is the same question of two records alone.
func TestATK71_Follows(t *testing.T) {
	o := newOutcomes(t).decides(1, "d").decides(2, "e")
	d, e := o.decided["d"], o.decided["e"]
	told, err := Outcome(d, "o", testTime, Failed, object(`{"a":1}`))
	must(t, err)
	told = o.add(1, told).Record()
	if err := told.Follows(d); err != nil || !told.IsOutcome() || d.IsOutcome() {
		t.Errorf("a true outcome: %v", err)
	}
	if err := told.Follows(e); !errors.Is(err, ErrOutcome) {
		t.Errorf("ATK-71 of another chain: %v", err)
	}
	other := told
	if !told.SameOutcome(other) {
		t.Error("an outcome is not what it is")
	}
	if other.Outcome = object(`{"a":2}`); told.SameOutcome(other) {
		t.Error("ATK-71 what is told is not compared")
	}
	other = told
	other.OutcomeStatus = Achieved
	if told.SameOutcome(other) {
		t.Error("ATK-71 the status is not compared")
	}
}
