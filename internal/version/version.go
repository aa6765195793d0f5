// Package version says which build of Powerbox runs.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Number is the version that this tree is released as. It stands here alone.
const Number = "0.1.0"

// commit and date are of the commit that a release was built from. The linker sets them
// (tools/release); every other build has none and is a development build.
var commit, date string

// Build says what binary this is.
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Date     string `json:"date"` // of the commit, in RFC 3339
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Modified bool   `json:"modified"`
}

func (b Build) String() string {
	changed := ""
	if b.Modified {
		changed = " with changes"
	}
	return fmt.Sprintf("powerbox %s (commit %s%s of %s, %s, %s)", b.Version, b.Commit, changed, b.Date, b.Go, b.Platform)
}

// Short is the version, or the commit of a development build.
func (b Build) Short() string {
	if b.Version == Number || len(b.Commit) < 12 {
		return b.Version
	}
	if b.Modified {
		return b.Commit[:12] + "+changes"
	}
	return b.Commit[:12]
}

// Read reads the build of the running program.
func Read() Build {
	info, _ := debug.ReadBuildInfo()
	return read(commit, date, info)
}

func read(commit, date string, info *debug.BuildInfo) Build {
	b := Build{Version: Number + "-dev", Commit: "unknown", Date: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info != nil {
		// So that go install of a released module has the number, and no other has it.
		if info.Main.Version == "v"+Number {
			b.Version = Number
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.time":
				b.Date = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	if commit != "" {
		b.Version, b.Commit, b.Date, b.Modified = Number, commit, date, false
	}
	return b
}
