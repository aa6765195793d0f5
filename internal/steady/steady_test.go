package steady

import (
	"testing"
	"time"
)

// TestATK73_Past: what a clock says while it is ahead makes nothing past, unless it continues
// so.
func TestATK73_Past(t *testing.T) {
	start := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	var elapsed time.Duration
	var told []time.Duration
	c := Clock{elapsed: func() time.Duration { return elapsed }, announce: func(by time.Duration) { told = append(told, by) }}
	for i, step := range []struct {
		after, ahead time.Duration // since the start; of the wall clock
		want         time.Duration // the elapsed time since the start
		jumps        int64
	}{
		{0, 0, 0, 0},
		{time.Minute, time.Second, time.Minute + time.Second, 0}, // adjusted
		{2 * time.Minute, time.Hour, 2*time.Minute + time.Second, 1},
		{3 * time.Minute, time.Hour, 3*time.Minute + time.Second, 1},
		{4 * time.Minute, 0, 4 * time.Minute, 1}, // it came back
		{5 * time.Minute, time.Hour, 5 * time.Minute, 2},
		{6 * time.Minute, 2 * time.Hour, 6 * time.Minute, 3},
		{6*time.Minute + settled, 2 * time.Hour, 2*time.Hour + 6*time.Minute + settled, 3}, // it stays
		{7*time.Minute + settled, time.Hour, time.Hour + 7*time.Minute + settled, 4},       // back: at once
	} {
		elapsed = step.after
		if got := c.Past(start.Add(step.after + step.ahead)).Sub(start); got != step.want || c.jumps != step.jumps || int64(len(told)) != step.jumps {
			t.Errorf("ATK-73 reading %d: %v is past; want %v (%d jumps, want %d, told %v)", i, got, step.want, c.jumps, step.jumps, told)
		}
	}
	if told[0] != time.Hour-time.Second || told[3] != -time.Hour {
		t.Errorf("ATK-73 jumps by %v", told)
	}
}

// The clock of the process is read in the same way, and revocations are kept longer.
func TestATK73_Process(t *testing.T) {
	now := time.Now()
	if got := Past(now); !got.Equal(now) {
		t.Errorf("%v is past at %v", got, now)
	}
	before, said := Jumps(), time.Duration(0)
	Announce(func(by time.Duration) { said = by })
	if over := Over(now.Add(time.Hour)); over.After(now.Add(-Margin + time.Minute)) {
		t.Errorf("ATK-73 an hour ahead, %v is over", over)
	}
	if Jumps() != before+1 || said < 59*time.Minute {
		t.Errorf("%d jumps, by %v", Jumps(), said)
	}
	Past(time.Now())
}
