package install_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/guard/clients"
	"github.com/powerbox-project/powerbox/internal/guard/install"
)

// files are settings as users have them: comments, order, odd spaces, other people's hooks.
var files = map[string]map[string]string{
	"claude-code": {
		".claude/settings.json": "{\n    \"zeta\": 1,   \"permissions\": {\"deny\": [\"Bash(rm:*)\"]},\n    \"hooks\": {\n        \"PreToolUse\": [\n            {\"matcher\": \"Bash\", \"hooks\": [{\"type\": \"command\", \"command\": \"mine.sh\"}]}\n        ],\n        \"Stop\": []\n    },\n    \"alpha\": [1, 2,\n 3]\n}",
		".mcp.json":             "{\"mcpServers\": {\"docs\": {\"command\": \"docs\"}}}\n",
	},
	"codex": {
		".codex/hooks.json":  "{\"hooks\": {}}",
		".codex/config.toml": "# mine\nmodel = \"x\"\n\n[mcp_servers.docs]\ncommand = \"docs\" # why\n",
	},
	"cursor": {
		".cursor/hooks.json": "{\n\t// checked by security\n\t\"version\": 1,\n\t\"hooks\": {\n\t\t\"beforeShellExecution\": [\n\t\t\t{ \"command\": \"./audit.sh\" }, // ours\n\t\t],\n\t},\n}\n",
	},
	"opencode": {
		"opencode.json": "{\n  \"$schema\": \"https://opencode.ai/config.json\", /* schema */\n  \"mcp\": {}\n}\n",
	},
}

func write(t *testing.T, root string, list map[string]string) {
	t.Helper()
	for name, text := range list {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
}

// tree is every file below a folder with its text.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			out[name+"/"] = ""
			return nil
		}
		text, err := os.ReadFile(path)
		out[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func same(a, b map[string]string) bool {
	for name := range a {
		if x, ok := b[name]; !ok || x != a[name] {
			return false
		}
	}
	return len(a) == len(b)
}

func setUp(t *testing.T, client string, list map[string]string) (clients.Client, clients.Paths, install.Book, string) {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(base, "p")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, root, list)
	c, err := clients.Find(client)
	if err != nil {
		t.Fatal(err)
	}
	return c, clients.Paths{Project: root, Home: filepath.Join(base, "home"), Binary: "/opt/it's/powerbox"}, install.Book{Dir: filepath.Join(base, "state")}, root
}

func put(t *testing.T, c clients.Client, at clients.Paths, book install.Book) {
	t.Helper()
	changes, err := install.Plan(c, at)
	if err != nil {
		t.Fatal(err)
	}
	if err := book.Install(c.Name, at, changes); err != nil {
		t.Fatal(err)
	}
}

func take(t *testing.T, c clients.Client, at clients.Paths, book install.Book) error {
	t.Helper()
	r, ok, err := book.Find(c.Name, at)
	if err != nil || !ok {
		t.Fatalf("the installation is not found: %v", err)
	}
	changes, err := r.Undo(c)
	if err != nil {
		return err
	}
	return book.Uninstall(r, changes)
}

// An installation adds to the files and loses nothing of them. Taken out, they are as they
// were, byte for byte, and nothing else is left.
func TestInstallationIsTakenBackByteForByte(t *testing.T) {
	for _, c := range clients.All() {
		for what, list := range map[string]map[string]string{"with settings": files[c.Name], "without settings": nil} {
			t.Run(c.Name+" "+what, func(t *testing.T) {
				c, at, book, root := setUp(t, c.Name, list)
				before := tree(t, root)
				put(t, c, at, book)
				after := tree(t, root)
				r, _, _ := book.Find(c.Name, at)
				if gone := r.Missing(c); len(gone) > 0 {
					t.Errorf("entries are missing: %v", gone)
				}
				for name, text := range list {
					for _, line := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("\n{}[],", r) }) {
						if !strings.Contains(after[name], strings.TrimSpace(line)) {
							t.Errorf("%s lost %q:\n%s", name, line, after[name])
						}
					}
				}
				if err := take(t, c, at, book); err != nil {
					t.Fatal(err)
				}
				if got := tree(t, root); !same(before, got) {
					t.Errorf("before:\n%v\nafter:\n%v", before, got)
				}
			})
		}
	}
}

// Plain JSON stays plain JSON.
func TestPlainJSONStaysPlain(t *testing.T) {
	for _, client := range []string{"claude-code", "codex"} {
		c, at, book, root := setUp(t, client, files[client])
		put(t, c, at, book)
		for name, text := range tree(t, root) {
			if strings.HasSuffix(name, ".json") && !json.Valid([]byte(text)) {
				t.Errorf("%s is no JSON any more:\n%s", name, text)
			}
		}
	}
}

// Where a file was changed since, only the guard's entries go.
func TestChangedFilesLoseTheGuardsEntriesAlone(t *testing.T) {
	for _, c := range clients.All() {
		c, at, book, root := setUp(t, c.Name, files[c.Name])
		put(t, c, at, book)
		for name, text := range tree(t, root) {
			changed := ""
			switch {
			case strings.HasSuffix(name, ".json"):
				changed = strings.Replace(text, "{", "{\"later\": true,", 1)
			case strings.HasSuffix(name, ".toml"):
				changed = text + "\n[later]\nx = 1\n"
			default:
				continue
			}
			if err := os.WriteFile(filepath.Join(root, name), []byte(changed), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := take(t, c, at, book); err != nil {
			t.Fatal(err)
		}
		for name, text := range tree(t, root) {
			if strings.Contains(text, "guard") {
				t.Errorf("%s: %s still has the guard:\n%s", c.Name, name, text)
			}
			if old, ok := files[c.Name][name]; ok && !strings.Contains(text, "later") || ok && len(text) < len(old) {
				t.Errorf("%s: %s lost something:\n%s", c.Name, name, text)
			}
		}
	}
}

// A file that cannot be read as what it is stays as it is, and so do all others.
func TestUnreadableSettingsAreLeftAlone(t *testing.T) {
	for client, list := range map[string]map[string]string{
		"claude-code": {".claude/settings.json": "{\"hooks\": [}"}, "codex": {".codex/config.toml": "model = = 1"}, "cursor": {".cursor/mcp.json": "// nothing"},
		"opencode": {".opencode/plugins/powerbox-guard.js": "mine"},
	} {
		c, at, _, root := setUp(t, client, list)
		if client == "cursor" {
			write(t, root, map[string]string{".cursor/mcp.json": "[1, 2"})
		}
		before := tree(t, root)
		if _, err := install.Plan(c, at); err == nil || !strings.Contains(err.Error(), root) {
			t.Errorf("%s: the error is %v, and does not name the file", client, err)
		}
		if got := tree(t, root); !same(before, got) {
			t.Errorf("%s: the files were changed", client)
		}
	}
	c, at, _, root := setUp(t, "claude-code", map[string]string{".claude/settings.json": `{"hooks": {"PreToolUse": {}}}`})
	before := tree(t, root)
	if _, err := install.Plan(c, at); err == nil {
		t.Error("hooks that are no array are changed")
	}
	if got := tree(t, root); !same(before, got) {
		t.Error("the files were changed")
	}
}

// If one file cannot be written, none is.
func TestInstallationIsWholeOrNothing(t *testing.T) {
	c, at, book, root := setUp(t, "claude-code", files["claude-code"])
	before := tree(t, root)
	changes, err := install.Plan(c, at)
	if err != nil {
		t.Fatal(err)
	}
	changes[1].Path = filepath.Join(root, ".claude/settings.json", "below", "a", "file")
	if err := book.Install(c.Name, at, changes); err == nil {
		t.Fatal("a file below a file was written")
	}
	if got := tree(t, root); !same(before, got) {
		t.Errorf("something was left:\n%v", got)
	}
	if _, ok, err := book.Find(c.Name, at); ok || err != nil {
		t.Errorf("the installation is on record: %v %v", ok, err)
	}
}

// A file keeps its mode, and one behind a link stays behind it.
func TestModesAndLinksStay(t *testing.T) {
	c, at, book, root := setUp(t, "claude-code", files["claude-code"])
	settings := filepath.Join(root, ".claude/settings.json")
	behind := filepath.Join(root, "dotfiles.json")
	if err := errors.Join(os.Rename(settings, behind), os.Symlink("../dotfiles.json", settings)); err != nil {
		t.Fatal(err)
	}
	put(t, c, at, book)
	link, err := os.Readlink(settings)
	info, e := os.Stat(behind)
	text, f := os.ReadFile(behind)
	if err := errors.Join(err, e, f); err != nil {
		t.Fatal(err)
	}
	if link != "../dotfiles.json" || info.Mode().Perm() != 0o640 || !bytes.Contains(text, []byte("guard hook")) {
		t.Errorf("link %q, mode %o, %s", link, info.Mode().Perm(), text)
	}
	if err := take(t, c, at, book); err != nil {
		t.Fatal(err)
	}
}
