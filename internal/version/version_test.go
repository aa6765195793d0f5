package version

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestOnlyAReleaseHasTheNumber(t *testing.T) {
	const at = "2026-11-26T17:00:00Z"
	sha := strings.Repeat("ab", 20)
	vcs := func(modified string) *debug.BuildInfo {
		return &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: sha}, {Key: "vcs.time", Value: at}, {Key: "vcs.modified", Value: modified}}}
	}
	for name, c := range map[string]struct {
		got         Build
		text, short string
	}{
		"release":   {read(sha, at, nil), "powerbox " + Number + " (commit " + sha + " of " + at + ", ", Number},
		"installed": {read("", "", &debug.BuildInfo{Main: debug.Module{Version: "v" + Number}}), "powerbox " + Number + " (commit unknown of unknown, ", Number},
		"checkout":  {read("", "", vcs("false")), "powerbox " + Number + "-dev (commit " + sha + " of " + at + ", ", sha[:12]},
		"changed":   {read("", "", vcs("true")), "powerbox " + Number + "-dev (commit " + sha + " with changes of " + at + ", ", sha[:12] + "+changes"},
		"other tag": {read("", "", &debug.BuildInfo{Main: debug.Module{Version: "v9.9.9"}}), "powerbox " + Number + "-dev (", Number + "-dev"},
		"no info":   {read("", "", nil), "powerbox " + Number + "-dev (", Number + "-dev"},
	} {
		if text := c.got.String(); !strings.HasPrefix(text, c.text) || c.got.Short() != c.short {
			t.Errorf("%s: %s, short %s; want %s, short %s", name, text, c.got.Short(), c.text, c.short)
		}
	}
}
