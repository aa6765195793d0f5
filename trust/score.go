package trust

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// scale is 1 in the unit of a [Score].
const scale = 10_000

// Full is the score that everybody begins with.
const Full Score = scale

// The largest deductions, in the same unit (EXT-18).
const (
	offBroken = 5_000
	offFailed = 4_000
	offOld    = 1_000
)

// maxAge is for how long credentials may stay as they are.
const maxAge = 90 * 24 * time.Hour

// Score is between 0 and 1, in ten-thousandths.
type Score int

// String writes it with four places.
func (s Score) String() string { return fmt.Sprintf("%d.%04d", s/scale, s%scale) }

// MarshalText implements [encoding.TextMarshaler].
func (s Score) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler] for what [Score.String]
// writes, and nothing else.
func (s *Score) UnmarshalText(text []byte) error {
	whole, part, _ := strings.Cut(string(text), ".")
	n, err := strconv.Atoi(whole + part)
	if err != nil || n < 0 || n > scale || Score(n).String() != string(text) {
		return fmt.Errorf("trust: score %q; want one from 0.0000 to 1.0000", text)
	}
	*s = Score(n)
	return nil
}

// Level is what a score amounts to (EXT-19).
type Level string

// The levels, by the least score of each.
const (
	High     Level = "HIGH"     // 0.9
	Moderate Level = "MODERATE" // 0.5
	Low      Level = "LOW"      // above 0
	None     Level = "NONE"     // 0, or not known
)

// Reaches reports whether a level is at least another one. Anything that is no level
// reaches none and is reached by none.
func (l Level) Reaches(least Level) bool {
	rank := map[Level]int{None: 1, Low: 2, Moderate: 3, High: 4}
	return rank[l] > 0 && rank[least] > 0 && rank[l] >= rank[least]
}

// OrNone is the level itself, and None for any other text, such as that of an
// unknown agent.
func (l Level) OrNone() Level {
	if l.Reaches(None) {
		return l
	}
	return None
}

// Level is what the score amounts to.
func (s Score) Level() Level {
	switch {
	case s >= 9_000:
		return High
	case s >= 5_000:
		return Moderate
	case s > 0:
		return Low
	default:
		return None
	}
}

// Counts are terminal outcomes of what the agent was allowed to do, once for
// each decision. A partial success is none.
type Counts struct {
	Achieved int64 `json:"achieved"`
	Failed   int64 `json:"failed"`
	Partial  int64 `json:"partial"`
}

// History is all that a score comes from.
type History struct {
	Counts  Counts
	Broken  bool      // a chain of a recorder that is enrolled for the agent does not hold
	Renewed time.Time // when its credentials were last renewed; zero if unknown, which counts as too long ago
	AsOf    time.Time
}

// Part is one thing that is taken off, for the arithmetic to be shown.
type Part struct {
	Name string `json:"name"`
	Off  Score  `json:"off"`
	Why  string `json:"why"`
}

// Report is a score with how it came about.
type Report struct {
	Score Score  `json:"score"`
	Level Level  `json:"level"`
	Parts []Part `json:"parts,omitempty"`
}

// Of computes the score of a history (EXT-18). The deduction for failures is
// rounded to four places, halves to even.
func Of(h History) Report {
	var parts []Part
	if h.Broken {
		parts = append(parts, Part{"broken_chain", offBroken, "a chain of the agent's evidence does not hold"})
	}
	if bad, all := h.Counts.Failed+h.Counts.Partial, h.Counts.Failed+h.Counts.Partial+h.Counts.Achieved; bad > 0 {
		parts = append(parts, Part{"failures", share(bad, all), fmt.Sprintf("0.4 x %d of %d that were not achieved", bad, all)})
	}
	if old := h.AsOf.Sub(h.Renewed); h.Renewed.IsZero() {
		parts = append(parts, Part{"rotation", offOld, "nobody knows when the agent's credentials were renewed"})
	} else if old > maxAge {
		parts = append(parts, Part{"rotation", offOld, fmt.Sprintf("its credentials were renewed %d days ago, more than 90", int(old.Hours()/24))})
	}
	score := Score(scale)
	for _, p := range parts {
		score -= p.Off
	}
	score = max(score, 0)
	return Report{score, score.Level(), parts}
}

// share is offFailed x bad / all, rounded to the nearest, halves to even.
func share(bad, all int64) Score {
	// Counts fit into 2^50 for as long as anybody counts; the product does not
	// overflow.
	off, rest := offFailed*bad/all, offFailed*bad%all
	if 2*rest > all || 2*rest == all && off%2 == 1 {
		off++
	}
	return Score(off)
}
