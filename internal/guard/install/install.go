// Package install writes the guard into the settings of coding agents, and takes it out again.
//
// The laws: every file is shown before it is written; a file that cannot be read as what it
// is, is left alone; a file is replaced by a rename; all files are written or none; a file
// that was not changed meanwhile is given back byte for byte.
package install

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/powerbox-project/powerbox/internal/guard/clients"
)

// Change is what happens to one file.
type Change struct {
	Path   string
	Before []byte // nil where the file does not exist
	After  []byte // nil where it is removed
	Mode   fs.FileMode
	Made   []string // folders that are made for it, the outermost first
}

// Plan returns the changes that install a client.
func Plan(c clients.Client, at clients.Paths) ([]Change, error) {
	var out []Change
	for _, f := range c.Settings(at) {
		if f.Path == "" {
			continue
		}
		ch, err := read(f.Path)
		if err != nil {
			return nil, err
		}
		if ch.After, err = f.Add(ch.Before); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		out = append(out, ch)
	}
	return out, nil
}

// read reads a file as it is. A link is followed, so that the file behind it is changed and
// the link stays.
func read(path string) (Change, error) {
	ch := Change{Path: path, Mode: 0o600}
	if behind, err := filepath.EvalSymlinks(path); err == nil {
		ch.Path = behind
	}
	info, err := os.Stat(ch.Path)
	if errors.Is(err, fs.ErrNotExist) {
		for dir := filepath.Dir(ch.Path); ; dir = filepath.Dir(dir) {
			if _, err := os.Stat(dir); err == nil {
				return ch, nil
			}
			ch.Made = append([]string{dir}, ch.Made...)
		}
	}
	if err != nil {
		return ch, err
	}
	ch.Mode = info.Mode().Perm()
	ch.Before, err = os.ReadFile(ch.Path)
	if ch.Before == nil {
		ch.Before = []byte{}
	}
	return ch, err
}

// Apply makes changes, all of them or none.
func Apply(changes []Change) error {
	for i, ch := range changes {
		if err := ch.write(ch.After); err != nil {
			for _, done := range changes[:i] {
				err = errors.Join(err, done.write(done.Before))
			}
			return err
		}
	}
	return nil
}

// write replaces the file by a rename, or removes it where there is no text.
func (c Change) write(text []byte) error {
	if text == nil {
		err := os.Remove(c.Path)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		for i := len(c.Made) - 1; i >= 0; i-- { // one that has something else in it stays
			_ = os.Remove(c.Made[i])
		}
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.Path), 0o755); err != nil { //nolint:gosec // a project's folder, as its client makes it
		return err
	}
	return Replace(c.Path, text, c.Mode)
}

// Replace writes a file beside the path and renames it, so that no reader finds half of it.
func Replace(path string, text []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".powerbox-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// Record is what an installation changed, kept in the guard's folder.
type Record struct {
	Client  string
	At      clients.Paths
	Changes []Change
}

// Book is the folder of records.
type Book struct{ Dir string }

func (b Book) file(client string, at clients.Paths) string {
	place := at.Project
	if at.User {
		place = "user " + at.Home
	}
	sum := sha256.Sum256([]byte(place))
	return filepath.Join(b.Dir, client+"-"+hex.EncodeToString(sum[:8])+".json")
}

// Find returns the record of an installation, and false where there is none.
func (b Book) Find(client string, at clients.Paths) (Record, bool, error) {
	var r Record
	text, err := os.ReadFile(b.file(client, at))
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return r, err == nil, err
}

// Install makes the changes and keeps the record. The record is kept first: a crash between
// the two leaves nothing that cannot be taken out.
func (b Book) Install(client string, at clients.Paths, changes []Change) error {
	if err := os.MkdirAll(b.Dir, 0o700); err != nil {
		return err
	}
	text, err := json.Marshal(Record{client, at, changes})
	if err != nil {
		return err
	}
	file := b.file(client, at)
	if err := Replace(file, text, 0o600); err != nil {
		return err
	}
	if err := Apply(changes); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	return nil
}

// Undo returns the changes that take an installation out. A file that is as the installation
// left it becomes what it was. Of any other, only the guard's entries go.
func (r Record) Undo(c clients.Client) ([]Change, error) {
	files := map[string]clients.File{}
	for _, f := range c.Settings(r.At) {
		if f.Path != "" {
			behind, err := filepath.EvalSymlinks(f.Path)
			if err != nil {
				behind = f.Path
			}
			files[behind] = f
		}
	}
	var out []Change
	for _, was := range r.Changes {
		now, err := read(was.Path)
		if err != nil {
			return nil, err
		}
		now.Made = was.Made
		switch f, ok := files[was.Path]; {
		case now.Before == nil:
			continue
		case bytes.Equal(now.Before, was.After):
			now.After = was.Before
		case !ok:
			return nil, fmt.Errorf("%s is no settings file of %s any more", was.Path, c.Title)
		default:
			if now.After, err = f.Remove(now.Before, was.Before); err != nil {
				return nil, fmt.Errorf("%s: %w", was.Path, err)
			}
		}
		out = append(out, now)
	}
	return out, nil
}

// Uninstall makes the changes of [Record.Undo] and forgets the record.
func (b Book) Uninstall(r Record, changes []Change) error {
	if err := Apply(changes); err != nil {
		return err
	}
	return os.Remove(b.file(r.Client, r.At))
}

// Missing returns the files of an installation in which some of the guard's entries are gone.
func (r Record) Missing(c clients.Client) []string {
	var out []string
	for _, f := range c.Settings(r.At) {
		if f.Path == "" {
			continue
		}
		if text, err := os.ReadFile(f.Path); err != nil || !f.Has(text) {
			out = append(out, f.Path)
		}
	}
	return out
}
