package gateway

import (
	"testing"
	"time"
)

// Of a burst a bounded part is recorded, and the rest is counted on record.
func TestRepeatedDenials(t *testing.T) {
	r := newRepeats(4)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	recorded, told, began := 0, 0, 0
	for n := range 5000 {
		what := r.deny("caller", false, now)
		if what.throttled != (n >= 4) {
			t.Fatalf("denial %d throttled: %t", n, what.throttled)
		}
		if what.recorded {
			recorded++
			told += what.leftOut
		}
		if what.begins {
			began++
		}
		now = now.Add(100 * time.Millisecond) // never quiet
	}
	// 4 before, then the 1st, 10th, 100th and four thousands of 4,996.
	if recorded != 11 || began != 1 {
		t.Errorf("%d recorded, %d bursts; want 11 and 1", recorded, began)
	}
	now = now.Add(time.Minute)
	last := r.deny("caller", false, now)
	if last.throttled || !last.recorded || recorded+told+last.leftOut != 5000 {
		t.Errorf("after the burst: %+v; %d of 5,000 are accounted for", last, recorded+told+last.leftOut)
	}
}

// Many addresses without a caller's identity take no more records than a few callers.
func TestRepeatedDenialsOfNobody(t *testing.T) {
	r := newRepeats(4)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	recorded := 0
	for n := range 1000 {
		if r.deny(string(rune('a'+n)), true, now).recorded {
			recorded++
		}
	}
	if recorded != 4*shareOfNobody+3 {
		t.Errorf("%d of 1,000 are recorded; want those of %d callers, and the 1st, 10th and 100th of the others", recorded, shareOfNobody)
	}
}
