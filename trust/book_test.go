package trust

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
)

// keyRecord is what the issuer records of an agent's key.
func keyRecord(action, agent, key string, at, renewed time.Time) evidence.Record {
	said := fmt.Sprintf(`{"agent":%q,"key":%q,"renewed":%q}`, agent, key, renewed.Format(time.RFC3339))
	return evidence.Record{AgentID: Issuer, ActionType: action, Time: at, Intent: evidence.Intent{Operation: "a2a.capability", Details: json.RawMessage(said)}}
}

// TestEXT20_Credentials: how old an agent's key is comes from the issuer's own
// records and from nothing that an agent, or its gateway, can write.
func TestEXT20_Credentials(t *testing.T) {
	day := func(n int) time.Time { return noon.Add(time.Duration(n) * 24 * time.Hour) }
	use := keyRecord(evidence.ActionKeyUse, "mail", "first", day(0), day(-10))
	of := func(agent string, r evidence.Record) evidence.Record { r.AgentID = agent; return r }
	for name, c := range map[string]struct {
		records []evidence.Record
		until   time.Time
		want    time.Time
	}{
		"none":                    {nil, time.Time{}, time.Time{}},
		"made before it was used": {[]evidence.Record{use}, time.Time{}, day(-10)},
		"made in the future":      {[]evidence.Record{keyRecord(evidence.ActionKeyUse, "mail", "first", day(0), day(5))}, time.Time{}, day(0)},
		"rotated":                 {[]evidence.Record{use, keyRecord(evidence.ActionKeyRotate, "mail", "second", day(3), day(3))}, time.Time{}, day(3)},
		"rotated, later":          {[]evidence.Record{use, keyRecord(evidence.ActionKeyRotate, "mail", "second", day(3), day(3))}, day(2), day(-10)},
		"an old key comes back": {[]evidence.Record{
			use, keyRecord(evidence.ActionKeyRotate, "mail", "second", day(3), day(3)), keyRecord(evidence.ActionKeyUse, "mail", "first", day(4), day(4)),
		}, time.Time{}, day(-10)},
		"another agent's":      {[]evidence.Record{keyRecord(evidence.ActionKeyUse, "documents", "first", day(0), day(0))}, time.Time{}, time.Time{}},
		"said by its gateway":  {[]evidence.Record{use, of("mail", keyRecord(evidence.ActionKeyRotate, "mail", "second", day(3), day(3)))}, time.Time{}, day(-10)},
		"said of another kind": {[]evidence.Record{use, keyRecord("gateway.enroll", "mail", "second", day(3), day(3))}, time.Time{}, day(-10)},
	} {
		b := Book{Until: c.until}
		for _, r := range c.records {
			b.Add(r)
		}
		if got := b.History("mail", day(9)).Renewed; !got.Equal(c.want) {
			t.Errorf("EXT-20 %s: renewed %s; want %s", name, got, c.want)
		}
	}
}

func TestEXT20_EachAgentsRecordsAlone(t *testing.T) {
	var b Book
	for n, agent := range []string{"mail", "mail", "documents"} {
		d := decision(agent, fmt.Sprint(n), "x/y", evidence.Allow)
		b.Add(d)
		b.Add(became(d, evidence.Failed, ""))
	}
	b.Break("documents")
	for agent, want := range map[string]History{
		"mail":      {Counts: Counts{Failed: 2}, AsOf: noon},
		"documents": {Counts: Counts{Failed: 1}, Broken: true, AsOf: noon},
		"nobody":    {AsOf: noon},
	} {
		if got := b.History(agent, noon); got != want {
			t.Errorf("EXT-20 %s: %+v; want %+v", agent, got, want)
		}
	}
}

// What waits is bounded, and the oldest is forgotten first.
func TestEXT18_WhatWaitsIsBounded(t *testing.T) {
	tally := tally{Agent: "mail"}
	var first, last evidence.Record
	for n := range maxOpen + 1 {
		d := decision("mail", fmt.Sprint(n), "x/y", evidence.Allow)
		if tally.add(d); n == 0 {
			first = d
		}
		last = d
	}
	tally.add(became(first, evidence.Failed, ""))
	tally.add(became(last, evidence.Achieved, ""))
	if got := tally.sum(); got != (Counts{Achieved: 1}) || len(tally.open) != maxOpen-1 {
		t.Errorf("%+v, %d wait", got, len(tally.open))
	}
	for n := range 3 * maxOpen {
		d := decision("mail", "more"+fmt.Sprint(n), "x/y", evidence.Allow)
		tally.add(d)
		tally.add(became(d, evidence.Achieved, ""))
	}
	if len(tally.open) > maxOpen || len(tally.order) > 2*maxOpen {
		t.Errorf("%d wait, %d are remembered", len(tally.open), len(tally.order))
	}
}

func TestScoresAreReadAsTheyAreWritten(t *testing.T) {
	for _, s := range []Score{0, 1, 8_667, 9_999, Full} {
		var got Score
		if err := got.UnmarshalText([]byte(s.String())); err != nil || got != s {
			t.Errorf("%s: %s %v", s, got, err)
		}
	}
	for _, text := range []string{"", "1", "1.1", "1.00000", "-0.1000", "1.0001", "0,5000", "00.5000", "+0.5000"} {
		if got := Score(7); got.UnmarshalText([]byte(text)) == nil || got != 7 {
			t.Errorf("%q is read as %s", text, got)
		}
	}
	if Level("BEST").OrNone() != None || Level("").OrNone() != None || Low.OrNone() != Low {
		t.Error("what is no level is one")
	}
}
