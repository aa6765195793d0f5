package reliability

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// ledger notes the acknowledgements of callers, and the findings.
type ledger struct {
	mu         sync.Mutex
	decisions  map[string]bool // ids of records that an answer named
	issued     map[string]bool // ids of capabilities
	answers    map[string]told // the contents of answers, by decision
	executed   []string        // decisions by which calls reached the agent
	compared   Compared        // as of the last judgement
	revoked    map[string]bool // ids of capabilities whose revocation was acknowledged
	registered map[string]*registrar
	wrong      []string // the findings
	counts     Counts
	lastly     map[string]time.Time // when the last call went through, by agent
	gaps       []gap                // between two calls at one agent that went through, long ones
	excuses    map[string]int       // reasons of calls that were not answered with yes or no
	after      time.Duration        // how long after an acknowledged revocation a call still went through, at the most
}

// Counts are the answers to the callers.
type Counts struct {
	Answered    int // calls and requests with a definite answer
	Allowed     int
	Denied      int // as they had to be
	Unavailable int // denied because some part was away
	Unanswered  int // no answer, or that of a balancer without a backend
	Issued      int
	Revoked     int
	Registered  int
	WrongAllow  int
	WrongDeny   int
}

type gap struct{ from, to time.Time }

// longGap is a time without a single call that went through.
const longGap = 50 * time.Millisecond

// maxWrong is how many findings are told; the counts have all.
const maxWrong = 20

func newLedger() *ledger {
	return &ledger{decisions: map[string]bool{}, answers: map[string]told{}, issued: map[string]bool{}, revoked: map[string]bool{}, registered: map[string]*registrar{}, excuses: map[string]int{}, lastly: map[string]time.Time{}}
}

func (l *ledger) note(do func(*Counts)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	do(&l.counts)
}

// went notes that a call went through at an agent.
func (l *ledger) went(agent string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last := l.lastly[agent]; !last.IsZero() && at.Sub(last) > longGap {
		l.gaps = append(l.gaps, gap{last, at})
	}
	l.lastly[agent] = at
}

// longest is the longest time without a call that went through at one of the agents,
// of those that ended since.
func (l *ledger) longest(since time.Time) (d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.gaps {
		if g.to.After(since) {
			d = max(d, g.to.Sub(g.from))
		}
	}
	return d
}

// lastWent is when the last call went through at the agent that was without for longest.
func (l *ledger) lastWent() (first time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, at := range l.lastly {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// told are the ids of the decisions that answers named so far.
func (l *ledger) told() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.decisions))
}

// finding is something that must not be.
func (l *ledger) finding(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.wrong) < maxWrong {
		l.wrong = append(l.wrong, fmt.Sprintf(format, args...))
	}
}

func (l *ledger) excuse(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.excuses[text]++
}

// findings are the findings as of now.
func (l *ledger) findings() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.wrong)
}
