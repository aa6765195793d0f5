package guard

import (
	"path"
	"strings"

	"github.com/powerbox-project/powerbox"
)

// protected are the names of files and folders that no session writes: those that guard it,
// and those that name programs which other commands run.
var protected = folded(
	".git", ".gitmodules", ".gitconfig", ".husky", ".claude", ".codex", ".cursor", ".opencode", ".powerbox", ".vscode", ".idea",
	".envrc", ".mcp.json", "opencode.json", "opencode.jsonc", ".npmrc", ".cargo",
)

// folded returns names as letter case does not tell them apart.
func folded(names ...string) map[string]bool {
	out := map[string]bool{}
	for _, n := range names {
		out[powerbox.FoldCase(n)] = true
	}
	return out
}

// Frame is where a session works.
type Frame struct {
	Project string // the folder that the grant is for, absolute and without symbolic links
	State   string // the folder of the guard's keys and log
}

// Writable reports whether a path is none of those that no session writes.
func (f Frame) Writable(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if protected[powerbox.FoldCase(part)] {
			return false
		}
	}
	return !f.guards(name)
}

// Readable reports whether a path is none of the guard's own, which hold its keys, and has
// none of them below it.
func (f Frame) Readable(name string) bool { return !f.guards(name) }

// Removable reports whether a path may be removed with everything below it.
func (f Frame) Removable(name string) bool {
	return f.Writable(name) && !below(f.Project, name) && name != f.Project
}

// guards reports whether a path is the guard's folder, lies in it, or has it below it.
func (f Frame) guards(name string) bool {
	return f.State != "" && (below(name, f.State) || name == f.State || below(f.State, name))
}

// below reports whether name lies below dir. On some systems letter case does not tell
// files apart.
func below(name, dir string) bool {
	name, dir = powerbox.FoldCase(path.Clean(name)), powerbox.FoldCase(path.Clean(dir))
	return name != dir && strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}
