package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox/internal/sorting"
)

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	File    string // or the name of an environment variable
	Line    int    // from 1; 0 where there is none
	Message string
}

// String returns the problem as file:line: message.
func (p Problem) String() string {
	if p.Line == 0 {
		return fmt.Sprintf("%s: %s", p.File, p.Message)
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message)
}

// Problems is every problem of a configuration, in the order of the files. The
// operator has to fix them; nothing of the configuration was used.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// nearest returns the known name that is most like the one that was written,
// and false when none is near.
func nearest(written string, known []string) (string, bool) {
	best, distance := "", 1+max(1, len(written)/3)
	for _, k := range known {
		if d := editDistance(strings.ToLower(written), strings.ToLower(k)); d < distance {
			best, distance = k, d
		}
	}
	return best, best != ""
}

// didYouMean completes a message about an unknown name.
func didYouMean(written string, known []string) string {
	if near, ok := nearest(written, known); ok {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	if len(known) == 0 {
		return "; none is known here"
	}
	names := slices.Compact(slices.Sorted(slices.Values(known)))
	if len(names) > maxKnown {
		return fmt.Sprintf("; the nearest of %d are %s", len(names), strings.Join(nearestFew(written, names), ", "))
	}
	return "; known are " + strings.Join(names, ", ")
}

// nearestSettings completes a message about a variable of the environment: the one that a slip
// away is meant, or the nearest of them. Their names share so much that no more is likely.
func nearestSettings(written string, names []string) string {
	const all = " (docs/reference/configuration.md lists all)"
	for _, name := range names {
		if editDistance(written, name) <= 2 {
			return fmt.Sprintf("; did you mean %q?", name) + all
		}
	}
	return fmt.Sprintf("; the nearest of %d are %s", len(names), strings.Join(nearestFew(written, names), ", ")) + all
}

// maxKnown is how many names a message lists. Of more it has the nearest.
const maxKnown = 24

// nearestFew are the three names that are nearest to the written one: those that begin with the
// most of its letters, and of these the ones that take the fewest changes.
func nearestFew(written string, names []string) []string {
	written = strings.ToLower(written)
	by := slices.Clone(names)
	sorting.Stable(by, func(a, b string) int {
		a, b = strings.ToLower(a), strings.ToLower(b)
		return cmp.Or(cmp.Compare(sharedPrefix(written, b), sharedPrefix(written, a)), cmp.Compare(editDistance(written, a), editDistance(written, b)))
	})
	return by[:min(3, len(by))]
}

func sharedPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// editDistance is the number of letters to insert, delete, replace or swap
// with a neighbour. Only the beginning of long names is compared.
func editDistance(a, b string) int {
	a, b = a[:min(len(a), 64)], b[:min(len(b), 64)]
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
