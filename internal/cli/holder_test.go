package cli

import (
	"testing"
	"time"
)

// TestSEP8_HowLongIsWholeSeconds: what --expires asks for is a whole second on the wire
// and holds at least as long as was said, and less than a second more.
func TestSEP8_HowLongIsWholeSeconds(t *testing.T) {
	whole := time.Date(2026, 11, 23, 7, 0, 10, 0, time.UTC)
	for _, now := range []time.Time{whole, whole.Add(1), whole.Add(900 * time.Millisecond), whole.Add(999999999)} {
		for _, d := range []string{"1ms", "1s", "1500ms", "30m"} {
			got, err := Expiry(d, now)
			if err != nil {
				t.Fatal(err)
			}
			asked, _ := time.ParseDuration(d)
			if left := got.Sub(now); got.Nanosecond() != 0 || left < asked || left >= asked+time.Second {
				t.Errorf("--expires %s at %s: %s, which is in %s", d, now, got, left)
			}
		}
	}
	if got, err := Expiry("2026-11-23T07:00:12Z", whole); err != nil || !got.Equal(whole.Add(2*time.Second)) {
		t.Errorf("a time: %s, %v", got, err)
	}
	for _, bad := range []string{"-1s", "0s", "soon"} {
		if got, err := Expiry(bad, whole); err == nil {
			t.Errorf("--expires %s: %s; want an error", bad, got)
		}
	}
}
