package provider

import (
	"maps"
	"time"
)

// How many codes that are none a person may try, and in which time (AAP-A2,
// ATK-50).
const (
	maxGuesses   = 10
	maxGuessesAt = 30 // of all callers at one address
	guessTime    = 10 * time.Minute
	maxGuessing  = 1 << 14 // how many people and addresses are remembered
)

// guesses are the wrong codes of one person, or at one address.
type guesses struct {
	n     int
	since time.Time
}

// mayGuess counts a try of a person at an address, before the code is looked at, and
// reports whether there may be one: of tries at one time none is free.
func (p *Provider) mayGuess(who Person) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.config.Now()
	if len(p.guesses) >= maxGuessing {
		maps.DeleteFunc(p.guesses, func(_ string, g guesses) bool { return now.Sub(g.since) > guessTime })
	}
	if len(p.guesses) >= maxGuessing {
		return false
	}
	limits := map[string]int{"person " + who.Principal: maxGuesses, "address " + who.Address: maxGuessesAt}
	for name, most := range limits {
		if g := p.guesses[name]; now.Sub(g.since) <= guessTime && g.n >= most {
			return false
		}
	}
	for name := range limits {
		g := p.guesses[name]
		if now.Sub(g.since) > guessTime {
			g = guesses{since: now}
		}
		g.n++
		p.guesses[name] = g
	}
	return true
}

// guessedRight gives back a try that was a code: only wrong ones count.
func (p *Provider) guessedRight(who Person) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range []string{"person " + who.Principal, "address " + who.Address} {
		if g := p.guesses[name]; g.n > 0 {
			g.n--
			p.guesses[name] = g
		}
	}
}
