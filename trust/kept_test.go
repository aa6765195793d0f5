package trust

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/powerbox-project/powerbox/evidence"
)

// A book that was kept and read again at any place comes to the same as one that was not.
func TestEXT20_AKeptBookGoesOn(t *testing.T) {
	agents := []string{"mail", "documents", Issuer}
	rapid.Check(t, func(t *rapid.T) {
		var whole, parted Book
		var open []evidence.Record
		for n := range rapid.IntRange(1, 80).Draw(t, "records") {
			agent := rapid.SampledFrom(agents).Draw(t, "agent")
			at := noon.Add(time.Duration(n) * time.Hour)
			var r evidence.Record
			switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
			case agent == Issuer:
				key := fmt.Sprint("key", rapid.IntRange(0, 2).Draw(t, "key"))
				r = keyRecord(evidence.ActionKeyUse, "mail", key, at, at.Add(-time.Duration(kind)*time.Hour))
			case kind > 2 && len(open) > 0:
				of := open[rapid.IntRange(0, len(open)-1).Draw(t, "of")] // may have an outcome already
				r = became(of, rapid.SampledFrom([]evidence.OutcomeStatus{evidence.Achieved, evidence.Failed, evidence.Partial}).Draw(t, "status"), "")
				r.Time = at
			default:
				r = decision(agent, fmt.Sprint(n), "x/y", evidence.Allow)
				r.Time = at
				open = append(open, r)
			}
			for _, b := range []*Book{&whole, &parted} {
				b.Add(r)
				if r.ID == "7" {
					b.Break(agent)
				}
			}
			if rapid.Bool().Draw(t, "kept") {
				text, err := json.Marshal(&parted)
				if err != nil {
					t.Fatal(err)
				}
				parted = Book{}
				if err := json.Unmarshal(text, &parted); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, agent := range agents {
			got, want := parted.History(agent, noon), whole.History(agent, noon)
			if got.Counts != want.Counts || got.Broken != want.Broken || !got.Renewed.Equal(want.Renewed) {
				t.Fatalf("EXT-20 %s: %+v; want %+v", agent, got, want)
			}
		}
	})
}

// Decisions that wait are kept in their order, so that the oldest is still forgotten first.
func TestEXT18_AKeptBookForgetsTheOldestFirst(t *testing.T) {
	var b Book
	var first, second evidence.Record
	for n := range maxOpen {
		d := decision("mail", fmt.Sprint(n), "x/y", evidence.Allow)
		b.Add(d)
		switch n {
		case 0:
			first = d
		case 1:
			second = d
		}
	}
	text, err := json.Marshal(&b)
	if err != nil {
		t.Fatal(err)
	}
	var again Book
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	for _, of := range []*Book{&b, &again} {
		of.Add(decision("mail", "one more", "x/y", evidence.Allow))
		of.Add(became(first, evidence.Failed, ""))
		of.Add(became(second, evidence.Achieved, ""))
		if got := of.History("mail", noon).Counts; got != (Counts{Achieved: 1}) {
			t.Errorf("%+v", got)
		}
	}
	if _, err := json.Marshal(&Book{Until: noon}); err == nil {
		t.Error("a book as of a time is kept")
	}
}
