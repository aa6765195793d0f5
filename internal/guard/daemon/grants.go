package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/powerbox-project/powerbox/internal/guard"
	"github.com/powerbox-project/powerbox/internal/guard/install"
)

// Grants are the grants that the user has given, by project. A file in a project gives
// nothing before the user has: a cloned repository does not choose its own grant.
type Grants struct{ State string }

type given struct {
	Project string `json:"project"`
	Grant   string `json:"grant"`
}

func (g Grants) file(project string) string {
	return filepath.Join(g.State, "grants", fileName(project)+".json")
}

// Give keeps the grant of a project.
func (g Grants) Give(project string, text []byte) error {
	project, err := filepath.EvalSymlinks(project)
	if err != nil {
		return err
	}
	parsed, err := guard.ParseGrant(text)
	if err != nil {
		return err
	}
	if f := (guard.Frame{Project: project, State: g.State}); !f.Readable(project) {
		return fmt.Errorf("the project %s holds the guard's own folder %s; give a grant for a folder below it", project, g.State)
	}
	if err := parsed.Check(Place(project, "")); err != nil {
		return err
	}
	body, err := json.Marshal(given{project, string(text)})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(g.State, "grants"), 0o700); err != nil {
		return err
	}
	return install.Replace(g.file(project), body, 0o600)
}

// Find returns the project of a folder and the text of its grant: the nearest folder above
// that has one. Without a grant, sessions read the repository and do nothing else.
func (g Grants) Find(dir string) (project string, text []byte, err error) {
	dir, err = filepath.EvalSymlinks(dir)
	if err != nil {
		return "", nil, err
	}
	for at := dir; ; at = filepath.Dir(at) {
		body, err := os.ReadFile(g.file(at))
		if err == nil {
			var found given
			if err := json.Unmarshal(body, &found); err != nil {
				return "", nil, err
			}
			return at, []byte(found.Grant), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", nil, err
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	text, err = yaml.Marshal(guard.DefaultGrant())
	if err != nil {
		return "", nil, err
	}
	for at := dir; at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, ".git")); err == nil {
			return at, text, nil
		}
	}
	return dir, text, nil
}
