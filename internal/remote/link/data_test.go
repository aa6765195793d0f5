package link

import (
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
)

// A gateway that noted a label notes it again when half of its time is over, for each
// reader separately.
func TestATK114_ALabelIsNotedAgainBeforeItEnds(t *testing.T) {
	r, server := newRemote(t)
	now := noon
	d := Data{Remote: r, Keep: time.Hour, Now: func() time.Time { return now }}
	server.by[PathData] = DataAnswer{Until: noon.Add(time.Hour).Unix()}
	label := gate.Label{Source: "inbox", Untrusted: true}
	for n, c := range []struct {
		at    time.Duration
		by    gate.Reading
		label gate.Label
		asked int
	}{
		{0, gate.Reading{Holders: []string{"a"}}, label, 1},
		{29 * time.Minute, gate.Reading{Holders: []string{"a"}}, label, 1},
		{29 * time.Minute, gate.Reading{Holders: []string{"a"}, Task: "t"}, label, 1},
		{29 * time.Minute, gate.Reading{Holders: []string{"b"}}, label, 2},
		{29 * time.Minute, gate.Reading{Holders: []string{"a", "b"}}, label, 3},
		{29 * time.Minute, gate.Reading{Holders: []string{"a"}, Principal: "user:alice"}, label, 4},
		{29 * time.Minute, gate.Reading{Holders: []string{"a"}}, gate.Label{Source: "inbox", Untrusted: true, Confidential: true}, 5},
		{31 * time.Minute, gate.Reading{Holders: []string{"a"}}, label, 6},
	} {
		now = noon.Add(c.at)
		if err := d.Note(t.Context(), c.by, c.label); err != nil || server.asked[PathData] != c.asked {
			t.Errorf("%d: the server is told %d times, %v; want %d", n, server.asked[PathData], err, c.asked)
		}
	}
}

// Without the server, nothing is read or noted. Where an operator only looks on, the server
// is not waited for again at once.
func TestATK113_LabelsWithoutTheServer(t *testing.T) {
	r, server := newRemote(t)
	server.down = true
	for _, observe := range []bool{false, true} {
		server.asked[PathData] = 0
		d := Data{Remote: r, Observe: observe, Keep: time.Hour, Now: func() time.Time { return noon }}
		by := gate.Reading{Holders: []string{"a"}}
		_, reached := d.Reached(t.Context(), by)
		_, read := d.HasRead(t.Context(), by, []gate.Value{{Operation: "a/b/c", Value: powerbox.String("x")}})
		noted, earned := d.Note(t.Context(), by, gate.Label{}), d.Earn(t.Context(), by, nil)
		if reached == nil || read == nil || noted == nil || earned == nil {
			t.Errorf("observe %t: %v, %v, %v, %v; want errors", observe, reached, read, noted, earned)
		}
		if want := map[bool]int{false: 4, true: 1}[observe]; server.asked[PathData] != want {
			t.Errorf("observe %t: the server is asked %d times; want %d", observe, server.asked[PathData], want)
		}
	}
	server.down, server.by[PathData] = false, DataAnswer{}
	d := Data{Remote: r, Keep: time.Hour, Now: func() time.Time { return noon }}
	if _, err := d.HasRead(t.Context(), gate.Reading{}, []gate.Value{{Value: powerbox.String("x")}}); err == nil {
		t.Error("an answer about other values is taken")
	}
}
