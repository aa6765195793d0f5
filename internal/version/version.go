// Package version says which build of Powerbox runs.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Build says what binary this is.
type Build struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"`
	Platform string `json:"platform"`
}

func (b Build) String() string {
	changed := ""
	if b.Modified {
		changed = " with changes"
	}
	return fmt.Sprintf("powerbox %s (%s, %s, commit %s%s)", b.Version, b.Go, b.Platform, b.Commit, changed)
}

// Short is the version, or the commit where it has none.
func (b Build) Short() string {
	if b.Version != "(devel)" && b.Version != "unknown" || len(b.Commit) < 12 {
		return b.Version
	}
	if b.Modified {
		return b.Commit[:12] + "+changes"
	}
	return b.Commit[:12]
}

// Read reads the build of the running program.
func Read() Build {
	b := Build{Version: "unknown", Go: runtime.Version(), Commit: "unknown", Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}
