package trust

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/powerbox-project/powerbox/evidence"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func history(achieved, failed, partial int64) History {
	return History{Counts: Counts{achieved, failed, partial}, Renewed: noon.Add(-time.Hour), AsOf: noon}
}

func TestEXT18_Score(t *testing.T) {
	broken, old, edge, unknown := history(10, 0, 0), history(10, 0, 0), history(10, 0, 0), history(0, 0, 0)
	broken.Broken = true
	old.Renewed = noon.Add(-maxAge - 1)
	edge.Renewed = noon.Add(-maxAge)
	unknown.Renewed = time.Time{}
	all := history(0, 5, 5)
	all.Broken, all.Renewed = true, time.Time{}
	for name, c := range map[string]struct {
		of    History
		want  string
		level Level
		parts int
	}{
		"no history":                         {history(0, 0, 0), "1.0000", High, 0},
		"all achieved":                       {history(7, 0, 0), "1.0000", High, 0},
		"a quarter failed":                   {history(3, 1, 0), "0.9000", High, 1},
		"partial is not achieved":            {history(3, 0, 1), "0.9000", High, 1},
		"just below high":                    {history(2_999, 1_001, 0), "0.8999", Moderate, 1},
		"a third, rounded to the nearest":    {history(2, 1, 0), "0.8667", Moderate, 1},
		"two thirds, rounded to the nearest": {history(1, 1, 1), "0.7333", Moderate, 1},
		"a half, rounded to even":            {history(7_999, 1, 0), "1.0000", High, 1},
		"three quarters":                     {history(15_997, 3, 0), "0.9999", High, 1},
		"a half, rounded up to even":         {history(7_997, 3, 0), "0.9998", High, 1},
		"all failed":                         {history(0, 9, 0), "0.6000", Moderate, 1},
		"a broken chain":                     {broken, "0.5000", Moderate, 1},
		"credentials of 90 days":             {edge, "1.0000", High, 0},
		"older credentials":                  {old, "0.9000", High, 1},
		"credentials of which nobody knows":  {unknown, "0.9000", High, 1},
		"everything":                         {all, "0.0000", None, 3},
	} {
		got := Of(c.of)
		if got.Score.String() != c.want || got.Level != c.level || len(got.Parts) != c.parts {
			t.Errorf("EXT-18 %s: %s %s %v; want %s %s", name, got.Score, got.Level, got.Parts, c.want, c.level)
		}
	}
	if b, err := json.Marshal(Of(history(3, 1, 0))); err != nil || string(b) != `{"score":"0.9000","level":"HIGH","parts":[{"name":"failures","off":"0.1000","why":"0.4 x 1 of 4 that were not achieved"}]}` {
		t.Errorf("%s %v", b, err)
	}
}

// A score is between 0 and 1, falls with every failure and with nothing else,
// and is what its parts leave.
func TestEXT18_ScoresOnlyFall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 1<<40)
		h := history(n.Draw(t, "achieved"), n.Draw(t, "failed"), n.Draw(t, "partial"))
		h.Broken = rapid.Bool().Draw(t, "broken")
		if rapid.Bool().Draw(t, "old") {
			h.Renewed = time.Time{}
		}
		got := Of(h)
		left := Score(scale)
		for _, p := range got.Parts {
			left -= p.Off
		}
		if got.Score != max(left, 0) || got.Score > scale {
			t.Fatalf("%v", got)
		}
		worse, better := h, h
		worse.Counts.Failed++
		better.Counts.Achieved++
		if Of(worse).Score > got.Score || Of(better).Score < got.Score {
			t.Fatalf("%v, after a failure %v, after a success %v", got, Of(worse), Of(better))
		}
	})
}

func TestEXT19_Levels(t *testing.T) {
	for score, want := range map[Score]Level{10_000: High, 9_000: High, 8_999: Moderate, 5_000: Moderate, 4_999: Low, 1: Low, 0: None} {
		if got := score.Level(); got != want {
			t.Errorf("EXT-19 %s: %s; want %s", score, got, want)
		}
	}
	order := []Level{None, Low, Moderate, High}
	for i, l := range order {
		for j, least := range order {
			if l.Reaches(least) != (i >= j) {
				t.Errorf("EXT-19 %s reaches %s: %t", l, least, l.Reaches(least))
			}
		}
	}
	if Level("").Reaches(None) || High.Reaches("") {
		t.Error("EXT-19 what is no level")
	}
}

// decision is one, and became what became of it.
func decision(agent, id, operation string, d evidence.Decision) evidence.Record {
	r := evidence.Record{ID: id, AgentID: agent, Intent: evidence.Intent{Operation: operation}, Decision: d, OutcomeStatus: evidence.Pending}
	if d == evidence.Deny {
		r.OutcomeStatus = ""
	}
	return r
}

func became(of evidence.Record, status evidence.OutcomeStatus, outcome string) evidence.Record {
	r := of
	r.ID, r.OutcomeStatus, r.Outcome, r.Details.OutcomeOf = of.ID+"-outcome", status, json.RawMessage(outcome), of.ID
	return r
}

// elsewhere is a record of another chain.
func elsewhere(r evidence.Record) evidence.Record {
	r.Details.ChainID = evidence.ChainID{9}
	return r
}

// by is a record of what someone asked for.
func by(requester string, r evidence.Record) evidence.Record {
	r.Details.Requester = requester
	return r
}

func TestEXT18_WhatCounts(t *testing.T) {
	const search = "documents:read/search"
	work := decision("documents", "1", search, evidence.Allow)
	for name, c := range map[string]struct {
		records []evidence.Record
		want    Counts
	}{
		"achieved":                  {[]evidence.Record{work, became(work, evidence.Achieved, "")}, Counts{Achieved: 1}},
		"failed":                    {[]evidence.Record{work, became(work, evidence.Failed, `{"code":7}`)}, Counts{Failed: 1}},
		"partial":                   {[]evidence.Record{work, became(work, evidence.Partial, `null`)}, Counts{Partial: 1}},
		"free text":                 {[]evidence.Record{decision("documents", "1", "a2a.message", evidence.Allow), became(work, evidence.Achieved, "")}, Counts{Achieved: 1}},
		"pending":                   {[]evidence.Record{work}, Counts{}},
		"pending again":             {[]evidence.Record{work, became(work, evidence.Pending, "")}, Counts{}},
		"twice":                     {[]evidence.Record{work, became(work, evidence.Achieved, ""), became(work, evidence.Achieved, "")}, Counts{Achieved: 1}},
		"an outcome of nothing":     {[]evidence.Record{became(work, evidence.Achieved, "")}, Counts{}},
		"of another agent":          {[]evidence.Record{decision("mail", "1", search, evidence.Allow), became(work, evidence.Achieved, "")}, Counts{}},
		"ATK-71 of another chain":   {[]evidence.Record{work, elsewhere(became(work, evidence.Achieved, "")), became(work, evidence.Failed, "")}, Counts{Failed: 1}},
		"a denial":                  {[]evidence.Record{decision("documents", "1", search, evidence.Deny), became(work, evidence.Failed, "")}, Counts{}},
		"only looked at":            {[]evidence.Record{decision("documents", "1", search, evidence.Abstain), became(work, evidence.Failed, "")}, Counts{}},
		"reading a task":            {[]evidence.Record{decision("documents", "1", "a2a.task.read", evidence.Allow), became(work, evidence.Achieved, "")}, Counts{}},
		"the caller left":           {[]evidence.Record{work, became(work, evidence.Failed, `{"cause":"caller_left"}`)}, Counts{}},
		"bad input":                 {[]evidence.Record{work, became(work, evidence.Failed, `{"cause":"bad_input"}`)}, Counts{}},
		"the gateway":               {[]evidence.Record{work, became(work, evidence.Partial, `{"cause":"not_the_agent"}`)}, Counts{}},
		"another cause":             {[]evidence.Record{work, became(work, evidence.Failed, `{"cause":"the weather"}`)}, Counts{Failed: 1}},
		"excused, then achieved":    {[]evidence.Record{work, became(work, evidence.Failed, `{"cause":"bad_input"}`), became(work, evidence.Achieved, "")}, Counts{}},
		"asked of itself":           {[]evidence.Record{by("documents", work), became(by("documents", work), evidence.Achieved, "")}, Counts{}},
		"asked by another":          {[]evidence.Record{by("mail", work), became(by("mail", work), evidence.Achieved, "")}, Counts{Achieved: 1}},
		"issued, which is not done": {[]evidence.Record{{ID: "1", AgentID: "documents", Intent: evidence.Intent{Operation: search}, Decision: evidence.Allow, OutcomeStatus: evidence.Achieved}}, Counts{}},
	} {
		tally := tally{Agent: "documents"}
		for _, r := range c.records {
			tally.add(r)
		}
		if got := tally.sum(); got != c.want {
			t.Errorf("EXT-18 %s: %+v; want %+v", name, got, c.want)
		}
	}
}
