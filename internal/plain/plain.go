// Package plain puts values into words for people: times and counts.
package plain

import (
	"fmt"
	"strings"
	"time"
)

// Count is a number of things, in words.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	if stem, ok := strings.CutSuffix(thing, "y"); ok && !strings.HasSuffix(stem, "a") && !strings.HasSuffix(stem, "e") {
		return fmt.Sprintf("%d %sies", n, stem) // entry, entries; not day or key
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Time is a time in RFC 3339, in UTC, to the second.
func Time(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Prefixed is text behind before, or nothing where text is empty.
func Prefixed(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

// Share words a mode that holds for a part of the callers.
func Share(mode string, percent int) string {
	if percent >= 100 {
		return mode
	}
	return fmt.Sprintf("%s for %d %%, observe for the others", mode, percent)
}
