package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build says what binary this is.
type build struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"`
	Platform string `json:"platform"`
}

func newVersion(p *program) *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Say which version this is, and what it was built from"}
	output := outputFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		b := readBuild()
		if *output == "json" {
			return p.printJSON(b)
		}
		fmt.Fprintln(p.stdout, b)
		return nil
	}
	return cmd
}

func (b build) String() string {
	changed := ""
	if b.Modified {
		changed = " with changes"
	}
	return fmt.Sprintf("powerbox %s (%s, %s, commit %s%s)", b.Version, b.Go, b.Platform, b.Commit, changed)
}

// short is the version, or the commit where it has none.
func (b build) short() string {
	if b.Version != "(devel)" && b.Version != "unknown" || len(b.Commit) < 12 {
		return b.Version
	}
	if b.Modified {
		return b.Commit[:12] + "+changes"
	}
	return b.Commit[:12]
}

func readBuild() build {
	b := build{Version: "unknown", Go: runtime.Version(), Commit: "unknown", Platform: runtime.GOOS + "/" + runtime.GOARCH}
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
