package shell

import (
	"path"
	"slices"
	"strings"
)

// maxLinks bounds the symbolic links of one path, as kernels do.
const maxLinks = 40

// Resolve returns the absolute path that a name stands for in a folder, with every symbolic
// link and ".." looked through in the order in which the kernel does it. The last parts need
// not exist.
func (p Place) Resolve(dir, name string) (string, error) {
	if name == "" {
		return "", unclear(CodeUnclear, "a path is empty")
	}
	if strings.ContainsRune(name, 0) {
		return "", unclear(CodeUnclear, "a path has a NUL byte")
	}
	if !path.IsAbs(name) {
		name = dir + "/" + name
	}
	todo := strings.Split(name, "/")
	at, links := "/", 0
	for len(todo) > 0 {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, part)
		target, err := p.Link(next)
		if err != nil {
			return "", unclear(CodeUnclear, "the path %s cannot be looked at: %v", next, err)
		}
		if target == "" {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", unclear(CodeUnclear, "the path %s has too many symbolic links", name)
		}
		if path.IsAbs(target) {
			at = "/"
		}
		todo = slices.Concat(strings.Split(target, "/"), todo)
	}
	return at, nil
}
