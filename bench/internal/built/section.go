package built

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Section is a section of docs/assurance/performance.md.
type Section struct {
	Begins string // its heading, with the line break
	Before string // the heading of the section that follows
}

// Write puts a text with its heading into the page, instead of the section that is there.
func (s Section) Write(tree, text string) error {
	file := filepath.Join(tree, "docs", "assurance", "performance.md")
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(old), s.Begins)
	if found {
		if _, after, ok := strings.Cut(rest, "\n## "); ok {
			rest = "## " + after
		}
	} else if before, rest, found = strings.Cut(string(old), s.Before); found {
		rest = s.Before + rest
	}
	if !found {
		return fmt.Errorf("%s has no section %q", file, strings.TrimSpace(s.Before))
	}
	return os.WriteFile(file, []byte(before+text+rest), 0o644) //nolint:gosec // a page of the documentation
}

// Machine is the day, the version of Go, the processors and the load of the machine.
func Machine(now time.Time) string {
	return fmt.Sprintf("%s, %s, %d CPUs (%s), load %s.", now.Format("2 January 2006"), runtime.Version(), runtime.NumCPU(), processor(), load())
}

// Milliseconds of a duration, with their fraction.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// load is how busy the machine is.
func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// processor is what the machine calls its processors.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.Trim(name, "\t :\n")
		}
	}
	return runtime.GOARCH
}
