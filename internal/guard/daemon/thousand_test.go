package daemon_test

import (
	"crypto/rand"
	mathrand "math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/guard"
	"github.com/powerbox-project/powerbox/internal/guard/daemon"
	"github.com/powerbox-project/powerbox/token"
)

// some picks a part of a list.
func some(r *mathrand.Rand, list []string) []string {
	var out []string
	for _, s := range list {
		if r.IntN(3) == 0 {
			out = append(out, s)
		}
	}
	return out
}

var (
	somePaths    = []string{".", "/", "internal", "internal/a", "internal/a/b", "cmd", "docs", "../outside", "~/x", "internal/../cmd"}
	someCommands = []string{"go test", "git diff", "git status", "ls", "cat", "rm", "curl", "make build", "make install"}
	someHosts    = []string{"pkg.go.dev", "*.go.dev", "example.com", "localhost:8080"}
	someTools    = []string{"docs/*", "docs/search", "tickets/read", "*/*", "secret/word"}
	someTypes    = []string{"*", "reviewer", "writer"}
)

func someLimits(r *mathrand.Rand) guard.Limits {
	return guard.Limits{
		Read: some(r, somePaths), Edit: some(r, somePaths), Delete: some(r, somePaths), Run: some(r, someCommands), Hosts: some(r, someHosts), Tools: some(r, someTools), Start: some(r, someTypes), Search: r.IntN(2) == 0,
	}
}

// probes are attempts of every kind, within the grants and outside of them.
func probes(t *testing.T, w *town) []guard.Step {
	t.Helper()
	at := daemon.Place(w.project, w.config.Home)
	var out []guard.Step
	add := func(c guard.Call) {
		if steps, err := guard.Attempts(c, at); err == nil {
			out = append(out, steps...)
		}
	}
	for _, name := range append(slices.Clone(somePaths), "internal/a/b/c", "internal/abc", "/etc/passwd", "outside") {
		add(guard.Call{Kind: guard.Reading, Paths: []string{name}})
		add(guard.Call{Kind: guard.Editing, Paths: []string{name}})
		add(guard.Call{Kind: guard.Editing, Deleted: []string{name}, Paths: []string{name}})
	}
	for _, line := range []string{"go test ./...", "git diff", "git status", "ls", "cat x", "rm internal/a/x", "curl https://pkg.go.dev/x", "make build", "make install", "ls; git diff"} {
		add(guard.Call{Kind: guard.Shell, Command: line})
	}
	for _, u := range []string{"https://pkg.go.dev/", "https://x.go.dev/", "https://example.com/", "http://localhost:8080/", "https://evil.example/"} {
		add(guard.Call{Kind: guard.Fetching, URL: u})
	}
	for _, tool := range []string{"docs/search", "docs/write", "tickets/read", "secret/word"} {
		add(guard.Call{Kind: guard.MCP, Server: tool[:len(tool)-len(tool[slices.Index([]byte(tool), '/'):])], Tool: tool[slices.Index([]byte(tool), '/')+1:]})
	}
	for _, kind := range []string{"reviewer", "writer", "other"} {
		add(guard.Call{Kind: guard.Starting, Type: kind})
	}
	add(guard.Call{Kind: guard.Searching})
	return out
}

// A thousand sub-agents with generated sections, in chains of up to six, are derived by the
// token library. None may do what its parent may not, and each chain verifies.
func TestAThousandChildrenEscapeNothing(t *testing.T) {
	w := newTown(t, "")
	at := daemon.Place(w.project, w.config.Home)
	mint, err := daemon.NewMint(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	window := powerbox.Window{From: w.now.Add(-time.Hour), Until: w.now.Add(48 * time.Hour)}
	section := func(r *mathrand.Rand) powerbox.Authority {
		a, err := guard.Section{Limits: someLimits(r), Ask: someLimits(r)}.Authority(at, window)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	tries := probes(t, w)
	frame := guard.Frame{Project: w.project, State: w.config.State}
	answers := func(l daemon.Lease) []guard.Answer {
		a, err := mint.Authority(l, token.UnsafeNothingRevoked, w.now)
		if err != nil {
			t.Fatal(err)
		}
		var out []guard.Answer
		for _, s := range tries {
			out = append(out, guard.Lease{Authority: a, Frame: frame}.Decide([]guard.Step{s}, w.now).Answer)
		}
		return out
	}
	children, escapes, allowed := 0, 0, 0
	for seed := uint64(0); children < 1000; seed++ {
		r := mathrand.New(mathrand.NewPCG(23, seed))
		parent, err := mint.Root(section(r), w.now)
		if err != nil {
			t.Fatal(err)
		}
		above := answers(parent)
		for range 1 + r.IntN(6) {
			child, err := mint.Derive(parent, []powerbox.Authority{section(r)}, time.Duration(r.IntN(120))*time.Minute, w.now)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			below := answers(child)
			for i := range tries {
				if below[i] < above[i] {
					escapes++
					t.Errorf("seed %d: %v is %s for the child and %s for its parent", seed, tries[i], below[i], above[i])
				}
				if below[i] == guard.Allow {
					allowed++
				}
			}
			parent, above = child, below
			children++
		}
	}
	t.Logf("%d children, %d attempts each, %d allowed, %d escapes", children, len(tries), allowed, escapes)
	if escapes > 0 || allowed < 1000 {
		t.Errorf("%d escapes, %d attempts of children allowed", escapes, allowed)
	}
}
