package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/tailscale/hujson"
)

// Paths say where settings are written, and which program they name.
type Paths struct {
	Project string // absolute
	Home    string // absolute
	User    bool   // the user's settings instead of the project's
	Binary  string // absolute
}

// in returns the path of a file, "" where the scope does not have it.
func (p Paths) in(project, user string) string {
	switch {
	case !p.User:
		return filepath.Join(p.Project, project)
	case user == "":
		return ""
	}
	return filepath.Join(p.Home, user)
}

// command is the line by which a client runs the hook. A program that is not there any more
// denies as well.
func (p Paths) command(client string) string {
	return shellQuoted(p.Binary) + " guard hook " + client + " || exit 2"
}

func shellQuoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// quoted is a string of JSON, JavaScript and TOML.
func quoted(s string) string { return string(hujson.String(s)) }

// File is a settings file with what the guard adds to it.
type File struct {
	Path  string // "" where the scope does not have it
	Edits []Edit // JSON, with comments where the file has some
	Block string // TOML, added at the end
	Whole string // the whole file is the guard's
}

// Edit is one addition to JSON.
type Edit struct {
	Array  []string // names on the way to an array that gets a further element
	Member []string // names on the way to a member that is set
	Value  any
	Keep   bool // a member that is there already stays
}

const (
	blockBegin = "# powerbox guard: begin\n"
	blockEnd   = "# powerbox guard: end\n"
)

// Add returns the text of a file with what the guard adds. Everything else stays as it is.
func (f File) Add(text []byte) ([]byte, error) {
	switch {
	case f.Whole != "":
		if text != nil && string(text) != f.Whole {
			return nil, errors.New("the file is there already, and is not the guard's")
		}
		return []byte(f.Whole), nil
	case f.Block != "":
		return f.addBlock(text)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}\n")
	}
	root, err := hujson.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("the file is no JSON: %w. Correct it, then run this again", err)
	}
	for _, e := range f.Edits {
		if err := e.apply(&root); err != nil {
			return nil, err
		}
	}
	return root.Pack(), nil
}

func (f File) addBlock(text []byte) ([]byte, error) {
	var read map[string]any
	if err := toml.Unmarshal(text, &read); err != nil {
		return nil, fmt.Errorf("the file is no TOML: %w. Correct it, then run this again", err)
	}
	out := bytes.Clone(text)
	if len(out) > 0 && !bytes.HasSuffix(out, []byte("\n")) {
		out = append(out, '\n')
	}
	if len(out) > 0 {
		out = append(out, '\n')
	}
	out = append(out, blockBegin+f.Block+blockEnd...)
	if err := toml.Unmarshal(out, &read); err != nil {
		return nil, fmt.Errorf("the file has what the guard would add already: %w", err)
	}
	return out, nil
}

// Remove returns the text of a file without what the guard added. before is the file as it
// was: containers that it did not have go as well if nothing else is in them.
func (f File) Remove(text, before []byte) ([]byte, error) {
	switch {
	case f.Whole != "":
		if string(text) != f.Whole {
			return nil, errors.New("the file was changed since; remove it by hand")
		}
		return nil, nil
	case f.Block != "":
		head, rest, ok := strings.Cut(string(text), blockBegin)
		_, tail, whole := strings.Cut(rest, blockEnd)
		if !ok || !whole {
			return text, nil
		}
		return []byte(strings.TrimSuffix(head, "\n") + tail), nil
	}
	root, err := hujson.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("the file is no JSON: %w. Correct it, then run this again", err)
	}
	old := hujson.Value{Value: &hujson.Object{}}
	if len(bytes.TrimSpace(before)) > 0 {
		if old, err = hujson.Parse(before); err != nil {
			return nil, err
		}
	}
	for _, e := range f.Edits {
		e.undo(&root, &old)
	}
	return root.Pack(), nil
}

// Has reports whether all that the guard adds is in the text.
func (f File) Has(text []byte) bool {
	switch {
	case f.Whole != "":
		return string(text) == f.Whole
	case f.Block != "":
		return strings.Contains(string(text), blockBegin+f.Block+blockEnd)
	}
	root, err := hujson.Parse(text)
	if err != nil {
		return false
	}
	for _, e := range f.Edits {
		if !e.has(&root) {
			return false
		}
	}
	return true
}

// find follows names from a value, nil where one is missing.
func find(v *hujson.Value, names []string) *hujson.Value {
	for _, name := range names {
		obj, ok := v.Value.(*hujson.Object)
		if !ok {
			return nil
		}
		if v = member(obj, name); v == nil {
			return nil
		}
	}
	return v
}

func member(obj *hujson.Object, name string) *hujson.Value {
	for i := range obj.Members {
		if l, ok := obj.Members[i].Name.Value.(hujson.Literal); ok && l.String() == name {
			return &obj.Members[i].Value
		}
	}
	return nil
}

// reach follows names from a value and makes the objects that are missing.
func reach(v *hujson.Value, names []string, leaf hujson.ValueTrimmed) (*hujson.Value, error) {
	for i, name := range names {
		obj, ok := v.Value.(*hujson.Object)
		if !ok {
			return nil, fmt.Errorf("%s is no object", strings.Join(names[:i], "."))
		}
		next := member(obj, name)
		if next == nil {
			var made hujson.ValueTrimmed = &hujson.Object{}
			if i+1 == len(names) {
				made = leaf
			}
			next = addMember(obj, name, made, i)
		}
		v = next
	}
	return v, nil
}

// addMember appends a member, indented as the one before it.
func addMember(obj *hujson.Object, name string, v hujson.ValueTrimmed, depth int) *hujson.Value {
	before, after := extras(depth)
	if n := len(obj.Members); n > 0 {
		if space := lastSpace(obj.Members[n-1].Name.BeforeExtra); space != "" {
			before = hujson.Extra(space)
		}
		if len(obj.AfterExtra) == 0 {
			obj.AfterExtra = obj.Members[n-1].Value.AfterExtra
			obj.Members[n-1].Value.AfterExtra = nil
		}
	} else if len(obj.AfterExtra) == 0 {
		obj.AfterExtra = after
	}
	obj.Members = append(obj.Members, hujson.ObjectMember{
		Name:  hujson.Value{BeforeExtra: before, Value: hujson.String(name)},
		Value: hujson.Value{BeforeExtra: hujson.Extra(" "), Value: v},
	})
	return &obj.Members[len(obj.Members)-1].Value
}

// extras are the white space before a member at a depth, and before the end of its object.
func extras(depth int) (before, after hujson.Extra) {
	return hujson.Extra("\n" + strings.Repeat("  ", depth+1)), hujson.Extra("\n" + strings.Repeat("  ", depth))
}

// lastSpace is the white space behind the last comment.
func lastSpace(e hujson.Extra) string {
	s := string(e)
	if i := strings.LastIndexByte(s, '\n'); i >= 0 && strings.TrimSpace(s[i:]) == "" {
		return s[i:]
	}
	return ""
}

// value is a Go value as JSON, indented for its place.
func value(v any, before hujson.Extra) (hujson.ValueTrimmed, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent(strings.TrimPrefix(string(before), "\n"), "  ")
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	parsed, err := hujson.Parse(bytes.TrimSpace(buf.Bytes()))
	return parsed.Value, err
}

func (e Edit) apply(root *hujson.Value) error {
	if e.Member != nil {
		if found := find(root, e.Member); found != nil {
			if e.Keep {
				return nil
			}
			return fmt.Errorf("the file has %s already", strings.Join(e.Member, "."))
		}
		before, _ := extras(len(e.Member) - 1)
		v, err := value(e.Value, before)
		if err != nil {
			return err
		}
		_, err = reach(root, e.Member, v)
		return err
	}
	at, err := reach(root, e.Array, &hujson.Array{})
	if err != nil {
		return err
	}
	arr, ok := at.Value.(*hujson.Array)
	if !ok {
		return fmt.Errorf("%s is no array", strings.Join(e.Array, "."))
	}
	before, after := extras(len(e.Array))
	if n := len(arr.Elements); n > 0 {
		if space := lastSpace(arr.Elements[n-1].BeforeExtra); space != "" {
			before = hujson.Extra(space)
		}
		if len(arr.AfterExtra) == 0 {
			arr.AfterExtra = arr.Elements[n-1].AfterExtra
			arr.Elements[n-1].AfterExtra = nil
		}
	} else if len(arr.AfterExtra) == 0 {
		arr.AfterExtra = after
	}
	v, err := value(e.Value, before)
	if err != nil {
		return err
	}
	arr.Elements = append(arr.Elements, hujson.Value{BeforeExtra: before, Value: v})
	return nil
}

// same reports whether a value of the file is that of the edit.
func (e Edit) same(v hujson.Value) bool {
	want, err := value(e.Value, nil)
	if err != nil {
		return false
	}
	a, b := v.Clone(), hujson.Value{Value: want}
	a.Minimize()
	b.Minimize()
	return bytes.Equal(bytes.TrimSpace(a.Pack()), bytes.TrimSpace(b.Pack()))
}

func (e Edit) has(root *hujson.Value) bool {
	if e.Member != nil {
		found := find(root, e.Member)
		return found != nil && (e.Keep || e.same(*found))
	}
	at := find(root, e.Array)
	if at == nil {
		return false
	}
	arr, ok := at.Value.(*hujson.Array)
	if !ok {
		return false
	}
	for _, el := range arr.Elements {
		if e.same(el) {
			return true
		}
	}
	return false
}

// undo takes the addition out again, and containers that the file did not have before.
func (e Edit) undo(root, old *hujson.Value) {
	names := e.Array
	if e.Member != nil {
		if find(old, e.Member) != nil {
			return
		}
		drop(root, e.Member)
		names = e.Member[:len(e.Member)-1]
	} else if at := find(root, e.Array); at != nil {
		if arr, ok := at.Value.(*hujson.Array); ok {
			kept := arr.Elements[:0]
			for _, el := range arr.Elements {
				if !e.same(el) {
					kept = append(kept, el)
				}
			}
			arr.Elements = kept
		}
	}
	for i := len(names); i > 0; i-- {
		at := find(root, names[:i])
		if at == nil || find(old, names[:i]) != nil || !empty(at) {
			continue
		}
		drop(root, names[:i])
	}
}

func empty(v *hujson.Value) bool {
	switch c := v.Value.(type) {
	case *hujson.Object:
		return len(c.Members) == 0
	case *hujson.Array:
		return len(c.Elements) == 0
	}
	return false
}

// drop removes a member.
func drop(root *hujson.Value, names []string) {
	parent := find(root, names[:len(names)-1])
	if parent == nil {
		return
	}
	obj, ok := parent.Value.(*hujson.Object)
	if !ok {
		return
	}
	for i := range obj.Members {
		if l, ok := obj.Members[i].Name.Value.(hujson.Literal); ok && l.String() == names[len(names)-1] {
			obj.Members = append(obj.Members[:i], obj.Members[i+1:]...)
			return
		}
	}
}
