package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// layer stands instead of the build cache for one removal, see go doc
// cmd/go/internal/cacheprog: the cache is read, and the results of the
// removal is kept apart, in a folder that goes with it. A removal makes about 60 MB, of
// which nothing is ever used again.
type layer struct{ cache, own string }

// environment has the go command, and what tests run, use the layer. Program is this
// one. It is empty, and the cache itself is used, where the program is not known or the
// go command is told of another cache program already.
func (l layer) environment(program string) []string {
	command := []string{program, layerVerb, l.cache, l.own}
	if program == "" || l.cache == "" || os.Getenv("GOCACHEPROG") != "" || strings.ContainsAny(strings.Join(command, ""), `'"`) {
		return nil
	}
	return []string{"GOCACHEPROG='" + strings.Join(command, "' '") + "'"}
}

// layerVerb has this program be a layer. Only this program uses it.
const layerVerb = "build-cache-layer"

// wanted is a request of the go command. Its body, where it has a size, comes behind it.
type wanted struct {
	ID       int64
	Command  string
	ActionID []byte
	OutputID []byte
	BodySize int64
}

// found is an answer to it.
type found struct {
	ID            int64
	Err           string     `json:",omitempty"`
	KnownCommands []string   `json:",omitempty"`
	Miss          bool       `json:",omitempty"`
	OutputID      []byte     `json:",omitempty"`
	Size          int64      `json:",omitempty"`
	Time          *time.Time `json:",omitempty"`
	DiskPath      string     `json:",omitempty"`
}

// serve answers requests until there are no more.
func (l layer) serve(in io.Reader, out io.Writer) error {
	requests, answers := json.NewDecoder(in), json.NewEncoder(out)
	if err := answers.Encode(found{KnownCommands: []string{"get", "put", "close"}}); err != nil {
		return err
	}
	for {
		var r wanted
		if err := requests.Decode(&r); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var body []byte
		if r.BodySize > 0 {
			if err := requests.Decode(&body); err != nil {
				return err
			}
		}
		a := found{Err: "no such command"}
		switch r.Command {
		case "get":
			a = l.get(r.ActionID)
		case "put":
			a = l.put(r, body)
		case "close":
			a = found{}
		}
		a.ID = r.ID
		if err := answers.Encode(a); err != nil || r.Command == "close" {
			return err
		}
	}
}

// get looks for what an action made, first of all in the layer. What cannot be read is
// not there: it is made again.
func (l layer) get(action []byte) found {
	for _, dir := range []string{l.own, l.cache} {
		var id, output string
		var size, at int64
		entry, err := os.ReadFile(named(dir, action, "a"))
		if err != nil {
			continue
		}
		if n, err := fmt.Sscanf(string(entry), "v1 %s %s %d %d\n", &id, &output, &size, &at); n != 4 || err != nil || id != hex.EncodeToString(action) {
			continue
		}
		made, err := hex.DecodeString(output)
		if err != nil {
			continue
		}
		path, when := named(dir, made, "d"), time.Unix(0, at)
		if is, err := os.Stat(path); err == nil && is.Size() == size {
			return found{OutputID: made, Size: size, Time: &when, DiskPath: path}
		}
	}
	return found{Miss: true}
}

// put keeps what an action made in the layer, in the form that the cache has. It is
// there as a whole or not at all: other go commands of the removal look for it.
func (l layer) put(r wanted, body []byte) found {
	path := named(l.own, r.OutputID, "d")
	err := replace(path, body)
	if err == nil {
		err = replace(named(l.own, r.ActionID, "a"), fmt.Appendf(nil, "v1 %x %x %20d %20d\n", r.ActionID, r.OutputID, len(body), time.Now().UnixNano())) //nolint:forbidigo // of a file, for the go command
	}
	if err != nil {
		return found{Err: err.Error()}
	}
	return found{DiskPath: path}
}

// named is the file of an id in a cache.
func named(dir string, id []byte, kind string) string {
	name := hex.EncodeToString(id)
	return filepath.Join(dir, name[:min(2, len(name))], name+"-"+kind)
}

func replace(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "new")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
