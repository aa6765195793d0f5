package provider

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/people/peopletest"
)

// TestATK50_GuessesAtOneTime makes 120 tries at one time: exactly ten are looked at. A
// right one gives its try back.
func TestATK50_GuessesAtOneTime(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	p := &Provider{guesses: map[string]guesses{}}
	p.config.Now = func() time.Time { return now }
	who := peopletest.Person(people.Claim{Principal: "user:mallory", Address: "192.0.2.1"})
	var looked atomic.Int64
	var all sync.WaitGroup
	for range 120 {
		all.Go(func() {
			if p.mayGuess(who) {
				looked.Add(1)
			}
		})
	}
	all.Wait()
	if n := looked.Load(); n != maxGuesses {
		t.Errorf("ATK-50 of 120 tries at one time %d were looked at; want %d", n, maxGuesses)
	}
	p.guessedRight(who)
	if !p.mayGuess(who) || p.mayGuess(who) {
		t.Error("ATK-50 a right try gives one back, and no more")
	}
	now = now.Add(guessTime + time.Second)
	if !p.mayGuess(who) {
		t.Error("ATK-50 the tries do not come back")
	}
}
